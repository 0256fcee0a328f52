"""What generative models share: seeds, names of classes, versions, and the check of the extra `generate`.

Tested by `tests/builders/generate/synthetic/test_biggan.py`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from builders.errors import BuildError
from builders.generate.contract import Weights
from builders.release.columns import Column
from builders.storage.regular import open_buffered
from taxonomy import tables
from taxonomy.wordnet import nouns

SEED = Column("seed", "int64", "seed of the image's random numbers: the first 63 bits of the SHA-256 of the row's id")


def seed_of(row_id: str) -> int:
    """Return the seed of a row's random numbers, 0 to 2^63 - 1: the first 63 bits of the SHA-256 of its id."""
    return int.from_bytes(hashlib.sha256(row_id.encode()).digest()[:8], "big") >> 1


@functools.cache
def class_indices() -> Mapping[str, int]:
    """Return the index of every class of ImageNet-1k by its wnid."""
    return {row.wnid: row.index for row in tables.imagenet1k()}


@functools.cache
def class_names(wnid: str) -> tuple[str, ...]:
    """Return the names of a class of ImageNet-1k, as `LOC_synset_mapping.txt` lists them.

    They are the lemmas of its synset in WordNet 3.0. A name may stand for two classes: "crane" is all that both the
    bird (n02012849) and the machine (n03126707) have, and "maillot" is a name of both n03710637 and n03710721.
    """
    wordnet = nouns.load()
    return wordnet.lemmas(wordnet.row(wnid))


def require_packages(packages: Sequence[str], to: str) -> None:
    """Check that packages of the extra `generate` are installed.

    Raises:
        BuildError: one is not.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise BuildError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed, but needed to {to}. Install "
            "the extra with pip install 'unknown-detection[generate]' (in a checkout: pip install -e '.[generate]')."
        )


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


def digest_of(name: str, path: Path) -> Weights:
    """Return a file of weights with its digest.

    Raises:
        BuildError: the path has no regular file.
        OSError: the file cannot be read.
    """
    with open_buffered(path) as file:
        return Weights(name, hashlib.file_digest(file, "sha256").hexdigest())
