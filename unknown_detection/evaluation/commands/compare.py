"""`python -m unknown_detection evaluate compare`: compares the figures of two reports.

Tested by `tests/evaluation/reports/test_compare.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import click
import pandas as pd

from unknown_detection.evaluation.display.names import figure_metric, metric_name, set_name, statistic_name
from unknown_detection.evaluation.display.tables import aligned_columns, number_text
from unknown_detection.evaluation.protocols.protocol import setting_name
from unknown_detection.evaluation.protocols.results import AS_PUBLISHED, Line, read_figures
from unknown_detection.evaluation.reports.compare import compare, largest, main_pairs, select

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
    closing = f"{len(pairs):,} figures in both: {', '.join(verdicts)}"
    for where in ("first", "second"):
        count = pairs.attrs[f"only_{where}"]
        closing += f"; {count:,} only in the {where}" if count else ""
    return closing


def _by_metric(pairs: pd.DataFrame) -> list[str]:
    lines = [["protocol", "metric", "figures", "better", "worse", "same", "median difference"]]
    for (protocol, name), group in pairs.groupby(["protocol", "metric"], sort=False):
        counts = [f"{(group['verdict'] == verdict).sum():,}" for verdict in ("better", "worse", "same")]
        middle = group["difference"].median()
        middle_text = f"{middle:+.2f}" if middle == middle else "-"
        lines.append([protocol, figure_metric(name).title, f"{len(group):,}", *counts, middle_text])
    return aligned_columns(lines, left=(0, 1))


def _lines(pairs: pd.DataFrame) -> list[str]:
    lines = [["detector", "figure", "first", "second", "difference", ""]]
    for pair in pairs.to_dict("records"):
        detector = " ".join(filter(None, (pair["variant"], pair["detector"])))
        sides = [number_text(pair[side], pair[f"{side}_std"]) for side in ("first", "second")]
        lines.append([detector, _described(pair), *sides, f"{pair['difference']:+.2f}", pair["verdict"]])
    return aligned_columns(lines, left=(0, 1, 5))


def _described(figure: Line) -> str:
    """Describe a figure in a few words."""
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
