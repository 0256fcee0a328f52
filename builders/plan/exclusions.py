"""Counts the images left out of a split by reason: every image of its partitions is in the split or counted here.

Tested by `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from builders.benchmark import AllClasses, Classes, Split
from builders.plan.classes import Adopted
from builders.plan.quotas import IndexArrays, Rows, not_drawn
from builders.release.tables import Exclusion
from taxonomy import decisions


def exclusions(
    key: str,
    split: Split,
    view: IndexArrays,
    reasons: Mapping[str, tuple[str, str]],
    drawn: Rows,
    left: Rows,
    kept: Rows,
    limit: int | None,
) -> list[Exclusion]:
    """Count by class the images that a split does not draw and those that a limit cuts off; list stray files.

    Args:
        key: key of the split, or of a part of one.
        split: the declaration.
        view: its source.
        reasons: rule and evidence by class id, from `reasons_by_class`.
        drawn: rows drawn for the split, and rows that `named_images` lists one by one.
        left: the drawn rows that are not withdrawn.
        kept: `left` after the limit.
        limit: images a class, None for no limit.
    """
    available = view.tally(np.flatnonzero(view.in_partitions(split.partitions)))
    undrawn = available - view.tally(drawn)
    limited = view.tally(left) - view.tally(kept)
    found: list[Exclusion] = []
    for counts, cut in ((undrawn, False), (limited, True)):
        for p, c in zip(*np.nonzero(counts), strict=True):
            class_id = str(view.class_ids[c])
            rule, evidence = ("limit-per-class", f"first {limit} by keyed rank") if cut else reasons[class_id]
            found.append(
                Exclusion(
                    split=key,
                    source=split.source.key,
                    partition=str(view.partitions[p]),
                    class_id=class_id,
                    class_name=view.names[class_id],
                    image="",
                    images=int(counts[p, c]),
                    rule=rule,
                    evidence=evidence,
                )
            )
    found += _strays(key, split, view)
    return sorted(found, key=lambda e: (e.source, e.partition, e.class_id, e.image, e.rule))


def named_images(
    key: str,
    split: Split,
    view: IndexArrays,
    rows: Rows,
    ids: Sequence[str],
    evidence: Mapping[str, str],
    *,
    rule: str,
) -> list[Exclusion]:
    """List single images that a rule leaves out; `ids` are their row ids, `evidence` is by row id."""
    found = []
    for row, row_id in zip(rows.tolist(), ids, strict=True):
        class_id, source_id = str(view.class_ids[view.class_codes[row]]), view.ids[row].as_py()
        partition = str(view.partitions[view.partition_codes[row]])
        name = view.names[class_id]
        found.append(Exclusion(key, split.source.key, partition, class_id, name, source_id, 1, rule, evidence[row_id]))
    return sorted(found, key=lambda e: e.image)


def reasons_by_class(
    split: Split, names: Mapping[str, str], chosen: Sequence[str], adopted: Adopted | None
) -> dict[str, tuple[str, str]]:
    """Return, by class id, the rule and the evidence why images of a class are not in a split.

    Args:
        split: the declaration.
        names: the source's classes.
        chosen: ids of the classes that the split draws from.
        adopted: the adopted classes and images, if the split is adopted.
    """
    drawn = set(chosen)
    if adopted is not None:
        rule = ("not-adopted", "not in the copy of the published benchmark that was adopted")
        by_rule = adopted.source_ids is None  # the copy names classes, and their images are drawn
        return {name: not_drawn(split.quota) if by_rule and name in drawn else rule for name in names}
    if isinstance(split.classes, AllClasses):
        return dict.fromkeys(drawn, not_drawn(split.quota))
    outside = f"not one of the classes that the rules of the table {split.classes.table} look at"
    reasons = dict.fromkeys(names, ("outside", outside))
    for decision in decisions.load(split.classes.table):
        if decision.class_id in drawn:
            reasons[decision.class_id] = not_drawn(split.quota)
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


def _strays(key: str, split: Split, view: IndexArrays) -> list[Exclusion]:
    # A stray is not an image of the source, so it counts 0 images and the sum stays right.
    return [
        Exclusion(key, split.source.key, piece.partition, "", "", stray.path, 0, "stray", stray.reason)
        for piece in view.index.pieces
        if piece.partition in split.partitions
        for stray in piece.strays
    ]
