"""Protocols: which rows are compared, by which metrics, and how the figures are shown; those of papers, and one's own.

    >>> from unknown_detection.evaluation import protocols
    >>> sorted(protocols.PROTOCOLS)[:3], protocols.PROTOCOLS["broad"].title
    (['broad', 'equal-numbers', 'facets'], 'BROAD')

A protocol of one's own is a `Protocol` with a function from rows to `Figure`s, and `register` makes it known by its
name: `examples/own_protocol.py` is one. `measure` computes metrics of a ranking, and `means` averages figures.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unknown_detection.evaluation.errors import require_known
from unknown_detection.evaluation.protocols import broad, calibration, facets, od_test, openood, robustness
from unknown_detection.evaluation.protocols import unknown_detection as unified
from unknown_detection.evaluation.protocols.protocol import PROTOCOLS, Protocol, Shown, register
from unknown_detection.evaluation.protocols.results import Figure, means, measure
from unknown_detection.evaluation.scoring.rows import REDUCED, Rows, is_left_out

__all__ = ["PROTOCOLS", "Figure", "Protocol", "Shown", "means", "measure", "register"]

for _module in (unified, facets, broad, od_test, openood, robustness):
    register(_module.PROTOCOL)
register(robustness.EQUAL_NUMBERS_PROTOCOL)


def protocol_of(name: str) -> Protocol:
    """Return the protocol that figures name: one of `PROTOCOLS`, or that of calibration, which nobody asks for."""
    return PROTOCOLS.get(name, calibration.PROTOCOL)


def default_protocol(config: str) -> str:
    """Return the protocol that a config was made for; configs of FACETS, BROAD and OpenOOD begin with its name."""
    prefix = config.partition("-")[0]
    if config in ("mos", "imagenet-ood"):  # reported by the same figures
        return openood.NAME
    return prefix if prefix in PROTOCOLS else unified.NAME


def figures(protocol: str, rows: Rows) -> list[Figure]:
    """Evaluate a detector's scores of rows, of one or more configs, by the protocol of a name.

    Returns:
        The protocol's figures on all rows and, if the release has information on duplicates, again without these and
        the rows that share their source images; likewise without rows whose class overlaps a known one. Of a split
        that such rows make up alone, there is no figure without them, and means go over the others; a protocol that
        cannot do without the split has no such figures. Settings that need predictions are omitted without them.
    """
    require_known("protocol", [protocol], PROTOCOLS)
    published = PROTOCOLS[protocol].figures(rows)
    by_name = {figure.name: figure for figure in published}
    measured = [*published]
    for kind in REDUCED:
        left_out = is_left_out(rows, kind)
        if left_out is None:
            continue
        same = not np.any(left_out)
        for figure in published if same else PROTOCOLS[protocol].figures(rows.where(~left_out), lenient=True):
            # With fewer configs or splits left, a figure is over a part of what the published one is over.
            whole = by_name.get(figure.name) or next(whole for whole in published if _is_part(figure, whole))
            numbers = {"value": figure.value, "n_known": figure.n_known, "n_unknown": figure.n_unknown}
            lost = whole.n_known + whole.n_unknown - figure.n_known - figure.n_unknown
            measured.append(replace(whole, rows=kind, left_out=lost, **numbers))  # type: ignore[arg-type]
    return measured


def _is_part(figure: Figure, whole: Figure) -> bool:
    """Return whether a figure is over some of the configs and splits, joined by ` + `, of another one."""
    joined = ("config", "known", "unknown", "fitted_on")
    part, full = (replace(of.name, **dict.fromkeys(joined, "")) for of in (figure, whole))  # type: ignore[arg-type]
    return part == full and all(
        set(getattr(figure, name).split(" + ")) <= set(getattr(whole, name).split(" + ")) for name in joined
    )
