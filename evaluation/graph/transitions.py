"""True and predicted class of each image: the input of a transition graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evaluation.errors import EvaluationError, unknown_name
from evaluation.graph.classes import Class, ClassColumn, factorize, label_parser, make_class, read_class, read_column
from evaluation.releases import Release
from evaluation.scoring.joining import FIT_AND_TUNE_SPLITS, role_names
from evaluation.scoring.rows import IN_DISTRIBUTION
from evaluation.scoring.scores import COLUMNS, read_scores, summarize_ids

GRAPH_COLUMNS: Mapping[str, pa.DataType] = {**COLUMNS, "prediction": pa.string(), "role": pa.string()}
"""The columns to read: those of a scores file, with class names allowed as predictions, and each image's role."""

PREFERRED_DETECTOR = "msp"
"""The detector of the FACETS paper's graph (section V), the default for files with several."""


@dataclass(frozen=True, eq=False)
class Transitions:
    """n images, each with its true and its predicted class.

    Attributes:
        classes: all classes, by key.
        own: true class of each image as an index into `classes`, shape (n,).
        predicted: predicted class likewise, shape (n,).
        score: shape (n,), higher = more unknown.
        known: whether each image is in-distribution, shape (n,); None if unknown.
        detector: the detector of the scores.
        config: config of the images; empty without a release.
        splits: splits of the images; empty without a release.
        left_out: number of further images in the file, which belong to other configs or splits.
    """

    classes: tuple[Class, ...]
    own: npt.NDArray[np.int64]
    predicted: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]
    known: npt.NDArray[np.bool_] | None
    detector: str
    config: str = ""
    splits: tuple[str, ...] = ()
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.own)


def read_transitions(path: Path, *, detector: str | None = None) -> Transitions:
    """Read a file with the true and the predicted class of every image.

    Args:
        path: Parquet or CSV with the columns `id`, `score`, `class` (the true one) and `prediction`, both as
            `DATASET:CLASS`; optionally `role`, which is `in_distribution` or another, and `detector`, if there are
            scores of several.
        detector: name of the detector; None for the only one, else for `PREFERRED_DETECTOR`.

    Raises:
        EvaluationError: the file is invalid, or does not have the detector.
    """
    scores, _ = read_scores(path, GRAPH_COLUMNS)
    missing = [name for name in ("class", "prediction") if name not in scores.column_names]
    if missing:
        raise EvaluationError(
            f"{path} lacks the columns {' and '.join(missing)}. Add them, or give --release, which has the class of "
            "each image."
        )
    scores = _of_detector(scores, detector, path)
    own, predicted = (
        read_column(scores, column, read_class, expected="DATASET:CLASS, such as places365:fountain", where=str(path))
        for column in ("class", "prediction")
    )
    return _transitions(own, predicted, scores, scores["role"] if "role" in scores.column_names else None)


def scored_transitions(
    path: Path,
    release: Release,
    *,
    config: str | None = None,
    split: str | None = None,
    detector: str | None = None,
) -> Transitions:
    """Read scores of a release, which provides each image's true class and role.

    Args:
        path: a scores file with `id`, `score` and the predicted class: as `prediction`, an index into the config's
            label names or one of these names with or without its dataset; or as `class`, such a name.
        release: the release whose rows were scored.
        config: config of the rows; others are left out. None for the only config with scores.
        split: split of the rows; None for the splits to evaluate, if any of them were scored.
        detector: as for `read_transitions`.

    Raises:
        EvaluationError: the file is not a scores file of this release, or has ids or predictions that the release does
            not.
    """
    scores, provenance = read_scores(path, GRAPH_COLUMNS)
    if provenance is not None and provenance.release_digest != release.digest:
        raise EvaluationError(
            f"{path} has scores of a release with digest {provenance.release_digest[:12]}, not of {release.name} with "
            f"digest {release.digest[:12]}. Give the release that was scored."
        )
    column = "prediction" if "prediction" in scores.column_names else "class"
    if column not in scores.column_names:
        raise EvaluationError(f"{path} has no column prediction (or class); add the class that the model predicts.")
    configs = provenance.configs if provenance is not None else release.configs
    if config is None and len(configs) > 1:
        raise EvaluationError(f"{path} has scores of several configs: {', '.join(configs)}. Name one with --config.")
    config = config or configs[0]
    scores = _of_detector(scores, detector, path)
    index = _index(release, config)
    places = pc.index_in(scores["id"].combine_chunks(), value_set=index["id"].combine_chunks())
    here = pc.is_valid(places)
    _refuse_strangers(scores["id"].filter(pc.invert(here)), release, config, configs, path)
    scores, rows = scores.filter(here), index.take(places.drop_null())
    if not len(rows):
        raise EvaluationError(f"{path} has no scores of {config}, only of other configs; name another one.")
    splits = _splits(rows, split, where=f"{config} with scores in {path}")
    wanted = pc.is_in(rows["split"], value_set=pa.array(splits, pa.string()))
    scores, rows = scores.filter(wanted), rows.filter(wanted)
    labels = _labels(release, config, index)
    predicted = read_column(
        scores,
        column,
        label_parser(labels, indices=column == "prediction"),
        expected=f"one of the {len(labels)} classes of {config}",
        where=str(path),
    )
    found = _transitions(_owned(rows), predicted, scores, rows["role"])
    return replace(found, config=config, splits=splits, left_out=len(here) - len(rows))


