"""Builds trees of the classes of a release's sources: which splits have a class, and why others leave it out.

Classes whose ids are synsets of WordNet stand in its tree; those of CIFAR-100 below their superclasses. Other sources
have no tree: their classes stand below what they are in the release.

Tested by `tests/builders/report/test_classes.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from builders.card.words import ROLE_NAMES
from builders.release.schema import ROLES, Role
from builders.release.tables import Exclusion
from builders.report.pictures import SplitRows
from taxonomy import tables
from taxonomy.wordnet.nouns import load_wordnet

_SMALLEST = 6
"""Classes that a synset must have below it to be a branch of its own (ours: fewer are no help to a reader)."""

_NEARLY_ALL = 0.75
"""Share of a synset's classes that lets a hyponym stand in its place (ours), as "animal" does for "organism"."""

LEFT_OUT = "in no split"


@dataclass
class Leaf:
    """A class of a source: its rows by split (`config/split`) and role, and what splits leave out of it."""

    class_id: str
    name: str
    rows: dict[tuple[str, Role], int] = field(default_factory=dict)
    exclusions: list[Exclusion] = field(default_factory=list)

    @property
    def roles(self) -> list[Role]:
        """The roles of the rows, in the format's order."""
        return [role for role in ROLES if any(role == row_role for _, row_role in self.rows)]


@dataclass
class Branch:
    """A branch of a tree: classes that belong together, and branches below."""

    title: str
    branches: list[Branch] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)


def class_trees(
    titles: Mapping[str, str], splits: Iterable[SplitRows], excluded: Iterable[Exclusion]
) -> dict[str, Branch]:
    """Return the tree of each source, sorted by key; `titles` are their names.

    Exclusions of single images and stray files are passed over.
    """
    leaves_of: dict[str, dict[str, Leaf]] = {key: {} for key in sorted(titles)}
    for split in splits:
        for counted in split.classes:
            leaf = leaves_of[counted.source].setdefault(counted.class_id, Leaf(counted.class_id, counted.name))
            leaf.rows[split.key, counted.role] = leaf.rows.get((split.key, counted.role), 0) + counted.rows
    for line in excluded:
        if line.class_id and not line.image and line.source in leaves_of:
            leaf = leaves_of[line.source].setdefault(line.class_id, Leaf(line.class_id, line.class_name))
            leaf.exclusions.append(line)
    return {key: _tree(titles[key], list(leaves.values())) for key, leaves in leaves_of.items() if leaves}


def _tree(title: str, leaves: list[Leaf]) -> Branch:
    wordnet = load_wordnet()
    offsets = set(wordnet.offsets.tolist())
    synsets = [leaf for leaf in leaves if tables.is_wnid(leaf.class_id) and int(leaf.class_id[1:]) in offsets]
    if len(synsets) == len(leaves):
        ways = [wordnet.path_up(wordnet.row(leaf.class_id))[-2::-1] for leaf in leaves]
        return Branch(title, *_below(list(zip(ways, leaves, strict=True))))
    superclasses = {row.fine: row.coarse for row in tables.cifar100()}
    if all(leaf.class_id in superclasses for leaf in leaves):
        return Branch(title, _grouped(leaves, superclasses))
    roles = {leaf.class_id: " and ".join(ROLE_NAMES[role] for role in leaf.roles) or LEFT_OUT for leaf in leaves}
    return Branch(title, _grouped(leaves, roles))


def _grouped(leaves: Iterable[Leaf], groups: Mapping[str, str]) -> list[Branch]:
    branches: dict[str, Branch] = {}
    for leaf in sorted(leaves, key=_by_name):
        title = groups[leaf.class_id].replace("_", " ")
        branches.setdefault(title, Branch(title)).leaves.append(leaf)
    return [branches[title] for title in sorted(branches, key=lambda title: (title == LEFT_OUT, title))]


def _by_name(leaf: Leaf) -> tuple[str, str]:
    return leaf.name.casefold(), leaf.class_id


def _below(placed: Sequence[tuple[list[int], Leaf]]) -> tuple[list[Branch], list[Leaf]]:
    """Return the branches and classes below a synset, given its classes with their ways down to them in WordNet.

    Synsets with few classes, and those of which one hyponym has nearly all, are no branches: what they have moves up.
    """
    branches, leaves = list[Branch](), [leaf for way, leaf in placed if not way]
    hyponyms: dict[int, list[tuple[list[int], Leaf]]] = {}
    for way, leaf in placed:
        if way:
            hyponyms.setdefault(way[0], []).append((way[1:], leaf))
    for row, classes in hyponyms.items():
        branches_below, leaves_below = _below(classes)
        most = max(Counter(way[0] for way, _ in classes if way).values(), default=0)
        if len(classes) < _SMALLEST or most >= _NEARLY_ALL * len(classes):
            branches += branches_below
            leaves += leaves_below
        else:
            branches.append(Branch(load_wordnet().lemmas(row)[0], branches_below, leaves_below))
    return sorted(branches, key=lambda branch: branch.title.casefold()), sorted(leaves, key=_by_name)


def class_data(trees: Iterable[Branch]) -> dict[str, Any]:
    """Return some trees as data for the page's script, which renders a branch when a reader opens it.

    As HTML, thousands of classes times dozens of splits would be several MB. There are lists of texts (`splits`,
    `rules`, `evidence`), and `roles` with their names. Each of `classes` has an `id` and a `name`, lists [split, role,
    rows] of what is `kept`, and [split, rule, evidence, images] of what is `left` out, with places in these lists. A
    branch of the `trees` has a `title`, `branches` below it, and places in `classes`.
    """
    texts: dict[str, dict[str, int]] = {"splits": {}, "rules": {}, "evidence": {}}
    classes: list[dict[str, Any]] = []

    def place(kind: str, text: str) -> int:
        return texts[kind].setdefault(text, len(texts[kind]))

    def branch_data(branch: Branch) -> dict[str, Any]:
        below, first = [branch_data(child) for child in branch.branches], len(classes)
        for leaf in branch.leaves:
            kept = [[place("splits", key), ROLES.index(role), rows] for (key, role), rows in leaf.rows.items()]
            left = [
                [place("splits", line.split), place("rules", line.rule), place("evidence", line.evidence), line.images]
                for line in leaf.exclusions
            ]
            classes.append({"id": leaf.class_id, "name": leaf.name, "kept": kept, "left": left})
        return {"title": branch.title, "branches": below, "classes": list(range(first, len(classes)))}

    branches = [branch_data(tree) for tree in trees]
    roles = [[role, ROLE_NAMES[role]] for role in ROLES]
    lists = {kind: list(listed) for kind, listed in texts.items()}
    return lists | {"roles": roles, "classes": classes, "trees": branches}
