"""Joins scores with the rows of a release by id: nothing missing, nothing unknown, nothing twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.release.schema import ROLES
from unknown_detection.evaluation.duplicates import paired_ids
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.releases import Release
from unknown_detection.evaluation.scoring.fit_splits import EXTERNALS, HELD_OUT, TRAIN, VALIDATION, in_fit_half
from unknown_detection.evaluation.scoring.rows import Rows, find_overlaps
from unknown_detection.evaluation.scoring.scores import IN_MEMORY, summarize_ids
from unknown_detection.names import by_name

FIT_AND_TUNE_SPLITS = (*EXTERNALS, HELD_OUT, TRAIN, VALIDATION)
"""Splits for fitting and tuning; a scores file may omit one of them, but only as a whole."""

_NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True)
class ReleaseIndex:
    """The rows of some configs of a release, split by split, with scores of 0, and the classes of each config.

    `overlaps` are the configs whose rows say which known class they overlap.
    """

    rows: Rows
    label_names: Mapping[str, Sequence[str]]
    overlaps: frozenset[str] = frozenset()


def release_index(release: Release, configs: Sequence[str]) -> ReleaseIndex:
    """Load the rows of some configs, without their images; raises as `Release.rows` and `Release.duplicates`."""
    pairs = release.duplicates()
    in_pairs = {} if pairs is None else paired_ids(pairs)
    in_equal_pairs = {} if pairs is None else paired_ids(pairs.filter(pc.equal(pairs["distance"], 0)))
    parts = []
    overlaps: set[str] = set()
    doubtful = release.doubtful_duplicates(configs)
    for config in configs:
        for split in release.splits(config):
            rows = release.rows(config, split)
            overlap = find_overlaps(rows)
            overlaps |= set() if overlap is None else {config}
            key = f"{config}/{split}"
            twice = (in_equal_pairs if key in doubtful else in_pairs).get(key, _NO_IDS)
            columns = {name: rows[name] for name in ("id", "label", "class_id")} | {
                "config": pa.repeat(config, len(rows)),
                "split": pa.repeat(split, len(rows)),
                "role": role_names(rows),
                "source_id": pc.binary_join_element_wise(rows["source"], rows["source_id"], "/"),
                "duplicate": pc.is_in(rows["id"], value_set=twice),
                "overlap": pa.repeat("", len(rows)) if overlap is None else overlap,
            }
            parts.append(pa.table(columns))
    table = pa.concat_tables(parts)
    texts = ("id", "config", "split", "role", "class_id", "source_id", *(["overlap"] if overlaps else []))
    arrays: dict[str, Any] = {name: np.asarray(table[name].to_pylist(), dtype=np.str_) for name in texts}
    arrays |= {"label": table["label"].to_numpy(), "score": np.zeros(len(table))}
    rows = Rows(**arrays, duplicate=None if pairs is None else table["duplicate"].to_numpy())
    return ReleaseIndex(rows, {config: release.label_names(config) for config in configs}, frozenset(overlaps))


def join_scores(
    index: ReleaseIndex, scores: pa.Table, where: str, fitted_on: pa.Array | None = None
) -> dict[str, Rows]:
    """Return the rows that have a score, with it, by detector; in the release's order.

    Every row must have exactly one score per detector, and every score must belong to a row. Splits in
    `FIT_AND_TUNE_SPLITS` may be missing, each as a whole, and so may their rows that detectors were `fitted_on` in
    place of training rows; where that is None, as of a DataFrame or a CSV file, all rows of a split's fit half may. An
    id in several splits has the same score in all of them. `scores` are those of `read_scores`. A row without a
    prediction has -1, and NaN without a confidence.
    """
    rows, ids, score_ids = index.rows, pa.array(index.rows.id, pa.string()), scores["id"].combine_chunks()
    unknown_ids = pc.unique(score_ids.filter(pc.invert(pc.is_in(score_ids, value_set=ids))))
    if len(unknown_ids):
        raise EvaluationError(
            f"{where} has {summarize_ids(unknown_ids)} that {', '.join(index.label_names)} of the release does not "
            "have. Remove them, or name the config that they belong to."
        )
    detectors = scores["detector"].combine_chunks().dictionary_encode()
    fit_rows = pc.is_in(ids, value_set=_NO_IDS if fitted_on is None else fitted_on).to_numpy(zero_copy_only=False)
    joined = {}
    for number, name in enumerate(detectors.dictionary.to_pylist()):
        of_detector = scores.filter(pc.equal(detectors.indices, number))
        whose = "" if name == IN_MEMORY else f" of {name}"
        of_ids = of_detector["id"].combine_chunks()
        counts = pc.value_counts(of_ids)
        if len(counts) < len(of_ids):
            repeated = summarize_ids(counts.field("values").filter(pc.greater(counts.field("counts"), 1)))
            raise EvaluationError(f"{where} has several scores{whose} for {repeated}; keep one per id.")
        lines = pc.index_in(ids, value_set=of_ids)
        scored = lines.is_valid().to_numpy(zero_copy_only=False)
        unscored = zip(rows.config[~scored].tolist(), rows.split[~scored].tolist(), strict=True)
        for config, split in dict.fromkeys(unscored):
            in_split = (rows.config == config) & (rows.split == split)
            missing = in_split & ~scored
            if split in FIT_AND_TUNE_SPLITS:
                missing &= ~fit_rows & (in_split & scored).any()
                if fitted_on is None and missing.any():
                    fits = in_fit_half(rows.id[in_split].tolist(), rows.label[in_split])
                    missing[in_split] &= (missing[in_split] != fits).any()
            if missing.any():
                raise EvaluationError(
                    f"{where} lacks scores{whose} for {summarize_ids(rows.id[missing])} of the "
                    f"{int(in_split.sum()):,} rows of {config}/{split}. Score them, too, or name the "
                    "splits to evaluate (`--splits`, in Python `splits=`)."
                )
        of_rows = of_detector.take(lines.drop_null())
        chosen = rows if scored.all() else rows.where(scored)
        prediction = _predictions(chosen, of_rows, index.label_names, f"{whose} in {where}".strip())
        confidence = None
        if "confidence" in of_rows.column_names and of_rows["confidence"].null_count < len(of_rows):
            confidence = np.asarray(of_rows["confidence"].to_numpy(), dtype=np.float64)  # null becomes NaN
        score = of_rows["score"].to_numpy()
        joined[name] = replace(chosen, score=score, prediction=prediction, confidence=confidence)
    return joined


def _predictions(
    rows: Rows, scores: pa.Table, label_names: Mapping[str, Sequence[str]], whose: str
) -> npt.NDArray[np.int64] | None:
    """Return class indices, from `prediction` or from the names in `class`; -1 for rows without one."""
    columns = [name for name in ("prediction", "class") if name in scores.column_names]
    columns = [name for name in columns if scores[name].null_count < len(scores)]
    if not columns:
        return None
    predictions = np.full(len(scores), -1, dtype=np.int64)
    for config, names in label_names.items():
        in_config = rows.config == config
        of_config, ids = scores.filter(pa.array(in_config)), rows.id[in_config]
        found = [_class_indices(of_config[name], names, f"{name} {whose}", config, ids) for name in columns]
        differ = pc.fill_null(pc.not_equal(found[0], found[-1]), False).to_numpy()
        if differ.any():
            first = int(np.argmax(differ))
            says = " and ".join(f"{name} {of_config[name][first]}" for name in columns)
            raise EvaluationError(
                f"The prediction and the class {whose} contradict each other: {says} and the like at "
                f"{summarize_ids(ids[differ])}. Keep the column that says what the model predicts."
            )
        classes = pc.coalesce(*found)
        missing = classes.is_null().to_numpy() & (rows.label[in_config] >= 0)
        if missing.any():
            raise EvaluationError(
                f"The {columns[0]} {whose} is missing for labelled rows: {summarize_ids(ids[missing])}. Give the "
                "class that the model predicts."
            )
        predictions[in_config] = pc.fill_null(classes, -1).to_numpy()
    return predictions


def _class_indices(
    values: pa.ChunkedArray, names: Sequence[str], what: str, config: str, ids: npt.NDArray[np.str_]
) -> pa.ChunkedArray:
    """Return the class that each value names or numbers, null for no value; refuse others than the config's."""
    if values.type == pa.string():
        given, find = values.unique(), by_name(names)
        found = pa.array([find(name or "") for name in given.to_pylist()], pa.string())
        spelled = found.take(pc.index_in(values, value_set=given))
        classes = pc.index_in(spelled, value_set=pa.array(names, pa.string())).cast(pa.int64())
    else:
        inside = pc.and_(pc.greater_equal(values, -1), pc.less(values, len(names)))  # -1: none of the classes
        classes = pc.if_else(inside, values, pa.scalar(None, pa.int64()))
    wrong = pc.and_(classes.is_null(), values.is_valid()).to_numpy()
    if wrong.any():
        raise EvaluationError(
            f"The {what} is not one of the {len(names)} classes of {config}: {values[int(np.argmax(wrong))]} and the "
            f"like at {summarize_ids(ids[wrong])}. Give the class that the model predicts."
        )
    return classes


def ids_fitted_on(release: Release, key: str) -> pa.Array:
    """Return the ids in the fit half of a split `config/split`, which detectors were fitted on; none without a key."""
    if not key:
        return _NO_IDS
    rows = release.rows(*key.split("/", 1))
    fits = in_fit_half(rows["id"].to_pylist(), rows["label"].to_numpy())
    return rows["id"].filter(pa.array(fits)).combine_chunks()


def role_names(rows: pa.Table) -> pa.ChunkedArray:
    """Return each row's role by name."""
    return pa.array(ROLES).take(rows["role"])
