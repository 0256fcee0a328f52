"""`python -m evaluation compare`: compares the figures of two reports.

Tested by `tests/evaluation/report/test_compose.py`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import click

from evaluation.errors import EvaluationError, unknown_name
from evaluation.metrics.metrics import METRICS
from evaluation.protocols.results import FIGURE_KEY, read_figures
from evaluation.report.compare import Comparison, Pair, compare
from evaluation.report.tables import Number, aligned, display_name, number_text


@click.command(
    epilog="Example: python -m evaluation compare build/report-a build/report-b --metric auroc",
)
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.option("--detector", "detectors", multiple=True, metavar="NAME", help="Only this detector; may be repeated.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Only this metric; may be repeated.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values in full precision.")
def command(first: Path, second: Path, detectors: tuple[str, ...], metrics: tuple[str, ...], *, as_csv: bool) -> None:
    """Compare the figures of two reports on the same release.

    FIRST and SECOND are folders written by `report`, or their figures.parquet. Differences are second minus first, in
    the paper's unit. Reports on different rows are refused.
    """
    for name in metrics:
        if name not in METRICS:
            raise unknown_name("metric", name, METRICS)
    found = compare(read_figures(first), read_figures(second))
    known = list(dict.fromkeys(pair.detector for pair in found.pairs))
    for name in detectors:
        if name not in known:
            raise unknown_name("detector of both reports", name, known)
    pairs = [
        pair
        for pair in found.pairs
        if (not detectors or pair.detector in detectors) and (not metrics or pair.figure["metric"] in metrics)
    ]
    if not pairs:
        raise EvaluationError("The reports have no figure of these detectors and metrics in common. Choose others.")
    click.echo(_csv(pairs) if as_csv else _lines(pairs, found))


def _lines(pairs: Sequence[Pair], found: Comparison) -> str:
    lines = [["detector", "figure", "first", "second", "difference", ""]]
    for pair in pairs:
        detector = " ".join(part for part in (pair.variant, pair.detector) if part)
        sides = [
            number_text(Number(mean, deviation), 2)
            for mean, deviation in ((pair.first, pair.first_deviation), (pair.second, pair.second_deviation))
        ]
        lines.append([detector, _figure(pair), *sides, f"{pair.difference:+.2f}", pair.verdict])
    closing = f"{len(found.pairs):,} figures in both"
    for where, count in (("first", found.only_first), ("second", found.only_second)):
        closing += f", {count:,} only in the {where}" if count else ""
    return "\n".join([*aligned(lines, left=(0, 1, 5)), "", closing])


def _figure(pair: Pair) -> str:
    """Describe a figure in a few words."""
    figure = pair.figure
    parts = [
        figure["config"],
        figure["setting"],
        figure["unknown"],
        METRICS[figure["metric"]].title,
        figure["statistic"],
    ]
    if figure["fitted_on"]:
        parts.append(f"fitted on {figure['fitted_on']}")
    if figure["rows"] != "as_published":
        parts.append(figure["rows"])
    return ", ".join(display_name(part) for part in parts if part)


def _csv(pairs: Sequence[Pair]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    numbers = ("first", "first_deviation", "second", "second_deviation", "difference", "verdict")
    writer.writerow(["variant", "detector", *FIGURE_KEY, *numbers])
    for pair in pairs:
        values = [getattr(pair, name) for name in numbers]
        named = [pair.figure[name] for name in FIGURE_KEY]
        writer.writerow([pair.variant, pair.detector, *named, *("" if value is None else value for value in values)])
    return text.getvalue().rstrip("\n")
