"""Measures how well a single number of an image, such as its size, separates each split from known test images."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from builders.audit.chart import HeatCell, heat_table
from builders.audit.measures import NUMBERS, Float64, RoleRows, has_known_test, known_rows, mann_whitney_auroc
from builders.audit.record import Findings
from builders.errors import BuildError
from builders.release.entries import Manifest
from builders.release.schema import KNOWN_ROLE

FLAGGED = 0.9
"""The AUROC above which a number is flagged (ours): it alone tells the two sides apart in nine of ten pairs."""

_MOST_NAMED = 6


@dataclass(frozen=True)
class Separation:
    """How well one number of an image, one of `NUMBERS`, separates some rows from the known test images.

    `auroc` is from 0.5 to 1, whichever direction separates, and None where one side has no such number; `direction` is
    `higher` or `lower`, as the compared rows are, or empty. `images` and `known_images` have the number.
    """

    rows: RoleRows
    number: str
    auroc: float | None
    direction: str
    images: int
    known_images: int

    @property
    def flagged(self) -> bool:
        """Whether the AUROC is above `FLAGGED`."""
        return self.auroc is not None and self.auroc > FLAGGED


def known_test(manifest: Manifest, config: str) -> str:
    """Return the split with a config's known test images: the config's own, else the only one of its benchmark."""
    benchmark = manifest.configs[config].benchmark
    of_benchmark = sorted(name for name, entry in manifest.configs.items() if entry.benchmark == benchmark)
    with_known = [name for name in of_benchmark if has_known_test(manifest, name)]
    if config not in with_known and len(with_known) != 1:
        hint = f"configs with one: {', '.join(with_known)}" if with_known else "no config of its benchmark has one"
        raise BuildError(f"{config} has no in-distribution split `test` ({hint}). Audit a config that has one.")
    return f"{config if config in with_known else with_known[0]}/test"


def separations(measured: Mapping[RoleRows, Float64], reference: str) -> list[Separation]:
    """Compare all rows with the known images of a split by each number; sorted by split, role and number."""
    known = known_rows(measured, reference)
    return [
        _separation(rows, name, known[:, column], measured[rows][:, column])
        for rows in sorted(measured)
        if rows != RoleRows(reference, KNOWN_ROLE)
        for column, name in enumerate(NUMBERS)
    ]


def _separation(rows: RoleRows, number: str, known: Float64, values: Float64) -> Separation:
    known, values = known[~np.isnan(known)], values[~np.isnan(values)]
    if not len(known) or not len(values):
        return Separation(rows, number, None, "", len(values), len(known))
    area = mann_whitney_auroc(known, values)
    direction = "" if area == 0.5 else "higher" if area > 0.5 else "lower"
    return Separation(rows, number, max(area, 1 - area), direction, len(values), len(known))


def findings(config: str, separations: Sequence[Separation], reference: str, sample: int) -> Findings:
    """Return the table, chart and summary of a config's separations."""
    return Findings(
        key=f"{config}/artifacts",
        summary=_summary(config, separations, reference, sample),
        splits=tuple(sorted({reference, *(separation.rows.split for separation in separations)})),
        columns=("split", "role", "number", "auroc", "direction", "flagged", "images", "known_images"),
        rows=[
            (
                s.rows.split,
                s.rows.role,
                s.number,
                "" if s.auroc is None else f"{s.auroc:.4f}",
                s.direction,
                "yes" if s.flagged else "no",
                s.images,
                s.known_images,
            )
            for s in separations
        ],
        picture=_chart(config, separations, reference),
    )


def _summary(config: str, separations: Sequence[Separation], reference: str, sample: int) -> str:
    flagged = sorted((separation for separation in separations if separation.flagged), key=_strongest_first)
    compared = f"the known rows of `{reference}` (the first {sample:,} rows of each role and split at most)"
    if not flagged:
        return (
            f"Artifacts of `{config}`: no single number, such as an image's size or mean colour, separates a split "
            f"from {compared} with an AUROC above {FLAGGED}."
        )
    descriptions = [
        f"`{separation.rows.split.partition('/')[2]}` by {separation.number.replace('_', ' ')} "
        f"({separation.auroc:.3f}, {separation.direction})"
        for separation in flagged[:_MOST_NAMED]
    ]
    more = f", and {len(flagged) - _MOST_NAMED:,} more in the table" if len(flagged) > _MOST_NAMED else ""
    return (
        f"Artifacts of `{config}`: **a single number, without a model, separates splits** from {compared}, AUROC "
        f"above {FLAGGED}: {', '.join(descriptions)}{more}."
    )


def _chart(config: str, separations: Sequence[Separation], reference: str) -> Image.Image:
    return heat_table(
        f"{config}: AUROC of single numbers against {reference}",
        [name.replace("_", " ") for name in NUMBERS],
        [
            (f"{rows.split.partition('/')[2]} ({rows.role})", list(map(_cell, group)))
            for rows, group in itertools.groupby(separations, _rows_of)
        ],
        f"Colour: AUROC from 0.5 (white) to 1 (red), framed above {FLAGGED}; + or -: higher or lower values",
    )


def _cell(separation: Separation) -> HeatCell:
    if separation.auroc is None:
        return HeatCell("none")
    sign = {"higher": " +", "lower": " -"}.get(separation.direction, "")
    return HeatCell(f"{separation.auroc:.2f}{sign}", 2 * separation.auroc - 1, separation.flagged)


def separation_lines(separations: Sequence[Separation]) -> Iterator[list[str]]:
    """Yield the lines of a terminal's table: the numbers that separate each split best, the best first."""
    yield ["split", "role", "images", "number", "AUROC", "direction", "verdict"]
    for rows, group in itertools.groupby(separations, _rows_of):
        measured = sorted((separation for separation in group if separation.auroc is not None), key=_strongest_first)
        for best in [separation for separation in measured if separation.flagged] or measured[:1]:
            verdict = f"SEPARATES above {FLAGGED}" if best.flagged else "the best; not flagged"
            auroc = f"{best.auroc:.3f}"
            yield [rows.split, rows.role, f"{best.images:,}", best.number, auroc, best.direction, verdict]


def _rows_of(separation: Separation) -> RoleRows:
    return separation.rows


def _strongest_first(separation: Separation) -> tuple[float, RoleRows, str]:
    return -(separation.auroc or 0), separation.rows, separation.number
