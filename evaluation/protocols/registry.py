"""The papers' evaluation protocols: which rows are compared, and by which metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evaluation.errors import EvaluationError, unknown_name
from evaluation.protocols import broad, equal_numbers, facets, od_test, openood, robustness, unknown_detection
from evaluation.protocols.figures import WITHOUT_DUPLICATES, WITHOUT_OVERLAP, Figure, Protocol
from evaluation.scoring.left_out import made_from_duplicates
from evaluation.scoring.rows import Rows

PROTOCOLS: Mapping[str, Protocol] = {
    module.NAME: module.PROTOCOL for module in (unknown_detection, facets, broad, od_test, openood, equal_numbers)
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
    judge = PROTOCOLS[protocol].figures
    published = judge(rows)
    found = list(published)
    if rows.duplicate is not None:
        clean = judge(_without_duplicates(rows)) if rows.duplicate.any() else published
        found += _beside(published, clean, WITHOUT_DUPLICATES)
    if rows.overlap is not None:
        overlapping = rows.overlap != ""
        clean = judge(rows.where(~overlapping)) if overlapping.any() else published
        found += _beside(published, clean, WITHOUT_OVERLAP)
    return found


def default_protocol(config: str) -> str:
    """Return the protocol that a config was made for; configs of FACETS and BROAD begin with its name."""
    prefix = config.partition("-")[0]
    return prefix if prefix in (facets.NAME, broad.NAME) else unknown_detection.NAME


def _beside(published: Sequence[Figure], clean: Sequence[Figure], rows: str) -> list[Figure]:
    """Figures on fewer rows, under the names of the published ones, with the number of rows that they lack."""
    named = {figure.name: figure for figure in published}
    found = []
    for figure in clean:
        whole = named.get(figure.name) or _with_more_splits(figure, published)
        lacking = whole.n_known + whole.n_unknown - figure.n_known - figure.n_unknown
        found.append(replace(figure, unknown=whole.unknown, fitted_on=whole.fitted_on, rows=rows, left_out=lacking))
    return found


def _with_more_splits(figure: Figure, published: Sequence[Figure]) -> Figure:
    """The published figure over several splits, of which some have no row left in another figure."""
    splits = set(figure.unknown.split(" + "))
    blank = replace(figure.name, unknown="", fitted_on="")
    same = [whole for whole in published if replace(whole.name, unknown="", fitted_on="") == blank]
    return next(whole for whole in same if splits <= set(whole.unknown.split(" + ")))


def _without_duplicates(rows: Rows) -> Rows:
    assert rows.duplicate is not None
    clean = rows.where(~(rows.duplicate | made_from_duplicates(rows)))
    kept = _splits(clean)
    emptied = [split for split in _splits(rows) if split not in kept]
    if emptied:
        raise EvaluationError(
            f"Every row of {', '.join(emptied)} is a duplicate or shares its source image with one, so there are no "
            "figures without duplicates. Evaluate other configs, or a release with other rows there."
        )
    return clean


def _splits(rows: Rows) -> list[str]:
    return [f"{config}/{split}" for config, of_config in rows.by("config").items() for split in of_config.by("split")]
