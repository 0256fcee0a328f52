"""The optimizer paper's protocol: one detector on several trained models.

Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution Detection
Approaches (2020). A metric is measured on several models per optimizer, trained with different seeds. The optimizers
are the components of a mixture, weighted by their stability (section 3); a detector is robust if the mixture has a
good mean and a small variance. The same over OoD sets in place of optimizers shows which optimizer is robust.

Tested by `tests/evaluation/protocols/test_robustness.py` and `tests/evaluation/protocols/test_mixture.py`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.metrics import METRICS
from unknown_detection.evaluation.protocols.protocol import FIGURE_KEY, Protocol
from unknown_detection.evaluation.runs import ALL_VARIANTS

NAME = "optimizer-robustness"

_MODEL = ["variant", "seed", "model_id"]
"""The columns that tell models apart."""

EPSILON = 1e-6
"""Epsilon of equation 4, in squared percent. The paper does not state it. Its tables come out with its root, 0.001
percent, added to each standard deviation and to the sum of the weights, whose means lie up to 0.08 % lower than those
of its equations, which hold here."""


def mixture(means: Sequence[float], variances: Sequence[float]) -> tuple[float, float]:
    """Return mean and variance of components, weighted by the inverse of their standard deviation, all in percent.

    Equations 4 to 7.
    """
    mean, variance = np.array(means, dtype=float), np.array(variances, dtype=float)
    confidence = 1 / np.sqrt(variance + EPSILON)
    weights = confidence / confidence.sum()
    mixed = float((weights * mean).sum())
    return mixed, float((weights * (variance + (mixed - mean) ** 2)).sum())


def robustness(mean: float, variance: float, better: str) -> float:
    """Return the paper's robustness score of a mixture; lower is more robust.

    For a metric of which higher values are better, the coefficient of variation, deviation over mean (equation 8); for
    `lower`, the product of deviation and mean, so that a low mean improves it (table 5).
    """
    deviation = math.sqrt(variance)
    if better == "lower":
        return deviation * mean
    if mean == 0:
        raise EvaluationError("A mean of 0 has no coefficient of variation; report the variance instead.")
    return deviation / mean


def robust_figures(figures: pd.DataFrame) -> pd.DataFrame:
    """Compute the paper's figures from those of other protocols.

    Of each detector with two or more models for each training method that has as many: for each OoD set and metric,
    over all training methods (tables 3 to 5), with the variant `ALL_VARIANTS`; and for each training method, over the
    OoD sets (tables 7 to 9), whose names `unknown` joins. Figures of the model alone, statistics, those of OD-test's
    pairs, and those that are NaN for any model are passed over. Refuses models that lack figures which others have.

    Returns:
        Three lines for each: `mixture_mean`, `mixture_variance` and `robustness` as `statistic`, the first in the
        figure's unit, the second in its square.
    """
    single = figures[(figures["statistic"] == "") & (figures["fitted_on"] == "")]
    models = single["model_digest"].where(single["model_digest"] != "", single["run"])
    # One model may have several files, one per config.
    single = single.assign(model_id=models, reported=single["value"] * single["factor"])
    counts = single.drop_duplicates(["detector", *_MODEL]).groupby(["detector", "variant"], sort=False).size()
    several = counts[counts > 1].reset_index()
    variants = several["variant"].unique()
    mixed: list[Mapping[Hashable, Any]] = []
    for detector, of_detector in several.groupby("detector", sort=False):
        if len(variants) < 2 or len(of_detector) < len(variants):
            continue
        chosen = single[(single["detector"] == detector) & single["variant"].isin(variants)]
        for name, unknown, components in _components(chosen):
            runs = chosen if name == ALL_VARIANTS else chosen[chosen["variant"] == name]
            line = runs.iloc[0].to_dict() | {"variant": name, "seed": pd.NA, "model_digest": ""}
            line |= {column: " + ".join(runs[column].unique()) for column in ("run", "model")}
            line |= {"hyperparameters": "{}", "prepared": "{}", "n_known": 0, "n_unknown": 0, "left_out": 0}
            of = components.iloc[0]
            line |= {key: of[key] for key in FIGURE_KEY} | {"protocol": NAME, "unknown": unknown}
            better, factor = METRICS[of["metric"]].better, of["factor"]
            mean, variance = mixture(components["mean"], components["variance"])
            for statistic, value, unit in (
                ("mixture_mean", mean, factor),
                ("mixture_variance", variance, factor**2),
                ("robustness", robustness(mean, variance, better), factor**2 if better == "lower" else 1.0),
            ):
                mixed.append({**line, "statistic": statistic, "value": value / unit, "factor": unit})
    return pd.DataFrame(mixed, columns=figures.columns).astype(figures.dtypes)


def _components(lines: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield the mixtures of a detector: variant, name of the OoD sets, and the moments of the components."""
    key = [*FIGURE_KEY, "factor"]
    of_figures = lines.groupby(key, sort=False)["reported"]
    lacking = lines[of_figures.transform("size") < lines.groupby(_MODEL, dropna=False).ngroups]
    if len(lacking):
        figure = lacking.iloc[0]
        raise EvaluationError(
            f"Not all models have the figure {figure['metric']} of {figure['config']}, {figure['unknown']}. Evaluate "
            "all models by one protocol on one release."
        )
    defined = lines[of_figures.transform("count") == of_figures.transform("size")]
    of_variants = defined.groupby([*key, "variant"], sort=False)["reported"]
    # Population variances (equations 2 and 3).
    moments = pd.DataFrame({"mean": of_variants.mean(), "variance": of_variants.var(ddof=0)}).reset_index()
    for _, group in moments.groupby(key, sort=False):
        yield ALL_VARIANTS, group["unknown"].iloc[0], group
    but_unknown = ["variant", *(name for name in key if name != "unknown")]
    for (variant, *_), group in moments.groupby(but_unknown, sort=False):
        if len(group) > 1:  # a mixture over OoD sets needs more than one
            yield variant, " + ".join(group["unknown"]), group


PROTOCOL = Protocol(
    name=NAME,
    title="Robustness to the training method",
    paper="Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution "
    "Detection Approaches (2020)",
    judge=lambda rows: [],
    compare=robust_figures,
    tables_by=("config", "setting", "unknown"),
    note="Tables 3 to 5 and 7 to 10 of the paper: mean and variance of the mixture over training methods, and of each "
    "over OoD sets, in percent and its square, and the robustness score: standard deviation times mean if lower "
    "values are better, else divided by it.",
    plots=(),
)
