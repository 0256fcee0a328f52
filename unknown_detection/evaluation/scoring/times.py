"""How long each detector takes, relative to a forward pass of the model: BROAD, appendix B, table 5.

Times are written beside the scores, not into them, because equal runs give equal scores files.

Tested by `tests/evaluation/scoring/test_score_images.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv

from unknown_detection.csv_text import csv_text
from unknown_detection.evaluation.detectors.images import ImageDetector
from unknown_detection.evaluation.detectors.rows import Scores
from unknown_detection.evaluation.errors import EvaluationError, first_line
from unknown_detection.evaluation.features.cache import Key
from unknown_detection.evaluation.features.runner import Columns, Runner, outputs_of
from unknown_detection.evaluation.features.store import block_column
from unknown_detection.evaluation.files import write_text
from unknown_detection.evaluation.models.features import Features
from unknown_detection.evaluation.models.preprocessing import batches
from unknown_detection.evaluation.scoring.fit import Fitted, Scorer

COLUMNS = ("detector", "forward_passes", "seconds", "images", "device")

ENDING = ".times.csv"

_LONG, _MOST = 1.0, 3
"""Seconds after which nothing is timed again, and how often at most; the least time counts (ours)."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Time:
    """The time of a detector on a batch: what it takes besides a forward pass, and whether it needs one, too."""

    seconds: float
    needs_forward: bool
    scores: Scores


@dataclass
class _Stopwatch:
    """Times detectors on one batch of decoded images; each of the detectors that others combine once."""

    scorer: Scorer
    runner: Runner
    images: Any
    features: Features
    _times: dict[str, Time] = field(default_factory=dict)

    def time(self, fitted: Fitted) -> Time:
        name = fitted.method.name
        if name not in self._times:
            self._times[name] = self._time(fitted)
        return self._times[name]

    def _time(self, fitted: Fitted) -> Time:
        chosen, seconds, features = fitted.method, 0.0, self.features
        own_pass = False
        if issubclass(chosen, ImageDetector):
            one, given = chosen.image_pass, chosen.of_pass(fitted.hyperparameters)
            columns: Columns = {"logits": features.logits}
            own_pass = not one.is_ordinary(given)
            if own_pass:
                ids, seed = self.features.ids.tolist(), self.scorer.cache.seed
                run = partial(one.run, self.runner.model, self.images, ids, seed=seed, **given)
                columns, seconds = _timed(run)
            features = replace(features, passed=columns)
        bases = {base: self.time(self.scorer.fit(base)) for base in chosen.base_methods}
        if bases:
            features = replace(features, scores={base: one.scores for base, one in bases.items()})
        scores, own = _timed(lambda: fitted.detector.score(features))
        seconds += own + sum(one.seconds for one in bases.values())
        return Time(seconds, any(one.needs_forward for one in bases.values()) if bases else not own_pass, scores)


def measure_times(scorer: Scorer, fitted: Sequence[Fitted], key: Key) -> list[Mapping[str, object]]:
    """Time detectors on the first batch of a split.

    As in the paper, a detector that reads the outputs of an ordinary forward pass includes that pass. One that looks
    at the images in its own way takes that time alone, and one that combines others takes theirs, with one forward
    pass for all. Reading and decoding of images is no part of it.

    Args:
        scorer: the scorer that fitted them, with a runner.
        fitted: the detectors; those of several models are left out.
        key: config and split of the batch.

    Returns:
        One line for each detector, with `COLUMNS`; the first is the forward pass itself.
    """
    runner = scorer.cache.runner
    assert runner is not None  # the command and `score` refuse it otherwise
    ids, labels, images = _first_batch(runner, key)
    _, forward = _timed(lambda: runner.model.logits(images).cpu())
    columns = outputs_of(runner.model)(images, ids.tolist())
    blocks = [columns[block_column(number)] for number in range(len(runner.model.layers.blocks))]
    features = Features(ids, labels, columns["logits"], columns["penultimate"], blocks)
    watch = _Stopwatch(scorer, runner, images, features)

    def line(name: str, seconds: float) -> Mapping[str, object]:
        return dict(zip(COLUMNS, (name, seconds / forward, seconds, len(ids), runner.model.device), strict=True))

    found = [line("forward", forward)]
    for one in fitted:
        if one.method.reads != "members":
            time = watch.time(one)
            found.append(line(one.method.name, time.seconds + forward * time.needs_forward))
    return found


def write_times(path: Path, lines: Sequence[Mapping[str, object]]) -> None:
    """Write times beside a scores file, as CSV; without any, delete the file of an earlier run."""
    beside = path.with_suffix(ENDING)
    if lines:
        write_text(beside, csv_text([COLUMNS, *([line[name] for name in COLUMNS] for line in lines)]))
    else:
        beside.unlink(missing_ok=True)


def read_times(path: Path) -> dict[str, float]:
    """Return forward passes by detector from the file beside a scores file; empty if there is none.

    Raises:
        EvaluationError: the file has other columns, or a time that is not above 0.
    """
    beside = path.with_suffix(ENDING)
    if not beside.exists():
        return {}
    kinds = {"detector": pa.string(), "forward_passes": pa.float64()}
    options = pa.csv.ConvertOptions(column_types=kinds, include_columns=list(kinds))
    try:
        table = pa.csv.read_csv(beside, convert_options=options)
    except (pa.ArrowException, OSError) as error:
        raise EvaluationError(f"Cannot read {beside}: {first_line(error)}. Score again, or delete it.") from error
    passes = np.array(table["forward_passes"].to_pylist(), dtype=np.float64)
    if not (np.isfinite(passes) & (passes > 0)).all() or table["detector"].null_count:
        raise EvaluationError(f"{beside} has times that are not above 0. Score again, or delete it.")
    return dict(zip(table["detector"].to_pylist(), passes.tolist(), strict=True))


def _first_batch(runner: Runner, key: Key) -> tuple[Any, Any, Any]:
    """Return ids and labels of the first rows of a split, and their images on the model's device."""
    rows = runner.release.rows(*key).slice(0, runner.batch_size)
    numbers = list(range(len(rows)))
    loaded: Iterator[tuple[Sequence[int], Any]] = batches(
        runner.release.images(*key), runner.preprocessing(key), [numbers], batch_size=len(numbers), workers=0
    )
    images = next(loaded)[1].to(runner.model.device)
    return np.array(rows["id"].to_pylist()), rows["label"].to_numpy(), images


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Run some work whose result is on the CPU; return the result, and the least of some times, in seconds."""
    work()  # the first time includes what libraries set up
    times: list[float] = []
    while len(times) < _MOST and sum(times) < _LONG:
        started = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - started)
    return result, min(times)
