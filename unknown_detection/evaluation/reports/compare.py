"""Compares the figures of two reports on the same release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from unknown_detection.evaluation.errors import EvaluationError, require_known
from unknown_detection.evaluation.protocols.figures import AS_PUBLISHED, WITHOUT_OVERLAP
from unknown_detection.evaluation.protocols.results import FIGURE_KEY, Line, over_runs
from unknown_detection.evaluation.reports.names import metric
from unknown_detection.evaluation.reports.tables import Number, number

Verdict = Literal["better", "worse", "same", "undefined"]

Key = tuple[str, ...]
"""Variant, detector, and the values of `FIGURE_KEY`."""


@dataclass(frozen=True)
class Pair:
    """A figure in both reports, in the paper's unit.

    Attributes:
        variant: training method; empty if each report has only one.
        detector: name of the detector; `FIRST, SECOND` if its names differ.
        figure: the columns that identify the figure.
        first: mean and standard deviation over runs in the first report.
        second: the same in the second report.
        factor: the factor by which the paper multiplies rates and areas.
    """

    variant: str
    detector: str
    figure: Mapping[str, str]
    first: Number
    second: Number
    factor: float

    @property
    def difference(self) -> float:
        """Second mean minus the first."""
        return self.second.value - self.first.value

    @property
    def verdict(self) -> Verdict:
        """Whether the second is better or worse, by the metric's direction; undefined if one is NaN."""
        if self.difference != self.difference:
            return "undefined"
        if self.difference == 0:
            return "same"
        return "better" if (self.difference > 0) == (metric(self.figure["metric"]).better == "higher") else "worse"


@dataclass(frozen=True)
class Comparison:
    """The figures in both reports, in the order of the first, and the counts of those in only one."""

    pairs: tuple[Pair, ...]
    only_first: int
    only_second: int

    def verdicts(self) -> Counter[str]:
        """Count the pairs by verdict."""
        return Counter(pair.verdict for pair in self.pairs)

    def select(
        self,
        *,
        detectors: Collection[str] = (),
        metrics: Collection[str] = (),
        splits: Mapping[str, Collection[str]] | None = None,
    ) -> Comparison:
        """Select the pairs of some detectors, metrics and splits; empty for all.

        Args:
            detectors: names of detectors.
            metrics: names of metrics.
            splits: splits of unknown rows by config; a config without splits stands for all of them.

        Raises:
            EvaluationError: a name is in no pair, or no pair is left.
        """
        for kind, wanted, known in (
            ("detector", detectors, {pair.detector for pair in self.pairs}),
            ("metric", metrics, {pair.figure["metric"] for pair in self.pairs}),
            ("config", splits or (), {one for pair in self.pairs for one in pair.figure["config"].split(" + ")}),
        ):
            require_known(f"{kind} of both reports", wanted, known)

        def chosen(pair: Pair) -> bool:
            sets = {one.partition(",")[0] for one in pair.figure["unknown"].split(" + ")}
            mine = [splits[one] for one in pair.figure["config"].split(" + ") if one in splits] if splits else [()]
            return (
                (not detectors or pair.detector in detectors)
                and (not metrics or pair.figure["metric"] in metrics)
                and any(not names or sets & {*names} for names in mine)
            )

        pairs = tuple(filter(chosen, self.pairs))
        if not pairs:
            raise EvaluationError(
                "The reports have no figure of these detectors, metrics and splits in common. Choose others."
            )
        return Comparison(pairs, self.only_first, self.only_second)

    def main(self) -> list[Pair]:
        """Return the pairs on all rows that are no spread or mixture of others; all pairs if there are none such."""
        chosen = [pair for pair in self.pairs if pair.figure["rows"] == AS_PUBLISHED]
        return [pair for pair in chosen if pair.figure["statistic"] in ("", "mean")] or list(self.pairs)

    def largest(self, count: int) -> list[Pair]:
        """Return the main pairs with the largest differences, as rates and areas from 0 to 1."""
        defined = [pair for pair in self.main() if pair.verdict in ("better", "worse")]
        return sorted(defined, key=lambda pair: -abs(pair.difference / pair.factor))[:count]


def compare(first: pa.Table, second: pa.Table) -> Comparison:
    """Pair the figures of two reports.

    Returns:
        The pairs. If each report has a single variant, variants are ignored, so that two training methods can be
        compared; if they have no detector in common and each has one only, so are detectors, as with scores of one's
        own, which are named after their files. Figures without duplicates are paired only if both reports use the same
        table of duplicates, and those without overlap only if both leave out as many rows, since otherwise they are on
        different rows.

    Raises:
        EvaluationError: the reports are on different releases, or have no figure in common.
    """
    _check_release(first, second)
    tables = [table.select([*_COLUMNS]) for table in (first, second)]
    variants, detectors = ([{*table[name].to_pylist()} for table in tables] for name in ("variant", "detector"))
    one_each = not detectors[0] & detectors[1] and len(detectors[0]) == len(detectors[1]) == 1
    blank = ["variant"] * all(len(names) == 1 for names in variants) + ["detector"] * one_each

    def key(line: Line) -> Key:
        return tuple("" if name in blank else line[name] for name in ("variant", "detector", *FIGURE_KEY))

    left, right = ({key(line): line for line in over_runs(table)} for table in (first, second))
    sizes = [
        {key(line): (line["n_known"] + line["n_unknown"], line["left_out"]) for line in table.to_pylist()}
        for table in tables
    ]
    same_duplicates = {*first["duplicates_sha256"].to_pylist()} == {*second["duplicates_sha256"].to_pylist()}

    def on_equal_rows(key: Key) -> bool:
        rows = key[2 + FIGURE_KEY.index("rows")]
        if rows == WITHOUT_OVERLAP:
            return sizes[0][key] == sizes[1][key]
        return same_duplicates or rows == AS_PUBLISHED

    shared = [key for key in left if key in right and on_equal_rows(key)]
    if not shared:
        raise EvaluationError(
            "The reports have no figure in common: their detectors are "
            f"{_listed(detectors[0])} and {_listed(detectors[1])}. Write both with the same protocol and detectors."
        )
    pairs = tuple(_pair(key, left[key], right[key]) for key in shared)
    return Comparison(pairs, len(left) - len(shared), len(right) - len(shared))


_COLUMNS = ("variant", "detector", *FIGURE_KEY, "n_known", "n_unknown", "left_out")


def _pair(key: Key, first: Line, second: Line) -> Pair:
    names = dict.fromkeys([first["detector"], second["detector"]])
    figure = {name: first[name] for name in FIGURE_KEY}
    return Pair(key[0], ", ".join(names), figure, number(first), number(second), first["factor"])


def _check_release(first: pa.Table, second: pa.Table) -> None:
    digests = [sorted({*table["release_digest"].to_pylist()}) for table in (first, second)]
    if digests[0] != digests[1]:
        found = " and ".join(
            f"{', '.join(sorted({*table['release'].to_pylist()})) or 'no release'} "
            f"({', '.join(digest[:12] for digest in of) or 'no figures'})"
            for table, of in zip((first, second), digests, strict=True)
        )
        raise EvaluationError(f"The reports are on different releases: {found}. Compare reports on the same rows.")


def _listed(names: Collection[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")
