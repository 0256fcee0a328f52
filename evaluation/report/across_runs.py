"""Figures over several runs: robustness of detectors to the training method, and of training methods over OoD sets.

Tested by `tests/evaluation/report/test_compose.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from evaluation.protocols import robustness
from evaluation.protocols.figures import Figure
from evaluation.protocols.results import ALL_VARIANTS, Run
from evaluation.report.scored import DetectorFigures, ScoredRun


def robust_variants(scored: Sequence[ScoredRun]) -> list[str]:
    """Return the training methods with two or more models; empty if there are fewer than two of them."""
    models = _models(one.run for one in scored)
    found = [variant for variant, of_variant in models.items() if len(of_variant) > 1]
    return found if len(found) > 1 else []


def robust_detectors(scored: Sequence[ScoredRun]) -> list[str]:
    """Return the detectors with two or more models for each of these training methods."""
    variants = robust_variants(scored)
    found = []
    for detector in dict.fromkeys(name for one in scored for name in one.rows):
        models = _models(one.run for one in scored if detector in one.rows)
        if variants and min(len(models.get(variant, ())) for variant in variants) > 1:
            found.append(detector)
    return found


def robust_figures(evaluated: Sequence[DetectorFigures], scored: Sequence[ScoredRun]) -> Iterator[DetectorFigures]:
    """Compute the optimizer paper's figures: per detector over methods, and per method over OoD sets.

    Args:
        evaluated: figures of other protocols.
        scored: the scores files that they were computed from.

    Yields:
        For each detector with enough models, one entry with the variant `ALL_VARIANTS` and one for each variant.
    """
    variants = robust_variants(scored)
    for detector in robust_detectors(scored):
        mine = [(run, found) for run, name, found in evaluated if name == detector and run.variant in variants]
        models: dict[str, dict[tuple[int | None, str], list[Figure]]] = {variant: {} for variant in variants}
        for run, found in mine:
            models[run.variant].setdefault(_model(run), []).extend(found)
        runs = _comparable({variant: list(of_variant.values()) for variant, of_variant in models.items()})
        names = {variant: [run for run, _ in mine if run.variant == variant] for variant in variants}
        single = {figure.unknown for of_variant in runs.values() for model in of_variant for figure in model}
        yield _together(ALL_VARIANTS, [run for run, _ in mine]), detector, robustness.detector_robustness(runs)
        for variant, found in robustness.optimizer_robustness(runs).items():
            # A mixture over OoD sets needs more than one.
            several = [figure for figure in found if figure.unknown not in single]
            yield _together(variant, names[variant]), detector, several


def _models(runs: Iterable[Run]) -> dict[str, list[tuple[int | None, str]]]:
    """Return the models of each training method; one model may have several files, one per config."""
    models: dict[str, dict[tuple[int | None, str], None]] = {}
    for run in runs:
        models.setdefault(run.variant, {})[_model(run)] = None
    return {variant: list(of_variant) for variant, of_variant in models.items()}


def _model(run: Run) -> tuple[int | None, str]:
    return (run.seed, run.model_digest or run.name)


def _comparable(runs: Mapping[str, list[list[Figure]]]) -> dict[str, list[list[Figure]]]:
    """Drop figures that cannot be compared: OD-test's pairs, each with a threshold of its own, and NaN."""
    every = [figure for models in runs.values() for model in models for figure in model]
    undefined = {_named(figure) for figure in every if figure.value != figure.value}
    return {
        variant: [
            [figure for figure in model if not figure.fitted_on and _named(figure) not in undefined]
            for model in models
        ]
        for variant, models in runs.items()
    }


def _named(figure: Figure) -> Figure:
    return replace(figure, value=0.0, n_known=0, n_unknown=0)


def _together(variant: str, runs: Sequence[Run]) -> Run:
    """Return the run that represents several runs in the line of a figure over them."""
    name = " + ".join(dict.fromkeys(run.name for run in runs))
    return Run(name, variant, None, " + ".join(dict.fromkeys(run.model for run in runs)), "", {}, runs[0].versions)
