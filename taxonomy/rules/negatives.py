"""Words that name neither a class nor a kind of one: WordNet 3.0's nouns from which negative labels are chosen.

NegLabel (Jiang et al., ICLR 2024) takes words that are unlike the classes, whatever they mean. NegRefine (arXiv
2507.09795) shows that among them are kinds of the classes, and asks a language model; here WordNet's hyponyms answer.

Tested by `tests/taxonomy/rules/test_negatives.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from taxonomy.errors import TaxonomyError
from taxonomy.rules.own_classes import senses_of
from taxonomy.tables import is_wnid
from taxonomy.wordnet.nouns import load_wordnet
from unknown_detection.names import folded


class Negatives(NamedTuple):
    """Words that may be negative labels, and those that may not.

    `words` has the wnid of each, sorted by word; `excluded` wnid and class of each word that names a class or a kind;
    `unknown` are the classes that are no nouns of WordNet, whose own names alone are excluded.
    """

    words: Mapping[str, str]
    excluded: Mapping[str, tuple[str, str]]
    unknown: tuple[str, ...]


def negative_words(classes: Mapping[str, str]) -> Negatives:
    """Return the most usual word of each noun that is neither a class, a name by id, nor a kind of one in any sense.

    A class is the synset that its id names if that is a wnid, else every sense of its name. A word is excluded if any
    of its senses is such a class or a kind of it, because a text encoder reads words. Of two that differ in
    case alone the first one counts.
    """
    wordnet = load_wordnet()
    above: dict[int, str] = {}
    taken: dict[str, str] = {}
    unknown = []
    for class_id, name in classes.items():
        taken.setdefault(folded(name), class_id)
        rows = _synsets(class_id, name)
        unknown += [] if rows else [class_id]
        for row in [*rows, *wordnet.descendants(np.array(rows, dtype=np.intp)).tolist()]:
            above.setdefault(row, class_id)
    for row, class_id in above.items():
        for lemma in wordnet.lemmas(row):
            taken.setdefault(folded(lemma), class_id)
    words: dict[str, tuple[str, str]] = {}
    excluded: dict[str, tuple[str, str]] = {}
    for row in range(len(wordnet)):
        word, wnid = wordnet.lemmas(row)[0], wordnet.wnid(row)
        if folded(word) in taken:
            excluded.setdefault(word, (wnid, taken[folded(word)]))
        else:
            words.setdefault(folded(word), (word, wnid))
    return Negatives(dict(sorted(words.values())), dict(sorted(excluded.items())), tuple(unknown))


def _synsets(class_id: str, name: str) -> list[int]:
    if is_wnid(class_id):
        try:
            return [load_wordnet().row(class_id)]
        except TaxonomyError:  # of another WordNet
            return []
    return list(senses_of(name))
