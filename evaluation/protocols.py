"""The papers' ways to judge a detector: which rows are held against which, by which metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from evaluation import broad, facets, od_test, robustness, unknown_detection
from evaluation.errors import EvaluationError, unknown_name
from evaluation.figures import AS_PUBLISHED, OVERLAP_REMOVED, Figure
from evaluation.rows import Rows


@dataclass(frozen=True)
class Protocol:
    """A way to judge one detector on one model.

    Attributes:
        title: for people.
        paper: where it is described.
        settings: what is asked of a detector, by the name in figures, with a title for people.
        with_predictions: the settings that are given only where rows have predictions.
        judge: gives the figures of rows as they are, whether they overlap with training images or not.
    """

    title: str
    paper: str
    settings: Mapping[str, str]
    with_predictions: tuple[str, ...]
    judge: Callable[[Rows], list[Figure]]


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
    ),
    od_test.NAME: Protocol(
        "OD-test",
        "Shafaei, Schmidt and Little, A Less Biased Evaluation of Out-of-distribution Sample Detectors (2019)",
        od_test.SETTINGS,
        od_test.WITH_PREDICTIONS,
        od_test.figures,
    ),
}
"""All that judge one run; the optimizer paper's, which compares several, is in `evaluation.robustness`."""


def figures(protocol: str, rows: Rows) -> list[Figure]:
    """Judge a detector.

    Args:
        protocol: a name of `PROTOCOLS`.
        rows: of one or several configs, with one detector's scores.

    Returns:
        The protocol's figures on all rows and, where the release flags rows that overlap with training images, once
        more without those and what is made from them. Settings that need predictions are left out where there are
        none.

    Raises:
        EvaluationError: there is no such protocol, or rows that it needs are missing.
    """
    if protocol == robustness.NAME:
        raise EvaluationError(
            f"expected a protocol that judges one run, found {protocol}, which compares several; give it the figures "
            "of models trained with different optimizers."
        )
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, [*PROTOCOLS, robustness.NAME])
    judge = PROTOCOLS[protocol].judge
    return [replace(figure, rows=name) for name, chosen in _with_and_without_overlap(rows) for figure in judge(chosen)]


def default_protocol(config: str) -> str:
    """The protocol that a config is made for: those of FACETS and BROAD have its name in front."""
    prefix = config.partition("-")[0]
    return prefix if prefix in (facets.NAME, broad.NAME) else unknown_detection.NAME


def _with_and_without_overlap(rows: Rows) -> Iterator[tuple[str, Rows]]:
    yield AS_PUBLISHED, rows
    if rows.overlap is None:
        return
    # What is made from an image goes with it: without the clean row nobody could tell what the shift has changed.
    clean = rows.where(~np.isin(rows.source_id, rows.source_id[rows.overlap]))
    emptied = [f"{config}/{split}" for config, split in _splits(rows) if (config, split) not in _splits(clean)]
    if emptied:
        raise EvaluationError(
            f"expected rows in {', '.join(emptied)} that do not overlap with training images, found none; leave the "
            "split out."
        )
    yield OVERLAP_REMOVED, clean


def _splits(rows: Rows) -> list[tuple[str, str]]:
    return [(config, split) for config, of_config in rows.by("config").items() for split in of_config.by("split")]
