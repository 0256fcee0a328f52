"""Protocols: which rows are compared by which metrics, and how their figures are shown. Papers' and the user's own.

    >>> from unknown_detection import protocols
    >>> sorted(protocols.PROTOCOLS)[:3], protocols.PROTOCOLS["broad"].title
    (['broad', 'facets', 'od-test'], 'BROAD')

A protocol of one's own is a `Protocol` with a function from a joined frame to figures, and `register` makes it known
by its name: `examples/own_protocol.py` is one. `known_rows` and `unknown_splits` choose rows, `against` and
`by_errors` rank them, `measure` computes metrics of a ranking, `measure_each` those of each unknown split, and `means`
averages figures. `join` makes the frames.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

from unknown_detection.evaluation.frame import against, by, by_errors, join, known_rows, rankings, unknown_splits
from unknown_detection.evaluation.protocols import broad, facets, od_test, openood, unified
from unknown_detection.evaluation.protocols.protocol import (
    PROTOCOLS,
    Figure,
    Protocol,
    Shown,
    figures,
    means,
    measure,
    measure_each,
    register,
)

__all__ = [
    "PROTOCOLS",
    "Figure",
    "Protocol",
    "Shown",
    "against",
    "by",
    "by_errors",
    "figures",
    "join",
    "known_rows",
    "means",
    "measure",
    "measure_each",
    "rankings",
    "register",
    "unknown_splits",
]


def __dir__() -> list[str]:
    """List the public names, without those that this module imports for itself."""
    return [*__all__]


for _module in (unified, facets, broad, od_test, openood):
    register(_module.PROTOCOL)


def default_protocol(config: str) -> str:
    """Return the name of the protocol for a config; it begins the names of configs of FACETS, BROAD and OpenOOD."""
    prefix = config.partition("-")[0]
    if config in ("mos", "imagenet-ood", "imagenet-es"):  # reported by the same figures
        return openood.NAME
    return prefix if prefix in PROTOCOLS else unified.NAME
