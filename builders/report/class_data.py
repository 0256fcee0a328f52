"""Writes the trees of classes as the page's script reads them: rows and exclusions of each class, by split.

As HTML, thousands of classes times dozens of splits would be several MB; the script writes what a reader opens.

Tested by `tests/builders/report/test_classes.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from builders.card.words import ROLE_NAMES
from builders.release.schema import ROLES
from builders.report.classes import Branch, Leaf


def class_data(trees: Iterable[Branch]) -> dict[str, Any]:
    """Return the classes of some trees as JSON values.

    Returns:
        Lists of texts (`splits`, `rules`, `evidence`), and `roles` with their names. Each of `classes` has an `id`
        and a `name`, lists [split, role, rows] of what is `kept`, and [split, rule, evidence, images] of what is
        `left` out, with places in the lists before. A branch of the `trees` has a `title`, `branches` below it, and
        places in `classes`.
    """
    data = _Data()
    branches = [data.branch(tree) for tree in trees]
    return {
        "splits": list(data.splits),
        "rules": list(data.rules),
        "evidence": list(data.evidence),
        "roles": [[role, ROLE_NAMES[role]] for role in ROLES],
        "classes": data.classes,
        "trees": branches,
    }


class _Numbered(dict[str, int]):
    """Texts with numbers in the order in which they are first asked for."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]


class _Data:
    """Collects classes and numbers texts while it walks the trees."""

    def __init__(self) -> None:
        self.splits, self.rules, self.evidence = _Numbered(), _Numbered(), _Numbered()
        self.classes: list[dict[str, Any]] = []

    def branch(self, branch: Branch) -> dict[str, Any]:
        """Return a branch, whose classes are numbered."""
        below = [self.branch(child) for child in branch.branches]
        first = len(self.classes)
        self.classes += map(self.leaf, branch.leaves)
        return {"title": branch.title, "branches": below, "classes": list(range(first, len(self.classes)))}

    def leaf(self, leaf: Leaf) -> dict[str, Any]:
        """Return a class, with places in the lists of texts."""
        included = [[self.splits[key], ROLES.index(role), rows] for (key, role), rows in leaf.rows.items()]
        excluded = [
            [self.splits[line.split], self.rules[line.rule], self.evidence[line.evidence], line.images]
            for line in leaf.exclusions
        ]
        return {"id": leaf.class_id, "name": leaf.name, "kept": included, "left": excluded}
