"""Robustness to the training method: tables 3 to 5 and 7 to 10 of the optimizer paper, of a report's figures.

    python examples/papers/optimizer_robustness.py build/report --metric auroc --out build/robustness.csv

Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution Detection
Approaches (2020). A metric is measured on several models per optimizer, trained with different seeds. The optimizers
are the components of a mixture, weighted by their stability (section 3); a detector is robust if the mixture has a
good mean and a small variance. The same over OoD sets in place of optimizers shows which optimizer is robust.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

import unknown_detection as ud
from unknown_detection.evaluation.files import read_untrusted
from unknown_detection.terminal.command_line import run_command_line

KEY = ["protocol", "config", "setting", "known", "unknown", "metric", "positive", "rows", "statistic", "fitted_on"]
"""The columns of `figures.parquet` that identify a figure among those of a detector and run."""

MODEL = ["variant", "seed", "model_id"]
"""The columns that tell models apart."""

ALL = "*"
"""Stands for the training method in mixtures over all of them."""

EPSILON = 1e-6
"""Epsilon of equation 4, in squared percent. The paper does not state it. Its tables come out with its root, 0.001
percent, added to each standard deviation and to the sum of the weights, whose means lie up to 0.08 % lower than those
of its equations, which hold here."""

LOWER_IS_BETTER = ("aurc", "eaurc", "fpr", "detection_error", "interpolated_fpr", "least_detection_error")


def mixture(means: Sequence[float], variances: Sequence[float]) -> tuple[float, float]:
    """Return mean and variance of components, weighted by the inverse of their standard deviation, all in percent.

    Equations 4 to 7.
    """
    mean, variance = np.array(means, dtype=float), np.array(variances, dtype=float)
    confidence = 1 / np.sqrt(variance + EPSILON)
    weights = confidence / confidence.sum()
    mixed = float((weights * mean).sum())
    return mixed, float((weights * (variance + (mixed - mean) ** 2)).sum())


def robustness(mean: float, variance: float, *, lower: bool) -> float:
    """Return the paper's robustness score of a mixture; lower is more robust.

    For a metric of which higher values are better, the coefficient of variation, deviation over mean (equation 8),
    infinite for a mean of 0; for one of which lower ones are, the product of both, so that a low mean improves it
    (table 5).
    """
    deviation = variance**0.5
    return deviation * mean if lower else deviation / mean if mean else float("inf")


def mixtures(figures: pd.DataFrame) -> pd.DataFrame:
    """Compute the paper's figures from those of a report.

    Of each detector with two or more models for each training method that has as many: for each OoD set and metric,
    over all training methods (tables 3 to 5), with the variant `ALL`; and for each training method, over the OoD sets
    (tables 7 to 9), whose names `unknown` joins. Figures of the model alone, statistics, those of OD-test's pairs, and
    those that are NaN for any model are passed over. Refuses models that lack figures which others have.

    Returns:
        A line for each with `detector`, `variant`, what identifies the figure, and `mixture_mean`, `mixture_variance`
        and `robustness`, as the paper prints them: in percent and its square.
    """
    single = figures[(figures["statistic"] == "") & (figures["fitted_on"] == "")]
    models = single["model_digest"].where(single["model_digest"] != "", single["run"])
    # One model may have several files, one per config.
    single = single.assign(model_id=models, reported=single["value"] * single["factor"])
    counts = single.drop_duplicates(["detector", *MODEL]).groupby(["detector", "variant"], sort=False).size()
    several = counts[counts > 1].reset_index()
    variants, lines = several["variant"].unique(), []
    for detector, of_detector in several.groupby("detector", sort=False):
        if len(variants) < 2 or len(of_detector) < len(variants):
            continue
        chosen = single[(single["detector"] == detector) & single["variant"].isin(variants)]
        for variant, unknown, of in components(chosen):
            line: dict[str, Any] = of.iloc[0][KEY].to_dict()
            mean, variance = mixture(of["mean"], of["variance"])
            score = robustness(mean, variance, lower=line["metric"].startswith(LOWER_IS_BETTER))
            line |= {"detector": detector, "variant": variant, "unknown": unknown}
            lines.append(line | {"mixture_mean": mean, "mixture_variance": variance, "robustness": score})
    return pd.DataFrame(lines)


def components(lines: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield the mixtures of a detector: variant, name of the OoD sets, and the moments of the components."""
    of_figures = lines.groupby(KEY, sort=False)["reported"]
    lacking = lines[of_figures.transform("size") < lines.groupby(MODEL, dropna=False).ngroups]
    if len(lacking):
        figure = lacking.iloc[0]
        raise ud.EvaluationError(
            f"Not all models have the figure {figure['metric']} of {figure['config']}, {figure['unknown']}. Evaluate "
            "all models by one protocol on one release."
        )
    defined = lines[of_figures.transform("count") == of_figures.transform("size")]
    of_variants = defined.groupby([*KEY, "variant"], sort=False)["reported"]
    # Population variances (equations 2 and 3).
    moments = pd.DataFrame({"mean": of_variants.mean(), "variance": of_variants.var(ddof=0)}).reset_index()
    for _, group in moments.groupby(KEY, sort=False):
        yield ALL, group["unknown"].iloc[0], group
    but_unknown = ["variant", *(name for name in KEY if name != "unknown")]
    for (variant, *_), group in moments.groupby(but_unknown, sort=False):
        if len(group) > 1:  # a mixture over OoD sets needs more than one
            yield variant, " + ".join(group["unknown"]), group


@click.command("python examples/papers/optimizer_robustness.py")
@click.argument("report", type=click.Path(exists=True, path_type=Path))
@click.option("--metric", default="auroc", show_default=True, help="What is printed, by its name in figures.parquet.")
@click.option("--rows", default="as_published", show_default=True, help="Kind of rows in figures.parquet.")
@click.option("--out", type=click.Path(path_type=Path), help="CSV file for the mixtures of all metrics and rows.")
def main(report: Path, metric: str, rows: str, out: Path | None) -> None:
    """Print the mixtures of a report's models: of each detector (*), and of each training method."""
    mixed = mixtures(read_untrusted(report / "figures.parquet", f"{report}/figures.parquet").to_pandas())
    if mixed.empty:
        raise ud.EvaluationError("There are no two training methods with two or more models each. Score more models.")
    if out is not None:
        mixed.to_csv(out, index=False)
    shown = mixed[(mixed["metric"] == metric) & (mixed["rows"] == rows)]
    for key, table in shown.groupby(["protocol", "config", "setting", "unknown"], sort=False):
        columns = ["mixture_mean", "mixture_variance", "robustness"]
        click.echo(f"\n{metric} of {', '.join(key)}")
        click.echo(table.set_index(["detector", "variant"])[columns].sort_values("robustness").round(3).to_string())


if __name__ == "__main__":
    sys.exit(run_command_line(main, errors=(ud.EvaluationError, ud.BuildError), stopped="stopped."))
