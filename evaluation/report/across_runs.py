"""What is asked of several runs together: how robust detectors are to the way of training, and the other way round.

Tested by `tests/evaluation/report/test_compose.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from evaluation.protocols import robustness
from evaluation.protocols.figures import Figure
from evaluation.protocols.results import ALL_VARIANTS, Run
from evaluation.report.scored import Judged, Scored


def robust_variants(scored: Sequence[Scored]) -> list[str]:
    """Ways of training with two or more models, where there are two or more of them; else none."""
    models = _models(one.run for one in scored)
    found = [variant for variant, of_variant in models.items() if len(of_variant) > 1]
    return found if len(found) > 1 else []


def robust_detectors(scored: Sequence[Scored]) -> list[str]:
    """Detectors with two or more models of each way of training that has so many."""
    variants = robust_variants(scored)
    found = []
    for detector in dict.fromkeys(name for one in scored for name in one.rows):
        models = _models(one.run for one in scored if detector in one.rows)
        if variants and min(len(models.get(variant, ())) for variant in variants) > 1:
            found.append(detector)
    return found


def robust_figures(judged: Sequence[Judged], scored: Sequence[Scored]) -> Iterator[Judged]:
    """The optimizer paper's figures: of each detector over ways of training, and of each way over sets of unknowns.

    Args:
        judged: figures of the other protocols.
        scored: the scores files that they are of.

    Yields:
        For each detector that has enough models one entry of the variant `ALL_VARIANTS` and one of each variant.
    """
    variants = robust_variants(scored)
    for detector in robust_detectors(scored):
        mine = [(run, found) for run, name, found in judged if name == detector and run.variant in variants]
        models: dict[str, dict[tuple[int | None, str], list[Figure]]] = {variant: {} for variant in variants}
        for run, found in mine:
            models[run.variant].setdefault(_model(run), []).extend(found)
        runs = _comparable({variant: list(of_variant.values()) for variant, of_variant in models.items()})
        names = {variant: [run for run, _ in mine if run.variant == variant] for variant in variants}
        single = {figure.unknown for of_variant in runs.values() for model in of_variant for figure in model}
        yield _together(ALL_VARIANTS, [run for run, _ in mine]), detector, robustness.detector_robustness(runs)
        for variant, found in robustness.optimizer_robustness(runs).items():
            # Of one set of unknowns there is nothing to mix over.
            several = [figure for figure in found if figure.unknown not in single]
            yield _together(variant, names[variant]), detector, several


def _models(runs: Iterable[Run]) -> dict[str, list[tuple[int | None, str]]]:
    """The models of each way of training; figures of one may come from several files, one for each config."""
    models: dict[str, dict[tuple[int | None, str], None]] = {}
    for run in runs:
        models.setdefault(run.variant, {})[_model(run)] = None
    return {variant: list(of_variant) for variant, of_variant in models.items()}


def _model(run: Run) -> tuple[int | None, str]:
    return (run.seed, run.model_digest or run.name)


def _comparable(runs: Mapping[str, list[list[Figure]]]) -> dict[str, list[list[Figure]]]:
    """Without OD-test's pairs, which have a threshold each, and what a model without mistakes leaves undefined."""
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
    """What stands for several runs in the line of a figure of them all."""
    name = " + ".join(dict.fromkeys(run.name for run in runs))
    return Run(name, variant, None, " + ".join(dict.fromkeys(run.model for run in runs)), "", {}, runs[0].versions)
