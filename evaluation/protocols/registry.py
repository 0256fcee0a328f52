"""The papers' evaluation protocols: which rows are compared, and by which metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from evaluation.errors import EvaluationError, unknown_name
from evaluation.protocols import broad, facets, od_test, openood, robustness, unknown_detection
from evaluation.protocols.figures import WITHOUT_DUPLICATES, WITHOUT_OVERLAP, Figure, Protocol
from evaluation.scoring.left_out import made_from_duplicates
from evaluation.scoring.rows import Rows

Mask = npt.NDArray[np.bool_]

PROTOCOLS: Mapping[str, Protocol] = {
    module.NAME: module.PROTOCOL for module in (unknown_detection, facets, broad, od_test, openood)
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
        that such rows make up alone, there is no figure without them, and means go over the others; a protocol that
        cannot do without the split has no such figures. Settings that need predictions are omitted without them.

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
    published = PROTOCOLS[protocol].figures(rows)
    found = list(published)
    if rows.duplicate is not None:
        left_out = rows.duplicate | made_from_duplicates(rows)
        found += _without(left_out, PROTOCOLS[protocol], rows, published, WITHOUT_DUPLICATES)
    if rows.overlap is not None:
        found += _without(rows.overlap != "", PROTOCOLS[protocol], rows, published, WITHOUT_OVERLAP)
    return found


def default_protocol(config: str) -> str:
    """Return the protocol that a config was made for; configs of FACETS and BROAD begin with its name."""
    prefix = config.partition("-")[0]
    return prefix if prefix in (facets.NAME, broad.NAME) else unknown_detection.NAME


def _without(left_out: Mask, protocol: Protocol, rows: Rows, published: Sequence[Figure], named: str) -> list[Figure]:
    """Figures without some rows, under the names of the published ones, with the number of rows that they lack."""
    found = []
    for figure in protocol.figures(rows.where(~left_out), lenient=True) if left_out.any() else published:
        whole = _published(figure, published)
        lacking = whole.n_known + whole.n_unknown - figure.n_known - figure.n_unknown
        counts = {"value": figure.value, "n_known": figure.n_known, "n_unknown": figure.n_unknown}
        found.append(replace(whole, rows=named, left_out=lacking, **counts))
    return found


_JOINED = ("config", "known", "unknown", "fitted_on")
"""Fields of a figure that join what it is over by ` + `."""


def _published(figure: Figure, published: Sequence[Figure]) -> Figure:
    """The published figure of the same name, or over more configs and splits, of which some have no row left."""
    same = [whole for whole in published if whole.name == figure.name]
    return (same or [whole for whole in published if _is_part(figure, whole)])[0]


def _is_part(figure: Figure, whole: Figure) -> bool:
    blank = dict.fromkeys(_JOINED, "")
    parts = [[set(getattr(one, name).split(" + ")) for name in _JOINED] for one in (figure, whole)]
    return replace(figure.name, **blank) == replace(whole.name, **blank) and all(map(set.issubset, *parts))
