"""Files of sealed residuals, opened and verified, and single residuals with their originals."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from builders.errors import BuildError
from builders.generate.sealed import Original, open_row, seal
from builders.release.digests import file_sha256
from builders.release.entries import FileEntry
from builders.release.images import array_sha256
from builders.storage.sealed_files import SealedWriter, published_residuals
from hf_scripts.checks.index_walk import IndexWalk
from hf_scripts.checks.rows import SealedTask
from hf_scripts.checks.values import SplitFacts
from tests.fuzz.target import Target

SIDE = 16
IDS = [f"imagenet/val/{number}.JPEG#pgd" for number in range(3)]


@functools.cache
def images() -> list[tuple[Original, np.ndarray]]:
    """Originals, and their images' pixels."""
    generator = np.random.default_rng(0)
    prepared = generator.integers(12, 244, (len(IDS), SIDE, SIDE, 3), dtype=np.uint8)
    pixels = (prepared + generator.integers(-12, 13, prepared.shape)).astype(np.uint8)
    originals = [Original(name, generator.bytes(500), image) for name, image in zip(IDS, prepared, strict=True)]
    return list(zip(originals, pixels, strict=True))


def residuals() -> list[bytes]:
    """Sealed residuals."""
    return [seal(pixels, original) for original, pixels in images()]


def files() -> list[bytes]:
    """A file with all of them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.parquet"
        with SealedWriter(path) as writer:
            for name, sealed in zip(IDS, residuals(), strict=True):
                writer.add(name, sealed)
        return [path.read_bytes()]


def opened(sealed: Sequence[bytes]) -> list[np.ndarray]:
    """Open residuals in the order of the originals."""
    opened_images = []
    for residual, (original, pixels) in zip(sealed, images(), strict=True):
        digests = [array_sha256(image[np.newaxis])[0] for image in (original.prepared, pixels)]
        opened_images.append(open_row(residual, original, prepared_sha256=digests[0], content_sha256=digests[1]))
        assert np.array_equal(opened_images[-1], pixels), "wrong pixels"
    return opened_images


def read_file(folder: Path) -> object:
    """Open all residuals of a file."""
    batches = published_residuals([folder / "x.parquet"], pa.chunked_array([IDS]), SIDE)
    return opened([residual for batch in batches for residual in batch])


def read_cell(folder: Path) -> object:
    """Open what stands in the first row's cell."""
    cell = (folder / "x.bin").read_bytes()
    return opened([cell, *residuals()[1:]])


def verify_file(folder: Path) -> object:
    """Check a file as `verify` does; its problems are raised as one sentence."""
    path = folder / "x.parquet"
    listed = FileEntry(path.name, path.stat().st_size, file_sha256(path))
    task = SealedTask(folder, listed, SplitFacts("a/b", (), (), (), SIDE, True, False, frozenset()), None, 0)
    with IndexWalk() as indexes:
        outcome = task.check(lambda images, size: None, indexes)
    if outcome.problems.total():
        raise BuildError(f"{'; '.join(outcome.problems.lines())}.")
    return outcome


TARGETS = (
    Target("sealed-file", "x.parquet", files, read_file),
    Target("sealed-file-verified", "x.parquet", files, verify_file),
    Target("sealed-cell", "x.bin", lambda: residuals()[:1], read_cell),
)
