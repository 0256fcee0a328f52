"""Joins scores with the rows of a release by id: nothing missing, nothing unknown, nothing twice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unknown_detection.evaluation.duplicate_pairs import paired_ids
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.releases import Release
from unknown_detection.evaluation.scoring.fit_splits import EXTERNALS, HELD_OUT, TRAIN, VALIDATION, in_fit_half
from unknown_detection.evaluation.scoring.left_out import find_overlaps
from unknown_detection.evaluation.scoring.rows import Rows
from unknown_detection.evaluation.scoring.scores import summarize_ids

FIT_AND_TUNE_SPLITS = (*EXTERNALS, HELD_OUT, TRAIN, VALIDATION)
"""Splits for fitting and tuning; a scores file may omit one of them, but only as a whole."""

_NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True)
class ReleaseIndex:
    """The rows of some configs of a release, split by split.

    Attributes:
        table: the columns `config`, `split`, `id` and `label` (-1 for rows outside the in-distribution classes).
        rows: the same rows in the form that protocols read, with all scores 0.
        label_names: the classes of each config.
        overlaps: the configs whose rows say which known class they overlap.
    """

    table: pa.Table
    rows: Rows
    label_names: Mapping[str, Sequence[str]]
    overlaps: frozenset[str] = frozenset()


def release_index(release: Release, configs: Sequence[str]) -> ReleaseIndex:
    """Load the rows of some configs, without their images; raises as `Release.rows` and `Release.duplicates`."""
    pairs = release.duplicates()
    in_pairs = {} if pairs is None else paired_ids(pairs)
    parts = []
    overlaps: set[str] = set()
    for config in configs:
        for split in release.splits(config):
            rows = release.rows(config, split)
            overlap = find_overlaps(rows)
            overlaps |= set() if overlap is None else {config}
            columns = {name: rows[name] for name in ("id", "label", "class_id")} | {
                "config": pa.repeat(config, len(rows)),
                "split": pa.repeat(split, len(rows)),
                "role": role_names(rows),
                "source_id": pc.binary_join_element_wise(rows["source"], rows["source_id"], "/"),
                "duplicate": pc.is_in(rows["id"], value_set=in_pairs.get(f"{config}/{split}", _NO_IDS)),
                "overlap": pa.repeat("", len(rows)) if overlap is None else overlap,
            }
            parts.append(pa.table(columns))
    table = pa.concat_tables(parts).combine_chunks()
    texts = ("id", "config", "split", "role", "class_id", "source_id", *(["overlap"] if overlaps else []))
    arrays: dict[str, Any] = {name: np.asarray(table[name].to_pylist(), dtype=np.str_) for name in texts}
    arrays |= {"label": table["label"].to_numpy(), "score": np.zeros(len(table))}
    rows = Rows(**arrays, duplicate=None if pairs is None else table["duplicate"].to_numpy())
    names = {config: release.label_names(config) for config in configs}
    return ReleaseIndex(table.select(["config", "split", "id", "label"]), rows, names, frozenset(overlaps))


@dataclass(frozen=True)
class JoinedScores:
    """One detector's scores, aligned with the release's rows.

    Attributes:
        rows: numbers of the index's rows that have a score, ascending, shape (n,).
        score: shape (n,), higher = more unknown.
        prediction: predicted class as an index into the label names of the row's config, shape (n,), -1 for rows
            without one; None if the file has no predictions.
        confidence: probability of the predicted class, shape (n,), NaN where the file has none; None without any.
    """

    rows: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]
    prediction: npt.NDArray[np.int64] | None
    confidence: npt.NDArray[np.float64] | None = None


def rows_of(index: ReleaseIndex, joined: JoinedScores) -> Rows:
    """Return the rows with one detector's scores, in the release's order; rows without a score are dropped."""
    rows = index.rows
    if len(joined.rows) < len(rows):
        rows = rows.where(np.isin(np.arange(len(rows)), joined.rows))
    return replace(rows, score=joined.score, prediction=joined.prediction, confidence=joined.confidence)


def join_scores(
    index: pa.Table,
    scores: pa.Table,
    *,
    label_names: Mapping[str, Sequence[str]],
    where: str,
    fitted_on: pa.Array = _NO_IDS,
) -> dict[str, JoinedScores]:
    """Join scores with the rows of a release by id.

    Every row must have exactly one score per detector, and every score must belong to a row. Splits in
    `FIT_AND_TUNE_SPLITS` may be missing, each as a whole, and so may their rows that detectors were `fitted_on` in
    place of training rows. An id in several splits has the same score in all of them.

    `index` is the table of a `ReleaseIndex`, `scores` the result of `read_scores`; the result has the detectors in the
    order of the scores.

    Raises:
        EvaluationError: ids are missing, unknown or repeated, a prediction is not a class, or a labelled row has no
            prediction although others have one.
    """
    unknown_ids = pc.unique(scores["id"].filter(pc.invert(pc.is_in(scores["id"], value_set=_whole(index["id"])))))
    if len(unknown_ids):
        configs = ", ".join(pc.unique(index["config"]).to_pylist())
        raise EvaluationError(
            f"{where} has {summarize_ids(unknown_ids)} that {configs} of the release does not have. Remove them, or "
            "name the config that they belong to."
        )
    detectors = _whole(scores["detector"]).dictionary_encode()
    fit_row = pc.is_in(index["id"], value_set=fitted_on).to_numpy()
    joined = {}
    for number, name in enumerate(detectors.dictionary.to_pylist()):
        of_detector = scores.filter(pc.equal(detectors.indices, number))
        counts = pc.value_counts(_whole(of_detector["id"]))
        if len(counts) < len(of_detector):
            repeated = summarize_ids(counts.field("values").filter(pc.greater(counts.field("counts"), 1)))
            raise EvaluationError(f"{where} has several scores of {name} for {repeated}; keep one per id.")
        lines = pc.index_in(index["id"], value_set=_whole(of_detector["id"]))
        rows = _scored_rows(index, lines.is_valid().to_numpy(), fit_row, name, where)
        of_rows = of_detector.take(lines.drop_null())
        prediction = _predictions(index.take(pa.array(rows)), of_rows, label_names, f"of {name} in {where}")
        confidence = None
        if "confidence" in of_rows.column_names and of_rows["confidence"].null_count < len(of_rows):
            confidence = np.asarray(of_rows["confidence"].to_numpy(), dtype=np.float64)  # null becomes NaN
        joined[name] = JoinedScores(rows, of_rows["score"].to_numpy(), prediction, confidence)
    return joined


def _scored_rows(
    index: pa.Table, scored: npt.NDArray[np.bool_], fit_row: npt.NDArray[np.bool_], detector: str, where: str
) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows with a score; refuse splits that lack some."""
    keys = pc.binary_join_element_wise(index["config"], index["split"], "/")
    for key in pc.unique(keys.filter(pa.array(~scored))).to_pylist():
        in_split = pc.equal(keys, key).to_numpy()
        to_fit_and_tune = key.rpartition("/")[2] in FIT_AND_TUNE_SPLITS
        missing = in_split & ~scored & ~(fit_row & to_fit_and_tune)
        whole_split_missing = to_fit_and_tune and not np.any(in_split & scored)
        if np.any(missing) and not whole_split_missing:
            raise EvaluationError(
                f"{where} lacks scores of {detector} for {summarize_ids(index['id'].filter(pa.array(missing)))} of "
                f"the {int(in_split.sum()):,} rows of {key}. Score them, too."
            )
    return np.flatnonzero(scored)


