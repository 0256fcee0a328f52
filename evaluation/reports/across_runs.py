"""Figures over several runs: robustness of detectors to the training method, and of training methods over OoD sets.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from evaluation.protocols import calibration, robustness
from evaluation.protocols.figures import Figure
from evaluation.protocols.results import ALL_VARIANTS, Run

DetectorFigures = tuple[Run, str, list[Figure]]
"""A run, the name of one of its detectors, and its figures."""


def robust_variants(runs: Iterable[Run]) -> list[str]:
    """Return the training methods with two or more models; one model may have several files, one per config."""
    models: dict[str, set[tuple[int | None, str]]] = {}
    for run in runs:
        models.setdefault(run.variant, set()).add(_model(run))
    return [variant for variant, of_variant in models.items() if len(of_variant) > 1]


def robust_detectors(judged: Iterable[tuple[Run, str]]) -> list[str]:
    """Return the detectors with two or more models for each training method that has as many.

    Args:
        judged: each run with the name of each of its detectors.
    """
    runs: dict[str, list[Run]] = {}
    every = []
    for run, detector in judged:
        runs.setdefault(detector, []).append(run)
        every.append(run)
    variants = robust_variants(every)
    return [name for name, found in runs.items() if len(variants) > 1 and set(variants) <= {*robust_variants(found)}]


def robust_figures(evaluated: Sequence[DetectorFigures]) -> Iterator[DetectorFigures]:
    """Compute the optimizer paper's figures: per detector over methods, and per method over OoD sets.

    Args:
        evaluated: figures of other protocols.

    Yields:
        For each detector with enough models, one entry with the variant `ALL_VARIANTS` and one for each variant.
    """
    variants = robust_variants(run for run, _, _ in evaluated)
    for detector in robust_detectors((run, name) for run, name, _ in evaluated):
        mine = [(run, found) for run, name, found in evaluated if name == detector and run.variant in variants]
        models: dict[str, dict[tuple[int | None, str], list[Figure]]] = {variant: {} for variant in variants}
        for run, found in mine:
            models[run.variant].setdefault(_model(run), []).extend(found)
        runs = _comparable({variant: list(of_variant.values()) for variant, of_variant in models.items()})
        single = {figure.unknown for of_variant in runs.values() for model in of_variant for figure in model}
        yield _together(ALL_VARIANTS, [run for run, _ in mine]), detector, robustness.detector_robustness(runs)
        for variant, found in robustness.optimizer_robustness(runs).items():
            # A mixture over OoD sets needs more than one.
            several = [figure for figure in found if figure.unknown not in single]
            yield _together(variant, [run for run, _ in mine if run.variant == variant]), detector, several


def _model(run: Run) -> tuple[int | None, str]:
    return (run.seed, run.model_digest or run.name)


def _comparable(runs: Mapping[str, list[list[Figure]]]) -> dict[str, list[list[Figure]]]:
    """Drop figures of the model alone, pairs of OD-test, each with a threshold of its own, and what has a NaN."""
    every = [figure for models in runs.values() for model in models for figure in model]
    undefined = {figure.name for figure in every if figure.value != figure.value}

    def kept(figure: Figure) -> bool:
        return not figure.fitted_on and figure.protocol != calibration.NAME and figure.name not in undefined

    return {variant: [list(filter(kept, model)) for model in models] for variant, models in runs.items()}


def _together(variant: str, runs: Sequence[Run]) -> Run:
    """Return the run that represents several runs in the line of a figure over them."""
    name = " + ".join(dict.fromkeys(run.name for run in runs))
    return Run(name, variant, None, " + ".join(dict.fromkeys(run.model for run in runs)), "", {}, runs[0].versions)
