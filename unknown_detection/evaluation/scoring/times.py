"""How long each detector takes, relative to a forward pass of the model: BROAD, appendix B, table 5.

Times are written beside the scores, not into them, because equal runs give equal scores files.

Tested by `tests/evaluation/scoring/test_score_images.py`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from unknown_detection.evaluation.detectors.base import Detector, Scores
from unknown_detection.evaluation.errors import EvaluationError, first_line
from unknown_detection.evaluation.features.blocks import Columns
from unknown_detection.evaluation.features.runner import outputs_of
from unknown_detection.evaluation.features.store import block_column
from unknown_detection.evaluation.models.features import Features
from unknown_detection.evaluation.models.preprocessing import load_batches
from unknown_detection.evaluation.releases import Key
from unknown_detection.evaluation.scoring.fit import Scorer

COLUMNS = ("detector", "forward_passes", "seconds", "images", "device")

ENDING = ".times.csv"

_LONG, _MOST = 1.0, 3
"""Seconds after which nothing is timed again, and how often at most; the least time counts (ours)."""

Result = TypeVar("Result")


def measure_times(scorer: Scorer, fitted: Sequence[Detector], key: Key) -> list[tuple[object, ...]]:
    """Time detectors on the first batch of a split; return values of `COLUMNS` for the forward pass and for each.

    As in the paper, a detector that reads the outputs of an ordinary forward pass includes that pass. One that looks
    at the images in its own way takes that time alone, and one that combines others takes theirs, with one forward
    pass for all. Reading and decoding of images is no part of it. Detectors of several models are left out.
    """
    runner = scorer.cache.runner
    assert runner is not None  # the command and `score` refuse it otherwise
    rows = runner.release.rows(*key).slice(0, runner.batch_size)
    ids, numbers = rows["id"].to_pylist(), list(range(len(rows)))
    loaded = load_batches(
        runner.release.images(*key), runner.preprocessing(key), [numbers], batch_size=len(ids), workers=0
    )
    images = next(loaded)[1].to(runner.model.device)
    _, forward = _timed(lambda: runner.model.logits(images).cpu())
    columns = outputs_of(runner.model, images)
    blocks = [columns[block_column(number)] for number in range(len(runner.model.layers.blocks))]
    unlabelled = np.full(len(ids), -1)
    batch = Features(np.array(ids), unlabelled, columns["logits"], columns["penultimate"], blocks)

    @functools.cache
    def time_of(name: str) -> tuple[float, bool, Scores]:
        """Return the seconds of a detector besides a forward pass, whether it needs one, and its scores."""
        detector, features, seconds, needs_forward = scorer.fit(name), batch, 0.0, True
        if detector.image_pass is not None:
            image_pass = detector.image_pass
            hyperparameters = image_pass.parameters(detector)
            passed: Columns = {"logits": features.logits}
            needs_forward = image_pass.is_ordinary(hyperparameters)
            if not needs_forward:
                seed = scorer.cache.seed
                passed, seconds = _timed(
                    partial(image_pass.run, runner.model, images, ids, seed=seed, **hyperparameters)
                )
            features = replace(features, passed=passed)
        bases = {base: time_of(base) for base in detector.base_methods}
        if bases:
            features = replace(features, scores={base: scores for base, (_, _, scores) in bases.items()})
            needs_forward = any(needs for _, needs, _ in bases.values())
        scores, own = _timed(lambda: detector.score(features))
        return seconds + own + sum(of_base for of_base, _, _ in bases.values()), needs_forward, scores

    lines = [("forward", forward)]
    for detector in fitted:
        if detector.reads != "members":
            seconds, needs_forward, _ = time_of(detector.name)
            lines.append((detector.name, seconds + forward * needs_forward))
    return [(name, seconds / forward, seconds, len(ids), runner.model.device) for name, seconds in lines]


def read_times(path: Path) -> dict[str, float]:
    """Return forward passes by detector from the file beside a scores file; empty if there is none."""
    file = path.with_suffix(ENDING)
    if not file.exists():
        return {}
    try:
        kinds = {"detector": str, "forward_passes": float}
        table = pd.read_csv(file, usecols=list(kinds), dtype=kinds, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise EvaluationError(f"Cannot read {file}: {first_line(error)}. Score again, or delete it.") from error
    passes = table["forward_passes"]
    if not (np.isfinite(passes) & (passes > 0)).all() or (table["detector"] == "").any():
        raise EvaluationError(f"{file} has times that are not above 0. Score again, or delete it.")
    return dict(zip(table["detector"], passes.tolist(), strict=True))


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Run some work whose result is on the CPU; return the result and the least of several times, in seconds."""
    work()  # the first time includes what libraries set up
    times: list[float] = []
    while len(times) < _MOST and sum(times) < _LONG:
        started = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - started)
    return result, min(times)
