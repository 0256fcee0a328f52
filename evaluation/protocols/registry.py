"""The papers' evaluation protocols: which rows are compared, and by which metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from evaluation.errors import EvaluationError, unknown_name
from evaluation.protocols import broad, facets, od_test, openood, robustness, unknown_detection
from evaluation.protocols.figures import WITHOUT_DUPLICATES, WITHOUT_OVERLAP, Figure
from evaluation.scoring.duplicates import made_from_duplicates
from evaluation.scoring.rows import Rows


@dataclass(frozen=True)
class Protocol:
    """An evaluation protocol for one detector on one model.

    Attributes:
        title: for display.
        paper: the paper that describes it.
        settings: its tasks by their names in figures, with titles for display.
        with_predictions: the settings that need predictions.
        judge: computes the figures of rows, without any treatment of duplicates.
        absent: lists in sentences which of the paper's sets are not among the rows.
    """

    title: str
    paper: str
    settings: Mapping[str, str]
    with_predictions: tuple[str, ...]
    judge: Callable[[Rows], list[Figure]]
    absent: Callable[[Rows], list[str]] = lambda rows: []


PROTOCOLS: Mapping[str, Protocol] = {
    unknown_detection.NAME: Protocol(
        "Unknown detection",
        "Kim, Koo and Hwang, A Unified Benchmark for the Unknown Detection Capability of Deep Neural Networks (2023)",
        unknown_detection.SETTINGS,
        unknown_detection.WITH_PREDICTIONS,
        unknown_detection.figures,
    ),
    facets.NAME: Protocol(
        "FACETS",
        "Toward a Realistic Benchmark for Out-of-Distribution Detection",
        facets.SETTINGS,
        facets.WITH_PREDICTIONS,
        facets.figures,
    ),
    broad.NAME: Protocol(
        "BROAD",
        "Guille-Escuret et al., Expecting The Unexpected: Towards Broad Out-Of-Distribution Detection (2023)",
        broad.SETTINGS,
        broad.WITH_PREDICTIONS,
        broad.figures,
        broad.absent,
    ),
    od_test.NAME: Protocol(
        "OD-test",
        "Shafaei, Schmidt and Little, A Less Biased Evaluation of Out-of-distribution Sample Detectors (2019)",
        od_test.SETTINGS,
        od_test.WITH_PREDICTIONS,
        od_test.figures,
    ),
    openood.NAME: Protocol(
        "OpenOOD v1.5",
        "Zhang et al., OpenOOD v1.5: Enhanced Benchmark for Out-of-Distribution Detection (2023)",
        openood.SETTINGS,
        openood.WITH_PREDICTIONS,
        openood.figures,
    ),
}
"""All protocols that evaluate one run; the optimizer paper's compares several: `evaluation.protocols.robustness`."""


def figures(protocol: str, rows: Rows) -> list[Figure]:
    """Evaluate a detector by a protocol.

    Args:
        protocol: a key of `PROTOCOLS`.
        rows: rows of one or more configs, with one detector's scores.

    Returns:
        The protocol's figures on all rows and, if the release has information on duplicates, again without these and
        the rows that share their source images; likewise without rows whose class overlaps a known one. Of a split
        that such rows make up alone, there is no figure without overlap, and means go over the others. Settings that
        need predictions are omitted without them.

    Raises:
        EvaluationError: there is no such protocol, or rows that it needs are missing.
    """
    if protocol == robustness.NAME:
        raise EvaluationError(
            f"{protocol} compares several runs and cannot evaluate a single one. Give it the figures of models "
            "trained with different optimizers."
        )
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, [*PROTOCOLS, robustness.NAME])
    judge = PROTOCOLS[protocol].judge
    published = judge(rows)
    found = list(published)
    if rows.duplicate is not None:
        clean = published if not rows.duplicate.any() else judge(_without_duplicates(rows))
        found += _beside(published, clean, WITHOUT_DUPLICATES)
    if rows.overlap is not None:
        overlapping = rows.overlap != ""
        clean = judge(rows.where(~overlapping)) if overlapping.any() else published
        found += _beside(published, clean, WITHOUT_OVERLAP)
    return found


def _beside(published: Sequence[Figure], clean: Sequence[Figure], rows: str) -> list[Figure]:
    """Figures on fewer rows, under the names of the published ones, with the number of rows that they lack."""
    named = {_name(figure): figure for figure in published}
    found = []
    for figure in clean:
        whole = named.get(_name(figure)) or _with_more_splits(figure, published)
        lacking = whole.n_known + whole.n_unknown - figure.n_known - figure.n_unknown
        found.append(replace(figure, unknown=whole.unknown, fitted_on=whole.fitted_on, rows=rows, left_out=lacking))
    return found


def _with_more_splits(figure: Figure, published: Sequence[Figure]) -> Figure:
    """The published figure over several splits, of which some have no row left in another figure."""
    splits = set(figure.unknown.split(" + "))
    blank = _name(replace(figure, unknown="", fitted_on=""))
    same = [whole for whole in published if _name(replace(whole, unknown="", fitted_on="")) == blank]
    return next(whole for whole in same if splits <= set(whole.unknown.split(" + ")))


def default_protocol(config: str) -> str:
    """Return the protocol that a config was made for; configs of FACETS and BROAD begin with its name."""
    prefix = config.partition("-")[0]
    return prefix if prefix in (facets.NAME, broad.NAME) else unknown_detection.NAME


def _without_duplicates(rows: Rows) -> Rows:
    assert rows.duplicate is not None
    clean = rows.where(~(rows.duplicate | made_from_duplicates(rows)))
    kept = _splits(clean)
    emptied = [f"{config}/{split}" for config, split in _splits(rows) if (config, split) not in kept]
    if emptied:
        raise EvaluationError(
            f"Every row of {', '.join(emptied)} is a duplicate or shares its source image with one, so there are no "
            "figures without duplicates. Evaluate other configs, or a release with other rows there."
        )
    return clean


def _name(figure: Figure) -> Figure:
    """Return a figure's identity, with the fields that depend on its rows blanked."""
    return replace(figure, rows="", value=0.0, n_known=0, n_unknown=0, left_out=0)


def _splits(rows: Rows) -> list[tuple[str, str]]:
    return [(config, split) for config, of_config in rows.by("config").items() for split in of_config.by("split")]
