"""Figure 5 of the unified benchmark: by how much each detector changes a figure against MSP, run by run.

    python examples/papers/unified_changes.py build/report build/changes.png --metric aurc

Draws from `figures.parquet` of a report: gains in points where higher values are better, else reductions in percent.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pandas as pd
from matplotlib.figure import Figure

import unknown_detection as ud
from unknown_detection.evaluation.files import read_untrusted
from unknown_detection.terminal.command_line import run_command_line

BASELINE = "msp"
LOWER_IS_BETTER = ("aurc", "eaurc", "ece", "fpr", "detection_error", "interpolated_fpr", "least_detection_error")


def changes(figures: pd.DataFrame, metric: str, unknown: str = "") -> pd.DataFrame:
    """Return the mean and deviation over runs of each detector's change, the best first.

    A run without the baseline combines several models, as an ensemble; it is compared with their mean.
    """
    chosen = figures[
        (figures["metric"] == metric) & (figures["rows"] == "as_published") & (figures["statistic"] == "")
    ]
    if BASELINE not in chosen["detector"].to_numpy():
        raise ud.EvaluationError(f"The report has no {metric} of {BASELINE}. Give another --metric or report.")
    chosen = chosen[chosen["unknown"] == (unknown or chosen["unknown"].iloc[0])]
    values = chosen.drop_duplicates(["run", "detector"]).pivot(index="run", columns="detector", values="value")
    baseline = values.pop(BASELINE)
    baseline = baseline.fillna(baseline.mean())
    change = 100 * values.sub(baseline, axis=0)
    if metric.startswith(LOWER_IS_BETTER):
        change = (-change).div(baseline.where(baseline > 0), axis=0)
    return pd.DataFrame({"mean": change.mean(), "std": change.std()}).dropna(subset="mean").sort_values("mean")[::-1]


def draw(changed: pd.DataFrame, title: str) -> Figure:
    """Plot a bar for each detector, the best on top; right of 0 is better than the baseline."""
    figure = Figure(figsize=(5, 0.2 * len(changed) + 1), layout="constrained")
    changed[::-1]["mean"].plot.barh(ax=figure.subplots(), xerr=changed[::-1]["std"], title=title)
    return figure


@click.command("python examples/papers/unified_changes.py")
@click.argument("report", type=click.Path(exists=True, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--metric", default="aurc", show_default=True)
@click.option("--unknown", default="", help="Name of the unknown rows in figures.parquet. Default: the first.")
def main(report: Path, out: Path, metric: str, unknown: str) -> None:
    """Draw the changes of a report's figures against MSP."""
    changed = changes(
        read_untrusted(report / "figures.parquet", f"{report}/figures.parquet").to_pandas(), metric, unknown
    )
    draw(changed, f"{metric} against {BASELINE}").savefig(out)
    click.echo(changed.round(2).to_string())


if __name__ == "__main__":
    sys.exit(run_command_line(main, errors=(ud.EvaluationError, ud.BuildError), stopped="stopped."))
