"""Compiles WordNet 3.0's noun files into the package's array file: `python -m taxonomy.compile_wordnet --wordnet DIR`.

It is run to check or renew `taxonomy/data/wordnet-nouns.npz`; nothing is compiled at install time. The manual page
wndb(5WN) describes the format of the input.

Tested by `tests/taxonomy/wordnet/test_compile.py`.
"""

import hashlib
import sys
from collections.abc import Iterator, Sequence, Sized
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from taxonomy.errors import ERRORS, TaxonomyError
from taxonomy.wordnet.nouns import DATA_FILE
from unknown_detection.help import helpful
from unknown_detection.terminal.command_line import run_command_line

# SHA-256 of the two noun files of WordNet 3.0, as `sha256sum` prints it for Debian's wordnet-base 1:3.0-37. That they
# are version 3.0 is proved by the offsets: they are the numbers in ImageNet's wnids, all of which resolve (tested).
SHA256 = {
    "data.noun": "fea17d2f9656611334eac790e5d69e47645fa180c4aa481fb4cd9b3520754ca2",
    "index.noun": "a490d99d93d017bf4822fe2f0ffa51fd73911ce271dc7535fade21f8814b5a04",
}
_HYPERNYM = {"@", "@i"}  # wninput(5WN): hypernym and instance hypernym


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


def _parse_data(text: str) -> Iterator[tuple[int, list[int], list[str]]]:
    """Yield offset, hypernyms' offsets and lemmas of each synset of data.noun.

    A line is `offset file type n-lemmas(hex) (lemma id)* n-pointers (symbol offset pos link)* | gloss`.
    """
    for line in text.splitlines():
        if not line.startswith(" "):  # the licence at the top
            fields = line.split(" | ", 1)[0].split()
            words = int(fields[3], 16)
            pointers = fields[4 + 2 * words + 1 :]
            targets = zip(pointers[::4], pointers[1::4], strict=False)
            parents = [int(target) for symbol, target in targets if symbol in _HYPERNYM]
            yield int(fields[0]), parents, fields[4 : 4 + 2 * words : 2]


def _parse_index(text: str) -> dict[str, list[int]]:
    """Parse index.noun: lower-case lemma to the offsets of its synsets, most frequent sense first."""
    lines = (line.split() for line in text.splitlines() if not line.startswith(" "))
    return {fields[0]: [int(offset) for offset in fields[-int(fields[2]) :]] for fields in lines}


def _starts(groups: Sequence[Sized]) -> NDArray[np.int32]:
    """Return the start of each group in the concatenation of all, and the total: the pointer array of a CSR."""
    return np.concatenate([[0], np.cumsum([len(group) for group in groups])]).astype(np.int32)


def compile_nouns(folder: Path) -> dict[str, NDArray[np.generic]]:
    """Turn WordNet's noun files into arrays; n synsets in offset order, e hypernym links, w lemmas.

    offsets (n, int32): byte offset in data.noun, the number in a wnid.
    parent_start (n + 1, int32) and parents (e, int32): rows of each synset's direct hypernyms (`@` and `@i`) in the
    file's order.
    lemma_start (n + 1, int32), lemmas (bytes, uint8) and senses (w, uint8): the lemmas of all synsets, one a line, in
    the file's spelling and order, and the place of the synset among the lemma's senses, from 1.
    """
    numbers, parents, lemmas = zip(*_parse_data(_read_verified(folder, "data.noun")), strict=True)
    order = _parse_index(_read_verified(folder, "index.noun"))
    offsets = np.array(numbers, dtype=np.int32)
    words = [(offset, lemma) for offset, group in zip(numbers, lemmas, strict=True) for lemma in group]
    return {
        "offsets": offsets,
        "parent_start": _starts(parents),
        "parents": np.searchsorted(offsets, np.concatenate(parents)).astype(np.int32),
        "lemma_start": _starts(lemmas),
        "lemmas": np.frombuffer("\n".join(lemma for _, lemma in words).encode("ascii"), dtype=np.uint8),
        "senses": np.array([order[lemma.lower()].index(offset) + 1 for offset, lemma in words], dtype=np.uint8),
    }


@helpful(
    "python -m taxonomy.compile_wordnet",
    examples=("python -m taxonomy.compile_wordnet --wordnet /usr/share/wordnet",),
)
@click.option(
    "--wordnet",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="WordNet 3.0's `dict` folder, which holds data.noun and index.noun.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path(__file__).parent / "data" / DATA_FILE,
    show_default="the package's own file",
    metavar="FILE",
    help="Where the arrays are written.",
)
def command(wordnet: Path, out: Path) -> None:
    """Write WordNet 3.0's nouns as one array file."""
    arrays = compile_nouns(wordnet)
    temporary = out.with_name(out.name + ".tmp")
    with temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    temporary.replace(out)
    click.echo(f"{out}: {len(arrays['offsets']):,} synsets, {len(arrays['senses']):,} lemmas")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return run_command_line(command, argv, ERRORS, stopped="stopped; run the same command again.")


if __name__ == "__main__":
    sys.exit(main())
