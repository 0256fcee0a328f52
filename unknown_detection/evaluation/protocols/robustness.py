"""The protocol of the optimizer paper (`metrics.mixture`): one detector on models trained differently."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from unknown_detection.evaluation.display.names import figure_metric, paper_name, set_name, statistic_name
from unknown_detection.evaluation.display.tables import Heading, TableRow
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.metrics import METRICS
from unknown_detection.evaluation.metrics.mixture import mixture, moments
from unknown_detection.evaluation.protocols import calibration, equal_numbers
from unknown_detection.evaluation.protocols.figures import Figure
from unknown_detection.evaluation.protocols.protocol import Builder, LaidOut, Protocol, best_first, distinct, heading
from unknown_detection.evaluation.protocols.results import ALL_VARIANTS, ModelRun
from unknown_detection.evaluation.scoring.rows import Rows

NAME = "optimizer-robustness"

Runs = Sequence[Sequence[Figure]]
"""The figures of one detector on several models that differ only in their seed."""


def detector_robustness(runs: Mapping[str, Runs]) -> list[Figure]:
    """Measure a detector's robustness to the optimizer, for each OoD set and metric (tables 3 to 5).

    Args:
        runs: by optimizer, the figures of two or more models each, computed by another protocol, the same ones for
            every model. Statistics among them are ignored.

    Returns:
        Three figures for each: its `mixture_mean`, `mixture_variance` and `robustness` as `statistic`, the first in
        the figure's unit, the second in its square. They are computed on values as the paper prints them, in percent.
    """
    by_optimizer = list(_moments(runs).values())
    return [
        figure
        for key in by_optimizer[0]
        for figure in _mixed(key, [of_optimizer[key] for of_optimizer in by_optimizer], key.unknown)
    ]


def optimizer_robustness(runs: Mapping[str, Runs]) -> dict[str, list[Figure]]:
    """Measure each optimizer's robustness with a detector: its figures mixed over the OoD sets (tables 7 to 9).

    Returns:
        Figures by optimizer, as those of `detector_robustness`; `unknown` joins the sets that are mixed.
    """
    mixed: dict[str, list[Figure]] = {}
    for optimizer, of_optimizer in _moments(runs).items():
        groups: dict[Figure, list[Figure]] = {}
        for key in of_optimizer:
            groups.setdefault(replace(key, unknown=""), []).append(key)
        mixed[optimizer] = [
            figure
            for keys in groups.values()
            for figure in _mixed(keys[0], [of_optimizer[key] for key in keys], " + ".join(key.unknown for key in keys))
        ]
    return mixed


def _moments(runs: Mapping[str, Runs]) -> dict[str, dict[Figure, tuple[float, float]]]:
    """Return mean and variance over an optimizer's models for each figure, in the unit of the paper."""
    models = [
        (optimizer, {figure.name: figure.reported for figure in model if not figure.statistic})
        for optimizer, of_optimizer in runs.items()
        for model in of_optimizer
    ]
    expected = models[0][1].keys()
    for optimizer, model in models:
        if model.keys() != expected:
            differing = min(model.keys() ^ expected, key=repr)
            raise EvaluationError(
                f"Not all models have the figure {differing.metric} of {differing.config}, {differing.unknown} "
                f"({optimizer} has differences). Evaluate all models by one protocol on one release."
            )
    return {
        name: {key: moments([model[key] for optimizer, model in models if optimizer == name]) for key in expected}
        for name in runs
    }


def _mixed(key: Figure, components: Sequence[tuple[float, float]], unknown: str) -> Iterable[Figure]:
    mixed = mixture(*zip(*components, strict=True))
    better = METRICS[key.metric].better
    for statistic, reported, factor in (
        ("mixture_mean", mixed.mean, key.factor),
        ("mixture_variance", mixed.variance, key.factor**2),
        ("robustness", mixed.robustness(better), key.factor**2 if better == "lower" else 1.0),
    ):
        yield replace(key, protocol=NAME, unknown=unknown, statistic=statistic, value=reported / factor, factor=factor)


DetectorFigures = tuple[ModelRun, str, list[Figure]]
"""A run, the name of one of its detectors, and its figures."""


def robust_variants(runs: Iterable[ModelRun]) -> list[str]:
    """Return the training methods with two or more models; one model may have several files, one per config."""
    models = Counter(variant for variant, _ in dict.fromkeys((run.variant, _model(run)) for run in runs))
    return [variant for variant, count in models.items() if count > 1]


def robust_detectors(judged: Iterable[tuple[ModelRun, str]]) -> list[str]:
    """Return the detectors with two or more models for each training method that has as many."""
    runs: dict[str, list[ModelRun]] = defaultdict(list)
    for run, detector in judged:
        runs[detector].append(run)
    variants = {*robust_variants(run for of_detector in runs.values() for run in of_detector)}
    enough = len(variants) > 1
    return [name for name, of_detector in runs.items() if enough and variants <= {*robust_variants(of_detector)}]


