"""Code shared by the generative models: the column of seeds, names of classes, versions, and errors of memory.

Tested by `tests/builders/generate/synthetic/test_biggan.py`.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from builders.errors import BuildError
from builders.release.columns import Column
from taxonomy.wordnet import nouns

SEED = Column("seed", "int64", "seed of the image's random numbers: the first 63 bits of the SHA-256 of the row's id")


@functools.cache
def class_names(wnid: str) -> tuple[str, ...]:
    """Return the names of a class of ImageNet-1k, as `LOC_synset_mapping.txt` lists them.

    They are the lemmas of its synset in WordNet 3.0. A name may stand for two classes: "crane" is all that both the
    bird (n02012849) and the machine (n03126707) have, and "maillot" is a name of both n03710637 and n03710721.
    """
    wordnet = nouns.load()
    return wordnet.lemmas(wordnet.row(wnid))


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the installed versions of some packages by name."""
    return {name: importlib.metadata.version(name) for name in packages}


@contextmanager
def memory_errors_as_build_errors() -> Iterator[None]:
    """Turn a GPU's lack of memory into a `BuildError`."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        raise BuildError(
            "The GPU has too little free memory for the model and its images. End other programs that use it, or give "
            "--device cpu in another --out; on this GPU the same command goes on where it stopped."
        ) from error
