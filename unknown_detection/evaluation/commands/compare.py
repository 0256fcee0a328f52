"""`python -m unknown_detection evaluate compare`: compares the figures of two reports."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

from unknown_detection.evaluation.commands import options
from unknown_detection.evaluation.errors import EvaluationError, require_known
from unknown_detection.evaluation.frame import WITHOUT_DUPLICATES, WITHOUT_OVERLAP
from unknown_detection.evaluation.metrics.metrics import METRICS
from unknown_detection.evaluation.protocols.protocol import AS_PUBLISHED, FIGURE_KEY
from unknown_detection.evaluation.releases import choose_splits
from unknown_detection.evaluation.report.figures import over_runs, read_figures
from unknown_detection.evaluation.report.names import (
    STATISTICS,
    metric_name,
    set_name,
    setting_name,
)
from unknown_detection.evaluation.report.pivot import aligned_columns, number_text

LARGEST = 10
"""Number of figures that a summary shows."""

_MINUS = "Differences are second minus first, in the paper's unit."


@click.command(
    epilog="Example: python -m unknown_detection evaluate compare build/report-a build/report-b --metric auroc"
)
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.option("--detector", "detectors", multiple=True, metavar="NAME", help="Only this detector; may be repeated.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Only this metric; may be repeated.")
@options.listed("--splits", metavar="CONFIG[/SPLIT],...", help="Only figures of these configs, or splits of unknowns.")
@click.option("--all", "every", is_flag=True, help="Print every figure, not a summary.")
@click.option("--json", "as_json", is_flag=True, help="Print all chosen figures as JSON, in full precision.")
def command(
    first: Path,
    second: Path,
    detectors: tuple[str, ...],
    metrics: tuple[str, ...],
    splits: str | None,
    *,
    every: bool,
    as_json: bool,
) -> None:
    """Compare the figures of two reports on the same release.

    FIRST and SECOND are folders written by `report`, or their figures.parquet. Prints how many figures are better and
    worse, by metric, and the largest differences. Reports on different rows are refused; two reports with one detector
    each are compared whatever the detectors' names are.
    """
    pairs = compare(read_figures(first), read_figures(second))
    pairs = select(pairs, detectors=detectors, metrics=metrics, splits=splits)
    if as_json:
        lines = pairs.drop(columns="factor").astype(object).where(pairs.notna(), None).to_dict("records")
        click.echo(json.dumps(lines, indent=1, allow_nan=False))
        return
    click.echo(f"{_counted(pairs)}. {_MINUS}\n")
    if every:
        click.echo("\n".join(_lines(pairs)))
        return
    click.echo("\n".join(_by_metric(main_pairs(pairs))))
    shown = largest(pairs, LARGEST)
    if len(shown):
        of_all = f", {LARGEST} of {len(pairs):,}" if len(pairs) > LARGEST else ""
        click.echo(f"\nThe largest differences{of_all}:\n")
        click.echo("\n".join(_lines(shown)))
    if len(pairs) > LARGEST:
        click.echo("\nChoose figures with --metric, --detector and --splits, or print every one with --all or --json.")


def _counted(pairs: pd.DataFrame) -> str:
    counts = pairs["verdict"].value_counts()
    verdicts = [f"{counts[name]:,} {name}" for name in ("better", "worse", "same", "undefined") if name in counts]
    counted = {side: pairs.attrs[f"only_{side}"] for side in ("first", "second")}
    only = [f"; {count:,} only in the {side}" for side, count in counted.items() if count]
    return f"{len(pairs):,} figures in both: {', '.join(verdicts)}{''.join(only)}"


def _by_metric(pairs: pd.DataFrame) -> list[str]:
    lines = [["protocol", "metric", "figures", "better", "worse", "same", "median difference"]]
    for (protocol, name), group in pairs.groupby(["protocol", "metric"], sort=False):
        counts = [f"{(group['verdict'] == verdict).sum():,}" for verdict in ("better", "worse", "same")]
        middle = group["difference"].median()
        middle_text = f"{middle:+.2f}" if middle == middle else "-"
        lines.append([protocol, METRICS[name].title, f"{len(group):,}", *counts, middle_text])
    return aligned_columns(lines, left=(0, 1))


def _lines(pairs: pd.DataFrame) -> list[str]:
    lines = [["detector", "figure", "first", "second", "difference", ""]]
    for pair in pairs.to_dict("records"):
        detector = " ".join(filter(None, (pair["variant"], pair["detector"])))
        sides = [number_text(pair[side], pair[f"{side}_std"]) for side in ("first", "second")]
        lines.append([detector, _described(pair), *sides, f"{pair['difference']:+.2f}", pair["verdict"]])
    return aligned_columns(lines, left=(0, 1, 5))


def _described(figure: Mapping[Hashable, Any]) -> str:
    """Describe a figure in a few words."""
    several = figure["unknown"].count(" + ")
    parts = [
        figure["config"],
        setting_name(figure["setting"]),
        f"{several + 1} sets" if several > 1 else set_name(figure["unknown"]),
        metric_name(figure["metric"]),
        STATISTICS.get(figure["statistic"], figure["statistic"]),
        f"fitted on {set_name(figure['fitted_on'])}" if figure["fitted_on"] and not figure["statistic"] else "",
        figure["rows"].replace("_", " ") if figure["rows"] != AS_PUBLISHED else "",
    ]
    return ", ".join(filter(None, parts))


def compare(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Pair the figures of two reports; refuses those on different releases, or without a figure in common.

    If each report has a single variant, variants are ignored, so that two training methods can be compared; if they
    have no detector in common and each has one only, so are detectors, as with scores of one's own, which are named
    after their files. Figures without duplicates are paired only if both reports use the same table of duplicates, and
    those without overlap only if both leave out as many rows, since otherwise they are on different rows.

    Returns:
        A line for each figure in both, in the order of the first: `variant`, `detector`, the columns of `FIGURE_KEY`,
        then `first`, `first_std`, `second`, `second_std` and `difference`, second less first, in the paper's unit,
        `factor`, and `verdict`: `better`, `worse`, `same`, or `undefined` if a value is NaN. `attrs` counts the
        figures `only_first` and `only_second`.
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
    other_rows |= (merged["rows"] == WITHOUT_OVERLAP) & (merged["left_out"] != merged["left_out_second"])
    merged = merged[~other_rows].reset_index(drop=True)
    if not len(merged):
        kinds = {"detector": "detectors", "variant": "training methods"}
        kinds |= {"protocol": "protocols", "config": "configs", "metric": "metrics"}
        apart = next((name for name in kinds if not {*left[name]} & {*right[name]}), "detector")
        sides = [figures[apart].unique().tolist() for figures in both]
        shown = " and ".join(", ".join(names[:5]) + ", ..." * (len(names) > 5) for names in sides)
        raise EvaluationError(
            f"The reports have no figure in common: their {kinds[apart]} are {shown}. Write both with the same "
            "protocols, configs, detectors and training methods."
        )
    numbers = merged[["mean", "std", "mean_second", "std_second"]].mul(merged["factor"], axis=0)
    pairs = pd.concat([merged[keys], numbers.set_axis(["first", "first_std", "second", "second_std"], axis=1)], axis=1)
    difference = pairs["second"] - pairs["first"]
    gain = difference * merged["metric"].map(lambda name: 1 if METRICS[name].better == "higher" else -1)
    verdicts = np.select([gain.isna(), gain == 0, gain > 0], ["undefined", "same", "better"], "worse")
    pairs = pairs.assign(difference=difference, factor=merged["factor"], verdict=verdicts)
    pairs.attrs = {"only_first": len(left) - len(pairs), "only_second": len(right) - len(pairs)}
    return pairs


def select(
    pairs: pd.DataFrame, *, detectors: Collection[str] = (), metrics: Collection[str] = (), splits: str | None = None
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