def _predictions(
    rows: pa.Table, scores: pa.Table, label_names: Mapping[str, Sequence[str]], whose: str
) -> npt.NDArray[np.int64] | None:
    """Return class indices, from `prediction` or from the names in `class`."""
    column = "prediction" if "prediction" in scores.column_names else "class"
    if column not in scores.column_names or scores[column].null_count == len(scores):
        return None
    predictions = np.full(len(scores), -1, dtype=np.int64)
    for config in pc.unique(rows["config"]).to_pylist():
        in_config = pc.equal(rows["config"], config)
        values, ids, labels = (whole.filter(in_config) for whole in (scores[column], rows["id"], rows["label"]))
        classes = _class_indices(values, label_names[config])
        wrong = pc.and_(pc.is_valid(values), pc.is_null(classes))
        if pc.any(wrong).as_py():
            raise EvaluationError(
                f"The {column} {whose} is not one of the {len(label_names[config])} classes of {config}: "
                f"{values.filter(wrong)[0]} and the like at {summarize_ids(ids.filter(wrong))}. Give the class that "
                "the model predicts."
            )
        missing = pc.and_(pc.is_null(values), pc.greater_equal(labels, 0))
        if pc.any(missing).as_py():
            raise EvaluationError(
                f"The {column} {whose} is missing for labelled rows: {summarize_ids(ids.filter(missing))}. Give the "
                "class that the model predicts."
            )
        predictions[in_config.to_numpy()] = pc.fill_null(classes, -1).to_numpy()
    return predictions


def _class_indices(predictions: pa.ChunkedArray, names: Sequence[str]) -> pa.ChunkedArray:
    """Return class indices; null for unknown classes."""
    if predictions.type == pa.string():
        return pc.index_in(predictions, value_set=pa.array(names, pa.string())).cast(pa.int64())
    inside = pc.and_(pc.greater_equal(predictions, -1), pc.less(predictions, len(names)))  # -1: none of the classes
    return pc.if_else(inside, predictions, pa.scalar(None, pa.int64()))


def ids_fitted_on(release: Release, key: str) -> pa.Array:
    """Return the ids in the fit half of a split `config/split`, which detectors were fitted on; none without a key."""
    if not key:
        return _NO_IDS
    config, _, split = key.partition("/")
    rows = release.rows(config, split)
    fits = in_fit_half(rows["id"].to_pylist(), rows["label"].to_numpy())
    return rows["id"].filter(pa.array(fits)).combine_chunks()


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def role_names(rows: pa.Table) -> pa.ChunkedArray:
    """Return each row's role by name, using the features in the schema's metadata."""
    features = json.loads(rows.schema.metadata[b"huggingface"])["info"]["features"]
    return pa.array(features["role"]["names"]).take(rows["role"])