def _splits(rows: pa.Table, wanted: str | None, *, where: str) -> tuple[str, ...]:
    here = sorted(pc.unique(rows["split"]).to_pylist())
    if wanted is None:
        return tuple(split for split in here if split not in FIT_AND_TUNE_SPLITS) or tuple(here)
    if wanted not in here:
        raise unknown_name(f"split of {where}", wanted, here)
    return (wanted,)


def _transitions(
    own: ClassColumn, predicted: ClassColumn, scores: pa.Table, roles: pa.ChunkedArray | None
) -> Transitions:
    by_key = {found.key: found for found in [*own.classes, *predicted.classes]}
    keys = sorted(by_key)
    place = {key: number for number, key in enumerate(keys)}
    codes = [
        np.array([place[found.key] for found in column.classes], dtype=np.int64)[column.codes]
        for column in (own, predicted)
    ]
    return Transitions(
        classes=tuple(by_key[key] for key in keys),
        own=codes[0],
        predicted=codes[1],
        score=scores["score"].to_numpy(),
        known=None if roles is None else pc.fill_null(pc.equal(roles, IN_DISTRIBUTION), False).to_numpy(),
        detector=scores["detector"][0].as_py(),
    )


def _of_detector(scores: pa.Table, wanted: str | None, path: Path) -> pa.Table:
    """Return one detector's lines, one per image."""
    names = pc.unique(scores["detector"]).to_pylist()
    if wanted is None:
        if len(names) > 1 and PREFERRED_DETECTOR not in names:
            raise EvaluationError(
                f"{path} has scores of several detectors, but not of {PREFERRED_DETECTOR}: "
                f"{', '.join(sorted(names))}. Name one with --detector."
            )
        wanted = names[0] if len(names) == 1 else PREFERRED_DETECTOR
    if wanted not in names:
        raise unknown_name(f"detector in {path}", wanted, names)
    mine = scores.filter(pc.equal(scores["detector"], wanted)) if len(names) > 1 else scores
    if pc.count_distinct(mine["id"]).as_py() < len(mine):
        counts = pc.value_counts(mine["id"])
        twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        raise EvaluationError(f"{path} has several lines of {wanted} for {summarize_ids(twice)}; keep one per id.")
    return mine


def _index(release: Release, config: str) -> pa.Table:
    """Load the columns of a config's rows that the graph needs, with the role by name."""
    parts = []
    for split in release.splits(config):
        rows = release.rows(config, split)
        columns = {name: rows[name] for name in ("id", "source", "class_id", "class_name", "label")}
        parts.append(pa.table(columns | {"role": role_names(rows), "split": pa.repeat(split, len(rows))}))
    return pa.concat_tables(parts)


def _refuse_strangers(ids: pa.ChunkedArray, release: Release, config: str, scored: Sequence[str], path: Path) -> None:
    """Refuse ids that the release does not have; those of other scored configs are allowed."""
    for other in scored:
        if len(ids) and other != config:
            theirs = pa.concat_tables(release.rows(other, split).select(["id"]) for split in release.splits(other))
            ids = ids.filter(pc.invert(pc.is_in(ids, value_set=theirs["id"].combine_chunks())))
    if len(ids):
        raise EvaluationError(
            f"{path} has {summarize_ids(ids)} that {release.name} does not have. Remove them, or give the release "
            "that was scored."
        )


def _labels(release: Release, config: str, index: pa.Table) -> dict[str, Class]:
    """Return the classes that a model of this config predicts, by label name.

    Label names are class ids of one dataset: the one whose rows have most of the labels. Another dataset may share
    some ids, as SUN397 shares 294 with Places365, but has fewer of them.
    """
    names = pa.array(release.label_names(config), pa.string())
    known = index.filter(pc.greater_equal(index["label"], 0))
    known = known.filter(pc.equal(known["class_id"], names.take(known["label"].combine_chunks())))
    if not len(known):
        raise EvaluationError(
            f"No row of {config} in {release.name} has its label as its class. Give the classes in the columns class "
            "and prediction instead, and leave out --release."
        )
    found = known.group_by("source", use_threads=False).aggregate([("label", "count_distinct")]).to_pylist()
    dataset = min(found, key=lambda line: (-line["label_count_distinct"], line["source"]))["source"]
    mine = known.filter(pc.equal(known["source"], dataset))
    named = dict(zip(mine["class_id"].to_pylist(), mine["class_name"].to_pylist(), strict=True))
    return {label: make_class(dataset, label, named.get(label)) for label in names.to_pylist()}


def _owned(rows: pa.Table) -> ClassColumn:
    """Return the true classes of a release's rows."""
    _, codes = factorize(pc.binary_join_element_wise(rows["source"], rows["class_id"], "\n"))
    first = rows.take(pa.array(np.unique(codes, return_index=True)[1]))
    columns = [first[name].to_pylist() for name in ("source", "class_id", "class_name")]
    return ClassColumn([make_class(*names) for names in zip(*columns, strict=True)], codes)
