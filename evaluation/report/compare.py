"""Compares the figures of two reports on the same release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from evaluation.errors import EvaluationError
from evaluation.metrics.metrics import METRICS
from evaluation.protocols.figures import AS_PUBLISHED, WITHOUT_OVERLAP
from evaluation.protocols.results import FIGURE_KEY, over_runs

Verdict = Literal["better", "worse", "same", "undefined"]


@dataclass(frozen=True)
class Pair:
    """A figure in both reports, in the paper's unit: mean and standard deviation over runs.

    Attributes:
        variant: training method; empty if each report has only one.
        detector: name of the detector.
        figure: the columns that identify the figure.
        first: mean in the first report.
        first_deviation: standard deviation over runs; None for one run.
        second: mean in the second report.
        second_deviation: standard deviation over runs; None for one run.
    """

    variant: str
    detector: str
    figure: dict[str, str]
    first: float
    first_deviation: float | None
    second: float
    second_deviation: float | None

    @property
    def difference(self) -> float:
        """Second mean minus the first."""
        return self.second - self.first

    @property
    def verdict(self) -> Verdict:
        """Whether the second is better or worse, by the metric's direction; undefined if one is NaN."""
        if self.difference != self.difference:
            return "undefined"
        if self.difference == 0:
            return "same"
        good = METRICS[self.figure["metric"]].better == "higher"
        return "better" if (self.difference > 0) == good else "worse"


@dataclass(frozen=True)
class Comparison:
    """The figures in both reports, in the order of the first, and the counts of those in only one."""

    pairs: tuple[Pair, ...]
    only_first: int
    only_second: int


def compare(first: pa.Table, second: pa.Table) -> Comparison:
    """Pair the figures of two reports.

    Args:
        first: figures, the result of `results.read_figures`.
        second: the figures of the other report.

    Returns:
        The pairs. If each report has a single variant, variants are ignored, so that two training methods can be
        compared. Figures without duplicates are paired only if both reports use the same table of duplicates, and
        those without overlap only if both leave out as many rows, since otherwise they are on different rows.

    Raises:
        EvaluationError: the reports are on different releases, or have no figure in common.
    """
    digests = [sorted(set(table["release_digest"].to_pylist())) for table in (first, second)]
    if digests[0] != digests[1]:
        found = " and ".join(
            f"{_release(table)} ({_short(of)})" for table, of in zip((first, second), digests, strict=True)
        )
        raise EvaluationError(f"The reports are on different releases: {found}. Compare reports on the same rows.")
    tables = [set(table["duplicates_sha256"].to_pylist()) for table in (first, second)]
    drop = all(len(pc.unique(table["variant"])) == 1 for table in (first, second))
    left, right = (dict(_means(table, drop)) for table in (first, second))
    rows = 2 + FIGURE_KEY.index("rows")
    lacking = [_left_out(table, drop) for table in (first, second)]

    def on_equal_rows(key: tuple[str, ...]) -> bool:
        if key[rows] == WITHOUT_OVERLAP:
            return lacking[0][key] == lacking[1][key]
        return tables[0] == tables[1] or key[rows] == AS_PUBLISHED

    shared = [key for key in left if key in right and on_equal_rows(key)]
    if not shared:
        raise EvaluationError("The reports have no figure in common; write both with the same protocol and detectors.")
    pairs = tuple(
        Pair(variant, detector, dict(zip(FIGURE_KEY, names, strict=True)), *left[key], *right[key])
        for key in shared
        for variant, detector, *names in [key]
    )
    return Comparison(pairs, len(left) - len(shared), len(right) - len(shared))


def _means(figures: pa.Table, drop_variant: bool) -> Iterator[tuple[tuple[str, ...], tuple[float, float | None]]]:
    for line in over_runs(figures).to_pylist():
        names = tuple(line[name] for name in FIGURE_KEY)
        yield ("" if drop_variant else line["variant"], line["detector"], *names), _reported(line)


def _left_out(figures: pa.Table, drop_variant: bool) -> dict[tuple[str, ...], tuple[int, int]]:
    """Numbers of rows of each figure; over its runs they are equal."""
    return {
        ("" if drop_variant else line["variant"], line["detector"], *(line[name] for name in FIGURE_KEY)): (
            line["n_known"] + line["n_unknown"],
            line["left_out"],
        )
        for line in figures.to_pylist()
    }


def _reported(line: dict[str, Any]) -> tuple[float, float | None]:
    deviation = line["std"]
    return line["mean"] * line["factor"], None if deviation is None else deviation * line["factor"]


def _release(figures: pa.Table) -> str:
    return ", ".join(sorted(set(figures["release"].to_pylist()))) or "no release"


def _short(digests: list[str]) -> str:
    return ", ".join(digest[:12] for digest in digests) or "no figures"
