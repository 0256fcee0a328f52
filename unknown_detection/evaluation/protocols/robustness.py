"""The protocol of the optimizer paper (`metrics.mixture`): one detector on models trained differently.

Tested by `tests/evaluation/protocols/test_robustness.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from unknown_detection.evaluation.display.names import figure_metric, paper_name, set_name, statistic_name
from unknown_detection.evaluation.display.tables import Heading, ResultTable, TableRow
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.metrics.mixture import mixture
from unknown_detection.evaluation.protocols import calibration, equal_numbers
from unknown_detection.evaluation.protocols.protocol import Protocol, best_first, by_detector, setting_name
from unknown_detection.evaluation.protocols.results import ALL_VARIANTS, FIGURE_KEY, Line

NAME = "optimizer-robustness"

_MODEL = ["variant", "seed", "model_id"]
"""The columns that tell models apart."""


def robust_detectors(judged: pd.DataFrame) -> dict[str, list[str]]:
    """Return the detectors with two or more models for each training method that has as many, and these methods.

    `judged` has a line for each run and detector, or more, with the columns `detector`, `variant`, `seed`,
    `model_digest` and `run`. One model may have several files, one per config.
    """
    models = _with_models(judged).drop_duplicates(["detector", *_MODEL])
    counts = models.groupby(["detector", "variant"], sort=False).size()
    several = counts[counts > 1].reset_index()
    variants = [*dict.fromkeys(several["variant"])]
    of_detectors = several.groupby("detector", sort=False)["variant"].agg(set)
    enough = len(variants) > 1
    return {name: variants for name, of in of_detectors.items() if enough and of >= {*variants}}


def robust_figures(figures: pd.DataFrame) -> pd.DataFrame:
    """Compute the optimizer paper's figures from those of other protocols.

    Of each detector with enough models: for each OoD set and metric, over all training methods (tables 3 to 5), with
    the variant `ALL_VARIANTS`; and for each training method, over the OoD sets (tables 7 to 9), whose names `unknown`
    joins. Figures of the model alone, statistics, those of OD-test's pairs, and those that are NaN for any model are
    passed over.

    Returns:
        Three lines for each: `mixture_mean`, `mixture_variance` and `robustness` as `statistic`, the first in the
        figure's unit, the second in its square.

    Raises:
        EvaluationError: a model lacks figures that others have.
    """
    single = figures[(figures["statistic"] == "") & (figures["fitted_on"] == "")]
    single = _with_models(single[single["protocol"] != calibration.NAME])
    mixed: list[Line] = []
    for detector, variants in robust_detectors(single).items():
        chosen = single[(single["detector"] == detector) & single["variant"].isin(variants)]
        for name, key, means, variances in _components(chosen):
            runs = chosen if name == ALL_VARIANTS else chosen[chosen["variant"] == name]
            line = runs.iloc[0].to_dict() | {"variant": name, "seed": pd.NA, "model_digest": ""}
            line |= {column: " + ".join(runs[column].unique()) for column in ("run", "model")}
            line |= {"hyperparameters": "{}", "prepared": "{}", "n_known": 0, "n_unknown": 0, "left_out": 0}
            mixed += [{**line, **of} for of in _mixed(key, means, variances)]
    return pd.DataFrame(mixed, columns=figures.columns).astype(figures.dtypes)


def _with_models(lines: pd.DataFrame) -> pd.DataFrame:
    """Add the column `model_id`: the digest of the weights, or without one the run."""
    return lines.assign(model_id=lines["model_digest"].where(lines["model_digest"] != "", lines["run"]))


def _components(lines: pd.DataFrame) -> Iterator[tuple[str, Line, Sequence[float], Sequence[float]]]:
    """Yield what is mixed, of one detector: the variant, the figure that is named, and the components' moments."""
    key = [*FIGURE_KEY, "factor"]
    lines = lines.assign(reported=lines["value"] * lines["factor"])
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
        yield ALL_VARIANTS, {**group.iloc[0]}, group["mean"], group["variance"]
    but_unknown = ["variant", *(name for name in key if name != "unknown")]
    for (variant, *_), group in moments.groupby(but_unknown, sort=False):
        if len(group) > 1:  # a mixture over OoD sets needs more than one
            yield variant, {**group.iloc[0], "unknown": " + ".join(group["unknown"])}, group["mean"], group["variance"]


def _mixed(key: Line, means: Sequence[float], variances: Sequence[float]) -> Iterator[Line]:
    mixed = mixture(means, variances)
    better, factor = figure_metric(key["metric"]).better, key["factor"]
    for statistic, reported, unit in (
        ("mixture_mean", mixed.mean, factor),
        ("mixture_variance", mixed.variance, factor**2),
        ("robustness", mixed.robustness(better), factor**2 if better == "lower" else 1.0),
    ):
        named: Line = {name: key[name] for name in FIGURE_KEY}
        yield {**named, "protocol": NAME, "statistic": statistic, "value": reported / unit, "factor": unit}


def tables(lines: pd.DataFrame) -> Iterator[ResultTable]:
    """Lay out tables 4 and 5 of the optimizer paper for each OoD set, and the input of its table 10."""
    note = (
        "Mean and variance of the mixture over training methods, in percent and its square (AURC: in thousandths), "
        "and the robustness score: standard deviation times mean if lower values are better, else divided by it."
    )
    mixed = lines["variant"] == ALL_VARIANTS
    sets = lines[mixed].groupby(["config", "setting"])["unknown"].nunique()
    for (config, setting, unknown), group in lines[mixed].groupby(["config", "setting", "unknown"], sort=False):
        names = [] if setting == "ood_detection" else [setting_name(setting)]
        names += [set_name(unknown)] if not names or sets[config, setting] > 1 else []
        where, shown = ", ".join(names), setting in ("unknown_detection", equal_numbers.SETTING)
        title = f"Robustness of detectors to the training method on {config}, {where}"
        yield by_detector((NAME, config, where), title, note, group, _statistic, shown=shown)
    of_variants = lines[~mixed & (lines["statistic"] == "robustness")]
    note = "Robustness score of the mixture over all OoD sets; lower is more robust."
    for (config, setting, name), group in of_variants.groupby(["config", "setting", "metric"], sort=False):
        scores = (group["mean"] * group["factor"]).groupby([group["detector"], group["variant"]], sort=False).first()
        cells = scores.unstack(sort=False)
        title = f"Robustness of training methods on {config}, {setting_name(setting)}, {figure_metric(name).title}"
        cells = cells.iloc[best_first(cells.min(axis=1), "lower")]
        yield ResultTable(
            safe_file_name(NAME, config, "variants", setting, name), title, note, "Detector",
            [Heading("", variant, "lower") for variant in cells.columns],
            [TableRow(detector, paper_name(detector)) for detector in cells.index],
            cells.to_numpy(float), np.full(cells.shape, np.nan), digits=3, ranked="rows", shown=False,
        )  # fmt: skip


def _statistic(line: Line) -> tuple[str, str]:
    return figure_metric(line["metric"]).title, statistic_name(line["statistic"])


PROTOCOL = Protocol(
    name=NAME,
    title="Robustness to the training method",
    paper="Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution "
    "Detection Approaches (2020)",
    settings={},
    judge=lambda rows: [],
    tables=tables,
)
"""Compares the figures of several runs by another protocol (`robust_figures`); of the rows of one there are none."""
