"""What each image is and what a model takes it for: the rows that a transition graph is counted from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evaluation.errors import EvaluationError, unknown_name
from evaluation.graph.classes import Class, ClassColumn, coded, make_class, read_class, read_column, read_label
from evaluation.releases import Release
from evaluation.scoring.joining import NOT_JUDGED, role_names
from evaluation.scoring.rows import IN_DISTRIBUTION
from evaluation.scoring.scores import COLUMNS, read_scores, shown

GRAPH_COLUMNS: Mapping[str, pa.DataType] = {**COLUMNS, "prediction": pa.string(), "role": pa.string()}
"""Columns that are read here: a scores file's, where a prediction may also be a name, and each image's role."""

PREFERRED_DETECTOR = "msp"
"""The detector of the FACETS paper's graph (section V), which is taken from files that hold several."""


@dataclass(frozen=True, eq=False)
class Transitions:
    """n images, each with its own class and the class that it is taken for.

    Attributes:
        classes: all that occur, by key.
        own: each image's own class as an index into `classes`, shape (n,).
        predicted: the predicted one, shape (n,).
        score: shape (n,), higher = more unknown.
        known: whether each image is in-distribution, shape (n,); None where nothing says so.
        detector: whose scores they are.
        config: the release's config that they are rows of; empty without a release.
        splits: the config's splits that they are rows of; empty without a release.
        left_out: how many more images the file has, of other configs or splits of the release.
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
    """Read a file that names both classes of every image.

    Args:
        path: Parquet or CSV with the columns `id`, `score`, `class` (the image's own) and `prediction`, both as
            `DATASET:CLASS`; perhaps with `role`, which is `in_distribution` or anything else; and with `detector`,
            where there are scores of several.
        detector: which of several; None for the only one, else for `PREFERRED_DETECTOR`.

    Raises:
        EvaluationError: the file is no such file, or there is no such detector in it.
    """
    scores, _ = read_scores(path, GRAPH_COLUMNS)
    missing = [name for name in ("class", "prediction") if name not in scores.column_names]
    if missing:
        raise EvaluationError(
            f"expected the columns class and prediction in {path}, found no {' and no '.join(missing)}; add what is "
            "missing, or give --release, which knows the class of each image."
        )
    scores = _of_detector(scores, detector, path)
    own, predicted = (
        read_column(scores, column, read_class, expected="DATASET:CLASS, such as places365:fountain,", where=str(path))
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
    """Read scores of a release, which tells each image's own class and role.

    Args:
        path: a scores file with `id`, `score` and what is predicted: `prediction`, an index into the config's label
            names, or one of these names with or without its dataset; or else such a name as `class`.
        release: the release whose rows were scored.
        config: which rows; those of other configs are left out. None for the only config that was scored.
        split: which rows of it; None for those of splits that are judged, where such were scored.
        detector: as for `read_transitions`.

    Raises:
        EvaluationError: the file is no scores file of this release, ids are of no row, or a prediction is no class.
    """
    scores, about = read_scores(path, GRAPH_COLUMNS)
    if about is not None and about.release_digest != release.digest:
        raise EvaluationError(
            f"expected scores of {release.name}, whose digest is {release.digest[:12]}, in {path}, found those of a "
            f"release with digest {about.release_digest[:12]}; give the release that was scored."
        )
    column = "prediction" if "prediction" in scores.column_names else "class"
    if column not in scores.column_names:
        raise EvaluationError(
            f"expected a column prediction (or class) beside the scores in {path}, found none; add the class that the "
            "model predicts."
        )
    configs = about.configs if about is not None else release.configs
    if config is None and len(configs) > 1:
        raise EvaluationError(
            f"expected scores of one config in {path}, found {', '.join(configs)}; name one with --config."
        )
    config = config or configs[0]
    scores = _of_detector(scores, detector, path)
    index = _index(release, config)
    places = pc.index_in(scores["id"].combine_chunks(), value_set=index["id"].combine_chunks())
    here = pc.is_valid(places)
    _refuse_strangers(scores["id"].filter(pc.invert(here)), release, config, configs, path)
    scores, rows = scores.filter(here), index.take(places.drop_null())
    if not len(rows):
        raise EvaluationError(
            f"expected scores of {config} in {path}, found those of other configs; name another one."
        )
    splits = _splits(rows, split, where=f"{config} with scores in {path}")
    wanted = pc.is_in(rows["split"], value_set=pa.array(splits, pa.string()))
    scores, rows = scores.filter(wanted), rows.filter(wanted)
    labels = _labels(release, config, index)
    predicted = read_column(
        scores,
        column,
        read_label(labels, indices=column == "prediction"),
        expected=f"one of the {len(labels)} classes of {config}",
        where=str(path),
    )
    found = _transitions(_owned(rows), predicted, scores, rows["role"])
    return replace(found, config=config, splits=splits, left_out=len(here) - len(rows))


def _splits(rows: pa.Table, wanted: str | None, *, where: str) -> tuple[str, ...]:
    here = sorted(pc.unique(rows["split"]).to_pylist())
    if wanted is None:
        return tuple(split for split in here if split not in NOT_JUDGED) or tuple(here)
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
    """One detector's lines, one an image."""
    names = pc.unique(scores["detector"]).to_pylist()
    if wanted is None:
        if len(names) > 1 and PREFERRED_DETECTOR not in names:
            raise EvaluationError(
                f"expected scores of one detector in {path}, or of {PREFERRED_DETECTOR} among others, found "
                f"{', '.join(sorted(names))}; name one with --detector."
            )
        wanted = names[0] if len(names) == 1 else PREFERRED_DETECTOR
    if wanted not in names:
        raise unknown_name(f"detector in {path}", wanted, names)
    mine = scores.filter(pc.equal(scores["detector"], wanted)) if len(names) > 1 else scores
    if pc.count_distinct(mine["id"]).as_py() < len(mine):
        counts = pc.value_counts(mine["id"])
        twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        raise EvaluationError(
            f"expected one line of {wanted} for each id in {path}, found more for {shown(twice)}; leave one of each."
        )
    return mine


def _index(release: Release, config: str) -> pa.Table:
    """What the graph needs of a config's rows: split, id, source, classes, label, and the role by its name."""
    parts = []
    for split in release.splits(config):
        rows = release.rows(config, split)
        columns = {name: rows[name] for name in ("id", "source", "class_id", "class_name", "label")}
        parts.append(pa.table(columns | {"role": role_names(rows), "split": pa.repeat(split, len(rows))}))
    return pa.concat_tables(parts)


def _refuse_strangers(ids: pa.ChunkedArray, release: Release, config: str, scored: Sequence[str], path: Path) -> None:
    """Refuse ids of no row; those of other configs that were scored are none."""
    for other in scored:
        if len(ids) and other != config:
            theirs = pa.concat_tables(release.rows(other, split).select(["id"]) for split in release.splits(other))
            ids = ids.filter(pc.invert(pc.is_in(ids, value_set=theirs["id"].combine_chunks())))
    if len(ids):
        raise EvaluationError(
            f"expected ids of {release.name} in {path}, found {shown(ids)} that it does not have; take them out, or "
            "give the release that was scored."
        )


def _labels(release: Release, config: str, index: pa.Table) -> dict[str, Class]:
    """The classes that a model of this config predicts, by the names of their labels.

    Label names are class ids of one dataset: of the one whose rows have most of the labels. Where another dataset has
    classes of the same ids, as SUN397 has 294 of those of Places365, it has fewer.
    """
    names = pa.array(release.label_names(config), pa.string())
    known = index.filter(pc.greater_equal(index["label"], 0))
    known = known.filter(pc.equal(known["class_id"], names.take(known["label"].combine_chunks())))
    if not len(known):
        raise EvaluationError(
            f"expected rows of {config} in {release.name} whose class is their label, found none; name the classes in "
            "the columns class and prediction instead, and leave out --release."
        )
    found = known.group_by("source", use_threads=False).aggregate([("label", "count_distinct")]).to_pylist()
    dataset = min(found, key=lambda line: (-line["label_count_distinct"], line["source"]))["source"]
    mine = known.filter(pc.equal(known["source"], dataset))
    named = dict(zip(mine["class_id"].to_pylist(), mine["class_name"].to_pylist(), strict=True))
    return {label: make_class(dataset, label, named.get(label)) for label in names.to_pylist()}


def _owned(rows: pa.Table) -> ClassColumn:
    """The classes of a release's rows."""
    _, codes = coded(pc.binary_join_element_wise(rows["source"], rows["class_id"], "\n"))
    first = rows.take(pa.array(np.unique(codes, return_index=True)[1]))
    columns = [first[name].to_pylist() for name in ("source", "class_id", "class_name")]
    return ClassColumn([make_class(*names) for names in zip(*columns, strict=True)], codes)
