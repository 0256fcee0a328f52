"""Compares a draw with the authors' own list of its images, where they publish one and the draw follows a rule.

Tested by `tests/builders/broad/test_multi_label.py`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from builders.declare.benchmark import Largest
from builders.errors import NAMED, more
from builders.plan.candidates import IndexArrays, KeyedRanks, RankedCandidates
from builders.plan.classes import Draws
from builders.plan.planner import PlannedSplit
from builders.sources.base import SourceIndex


def agreements(draws: Draws, planned: Sequence[PlannedSplit], indexes: Mapping[str, SourceIndex]) -> Iterator[str]:
    """Say how many images each split shares with its authors' list, how many it would by their other reading.

    Args:
        draws: the draws that they are planned by.
        planned: the plans; splits without a list are passed over.
        indexes: the sources they are planned from.
    """
    for plan in planned:
        authors = plan.split.authors
        if authors is None:
            continue
        view = IndexArrays(indexes[plan.split.source.key])
        listed = authors.listed()
        there = len(listed.keys() & set(view.index.table["source_id"].to_pylist()))
        shared = len(listed.keys() & set(plan.table["source_id"].to_pylist()))
        text = f"{plan.key}: {shared:,} of its {plan.size:,} images are on the authors' list of {len(listed):,}"
        text += f", of which the source has {there:,}" if there < len(listed) else ""
        if authors.other_column:
            text += f"; by {authors.other_column} it would be {len(listed.keys() & _otherwise(draws, plan, view)):,}"
        yield text + _other_counts(plan, listed)


def _otherwise(draws: Draws, plan: PlannedSplit, view: IndexArrays) -> set[str]:
    """The images that the split would have by its authors' other column."""
    split = plan.split
    if not isinstance(split.quota, Largest) or split.authors is None:
        raise ValueError(f"{plan.key} has another column to draw by, but no quota of the largest values")
    quota = dataclasses.replace(split.quota, by=split.authors.other_column)
    rows = view.rows(draws.classes(plan.key), split.partitions)
    ranks = KeyedRanks(view, draws.rank(plan.split_key))
    return set(view.ids(quota.take(RankedCandidates(view, rows, ranks, split.partitions))).to_pylist())


def _other_counts(plan: PlannedSplit, listed: Mapping[str, str]) -> str:
    """The classes of which the split has another number of images than the list, if that names classes."""
    theirs = Counter(class_id for class_id in listed.values() if class_id)
    ours = Counter(plan.table["class_id"].to_pylist())
    differ = [name for name in sorted(theirs | ours) if ours[name] != theirs[name]] if theirs else []
    if not differ:
        return ""
    counts = ", ".join(f"{name} {ours[name]:,} ({theirs[name]:,})" for name in differ[:NAMED])
    return f"; other numbers than the list's: {counts}{more(differ)}"
