"""Reads the true and predicted class of each image, the input of a transition graph.

A class is written with its dataset, `DATASET:CLASS`, such as `imagenet:n03388043` or `places365:fountain`. Scene
datasets keep a class in a folder of its first letter, which is not part of the name: `places365:/f/fountain`,
`places365:f/fountain` and `places365:fountain` are the same class.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from unknown_detection.evaluation.errors import EvaluationError, one_line, require_known
from unknown_detection.evaluation.releases import Release
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS
from unknown_detection.evaluation.scoring.scores import COLUMNS, read_scores, summarize_ids
from unknown_detection.evaluation.truth import IN_DISTRIBUTION, role_names
from unknown_detection.names import by_name

GRAPH_COLUMNS: Mapping[str, pa.DataType] = {**COLUMNS, "prediction": pa.string(), "role": pa.string()}
"""The columns to read: those of a scores file, with class names allowed as predictions, and each image's role."""

PREFERRED_DETECTOR = "msp"
"""The detector of the FACETS paper's graph (section V), the default for files with several."""

_FOLDER = re.compile(r"/?([a-z])/(?=\1)")
_INDEX = re.compile(r"\d+", re.ASCII)


class DatasetClass(NamedTuple):
    """A class of a dataset: the dataset's name, its own name of the class, and the display name.

    By the display name, classes of different datasets are compared; it is the `class_id` if no other is known.
    """

    dataset: str
    class_id: str
    name: str

    @property
    def key(self) -> str:
        """`DATASET:CLASS`, unique among all classes."""
        return f"{self.dataset}:{self.class_id}"


class ClassifiedImage(NamedTuple):
    """An image's true and predicted class, its score, and whether it is in-distribution; None if unknown."""

    true: DatasetClass
    predicted: DatasetClass
    score: float
    known: bool | None


@dataclass(frozen=True)
class Transitions:
    """Images with their true and predicted classes, by the scores of one detector.

    Without a release, `config` and `splits` are empty; `left_out` further images of the file belong to others.
    """

    images: Sequence[ClassifiedImage]
    detector: str
    config: str = ""
    splits: tuple[str, ...] = ()
    left_out: int = 0


def make_class(dataset: str, class_id: str, name: str | None = None) -> DatasetClass:
    """Return a class from its dataset's own name for it, and its display name if it has one."""
    plain = _FOLDER.sub("", class_id, count=1) if _FOLDER.match(class_id) else class_id
    return DatasetClass(dataset, plain, make_class(dataset, name).class_id if name else plain)


def read_class(text: str) -> DatasetClass | None:
    """Parse `DATASET:CLASS`; None for any other text."""
    dataset, _, class_id = (part.strip() for part in text.partition(":"))
    return make_class(dataset, class_id) if dataset and class_id else None


def read_transitions(path: Path, *, detector: str | None = None) -> Transitions:
    """Read a file with the true and the predicted class of every image.

    It is Parquet or CSV with the columns `id`, `score`, `class` (the true one) and `prediction`, both as
    `DATASET:CLASS`; optionally `role`, which is `in_distribution` or another, and `detector`, if there are scores of
    several: None stands for the only one, else for `PREFERRED_DETECTOR`.
    """
    scores, _ = read_scores(path, GRAPH_COLUMNS)
    missing = [name for name in ("class", "prediction") if name not in scores.column_names]
    if missing:
        raise EvaluationError(
            f"{path} lacks the columns {' and '.join(missing)}. Add them, or give --release, which has the class of "
            "each image."
        )
    scores = _of_detector(scores, detector, path)
    expected = "DATASET:CLASS, such as places365:fountain"
    true, predicted = (_classes(scores, column, read_class, expected, path) for column in ("class", "prediction"))
    known: list[bool | None] = [None] * len(scores)
    if "role" in scores.column_names:
        known = [role == IN_DISTRIBUTION for role in scores["role"].to_pylist()]
    images = list(map(ClassifiedImage, true, predicted, scores["score"].to_pylist(), known))
    return Transitions(images, scores["detector"][0].as_py())


