"""The registry of protocols, the papers' and one's own, and the figures of scores by one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.errors import EvaluationError, one_line, unknown_name
from unknown_detection.evaluation.protocols import (
    broad,
    calibration,
    equal_numbers,
    facets,
    od_test,
    openood,
    robustness,
    unknown_detection,
)
from unknown_detection.evaluation.protocols.figures import WITHOUT_DUPLICATES, WITHOUT_OVERLAP, Figure
from unknown_detection.evaluation.protocols.protocol import Protocol
from unknown_detection.evaluation.scoring.left_out import made_from_duplicates
from unknown_detection.evaluation.scoring.rows import Rows

Mask = npt.NDArray[np.bool_]

_NAME = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")

_PAPERS = (unknown_detection, facets, broad, od_test, openood, equal_numbers, robustness)

PROTOCOLS: dict[str, Protocol] = {module.NAME: module.PROTOCOL for module in _PAPERS}
"""All protocols that one may ask for. `register` adds one's own."""


def register(protocol: Protocol) -> Protocol:
    """Add a protocol of one's own, which commands and functions then know by its name.

    A file with a function from `Rows` to `Figure`s and a `Protocol` is enough; its tables are laid out by config
    unless it says how. `--protocol FILE.py:NAME` registers one on the command line.

    Raises:
        EvaluationError: the name is another protocol's, or cannot be one.
    """
    if not isinstance(protocol, Protocol):
        raise EvaluationError(
            f"{one_line(type(protocol).__name__)} is not a protocol. Make it a Protocol, with its figures as judge."
        )
    if not _NAME.fullmatch(protocol.name) or protocol.name == calibration.NAME:
        raise EvaluationError(
            f"{one_line(protocol.name)!r} cannot be the name of a protocol. Name it with letters, digits and hyphens."
        )
    if PROTOCOLS.get(protocol.name, protocol) != protocol:
        raise EvaluationError(f"There is a protocol {protocol.name} already. Give yours another name.")
    PROTOCOLS[protocol.name] = protocol
    return protocol


def protocol_of(name: str) -> Protocol:
    """Return the protocol that figures name; a placeholder with this name if it is not registered here."""
    known = {**PROTOCOLS, calibration.NAME: calibration.PROTOCOL}
    return known.get(name) or Protocol(name, name, "", {}, robustness.PROTOCOL.judge)


def setting_name(setting: str) -> str:
    """Return the title of a protocol's setting."""
    return setting_titles().get(setting, setting.replace("_", " "))


def setting_titles() -> dict[str, str]:
    """Return the titles of all protocols' settings."""
    return {name: title for protocol in PROTOCOLS.values() for name, title in protocol.settings.items()}


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
    measured = list(published)
    if rows.duplicate is not None:
        left_out = rows.duplicate | made_from_duplicates(rows)
        measured += _without(left_out, PROTOCOLS[protocol], rows, published, WITHOUT_DUPLICATES)
    if rows.overlap is not None:
        measured += _without(rows.overlap != "", PROTOCOLS[protocol], rows, published, WITHOUT_OVERLAP)
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
