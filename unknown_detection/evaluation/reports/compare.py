"""Compares the figures of two reports on the same release."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

from unknown_detection.evaluation.display.names import figure_metric
from unknown_detection.evaluation.errors import EvaluationError, require_known
from unknown_detection.evaluation.protocols.figures import AS_PUBLISHED, WITHOUT_OVERLAP
from unknown_detection.evaluation.protocols.results import FIGURE_KEY, over_runs


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
    digests = [sorted({*figures["release_digest"]}) for figures in (first, second)]
    if digests[0] != digests[1]:
        releases = " and ".join(
            f"{', '.join(sorted({*figures['release']})) or 'no release'} "
            f"({', '.join(digest[:12] for digest in of) or 'no figures'})"
            for figures, of in zip((first, second), digests, strict=True)
        )
        raise EvaluationError(f"The reports are on different releases: {releases}. Compare reports on the same rows.")
    detectors = [{*figures["detector"]} for figures in (first, second)]
    blank = ["variant"] * (first["variant"].nunique() == second["variant"].nunique() == 1)
    blank += ["detector"] * (not detectors[0] & detectors[1] and len(detectors[0]) == len(detectors[1]) == 1)
    keys = ["variant", "detector", *FIGURE_KEY]
    left, right = (over_runs(figures).merge(_sizes(figures, keys), on=keys) for figures in (first, second))
    names = left["detector"].unique().tolist(), right["detector"].unique().tolist()
    for side in (left, right):
        side[blank] = ""
    merged = left.merge(right, on=keys, suffixes=("", "_second"))
    same_duplicates = {*first["duplicates_sha256"]} == {*second["duplicates_sha256"]}
    equal = (merged["rows"] == AS_PUBLISHED) | same_duplicates
    overlap = merged["rows"] == WITHOUT_OVERLAP
    merged = merged[equal.mask(overlap, merged["size"] == merged["size_second"])].reset_index(drop=True)
    if not len(merged):
        raise EvaluationError(
            f"The reports have no figure in common: their detectors are {_listed(names[0])} and {_listed(names[1])}. "
            "Write both with the same protocol and detectors."
        )
    if "detector" in blank:
        merged["detector"] = ", ".join(dict.fromkeys([*names[0], *names[1]]))
    columns = ["first", "first_std", "second", "second_std"]
    numbers = (
        merged[["mean", "std", "mean_second", "std_second"]].mul(merged["factor"], axis=0).set_axis(columns, axis=1)
    )
    difference = numbers["second"] - numbers["first"]
    better = merged["metric"].map(lambda name: 1 if figure_metric(name).better == "higher" else -1)
    verdicts = np.select([difference.isna(), difference == 0, difference * better > 0],
                         ["undefined", "same", "better"], "worse")  # fmt: skip
    pairs = pd.concat([merged[keys], numbers], axis=1)
    pairs = pairs.assign(difference=difference, factor=merged["factor"], verdict=verdicts)
    pairs.attrs = {"only_first": len(left) - len(pairs), "only_second": len(right) - len(pairs)}
    return pairs


def select(
    pairs: pd.DataFrame,
    *,
    detectors: Collection[str] = (),
    metrics: Collection[str] = (),
    splits: Mapping[str, Collection[str]] | None = None,
) -> pd.DataFrame:
    """Select pairs of `compare`, of some detectors, metrics and splits of unknown rows by config; empty for all."""
    configs = pairs["config"].str.split(" + ", regex=False)
    for kind, requested, known in (
        ("detector", detectors, {*pairs["detector"]}),
        ("metric", metrics, {*pairs["metric"]}),
        ("config", splits or (), {*configs.explode()}),
    ):
        require_known(f"{kind} of both reports", requested, known)
    chosen = pairs["detector"].isin([*detectors]) | (not detectors)
    chosen &= pairs["metric"].isin([*metrics]) | (not metrics)
    if splits:
        sets = pairs["unknown"].str.replace(", [^+]*", "", regex=True).str.split(" ?\\+ ", regex=True)
        in_splits = [
            any(config in splits and (not splits[config] or {*splits[config]} & {*unknown}) for config in of)
            for of, unknown in zip(configs, sets, strict=True)
        ]
        chosen &= np.array(in_splits)
    if not chosen.any():
        raise EvaluationError(
            "The reports have no figure of these detectors, metrics and splits in common. Choose others."
        )
    return pairs[chosen]


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


def _sizes(figures: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the rows that each figure is on, and those it leaves out, in the column `size`."""
    counted = figures.drop_duplicates(keys, keep="last")
    rows = counted["n_known"] + counted["n_unknown"]
    return counted[keys].assign(size=list(zip(rows, counted["left_out"], strict=True)))


def _listed(names: Collection[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")
