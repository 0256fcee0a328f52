"""The papers' protocols, and the figures of scores by one of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.errors import unknown_name
from unknown_detection.evaluation.protocols import (
    broad,
    calibration,
    facets,
    od_test,
    openood,
    robustness,
    unknown_detection,
)
from unknown_detection.evaluation.protocols.protocol import PROTOCOLS as PROTOCOLS
from unknown_detection.evaluation.protocols.protocol import Protocol
from unknown_detection.evaluation.protocols.protocol import register as register
from unknown_detection.evaluation.protocols.results import Figure
from unknown_detection.evaluation.scoring.left_out import REDUCED, rows_left_out
from unknown_detection.evaluation.scoring.rows import Rows

Mask = npt.NDArray[np.bool_]

for _module in (unknown_detection, facets, broad, od_test, openood):
    register(_module.PROTOCOL)
for _protocol in (robustness.EQUAL_NUMBERS_PROTOCOL, robustness.PROTOCOL):
    register(_protocol)


def protocol_of(name: str) -> Protocol:
    """Return the protocol that figures name: one of `PROTOCOLS`, or that of calibration, which nobody asks for."""
    return PROTOCOLS.get(name, calibration.PROTOCOL)


def figures(protocol: str, rows: Rows) -> list[Figure]:
    """Evaluate a detector's scores of rows, of one or more configs, by the protocol of a name.

    Returns:
        The protocol's figures on all rows and, if the release has information on duplicates, again without these and
        the rows that share their source images; likewise without rows whose class overlaps a known one. Of a split
        that such rows make up alone, there is no figure without them, and means go over the others; a protocol that
        cannot do without the split has no such figures. Settings that need predictions are omitted without them.
    """
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    published = PROTOCOLS[protocol].figures(rows)
    measured = [*published]
    for kind in REDUCED:
        left_out = rows_left_out(rows, kind)
        if left_out is not None:
            measured += _without(left_out, PROTOCOLS[protocol], rows, published, kind)
    return measured


def default_protocol(config: str) -> str:
    """Return the protocol that a config was made for; configs of FACETS, BROAD and OpenOOD begin with its name."""
    prefix = config.partition("-")[0]
    if config in ("mos", "imagenet-ood"):  # reported by the same figures
        return openood.NAME
    return prefix if prefix in PROTOCOLS else unknown_detection.NAME


def _without(left_out: Mask, protocol: Protocol, rows: Rows, published: Sequence[Figure], kind: str) -> list[Figure]:
    """Compute the figures without some rows, named as the published ones, with the number of rows left out."""
    by_name = {figure.name: figure for figure in published}
    reduced = []
    for figure in protocol.figures(rows.where(~left_out), lenient=True) if left_out.any() else published:
        # With fewer configs or splits left, a figure is over a part of what the published one is over.
        original = by_name.get(figure.name) or next(whole for whole in published if _is_part(figure, whole))
        known, unknown = figure.n_known, figure.n_unknown
        lost = original.n_known + original.n_unknown - known - unknown
        reduced.append(
            replace(original, rows=kind, value=figure.value, n_known=known, n_unknown=unknown, left_out=lost)
        )
    return reduced


def _is_part(figure: Figure, whole: Figure) -> bool:
    """Return whether a figure is over some of the configs and splits, joined by ` + `, of another one."""
    part, full = (replace(of.name, config="", known="", unknown="", fitted_on="") for of in (figure, whole))
    return part == full and all(
        set(getattr(figure, name).split(" + ")) <= set(getattr(whole, name).split(" + "))
        for name in ("config", "known", "unknown", "fitted_on")
    )