def scored_transitions(
    path: Path, release: Release, *, config: str = "", split: str = "", detector: str | None = None
) -> Transitions:
    """Read scores of a release, which provides each image's true class and role.

    The file has `id`, `score` and the predicted class: as `prediction`, an index into the config's label names or one
    of these names with or without its dataset; or as `class`, such a name. Rows of other configs are left out; empty
    stands for the only config with scores, and for the splits to evaluate, if any of them were scored.
    """
    scores, provenance = read_scores(path, GRAPH_COLUMNS, release)
    column = "prediction" if "prediction" in scores.column_names else "class"
    if column not in scores.column_names:
        raise EvaluationError(f"{path} has no column prediction (or class); add the class that the model predicts.")
    configs = provenance.configs if provenance is not None else release.configs
    if not config and len(configs) > 1:
        raise EvaluationError(f"{path} has scores of several configs: {', '.join(configs)}. Name one with --splits.")
    config = config or configs[0]
    scores = _of_detector(scores, detector, path)
    rows = _rows(release, config)
    ids = scores["id"].to_pylist()
    missing = [id_ for id_ in ids if id_ not in rows]
    if missing and len(configs) == 1:  # else they may be of another config
        raise EvaluationError(
            f"{path} has {summarize_ids(pa.array(missing))} that {release.name} does not have. Remove them, or give "
            "the release that was scored."
        )
    scored_splits = sorted({rows[id_].split for id_ in ids if id_ in rows})
    if not scored_splits:
        raise EvaluationError(f"{path} has no scores of {config}, only of other configs; name another one.")
    require_known(f"split of {config} with scores in {path}", [split] if split else [], scored_splits)
    evaluated = [name for name in scored_splits if name not in FIT_AND_TUNE_SPLITS]
    splits = (split,) if split else tuple(evaluated or scored_splits)
    scores = scores.filter(pa.array([id_ in rows and rows[id_].split in splits for id_ in ids]))
    predictable = _predictable(release, config, rows.values(), indices=column == "prediction")
    find = by_name(predictable)

    def read(text: str) -> DatasetClass | None:
        return predictable.get(find(text) or "")

    expected = f"one of the {len(release.label_names(config))} classes of {config}"
    predicted = _classes(scores, column, read, expected, path)
    of_rows = [rows[id_] for id_ in scores["id"].to_pylist()]
    true, known = [row.true for row in of_rows], [row.known for row in of_rows]
    images = list(map(ClassifiedImage, true, predicted, scores["score"].to_pylist(), known))
    return Transitions(images, scores["detector"][0].as_py(), config, splits, len(ids) - len(images))


class _Row(NamedTuple):
    """A row of a release; `label` is the name of its label if that is its class, too, else None."""

    split: str
    true: DatasetClass
    known: bool
    label: str | None


def _rows(release: Release, config: str) -> dict[str, _Row]:
    """Read the rows of a config by id."""
    names, rows_by_id = release.label_names(config), {}
    for split in reversed(release.splits(config)):  # of an id in two splits, the first counts
        rows = release.rows(config, split)
        columns = [rows[name].to_pylist() for name in ("id", "source", "class_id", "class_name", "label")]
        for id_, source, class_id, name, label, role in zip(*columns, role_names(rows).to_pylist(), strict=True):
            label_name = class_id if label >= 0 and names[label] == class_id else None
            rows_by_id[id_] = _Row(split, make_class(source, class_id, name), role == IN_DISTRIBUTION, label_name)
    return rows_by_id


def _predictable(release: Release, config: str, rows: Iterable[_Row], *, indices: bool) -> dict[str, DatasetClass]:
    """Return the classes that a model of this config predicts, by the names that a file may give them.

    These are the name of a label, with or without dataset and folder, and its index. Label names are class ids of one
    dataset: the one whose rows have most of the labels. Another dataset may share some ids, as SUN397 shares 294 with
    Places365, but has fewer of them.
    """
    named: dict[str, dict[str, DatasetClass]] = defaultdict(dict)
    for row in rows:
        if row.label is not None:
            named[row.true.dataset][row.label] = row.true
    if not named:
        raise EvaluationError(
            f"No row of {config} in {release.name} has its label as its class. Give the classes in the columns class "
            "and prediction instead, and leave out --release."
        )
    dataset = min(named, key=lambda name: (-len(named[name]), name))
    names = release.label_names(config)
    classes = [named[dataset].get(name, make_class(dataset, name)) for name in names]
    spelled = {text: of for name, of in zip(names, classes, strict=True) for text in (name, of.class_id)}
    spelled |= {f"{dataset}:{text}": of for text, of in spelled.items()}
    return spelled | ({str(number): of for number, of in enumerate(classes)} if indices else {})


def _classes(
    table: pa.Table, column: str, read: Callable[[str], DatasetClass | None], expected: str, path: Path
) -> list[DatasetClass]:
    """Parse a column of class names."""
    texts = [text or "" for text in table[column].to_pylist()]
    classes = {text: read(text) for text in set(texts)}
    wrong = [number for number, text in enumerate(texts) if classes[text] is None]
    if wrong:
        raise EvaluationError(
            f"The {column} in {path} does not name a class: {one_line(texts[wrong[0]])!r} and the like at "
            f"{summarize_ids(table['id'].take(wrong))}. Give {expected}."
        )
    return [parsed for text in texts if (parsed := classes[text]) is not None]


def _of_detector(scores: pa.Table, detector: str | None, path: Path) -> pa.Table:
    """Return one detector's lines, one per image."""
    names = pc.unique(scores["detector"]).to_pylist()
    if detector is None and len(names) > 1 and PREFERRED_DETECTOR not in names:
        raise EvaluationError(
            f"{path} has scores of several detectors, but not of {PREFERRED_DETECTOR}: {', '.join(sorted(names))}. "
            "Name one with --detector."
        )
    detector = detector or (names[0] if len(names) == 1 else PREFERRED_DETECTOR)
    require_known(f"detector in {path}", [detector], names)
    lines = scores.filter(pc.equal(scores["detector"], detector))
    repeated = [id_ for id_, count in Counter(lines["id"].to_pylist()).items() if count > 1]
    if repeated:
        ids = summarize_ids(pa.array(repeated))
        raise EvaluationError(f"{path} has several lines of {detector} for {ids}; keep one per id.")
    return lines
