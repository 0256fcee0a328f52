"""Bringing scores to the rows of a release by id: nothing missing, nothing left over, nothing twice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evaluation.duplicate_pairs import ids_by_split
from evaluation.errors import EvaluationError
from evaluation.releases import Release
from evaluation.scoring.duplicates import marked
from evaluation.scoring.rows import Rows
from evaluation.scoring.scores import shown

NOT_JUDGED = ("external_validation", "train", "validation")
"""Splits that detectors are fitted and tuned on; a scores file may leave one of them out, but only as a whole."""

_NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True)
class Index:
    """The rows of some configs of a release, split by split.

    Attributes:
        table: the columns `config`, `split`, `id` and `label` (-1 for rows without a class).
        rows: the same rows as protocols read them, without scores yet: all are 0.
        label_names: the classes of each config.
        duplicates: by config, why its duplicates are called so (`duplicates.IN_PAIRS` or another); without the configs
            of which the release does not say which rows are duplicates.
    """

    table: pa.Table
    rows: Rows
    label_names: Mapping[str, Sequence[str]]
    duplicates: Mapping[str, str]


def release_index(release: Release, configs: Sequence[str]) -> Index:
    """Read the rows of configs, without their images.

    Args:
        release: where they are.
        configs: at least one name.

    Raises:
        EvaluationError: there is no such config, or its rows or the release's table of duplicates are not those that
            the manifest names.
    """
    pairs = release.duplicates()
    in_pairs = None if pairs is None else ids_by_split(pairs)
    parts = []
    why: dict[str, str] = {}
    for config in configs:
        for split in release.splits(config):
            rows = release.rows(config, split)
            of_split = None if in_pairs is None else in_pairs.get(f"{config}/{split}", _NO_IDS)
            reason, duplicate = marked(rows, of_split)
            why |= {config: reason} if reason else {}
            described = {name: rows[name] for name in ("id", "label", "class_id")} | {
                "config": pa.repeat(config, len(rows)),
                "split": pa.repeat(split, len(rows)),
                "role": role_names(rows),
                "source_id": pc.binary_join_element_wise(rows["source"], rows["source_id"], "/"),
                "duplicate": duplicate,
            }
            parts.append(pa.table(described))
    table = pa.concat_tables(parts).combine_chunks()
    rows = Rows(
        id=_texts(table["id"]),
        config=_texts(table["config"]),
        split=_texts(table["split"]),
        role=_texts(table["role"]),
        label=table["label"].to_numpy(),
        class_id=_texts(table["class_id"]),
        source_id=_texts(table["source_id"]),
        score=np.zeros(len(table)),
        duplicate=table["duplicate"].to_numpy() if why else None,
    )
    names = {config: release.label_names(config) for config in configs}
    return Index(table.select(["config", "split", "id", "label"]), rows, names, why)


@dataclass(frozen=True)
class Joined:
    """One detector's scores beside the release's rows.

    Attributes:
        rows: which rows of the index have a score, ascending, shape (n,).
        score: shape (n,), higher = more unknown.
        prediction: predicted class as an index into the label names of the row's config, shape (n,), -1 where none is
            given; None where the file has no predictions.
    """

    rows: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]
    prediction: npt.NDArray[np.int64] | None


def rows_of(index: Index, joined: Joined) -> Rows:
    """One detector's scores as protocols read them: the rows that have one, in the release's order."""
    rows = index.rows
    if len(joined.rows) < len(rows):
        rows = rows.where(np.isin(np.arange(len(rows)), joined.rows))
    return replace(rows, score=joined.score, prediction=joined.prediction)


def join(
    index: pa.Table, scores: pa.Table, *, label_names: Mapping[str, Sequence[str]], where: str
) -> dict[str, Joined]:
    """Bring scores to the rows of a release by id.

    Every row must have exactly one score of each detector, and no score may be left over. The splits in `NOT_JUDGED`
    may be missing, each as a whole. An id that stands in several splits has the same score in all of them.

    Args:
        index: the release's rows, as the table of an `Index`.
        scores: as `read_scores` gives them.
        label_names: the classes of each config.
        where: the scores file, for messages.

    Returns:
        The scores of each detector, by its name, in the order in which the file first names them.

    Raises:
        EvaluationError: ids are missing, left over or there twice, a prediction is not a class, or a row that has a
            class has no prediction where others have one.
    """
    known = index["id"].combine_chunks().dictionary_encode()
    ids = known.dictionary
    places = pc.index_in(scores["id"].combine_chunks(), value_set=ids)
    if places.null_count:
        strangers = pc.unique(scores["id"].filter(pc.is_null(places)))
        configs = ", ".join(pc.unique(index["config"]).to_pylist())
        raise EvaluationError(
            f"expected ids of {configs} in {where}, found {shown(strangers)} that the release does not have there; "
            "take them out, or name the config that they are of."
        )
    detectors = scores["detector"].combine_chunks().dictionary_encode()
    # One cell for each pair of a detector and an id, so that a single pass over millions of lines finds all trouble.
    cells = _integers(detectors.indices) * len(ids) + _integers(places)
    shape = (len(detectors.dictionary), len(ids))
    counts = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    lines = np.zeros(shape, dtype=np.int64)
    lines.reshape(-1)[cells] = np.arange(len(cells))
    id_of_row = _integers(known.indices)
    joined = {}
    for name, count, line in zip(detectors.dictionary.to_pylist(), counts, lines, strict=True):
        _refuse_twice(ids.filter(pa.array(count > 1)), name, where)
        rows = _scored_rows(index, count[id_of_row] > 0, name, where)
        mine = scores.take(pa.array(line[id_of_row[rows]]))
        prediction = _predictions(index.take(pa.array(rows)), mine, label_names, f"of {name} in {where}")
        joined[name] = Joined(rows, mine["score"].to_numpy(), prediction)
    return joined


def _refuse_twice(ids: pa.Array, detector: str, where: str) -> None:
    if len(ids):
        raise EvaluationError(
            f"expected one score of {detector} for each id in {where}, found more for {shown(ids)}; leave one of each."
        )


def _scored_rows(index: pa.Table, scored: npt.NDArray[np.bool_], detector: str, where: str) -> npt.NDArray[np.int64]:
    """Rows that have a score, once nothing that matters is missing."""
    keys = pc.binary_join_element_wise(index["config"], index["split"], "/").combine_chunks().dictionary_encode()
    key_of_row = _integers(keys.indices)
    for number, key in enumerate(keys.dictionary.to_pylist()):
        of_split = key_of_row == number
        missing = of_split & ~scored
        left_out = key.rpartition("/")[2] in NOT_JUDGED and not np.any(of_split & scored)
        if np.any(missing) and not left_out:
            raise EvaluationError(
                f"expected a score of {detector} for each of the {int(of_split.sum()):,} rows of {key} in {where}, "
                f"found none for {shown(index['id'].filter(pa.array(missing)))}; score them too."
            )
    return np.flatnonzero(scored)


def _predictions(
    rows: pa.Table, scores: pa.Table, label_names: Mapping[str, Sequence[str]], whose: str
) -> npt.NDArray[np.int64] | None:
    """Class indices from `prediction`, or from the names in `class`."""
    column = "prediction" if "prediction" in scores.column_names else "class"
    if column not in scores.column_names or scores[column].null_count == len(scores):
        return None
    found = np.full(len(scores), -1, dtype=np.int64)
    for config in pc.unique(rows["config"]).to_pylist():
        mine = pc.equal(rows["config"], config)
        given = scores[column].filter(mine)
        classes = _class_indices(given, label_names[config])
        wrong = pc.and_(pc.is_valid(given), pc.is_null(classes))
        if pc.any(wrong).as_py():
            raise EvaluationError(
                f"expected one of the {len(label_names[config])} classes of {config} as {column} {whose}, found "
                f"{given.filter(wrong)[0]} and the like at {shown(rows['id'].filter(mine).filter(wrong))}; give the "
                "class that the model predicts."
            )
        missing = pc.and_(pc.is_null(given), pc.greater_equal(rows["label"].filter(mine), 0))
        if pc.any(missing).as_py():
            raise EvaluationError(
                f"expected a {column} for every row that has a class {whose}, found none at "
                f"{shown(rows['id'].filter(mine).filter(missing))}; give the class that the model predicts."
            )
        found[mine.to_numpy()] = pc.fill_null(classes, -1).to_numpy()
    return found


def _class_indices(given: pa.ChunkedArray, names: Sequence[str]) -> pa.ChunkedArray:
    """Indices of classes; null where there is no such class."""
    if given.type == pa.string():
        return pc.index_in(given, value_set=pa.array(names, pa.string())).cast(pa.int64())
    inside = pc.and_(pc.greater_equal(given, 0), pc.less(given, len(names)))
    return pc.if_else(inside, given, pa.scalar(None, pa.int64()))


def _integers(values: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64)


def role_names(rows: pa.Table) -> pa.ChunkedArray:
    """The role of each row by name, as the features beside the numbers tell."""
    features = json.loads(rows.schema.metadata[b"huggingface"])["info"]["features"]
    return pa.array(features["role"]["names"]).take(rows["role"])


def _texts(values: pa.ChunkedArray) -> npt.NDArray[np.str_]:
    return np.asarray(values.to_pylist(), dtype=np.str_)
