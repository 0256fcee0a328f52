"""What the page's script knows of each class: its rows and what is left out of it, by split, as compact lists.

Thousands of classes times dozens of splits would be several MB as HTML; the script writes out a class when a reader
opens it.

Tested by `tests/builders/report/test_classes.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from builders.release.schema import ROLES
from builders.report.classes import Branch
from builders.report.roles import ROLE_NAMES


def class_data(trees: Iterable[Branch]) -> dict[str, Any]:
    """The classes of some trees, in the order of their numbers.

    Returns:
        Lists of the texts `splits`, `rules` and `evidence`, and `roles` with their names; `classes` has for each class
        two lists: [split, role, rows], and [split, rule, evidence, images], with places in the lists before.
    """
    splits, rules, evidence = _Numbered(), _Numbered(), _Numbered()
    classes = []
    for tree in trees:
        for leaf in tree.all_leaves:
            kept = [[splits[key], ROLES.index(role), rows] for (key, role), rows in leaf.kept.items()]
            left = [[splits[line.split], rules[line.rule], evidence[line.evidence], line.images] for line in leaf.left]
            classes.append([kept, left])
    return {
        "splits": list(splits),
        "rules": list(rules),
        "evidence": list(evidence),
        "roles": [[role, ROLE_NAMES[role]] for role in ROLES],
        "classes": classes,
    }


class _Numbered(dict[str, int]):
    """Texts with numbers in the order in which they are first asked for."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]
