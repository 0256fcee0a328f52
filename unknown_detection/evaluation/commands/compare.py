"""`python -m unknown_detection evaluate compare`: compares the figures of two reports.

Tested by `tests/evaluation/reports/test_compare.py`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from unknown_detection.evaluation.protocols.figures import AS_PUBLISHED
from unknown_detection.evaluation.protocols.results import grouped, read_figures
from unknown_detection.evaluation.reports.compare import Comparison, Pair, compare
from unknown_detection.evaluation.reports.inputs import parse_splits
from unknown_detection.evaluation.reports.names import (
    detector_name,
    metric,
    metric_name,
    set_name,
    setting_name,
    statistic_name,
)
from unknown_detection.evaluation.reports.tables import aligned, number_text

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
@click.option("--splits", metavar="CONFIG[/SPLIT],...", help="Only figures of these configs, or splits of unknowns.")
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
    found = compare(read_figures(first), read_figures(second))
    found = found.select(detectors=detectors, metrics=metrics, splits=parse_splits(splits))
    if as_json:
        click.echo(json.dumps([_record(pair) for pair in found.pairs], indent=1, allow_nan=False))
        return
    click.echo(f"{_counted(found)}. {_MINUS}\n")
    if every:
        click.echo("\n".join(_lines(found.pairs)))
        return
    click.echo("\n".join(_by_metric(found.main())))
    largest = found.largest(LARGEST)
    if largest:
        click.echo(
            f"\nThe largest differences{f', {LARGEST} of {len(found.pairs):,}' * (len(found.pairs) > LARGEST)}:\n"
        )
        click.echo("\n".join(_lines(largest)))
    if len(found.pairs) > LARGEST:
        click.echo("\nChoose figures with --metric, --detector and --splits, or print every one with --all or --json.")


def _counted(found: Comparison) -> str:
    counts = found.verdicts()
    told = [
        f"{count:,} {verdict}" for verdict in ("better", "worse", "same", "undefined") if (count := counts[verdict])
    ]
    closing = f"{len(found.pairs):,} figures in both: {', '.join(told)}"
    for where, count in (("first", found.only_first), ("second", found.only_second)):
        closing += f"; {count:,} only in the {where}" if count else ""
    return closing


def _by_metric(pairs: Sequence[Pair]) -> list[str]:
    lines = [["protocol", "metric", "figures", "better", "worse", "same", "median difference"]]
    told = [{"pair": pair, **pair.figure} for pair in pairs]
    for (protocol, name), found in grouped(told, "protocol", "metric"):
        verdicts = [line["pair"].verdict for line in found]
        defined = [line["pair"].difference for line in found if line["pair"].verdict != "undefined"]
        counts = [f"{verdicts.count(verdict):,}" for verdict in ("better", "worse", "same")]
        middle = f"{statistics.median(defined):+.2f}" if defined else "-"
        lines.append([protocol, metric(name).title, f"{len(found):,}", *counts, middle])
    return aligned(lines, left=(0, 1))


def _lines(pairs: Sequence[Pair]) -> list[str]:
    lines = [["detector", "figure", "first", "second", "difference", ""]]
    for pair in pairs:
        detector = " ".join(filter(None, (pair.variant, detector_name(pair.detector))))
        sides = [number_text(pair.first), number_text(pair.second)]
        lines.append([detector, _described(pair), *sides, f"{pair.difference:+.2f}", pair.verdict])
    return aligned(lines, left=(0, 1, 5))


def _described(pair: Pair) -> str:
    """Describe a figure in a few words."""
    figure = pair.figure
    several = figure["unknown"].count(" + ")
    parts = [
        figure["config"],
        setting_name(figure["setting"]),
        f"{several + 1} sets" if several > 1 else set_name(figure["unknown"]),
        metric_name(figure["metric"]),
        statistic_name(figure["statistic"]),
        f"fitted on {set_name(figure['fitted_on'])}" if figure["fitted_on"] and not figure["statistic"] else "",
        figure["rows"].replace("_", " ") if figure["rows"] != AS_PUBLISHED else "",
    ]
    return ", ".join(filter(None, parts))


def _record(pair: Pair) -> dict[str, Any]:
    """Return a figure of both reports as JSON values: null for NaN."""
    told: dict[str, Any] = {"variant": pair.variant, "detector": pair.detector, **pair.figure}
    for name, side in (("first", pair.first), ("second", pair.second)):
        told |= {name: side.value, f"{name}_std": side.deviation}
    told |= {"difference": pair.difference, "verdict": pair.verdict}
    return {name: value if value == value else None for name, value in told.items()}
