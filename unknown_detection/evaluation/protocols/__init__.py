"""Protocols: which rows are compared, by which metrics, and how the figures are shown; those of papers, and one's own.

    >>> from unknown_detection.evaluation import protocols
    >>> sorted(protocols.PROTOCOLS)[:3], protocols.PROTOCOLS["broad"].title
    (['broad', 'equal-numbers', 'facets'], 'BROAD')

A protocol of one's own is a `Protocol` with a function from rows to `Figure`s, and `register` makes it known by its
name: `examples/own_protocol.py` is one. `measure` computes metrics of a ranking, and `means` averages figures.
"""

from unknown_detection.evaluation.protocols.protocol import Protocol, Shown
from unknown_detection.evaluation.protocols.registry import PROTOCOLS, register
from unknown_detection.evaluation.protocols.results import Figure, means, measure

__all__ = ["PROTOCOLS", "Figure", "Protocol", "Shown", "means", "measure", "register"]
