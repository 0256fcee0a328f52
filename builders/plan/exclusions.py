"""Accounts for the images left out of a split: every image of its partitions is in the split or counted here.

Tested by `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from builders.declare.benchmark import AllClasses, Classes, FirstClasses, Split
from builders.declare.quotas import Rows
from builders.plan.candidates import IndexArrays
from builders.plan.classes import Adopted
from builders.release.tables import Exclusion
from taxonomy import decisions


@dataclass(frozen=True)
class Accounts:
    """Accounts for the images of one split, or part of one, that are left out.

    Args:
        key: of the split, or of a part of one.
        split: the declaration.
        view: its source.
    """

    key: str
    split: Split
    view: IndexArrays

    def by_class(self, accounted: Rows, reasons: Mapping[str, tuple[str, str]]) -> list[Exclusion]:
        """Count by class the images that the split does not draw.

        Args:
            accounted: rows drawn for the split, and rows listed one by one, ascending.
            reasons: rule and evidence by class id, from `reasons_by_class`.
        """
        left = self.view.tally_all(self.split.partitions) - self.view.tally(accounted)
        return self._counted(left, reasons.__getitem__)

    def beyond_limit(self, drawn: Rows, kept: Rows, limit: int | None) -> list[Exclusion]:
        """Count by class the images that a limit of so many images a class cuts off."""
        cut = self.view.tally(drawn) - self.view.tally(kept)
        return self._counted(cut, lambda _: ("limit-per-class", f"first {limit} by keyed rank"))

    def one_by_one(self, rows: Rows, ids: Sequence[str], evidence: Mapping[str, str], *, rule: str) -> list[Exclusion]:
        """List images that a rule leaves out one by one; `ids` are their row ids, `evidence` is by row id."""
        view, found = self.view, []
        places = zip(view.index.piece_of(rows).tolist(), view.class_codes[rows].tolist(), strict=True)
        for (piece, code), image, row_id in zip(places, view.ids(rows).to_pylist(), ids, strict=True):
            class_id = str(view.class_ids[code])
            found.append(self._exclusion(view.partitions[piece], class_id, image, 1, (rule, evidence[row_id])))
        return sorted(found, key=lambda e: e.image)

    def strays(self) -> list[Exclusion]:
        """List stray files; a stray is not an image of the source, so it counts 0 images and the sum stays right."""
        return [
            self._exclusion(piece.partition, "", stray.path, 0, ("stray", stray.reason))
            for piece in self.view.index.pieces
            if piece.partition in self.split.partitions
            for stray in piece.strays
        ]

    def _counted(self, counts: npt.NDArray[np.int64], reason: Callable[[str], tuple[str, str]]) -> list[Exclusion]:
        found = []
        for p, c in zip(*np.nonzero(counts), strict=True):
            class_id = str(self.view.class_ids[c])
            found.append(self._exclusion(self.view.partitions[p], class_id, "", int(counts[p, c]), reason(class_id)))
        return found

    def _exclusion(self, partition: str, class_id: str, image: str, images: int, reason: tuple[str, str]) -> Exclusion:
        rule, evidence = reason
        name = self.view.names[class_id] if class_id else ""
        return Exclusion(self.key, self.split.source.key, partition, class_id, name, image, images, rule, evidence)


def in_order(exclusions: Iterable[Exclusion]) -> list[Exclusion]:
    """Sort exclusions that were counted by class and strays, as a table of exclusions lists them."""
    return sorted(exclusions, key=lambda e: (e.source, e.partition, e.class_id, e.image, e.rule))


def reasons_by_class(
    split: Split, names: Mapping[str, str], chosen: Sequence[str], adopted: Adopted | None, before: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return rule and evidence by class id that explain why images of a class are not in a split.

    Args:
        split: the declaration.
        names: the source's classes.
        chosen: ids of the classes that the split draws from.
        adopted: the adopted classes and images, if the split is adopted.
        before: keys of the splits that draw from the same images before.
    """
    drawn = set(chosen)
    beyond = split.quota.reason(before)
    if adopted is not None:
        rule = ("not-adopted", "not in the copy of the published benchmark that was adopted")
        by_rule = adopted.source_ids is None  # the copy names classes, and their images are drawn
        return {name: beyond if by_rule and name in drawn else rule for name in names}
    if isinstance(split.classes, AllClasses):
        return dict.fromkeys(drawn, beyond)
    if isinstance(split.classes, FirstClasses):
        others = ("demo-classes", f"beyond the first {split.classes.count} classes, of which a demo makes images")
        return {name: beyond if name in drawn else others for name in names}
    outside = f"not one of the classes that the rules of the table {split.classes.table} look at"
    reasons = dict.fromkeys(names, ("outside", outside))
    for decision in decisions.load(split.classes.table):
        if decision.class_id in drawn:
            reasons[decision.class_id] = beyond
        elif decision.decision == split.classes.decision:
            reasons[decision.class_id] = _other_side(split.classes)
        else:
            reasons[decision.class_id] = (decision.rule, f"{decision.decision}: {decision.evidence}")
    return reasons


def _other_side(classes: Classes) -> tuple[str, str]:
    """Rule and evidence for a class that could have been drawn and is not in the split."""
    draw = classes.draw
    if draw is None:
        raise ValueError("without a draw every class of the decision is chosen")
    of = f"{draw.count} drawn classes" + (" of its group" if draw.of_each_group else "")
    return ("class-drawn", f"among the {of}") if draw.rest else ("class-not-drawn", f"keyed rank beyond the {of}")
