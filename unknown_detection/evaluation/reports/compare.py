"""Compares the figures of two reports on the same release."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from unknown_detection.evaluation.display.names import figure_metric
from unknown_detection.evaluation.errors import EvaluationError, require_known
from unknown_detection.evaluation.protocols.results import AS_PUBLISHED, FIGURE_KEY, over_runs
from unknown_detection.evaluation.releases import choose_splits
from unknown_detection.evaluation.scoring.left_out import WITHOUT_DUPLICATES, WITHOUT_OVERLAP


def compare(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Pair the figures of two reports.

    If each report has a single variant, variants are ignored, so that two training methods can be compared; if they
    have no detector in common and each has one only, so are detectors, as with scores of one's own, which are named
    after their files. Figures without duplicates are paired only if both reports use the same table of duplicates, and
    those without overlap only if both leave out as many rows, since otherwise they are on different rows.

    Returns:
        A line for each figure in both, in the order of the first: `variant`, `detector`, the columns of `FIGURE_KEY`,
        then `first`, `first_std`, `second`, `second_std` and `difference`, second less first, in the paper's unit,
        `factor`, and `verdict`: `better`, `worse`, `same`, or `undefined` if a value is NaN. `attrs` counts the
        figures `only_first` and `only_second`.

    Raises:
        EvaluationError: the reports are on different releases, or have no figure in common.
    """
    both = (first, second)
    if {*first["release_digest"]} != {*second["release_digest"]}:
        releases = [figures["release"] + " (" + figures["release_digest"].str[:12] + ")" for figures in both]
        named = " and ".join(", ".join(of.unique()) or "none" for of in releases)
        raise EvaluationError(f"The reports are on different releases: {named}. Compare reports on the same rows.")
    detectors = [figures["detector"].unique().tolist() for figures in both]
    blank = {"variant": ""} if first["variant"].nunique() == second["variant"].nunique() == 1 else {}
    if not {*detectors[0]} & {*detectors[1]} and len(detectors[0]) == len(detectors[1]) == 1:
        blank["detector"] = ", ".join([*detectors[0], *detectors[1]])
    keys = ["variant", "detector", *FIGURE_KEY]
    left, right = (over_runs(figures).assign(**blank) for figures in both)
    merged = left.merge(right, on=keys, suffixes=("", "_second"))
    other_duplicates = {*first["duplicates_sha256"]} != {*second["duplicates_sha256"]}
    other_rows = (merged["rows"] == WITHOUT_DUPLICATES) & other_duplicates
    other_rows |= (merged["rows"] == WITHOUT_OVERLAP) & (merged["size"] != merged["size_second"])
    merged = merged[~other_rows].reset_index(drop=True)
    if not len(merged):
        shown = " and ".join(", ".join(names[:5]) + ", ..." * (len(names) > 5) for names in detectors)
        raise EvaluationError(
            f"The reports have no figure in common: their detectors are {shown}. Write both with the same protocol "
            "and detectors."
        )
    numbers = merged[["mean", "std", "mean_second", "std_second"]].mul(merged["factor"], axis=0)
    pairs = pd.concat([merged[keys], numbers.set_axis(["first", "first_std", "second", "second_std"], axis=1)], axis=1)
    difference = pairs["second"] - pairs["first"]
    gain = difference * merged["metric"].map(lambda name: 1 if figure_metric(name).better == "higher" else -1)
    verdicts = np.select([gain.isna(), gain == 0, gain > 0], ["undefined", "same", "better"], "worse")
    pairs = pairs.assign(difference=difference, factor=merged["factor"], verdict=verdicts)
    pairs.attrs = {"only_first": len(left) - len(pairs), "only_second": len(right) - len(pairs)}
    return pairs


def select(
    pairs: pd.DataFrame,
    *,
    detectors: Collection[str] = (),
    metrics: Collection[str] = (),
    splits: str | None = None,
) -> pd.DataFrame:
    """Select pairs of `compare`, of some detectors, metrics and splits of unknown rows; empty for all."""
    for kind, chosen in (("detector", detectors), ("metric", metrics)):
        require_known(f"{kind} of both reports", chosen, {*pairs[kind]})
        pairs = pairs[pairs[kind].isin([*chosen])] if chosen else pairs
    if splits:
        sets = pairs[["config"]].assign(unknown=pairs["unknown"].str.replace(", [^+]*", "", regex=True))
        for name in ("config", "unknown"):
            sets = sets.assign(**{name: sets[name].str.split(" ?\\+ ", regex=True)}).explode(name)
        available = sets.groupby("config", sort=False)["unknown"].unique().to_dict()
        keys = choose_splits(available, splits, "both reports")
        pairs = pairs.loc[sets.index[pd.MultiIndex.from_frame(sets).isin(keys)].unique()]
    if pairs.empty:
        raise EvaluationError(
            "The reports have no figure of these detectors, metrics and splits in common. Choose others."
        )
    return pairs


def main_pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    """Select the pairs on all rows that are no spread or mixture of others; all pairs if there are none."""
    chosen = (pairs["rows"] == AS_PUBLISHED) & pairs["statistic"].isin(["", "mean"])
    return pairs[chosen] if chosen.any() else pairs


def largest(pairs: pd.DataFrame, count: int) -> pd.DataFrame:
    """Select the main pairs with the largest differences, as rates and areas from 0 to 1."""
    main = main_pairs(pairs)
    differing = main[main["verdict"].isin(["better", "worse"])]
    order = (differing["difference"] / differing["factor"]).abs().sort_values(ascending=False, kind="stable").index
    return differing.loc[order[:count]]
