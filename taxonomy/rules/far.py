"""The far-OoD examination: which classes of another dataset are semantically close to ImageNet's.

Source: Kim, Koo & Hwang (2023), section 3.2, "Far-OoD dataset". A class goes if a node matching one of its keywords is
(i) an ImageNet class, (ii) has a sibling that is one, or (iii) has an ancestor or a descendant that is one.

The paper searches the subtree that it uses for ImageNet; which nodes that is, it does not say. Here it is the tree of
the full ImageNet release: its 21,841 synsets, the 1,000 classes and all their ancestors. That reading gives the
paper's counts for Food-101 (32) and Places365 (82) without exception; searching all nouns gives 32 and 74.

Tested by `tests/taxonomy/rules/test_unified.py`.
"""

import functools
import re
from dataclasses import dataclass, replace

import numpy as np

from taxonomy import tables
from taxonomy.decisions import Decision
from taxonomy.rules.keywords import keywords
from taxonomy.wordnet.nouns import Mask, WordNet, load_wordnet

# Of all matches that remove a class the clearest one is the evidence: being an ImageNet class says more than being
# above or below one, which says more than having the same hypernym. The decision does not depend on this order.
_RULE_ORDER = ("i", "iii", "ii")

# Caltech-256's last folder holds images of everything else.
_NO_OBJECT = {"257.clutter": "clutter is Caltech-256's folder of background images, not a kind of object."}


@dataclass(frozen=True, order=True, slots=True)
class Match:
    """A node that a keyword matches, ordered so that the smallest is the best evidence.

    That is a whole lemma before a part of one, then a long keyword before a short one, then the clearer rule.
    """

    part: bool  # the keyword is some of the lemma's words, not all
    shortness: int  # minus the keyword's length
    rule_order: int
    row: int
    witness: int
    keyword: str

    @property
    def rule(self) -> str:
        """The rule that removes the class, "i", "ii" or "iii"; "" if none does."""
        return _RULE_ORDER[self.rule_order] if self.rule_order < len(_RULE_ORDER) else ""

    @property
    def wnid(self) -> str:
        """The matched synset."""
        return load_wordnet().wnid(self.row)


@dataclass(frozen=True, slots=True)
class ImageNetTree:
    """The synsets that the far-OoD examination searches, as masks (n,) over WordNet's synsets.

    `nodes` are the full ImageNet release, the 1,000 classes and all their ancestors: 23,547 synsets; `classes` the
    1,000, and `near` the synsets with a class above or below them.
    """

    nodes: Mask
    classes: Mask
    near: Mask


@functools.cache
def searched_tree() -> ImageNetTree:
    """Return the tree that the far-OoD examination searches."""
    wordnet = load_wordnet()
    classes = wordnet.rows(item.wnid for item in tables.imagenet1k())
    release = np.union1d(wordnet.rows(tables.imagenet_tree()), classes)
    return ImageNetTree(
        nodes=wordnet.mask(np.union1d(release, wordnet.ancestors(release))),
        classes=wordnet.mask(classes),
        near=wordnet.mask(np.union1d(wordnet.ancestors(classes), wordnet.descendants(classes))),
    )


def synset_text(wordnet: WordNet, row: int) -> str:
    """Return a synset as text: its first lemma, and its wnid in brackets."""
    return f"{wordnet.lemmas(row)[0]} ({wordnet.wnid(row)})"


@functools.cache
def _relation(row: int) -> tuple[str, int]:
    """Return the rule that a node meets and the lowest ImageNet class that it meets it with, or ("", -1)."""
    wordnet, tree = load_wordnet(), searched_tree()
    if tree.classes[row]:
        return "i", row
    if tree.near[row]:
        line = np.concatenate([wordnet.ancestors(row), wordnet.descendants(row)])
        return "iii", int(line[tree.classes[line]].min())
    siblings = wordnet.siblings(row)
    sibling_classes = siblings[tree.classes[siblings]]
    return ("ii", int(sibling_classes.min())) if len(sibling_classes) else ("", -1)


def matches(name: str) -> tuple[Match, ...]:
    """Return the nodes that a class name's keywords match: those that remove it first, then by evidence."""
    wordnet, tree = load_wordnet(), searched_tree()
    node_matches = []
    for keyword in keywords(name):
        for row, is_whole in wordnet.containing(keyword).items():
            if tree.nodes[row]:
                rule, witness = _relation(row)
                order = _RULE_ORDER.index(rule) if rule else len(_RULE_ORDER)
                node_matches.append(Match(not is_whole, -len(keyword), order, row, witness, keyword))
    return tuple(sorted(node_matches, key=lambda match: (not match.rule, match)))


def lemmas_with(match: Match) -> list[str]:
    """Return the lemmas of a match that contain its keyword, the shortest first."""
    tokens = match.keyword.split()
    lemmas = []
    for lemma in load_wordnet().lemmas(match.row):
        words = re.split(r"[ _-]+", lemma.lower())
        if any(words[start : start + len(tokens)] == tokens for start in range(len(words))):
            lemmas.append(lemma)
    return sorted(lemmas, key=len)


def evidence(match: Match) -> str:
    """Explain in a sentence what a keyword matches, and how the match is related to an ImageNet class."""
    wordnet = load_wordnet()
    node = f"'{match.keyword}' matches {synset_text(wordnet, match.row)}"
    if match.rule == "i":
        return f"{node}, an ImageNet class."
    if not match.rule:
        return (
            f"{node}, which like all other matches has no ImageNet class as itself, sibling, ancestor or descendant."
        )
    if match.rule == "ii":
        relation = "a sibling"
    else:
        relation = "an ancestor" if match.row in wordnet.ancestors(match.witness) else "a descendant"
    return f"{node}, {relation} of the ImageNet class {synset_text(wordnet, match.witness)}."


def _decide(class_id: str, name: str) -> Decision:
    if class_id in _NO_OBJECT:
        return Decision(class_id, name, "remove", "no_object", _NO_OBJECT[class_id])
    match = next(iter(matches(name)), None)
    if match is None:
        return Decision(class_id, name, "keep", "no_match", "No keyword of its name matches a node of the tree.")
    wordnet = load_wordnet()
    return Decision(
        class_id,
        name,
        "remove" if match.rule else "keep",
        match.rule or "unrelated",
        evidence(match),
        keyword=match.keyword,
        matched=wordnet.wnid(match.row),
        witness=wordnet.wnid(match.witness) if match.rule else "",
    )


def by_rule(classes: list[tuple[str, str]]) -> tuple[Decision, ...]:
    """Examine the classes of a dataset, given by id and name, by the rule alone; decisions are sorted by class id."""
    return tuple(_decide(class_id, name) for class_id, name in sorted(classes))


def examine(table: str, classes: list[tuple[str, str]]) -> tuple[Decision, ...]:
    """Examine the classes of a dataset by the rule, and apply the overrides of `tables.overrides` for `table`.

    An overridden decision keeps the keyword, match and witness of the rule's own.
    """
    by_hand = {item.class_id: item for item in tables.overrides() if item.table == table}
    return tuple(
        replace(item, decision=override.decision, rule="override", evidence=f"{override.reason}.")
        if (override := by_hand.get(item.class_id)) is not None
        else item
        for item in by_rule(classes)
    )
