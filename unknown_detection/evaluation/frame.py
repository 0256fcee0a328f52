"""Joins scores with the truth by id: one pandas frame for each detector, which every protocol takes.

A joined frame has the columns of `Release.index` and `score` (higher = more unknown); where there are predictions,
`prediction` and `wrong` (true for rows without a label).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.ranking import NOTHING, Ranking, Takes, rank, rank_open_set
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS, in_fit_half
from unknown_detection.evaluation.scoring.scores import IN_MEMORY, read_scores, summarize_ids

TEST = "test"

WITHOUT_DUPLICATES, WITHOUT_OVERLAP = REDUCED = ("without_duplicates", "without_overlap")
"""The kinds of figures that leave out rows."""


def names(frame: pd.DataFrame, column: str) -> list[str]:
    """Return the values that occur in a categorical column, sorted."""
    categories = frame[column].cat
    present = np.bincount(categories.codes.to_numpy() + 1, minlength=1)[1:]
    return categories.categories[np.flatnonzero(present)].tolist()  # type: ignore[no-any-return]


def by(frame: pd.DataFrame, column: str) -> dict[str, pd.DataFrame]:
    """Divide rows by the values of a categorical column, sorted by value."""
    return {name: frame[frame[column] == name] for name in names(frame, column)}


def by_split(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Divide rows by split, sorted by name; a name that several configs use becomes `config/split`."""
    splits: dict[str, pd.DataFrame] = {}
    for name, rows in by(frame, "split").items():
        configs = by(rows, "config")
        splits |= {name: rows} if len(configs) == 1 else {f"{config}/{name}": of for config, of in configs.items()}
    return splits


def known_rows(frame: pd.DataFrame, split: str = TEST) -> pd.DataFrame:
    """Select the in-distribution rows of a split; `EvaluationError` if there are none.

    Of an image that several configs have in this split, the first row counts.
    """
    selected = frame[frame["known"] & (frame["split"] == split)]
    if len(names(selected, "config")) > 1:
        selected = selected[~selected["id"].cat.codes.duplicated()]
    if not len(selected):
        raise EvaluationError(
            f"{split} of {' and '.join(names(frame, 'config'))} has no in-distribution rows among {len(frame):,} "
            "rows. Score that split, and name it among those to evaluate."
        )
    return selected


