"""Compiles WordNet 3.0's noun files into the array file that is part of the package.

It is run to check or renew `taxonomy/data/wordnet-nouns.npz`; nothing is compiled at install time. The manual page
wndb(5WN) describes the format of the input.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taxonomy.errors import TaxonomyError

# SHA-256 of the two noun files of WordNet 3.0, as `sha256sum` prints it for Debian's wordnet-base 1:3.0-37. That they
# are version 3.0 is proved by the offsets: they are the numbers in ImageNet's wnids, all of which resolve (tested).
SHA256 = {
    "data.noun": "fea17d2f9656611334eac790e5d69e47645fa180c4aa481fb4cd9b3520754ca2",
    "index.noun": "a490d99d93d017bf4822fe2f0ffa51fd73911ce271dc7535fade21f8814b5a04",
}
_HYPERNYM = {"@", "@i"}  # wninput(5WN): hypernym and instance hypernym


@dataclass
class _Nouns:
    """The contents of data.noun, one entry per synset."""

    offsets: list[int] = field(default_factory=list)
    parents: list[list[int]] = field(default_factory=list)
    lemmas: list[list[str]] = field(default_factory=list)


def _read_verified(folder: Path, name: str) -> str:
    """Return the text of `folder/name`, or raise when it is not WordNet 3.0's."""
    path = folder / name
    if not path.is_file():
        raise TaxonomyError(f"{path} is missing. Give --wordnet the `dict` folder of WordNet 3.0, which has {name}.")
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[name]:
        raise TaxonomyError(
            f"{path} is not the file of WordNet 3.0: its SHA-256 is {digest}, not {SHA256[name]}. Give --wordnet the "
            "`dict` folder of version 3.0 (Debian's package wordnet-base has it)."
        )
    return content.decode("ascii")


def _parse_data(text: str) -> _Nouns:
    """Parse data.noun: `offset file type n-lemmas(hex) (lemma id)* n-pointers (symbol offset pos link)* | gloss`."""
    nouns = _Nouns()
    for line in text.splitlines():
        if line.startswith(" "):  # the licence at the top
            continue
        fields = line.split(" | ", 1)[0].split()
        words = int(fields[3], 16)
        pointers = fields[4 + 2 * words + 1 :]
        nouns.offsets.append(int(fields[0]))
        nouns.lemmas.append(fields[4 : 4 + 2 * words : 2])
        nouns.parents.append(
            [int(target) for symbol, target in zip(pointers[::4], pointers[1::4], strict=False) if symbol in _HYPERNYM]
        )
    return nouns


def _parse_index(text: str) -> dict[str, list[int]]:
    """Parse index.noun: lower-case lemma to the offsets of its synsets, most frequent sense first."""
    senses = {}
    for line in text.splitlines():
        if line.startswith(" "):
            continue
        fields = line.split()
        senses[fields[0]] = [int(offset) for offset in fields[-int(fields[2]) :]]
    return senses


def _starts(groups: list[list[int]] | list[list[str]]) -> NDArray[np.int32]:
    """Return the start of each group in the concatenation of all, and the total: the pointer array of a CSR."""
    return np.concatenate([[0], np.cumsum([len(group) for group in groups])]).astype(np.int32)


def compile_nouns(folder: Path) -> dict[str, NDArray[np.generic]]:
    """Turn WordNet's noun files into arrays; n synsets in offset order, e hypernym links, w lemmas.

    Args:
        folder: WordNet's `dict` folder, holding data.noun and index.noun.

    Returns:
        offsets (n, int32): byte offset in data.noun, the number in a wnid.
        parent_start (n + 1, int32) and parents (e, int32): rows of each synset's direct hypernyms (`@` and `@i`) in
            the file's order.
        lemma_start (n + 1, int32), lemmas (bytes, uint8) and senses (w, uint8): the lemmas of all synsets, one a line,
            in the file's spelling and order, and the place of the synset among the lemma's senses, from 1.
    """
    nouns = _parse_data(_read_verified(folder, "data.noun"))
    order = _parse_index(_read_verified(folder, "index.noun"))
    offsets = np.array(nouns.offsets, dtype=np.int32)
    flat_parents = np.array([parent for parents in nouns.parents for parent in parents], dtype=np.int32)
    senses = [
        order[lemma.lower()].index(offset) + 1
        for offset, lemmas in zip(nouns.offsets, nouns.lemmas, strict=True)
        for lemma in lemmas
    ]
    text = "\n".join(lemma for lemmas in nouns.lemmas for lemma in lemmas)
    return {
        "offsets": offsets,
        "parent_start": _starts(nouns.parents),
        "parents": np.searchsorted(offsets, flat_parents).astype(np.int32),
        "lemma_start": _starts(nouns.lemmas),
        "lemmas": np.frombuffer(text.encode("ascii"), dtype=np.uint8),
        "senses": np.array(senses, dtype=np.uint8),
    }