def robust_figures(evaluated: Sequence[DetectorFigures]) -> Iterator[DetectorFigures]:
    """Compute the optimizer paper's figures: per detector over methods, and per method over OoD sets.

    Yields:
        For each detector with enough models, one entry with the variant `ALL_VARIANTS` and one for each variant.
    """
    variants = robust_variants(run for run, _, _ in evaluated)
    for detector in robust_detectors((run, name) for run, name, _ in evaluated):
        chosen = [(run, figures) for run, name, figures in evaluated if name == detector and run.variant in variants]
        models: dict[str, dict[tuple[int | None, str], list[Figure]]] = {variant: {} for variant in variants}
        for run, figures in chosen:
            models[run.variant].setdefault(_model(run), []).extend(figures)
        runs = _comparable({variant: list(of_variant.values()) for variant, of_variant in models.items()})
        single = {figure.unknown for of_variant in runs.values() for model in of_variant for figure in model}
        yield _combined(ALL_VARIANTS, [run for run, _ in chosen]), detector, detector_robustness(runs)
        for variant, figures in optimizer_robustness(runs).items():
            # A mixture over OoD sets needs more than one.
            several = [figure for figure in figures if figure.unknown not in single]
            yield _combined(variant, [run for run, _ in chosen if run.variant == variant]), detector, several


def _model(run: ModelRun) -> tuple[int | None, str]:
    return (run.seed, run.model_digest or run.name)


def _comparable(runs: Mapping[str, list[list[Figure]]]) -> dict[str, list[list[Figure]]]:
    """Drop figures of the model alone, those of OD-test's pairs, and those that are NaN for any model."""
    every = [figure for models in runs.values() for model in models for figure in model]
    undefined = {figure.name for figure in every if figure.value != figure.value}

    def is_comparable(figure: Figure) -> bool:
        return not figure.fitted_on and figure.protocol != calibration.NAME and figure.name not in undefined

    return {variant: [list(filter(is_comparable, model)) for model in models] for variant, models in runs.items()}


def _combined(variant: str, runs: Sequence[ModelRun]) -> ModelRun:
    """Combine several runs into the one that a figure over them names."""
    name, model = (" + ".join(dict.fromkeys(getattr(run, key) for run in runs)) for key in ("name", "model"))
    return ModelRun(name, variant, None, model, "", {}, runs[0].versions)


def tables(lines: pd.DataFrame, builder: Builder) -> LaidOut:
    """Lay out tables 4 and 5 of the optimizer paper for each OoD set, and the input of its table 10."""
    note = (
        "Mean and variance of the mixture over training methods, in percent and its square (AURC: in thousandths), "
        "and the robustness score: standard deviation times mean if lower values are better, else divided by it."
    )
    mixed = lines["variant"] == ALL_VARIANTS
    sets = lines[mixed].groupby(["config", "setting"])["unknown"].nunique()
    for (config, setting, unknown), group in lines[mixed].groupby(["config", "setting", "unknown"], sort=False):
        names = [] if setting == "ood_detection" else [builder.settings.get(setting, setting)]
        names += [set_name(unknown)] if not names or sets[config, setting] > 1 else []
        where = ", ".join(names)
        columns = [
            (heading(figure_metric(line["metric"]).title, line, statistic_name(line["statistic"])), line)
            for line in distinct(group)
        ]
        title = f"Robustness of detectors to the training method on {config}, {where}"
        table = builder.by_detector((NAME, config, where), title, note, columns, group)
        yield table, setting in ("unknown_detection", equal_numbers.SETTING)
    of_variants = lines[~mixed & (lines["statistic"] == "robustness")]
    note = "Robustness score of the mixture over all OoD sets; lower is more robust."
    for (config, setting, name), group in of_variants.groupby(["config", "setting", "metric"], sort=False):
        scores = (group["mean"] * group["factor"]).groupby([group["detector"], group["variant"]], sort=False).first()
        cells = scores.unstack(sort=False)
        title = f"Robustness of training methods on {config}, {builder.settings.get(setting, setting)}"
        headings = [Heading("", variant, "lower") for variant in cells.columns]
        rows = [TableRow(detector, paper_name(detector)) for detector in cells.index]
        parts, shown = (NAME, config, "variants", setting, name), f"{title}, {figure_metric(name).title}"
        table = builder.table(
            parts, shown, note, "Detector", headings, rows, cells.to_numpy(float), digits=3, ranked="rows"
        )
        yield table.in_order(best_first(np.fmin.reduce(table.values, axis=1), "lower")), False


def _several_runs(rows: Rows) -> list[Figure]:
    raise EvaluationError(
        f"{NAME} compares several runs and cannot evaluate a single one. Give it the figures of models trained with "
        "different optimizers."
    )


PROTOCOL = Protocol(
    name=NAME,
    title="Robustness to the training method",
    paper="Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution "
    "Detection Approaches (2020)",
    settings={},
    judge=_several_runs,
    tables=tables,
)
"""Compares the figures of several runs by another protocol, so `judge` refuses the rows of one."""