def each_config(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Yield the configs with unknown rows to evaluate: each with the known rows that are beside these, and with these.

    The known rows are the config's own; of shifted rows, as of NAME-shifted, those of NAME, else those of all configs.
    """
    configs = by(frame, "config")
    known_of = {name: of[of["known"] & (of["split"] == TEST)] for name, of in configs.items()}
    for config, rows in configs.items():
        unknown = rows[~rows["known"] & ~rows["split"].isin(FIT_AND_TUNE_SPLITS)]
        if len(unknown):
            own = [of for name, of in known_of.items() if f"{config}-".startswith(f"{name}-") and len(of)]
            yield config, own[-1] if own else known_rows(frame), unknown


def unknown_by_role(frame: pd.DataFrame, roles: Iterable[str]) -> dict[str, dict[str, pd.DataFrame]]:
    """Divide the unknown rows of some roles by role and split, without splits for fitting and tuning.

    A split with rows of several of the roles is named with each, as in `test, near_ood`.
    """
    judged = frame[~frame["split"].isin(FIT_AND_TUNE_SPLITS)]
    splits = {role: by_split(judged[judged["role"] == role]) for role in roles}
    counts = Counter(name for of_role in splits.values() for name in of_role)
    return {
        role: {name if counts[name] == 1 else f"{name}, {role}": rows for name, rows in of_role.items()}
        for role, of_role in splits.items()
    }


def unknown_splits(frame: pd.DataFrame, roles: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the rows of some roles by split, as `unknown_by_role` does; `EvaluationError` if there are none."""
    splits = {name: rows for of_role in unknown_by_role(frame, roles).values() for name, rows in of_role.items()}
    if not splits:
        raise EvaluationError(
            f"{' and '.join(names(frame, 'config'))} has no rows of the role {' or '.join(roles)} (found: "
            f"{', '.join(names(frame, 'role'))}). Score a split of unknowns, too, or choose another protocol."
        )
    return splits


def evaluated_splits(frame: pd.DataFrame) -> set[tuple[str, str]]:
    """Return config and split of the unknown rows that are not for fitting and tuning."""
    judged = frame[~frame["known"] & ~frame["split"].isin(FIT_AND_TUNE_SPLITS)]
    return {*judged.groupby(["config", "split"], observed=True).groups}


def beside(known: pd.DataFrame, *unknown: pd.DataFrame) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Concatenate the scores of known and of unknown rows; returns them, and flags of the unknown rows, shape (n,)."""
    scores = np.concatenate([rows["score"].to_numpy() for rows in (known, *unknown)])
    return scores, np.arange(len(scores)) >= len(known)


def against(known: pd.DataFrame, *unknown: pd.DataFrame) -> Ranking:
    """Rank known rows against unknown ones."""
    return rank(*beside(known, *unknown))[0]


def rankings(known: pd.DataFrame, *unknown: pd.DataFrame, takes: Collection[Takes]) -> dict[Takes, Ranking]:
    """Rank known rows against unknown ones, in one sort for all kinds of rankings that metrics take.

    In the ranking by `errors` every unknown row counts as an error; `misclassified` has none. All but `unknown` need
    predictions.
    """
    if "wrong" not in known or {*takes} <= {"unknown"}:
        return {"unknown": against(known, *unknown)}
    scores, flags = beside(known, *unknown)
    errors = flags.copy()
    errors[: len(known)] = known["wrong"]
    of_unknown, of_errors, of_open_set = rank_open_set(scores, flags, errors)
    ranked: dict[Takes, Ranking] = {"unknown": of_unknown, "errors": of_errors, "open_set": of_open_set}
    return ranked | ({"misclassified": by_errors(known)} if "misclassified" in takes else {})


def by_errors(rows: pd.DataFrame) -> Ranking:
    """Rank correctly classified rows against misclassified ones, among those with a label; perhaps there are none."""
    if "wrong" not in rows:
        raise EvaluationError("The scores have no predictions; add a column prediction to them.")
    labelled = rows[rows["label"] >= 0]  # FACETS has others among its known rows
    return rank(labelled["score"].to_numpy(), labelled["wrong"].to_numpy())[0] if len(labelled) else NOTHING


def left_out(frame: pd.DataFrame, kind: str) -> npt.NDArray[np.bool_] | None:
    """Find the rows that figures of this kind leave out, shape (n,); None if the release does not mark any.

    If a row is a duplicate, the rows made from the same source image are left out, too, such as its shifted or clean
    versions: an evaluation of a shift needs both. For the same image in another config (the same id), that config's
    own pairs decide.
    """
    if kind == WITHOUT_OVERLAP:
        # Configs that do not state overlaps have missing values; without any others, nothing is known.
        stated = "overlap" in frame and frame["overlap"].cat.codes.ge(0).any()
        return np.asarray(frame["overlap"].notna() & (frame["overlap"] != "")) if stated else None
    if "duplicate" not in frame:
        return None
    duplicates: npt.NDArray[np.bool_] = frame["duplicate"].to_numpy()
    ids, sources = (frame[name].cat.codes.to_numpy() for name in ("id", "source_id"))
    return duplicates | (np.isin(sources, sources[duplicates]) & ~np.isin(ids, ids[duplicates]))


def join(
    index: pd.DataFrame,
    scores: Any,
    label_names: Mapping[str, Sequence[str]] | None = None,
    *,
    where: str = "The table of scores",
    fitted_on: pa.Array | None = None,
) -> dict[str, pd.DataFrame]:
    """Join scores with an index by id; returns by detector the rows that have a score, in the order of the index.

    Columns of the index are shared. Every row must have one score per detector, and every score a row. Splits in
    `FIT_AND_TUNE_SPLITS` may be missing, each as a whole, and so may their rows that detectors were `fitted_on` in
    place of training rows; where that is None, as of a DataFrame or a CSV file, all rows of a split's fit half may. An
    id in several splits has the same score in all of them. A row without a prediction has -1, and NaN without a
    confidence. Predictions are checked against the `label_names` of each config.
    """
    table = scores if isinstance(scores, pa.Table) and "detector" in scores.column_names else read_scores(scores)[0]
    ids = pa.array(index["id"].cat.categories)
    codes = pc.index_in(table["id"], value_set=ids.cast(table["id"].type)).combine_chunks()
    if codes.null_count:
        unknown = pc.unique(table["id"].filter(codes.is_null()))
        configs = " and ".join(names(index, "config"))
        raise EvaluationError(
            f"{where} has {summarize_ids(unknown)} that {configs} of the release does not have. Remove them, or name "
            "the config that they belong to."
        )
    of_ids, of_rows = codes.to_numpy(), index["id"].cat.codes.to_numpy()
    detectors = table["detector"].combine_chunks().dictionary_encode()
    detector_codes, shared = detectors.indices.to_numpy(), (np.zeros(0, dtype=np.bool_), index)
    predictions = table["prediction"] if "prediction" in table.column_names else None
    score, joined = table["score"].to_numpy(), {}
    for number, name in enumerate(detectors.dictionary.to_pylist()):
        whose = "" if name == IN_MEMORY else f" of {name}"
        lines = np.flatnonzero(detector_codes == number)
        counts = np.bincount(of_ids[lines], minlength=len(ids))
        if counts.max() > 1:
            repeated = summarize_ids(ids.filter(pa.array(counts > 1)))
            raise EvaluationError(f"{where} has several scores{whose} for {repeated}; keep one per id.")
        places = np.full(len(ids), -1)
        places[of_ids[lines]] = lines
        places = places[of_rows]
        scored = places >= 0
        if not scored.all():
            _require_whole(index, scored, f"{where} lacks scores{whose}", fitted_on)
        if not np.array_equal(shared[0], scored):  # detectors mostly have scores of the same rows
            shared = scored, index if scored.all() else index[scored]
        chosen, places = shared[1].copy(deep=False), places[scored]
        chosen["score"] = score[places]
        of_detector = None if predictions is None else predictions.take(pa.array(places))
        if of_detector is not None and of_detector.null_count < len(of_detector):
            _add_predictions(chosen, of_detector, label_names or {}, f"{whose} in {where}".strip())
        joined[name] = chosen
    return joined


def _require_whole(index: pd.DataFrame, scored: npt.NDArray[np.bool_], lacks: str, fitted_on: pa.Array | None) -> None:
    """Refuse splits that have some scores but not all, and splits to evaluate that have none."""
    ids = index["id"]
    fits = ids.isin([] if fitted_on is None else fitted_on.to_pylist()).to_numpy()
    for config, split in dict.fromkeys(zip(index["config"][~scored], index["split"][~scored], strict=True)):
        in_split = ((index["config"] == config) & (index["split"] == split)).to_numpy()
        missing = in_split & ~scored
        if split in FIT_AND_TUNE_SPLITS:
            missing &= ~fits & (in_split & scored).any()
            if fitted_on is None and missing.any():
                halves = in_fit_half(ids[in_split].tolist(), index["label"].to_numpy()[in_split])
                missing[in_split] &= (missing[in_split] != halves).any()
        if missing.any():
            raise EvaluationError(
                f"{lacks} for {summarize_ids(ids[missing].tolist())} of the {int(in_split.sum()):,} rows of "
                f"{config}/{split}. Score them, too, or name the splits to evaluate with splits=."
            )


def _add_predictions(
    frame: pd.DataFrame, given: pa.ChunkedArray, label_names: Mapping[str, Sequence[str]], whose: str
) -> None:
    """Add the columns `prediction` and `wrong` to a frame; -1 stands for none of the classes."""
    labels, missing = frame["label"].to_numpy(), given.is_null().to_numpy()
    predictions = pc.fill_null(given, -1).to_numpy().astype(np.int64)
    for config in names(frame, "config"):
        classes = len(label_names[config]) if config in label_names else np.iinfo(np.int64).max
        wrong = (frame["config"] == config).to_numpy() & ((predictions < -1) | (predictions >= classes))
        if wrong.any():
            raise EvaluationError(
                f"The prediction {whose} is not one of the {classes} classes of {config}: "
                f"{predictions[np.argmax(wrong)]} and the like at {summarize_ids(frame['id'][wrong].tolist())}. Give "
                "the index of the class that the model predicts, or -1 for none."
            )
    lacking = missing & (labels >= 0)
    if lacking.any():
        raise EvaluationError(
            f"The prediction {whose} is missing for labelled rows: {summarize_ids(frame['id'][lacking].tolist())}. "
            "Give the index of the class that the model predicts."
        )
    frame["prediction"] = predictions
    frame["wrong"] = (labels < 0) | (predictions != labels)
