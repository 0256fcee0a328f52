"""The papers' evaluation protocols: which rows are compared, and by which metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.errors import EvaluationError, unknown_name
from unknown_detection.evaluation.protocols import (
    broad,
    equal_numbers,
    facets,
    od_test,
    openood,
    robustness,
    unknown_detection,
)
from unknown_detection.evaluation.protocols.figures import WITHOUT_DUPLICATES, WITHOUT_OVERLAP, Figure, Protocol
from unknown_detection.evaluation.scoring.left_out import made_from_duplicates
from unknown_detection.evaluation.scoring.rows import Rows

Mask = npt.NDArray[np.bool_]

PROTOCOLS: Mapping[str, Protocol] = {
    module.NAME: module.PROTOCOL for module in (unknown_detection, facets, broad, od_test, openood, equal_numbers)
}
"""All protocols that evaluate one run; the optimizer paper's compares several: `robustness`."""


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
    by_name = {figure.name: figure for figure in published}
    found = []
    for figure in protocol.figures(rows.where(~left_out), lenient=True) if left_out.any() else published:
        # With fewer configs or splits left, a figure is over a part of what the published one is over.
        whole = by_name.get(figure.name) or next(one for one in published if _is_part(figure, one))
        lacking = whole.n_known + whole.n_unknown - figure.n_known - figure.n_unknown
        one = replace(figure, config=whole.config, known=whole.known, unknown=whole.unknown, fitted_on=whole.fitted_on)
        found.append(replace(one, rows=named, left_out=lacking))
    return found


def _is_part(figure: Figure, whole: Figure) -> bool:
    """Return whether a figure is over some of the configs and splits, joined by ` + `, of another one."""
    one, other = (replace(each.name, config="", known="", unknown="", fitted_on="") for each in (figure, whole))
    return one == other and all(
        set(getattr(figure, name).split(" + ")) <= set(getattr(whole, name).split(" + "))
        for name in ("config", "known", "unknown", "fitted_on")
    )
