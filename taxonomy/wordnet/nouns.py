"""WordNet 3.0's nouns as arrays: hypernyms, hyponyms, lemmas and senses.

A synset is a row, 0 to n - 1, in the order of WordNet's file; a wnid ("n02084071", as ImageNet writes it) is "n" and
the synset's 8-digit offset in that file. Hypernyms are direct hypernyms of both kinds, of classes and of instances.
Lemmas are written with spaces, where the file has underscores.
"""

import functools
from collections import defaultdict
from collections.abc import Iterable
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from taxonomy.errors import TaxonomyError
from unknown_detection.names import folded

DATA_FILE = "wordnet-nouns.npz"
ROOT = "n00001740"  # entity, the one noun synset without a hypernym

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]


class WordNet:
    """WordNet 3.0's noun synsets. `load_wordnet` returns the only instance, which never changes.

    `offsets` (n,) are the numbers in the wnids, ascending; `parents` (e,) the rows of the direct hypernyms, synset
    after synset, in WordNet's order, of which each synset's start at `parent_start` (n + 1,).
    """

    def __init__(self, arrays: dict[str, NDArray[np.generic]]) -> None:
        self.offsets: Rows = arrays["offsets"].astype(np.intp)
        self.parent_start: Rows = arrays["parent_start"].astype(np.intp)
        self.parents: Rows = arrays["parents"].astype(np.intp)
        self._lemma_start: list[int] = arrays["lemma_start"].tolist()
        self._lemmas = arrays["lemmas"].tobytes().decode("ascii").replace("_", " ").split("\n")
        self._senses = arrays["senses"]

    def __len__(self) -> int:
        return len(self.offsets)

    # ---- wnids

    def rows(self, wnids: Iterable[str]) -> Rows:
        """Return the rows of `wnids`, in their order."""
        wnids = list(wnids)
        for wnid in wnids:
            if not (len(wnid) == 9 and wnid[0] == "n" and wnid[1:].isascii() and wnid[1:].isdigit()):
                raise TaxonomyError(f"'{wnid}' is not a wnid: expected 'n' and eight digits, such as {ROOT}.")
        numbers = np.array([int(wnid[1:]) for wnid in wnids], dtype=np.intp)
        rows = np.searchsorted(self.offsets, numbers)
        known = self.offsets[np.minimum(rows, len(self) - 1)] == numbers
        if not known.all():
            unknown = wnids[int(np.argmin(known))]
            raise TaxonomyError(f"{unknown} is no noun of WordNet 3.0; wnids of other WordNet versions differ.")
        return rows

    def row(self, wnid: str) -> int:
        """Return the row of one wnid; see `rows`."""
        return int(self.rows([wnid])[0])

    def wnid(self, row: int) -> str:
        """Return the wnid of a row."""
        return f"n{self.offsets[row]:08d}"

    def mask(self, rows: Rows) -> Mask:
        """Return a (n,) mask that is true at `rows`."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[rows] = True
        return mask

    # ---- the tree

    @functools.cached_property
    def _children(self) -> tuple[Rows, Rows]:
        """Start and rows of each synset's direct hyponyms: the parents' arrays inverted."""
        links = np.repeat(np.arange(len(self)), np.diff(self.parent_start))
        by_parent = np.argsort(self.parents, kind="stable")
        start = np.searchsorted(self.parents[by_parent], np.arange(len(self) + 1))
        return start, links[by_parent]

    def hypernyms(self, row: int) -> Rows:
        """Return the direct hypernyms, in WordNet's order."""
        return self.parents[self.parent_start[row] : self.parent_start[row + 1]]

    def ancestors(self, rows: Rows | int) -> Rows:
        """Return all proper ancestors of one synset, or of any of several; ascending."""
        return _reach(self.parent_start, self.parents, np.atleast_1d(rows))

    def descendants(self, rows: Rows | int) -> Rows:
        """Return all proper descendants of one synset, or of any of several; ascending."""
        return _reach(*self._children, np.atleast_1d(rows))

    def siblings(self, row: int) -> Rows:
        """Return the other hyponyms of the synset's hypernyms, ascending."""
        children = _neighbours(*self._children, self.hypernyms(row))
        return np.unique(children[children != row])

    def path_up(self, row: int, ancestor: int | None = None) -> list[int]:
        """Return a shortest path of hypernyms from a synset (first) to an ancestor (last), by default the root.

        Of several shortest paths it is the one through the hypernyms that WordNet names first.
        """
        target, reached_from = self.row(ROOT) if ancestor is None else ancestor, self.ascent(row)
        if target not in reached_from:
            raise TaxonomyError(f"{self.wnid(target)} is no ancestor of {self.wnid(row)}.")
        path = [target]
        while path[-1] != row:
            path.append(reached_from[path[-1]])
        return path[::-1]

    def ascent(self, row: int) -> dict[int, int]:
        """Return a synset and its ancestors, nearest first, each with the synset below it on a shortest path."""
        reached_from, waiting = {row: row}, [row]
        for node in waiting:
            for parent in self.hypernyms(node).tolist():
                if parent not in reached_from:
                    reached_from[parent] = node
                    waiting.append(parent)
        return reached_from

    @functools.cached_property
    def min_depth(self) -> Rows:
        """(n,) length of the shortest path to the root, counted in links; the root has 0."""
        return self._depth(shortest=True)

    @functools.cached_property
    def max_depth(self) -> Rows:
        """(n,) length of the longest path to the root, counted in links; the root has 0."""
        return self._depth(shortest=False)

    def _depth(self, *, shortest: bool) -> Rows:
        """Relax the depths until they converge, which takes as many rounds as the tree is deep (19)."""
        below_root = np.flatnonzero(np.diff(self.parent_start))
        reduce = np.minimum.reduceat if shortest else np.maximum.reduceat
        depth = np.full(len(self), len(self) if shortest else 0, dtype=np.intp)
        depth[self.row(ROOT)] = 0
        while True:
            deeper = depth.copy()
            deeper[below_root] = 1 + reduce(depth[self.parents], self.parent_start[below_root])
            if np.array_equal(deeper, depth):
                return depth
            depth = deeper

    # ---- words

    def lemmas(self, row: int) -> tuple[str, ...]:
        """Return the synset's lemmas in WordNet's order and spelling, the most usual word first."""
        return tuple(self._lemmas[self._lemma_start[row] : self._lemma_start[row + 1]])

    def name(self, row: int) -> str:
        """Return the synset's name as nltk writes it: first lemma, part of speech and sense number, "dog.n.01"."""
        first = self._lemma_start[row]
        return f"{self._lemmas[first].lower().replace(' ', '_')}.n.{self._senses[first]:02d}"

    @functools.cached_property
    def _by_lemma(self) -> dict[str, list[tuple[int, int]]]:
        """Lower-case lemma to (sense number, row) pairs."""
        index: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        rows = np.repeat(np.arange(len(self)), np.diff(self._lemma_start)).tolist()
        for lemma, sense, row in zip(self._lemmas, self._senses.tolist(), rows, strict=True):
            index[lemma.lower()].append((sense, row))
        return dict(index)

    @functools.cached_property
    def _by_token(self) -> dict[str, list[tuple[str, int]]]:
        """Token to (the lemma's tokens between spaces, row) pairs."""
        index: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for lemma, senses in self._by_lemma.items():
            tokens = lemma.replace("-", " ").split()
            padded = f" {' '.join(tokens)} "
            for token in set(tokens):
                index[token].extend((padded, row) for _, row in senses)
        return dict(index)

    def senses(self, lemma: str) -> tuple[int, ...]:
        """Return the synsets that have this lemma, most frequent sense first; () if none has.

        Neither case nor encoding matters, and underscores count as spaces.
        """
        pairs = self._by_lemma.get(folded(lemma).replace("_", " "), [])
        return tuple(dict.fromkeys(row for _, row in sorted(pairs)))

    def containing(self, phrase: str) -> dict[int, bool]:
        """Map each synset with a lemma that contains the phrase to whether the phrase is one of its lemmas; ascending.

        The phrase stands there as consecutive whole tokens, which spaces, underscores and hyphens divide; neither
        case nor encoding matters.
        """
        tokens = folded(phrase).replace("_", " ").replace("-", " ").split()
        if not tokens:
            return {}
        padded = f" {' '.join(tokens)} "
        postings = min((self._by_token.get(token, []) for token in tokens), key=len)
        whole_by_row: dict[int, bool] = {}
        for lemma, row in postings:
            if padded in lemma:
                whole_by_row[row] = whole_by_row.get(row, False) or lemma == padded
        return dict(sorted(whole_by_row.items()))


def _neighbours(start: Rows, targets: Rows, rows: Rows) -> Rows:
    """Return the targets of all `rows` of a CSR, row after row, with repetitions."""
    if not len(rows):
        return np.empty(0, dtype=np.intp)
    return np.concatenate([targets[start[row] : start[row + 1]] for row in rows.tolist()])


def _reach(start: Rows, targets: Rows, rows: Rows) -> Rows:
    """Return the rows that are reached from `rows` in one link or more, ascending."""
    reached = np.zeros(len(start) - 1, dtype=np.bool_)
    frontier = rows
    while len(frontier):
        next_rows = np.unique(_neighbours(start, targets, frontier))
        frontier = next_rows[~reached[next_rows]]
        reached[frontier] = True
    return np.flatnonzero(reached)


@functools.cache
def load_wordnet() -> WordNet:
    """Return WordNet 3.0's nouns; they are read once, at the first call."""
    path = resources.files("taxonomy") / "data" / DATA_FILE
    with resources.as_file(path) as file, np.load(file, allow_pickle=False) as arrays:
        return WordNet(dict(arrays))
