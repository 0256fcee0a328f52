"""Sealing and opening residuals, and deciphering PartialBROAD, against the authors' pure Python.

`python -m benchmarks.making.sealing` takes images of 224 x 224 with originals of ImageNet's mean size, on one core,
and medians of processor time, which other processes disturb less. Decoding is left out: every competitor gets pixels
and the original file's bytes. The rival computes the authors' key stream byte by byte and combines it with the image
as two large integers, as their `broad/utils/crypt.py` does.

Also prints the compressed share of a residual's raw bytes, by zstd level, with and without delta coding.
"""

from __future__ import annotations

import hashlib
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.generate.sealed import Original, open_row, seal
from builders.release.images import array_sha256
from builders.storage.file_cipher import deciphered
from builders.storage.sealed_files import SealedWriter, published_residuals

SIDE = 224
RIVAL = "the authors' cipher"
BUILD = "the same into a file, as a build does"
MATERIALIZE = "the same from a file, as materialize does"
IMAGES = 64
REPEATS = 5

FILE_BYTES = 134_898
"""ILSVRC2012_img_val.tar has 6,744,924,160 bytes and 50,000 images."""

# Shares of the residuals 0, ±1, ..., ±12 of PGD: 40 steps of 2/255 from a random start inside 12.75/255, against an
# ImageNet-trained EfficientNet-Lite0, on four photographs of 224 x 224, rounded to 8 bits and clipped to 12 steps.
# Their entropy is 0.544 to 0.547 of their bytes (0.500 for steps of 0.01, 0.573 to 0.576 for 0.005 and
# 2.5 * 0.05 / 40), and zstd's level 1 takes 0.004 to 0.007 more.
PGD_SHARES = (0.021, 0.0435, 0.0195, 0.0435, 0.0195, 0.0475, 0.016, 0.0535, 0.013, 0.0625, 0.009, 0.0765, 0.086)


def pgd_residual(generator: np.random.Generator, side: int) -> npt.NDArray[np.int8]:
    """Draw a residual with the histogram of PGD's; neighbouring pixels are independent, almost as in real ones."""
    shares = np.array([*PGD_SHARES[:0:-1], *PGD_SHARES])
    values = np.arange(-12, 13, dtype=np.int8)
    return generator.choice(values, (side, side, 3), p=shares / shares.sum())


def entropy(values: npt.NDArray[np.int8]) -> float:
    """Return the entropy of single values as a share of 8 bits."""
    shares = np.unique(values, return_counts=True)[1] / values.size
    return float(-(shares * np.log2(shares)).sum() / 8)


def authors_cipher(samples: bytes, original: bytes) -> bytes:
    """Encipher or decipher as the authors' code does, byte by byte."""
    state = hashlib.sha512(original)

    def endless() -> Iterator[int]:
        while True:
            yield from original

    def parts() -> Iterator[bytes]:
        file = endless()
        for _ in range(-(-len(samples) // 32)):
            state.update(bytes(itertools.islice(file, 131)))
            yield state.digest()[:32]

    stream = b"".join(parts())[: len(samples)]
    combined = int.from_bytes(samples, "little") ^ int.from_bytes(stream, "little")
    return combined.to_bytes(len(samples), "little")


def images(generator: np.random.Generator) -> Iterator[tuple[Original, npt.NDArray[np.uint8]]]:
    """Yield originals and their attacked pixels."""
    for number in range(IMAGES):
        prepared = generator.integers(12, 244, (SIDE, SIDE, 3), dtype=np.uint8)
        pixels = (prepared + pgd_residual(generator, SIDE)).astype(np.uint8)
        yield Original(f"imagenet/{number}#pgd", generator.bytes(FILE_BYTES), prepared), pixels


def print_sizes(residual: npt.NDArray[np.int8]) -> None:
    """Print the share of a residual's raw bytes that remains after compression."""
    delta = residual.copy()
    delta[:, 1:] = residual[:, 1:] - residual[:, :-1]
    for name, values in (("as it is", residual), ("delta-coded", delta)):
        sizes = {level: pa.Codec("zstd", level).compress(values, asbytes=True) for level in (1, 3, 9, 19)}
        shares = ", ".join(f"level {level} {len(data) / values.nbytes:.4f}" for level, data in sizes.items())
        print(f"residual {name}: entropy {entropy(values):.4f}, zstd {shares}")


def measured(works: Mapping[str, tuple[Callable[[], None], int]]) -> dict[str, float]:
    """Return each competitor's MB of pixels per second, from its function and the images of a call."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(REPEATS):
        for name, (work, _) in works.items():
            started = time.process_time()
            work()
            seconds[name].append(time.process_time() - started)
    size = SIDE * SIDE * 3 / 1e6
    return {name: count * size / statistics.median(seconds[name]) for name, (_, count) in works.items()}


def main() -> int:
    """Run the comparison; returns 0 if speeds and sizes are within their limits."""
    generator = np.random.default_rng(0)
    print_sizes(pgd_residual(generator, SIDE))
    pairs = list(images(generator))
    sealed = [seal(pixels, original) for original, pixels in pairs]
    digests = [(array_sha256(o.prepared[None])[0], array_sha256(pixels[None])[0]) for o, pixels in pairs]
    ciphers = [authors_cipher(pixels.tobytes(), original.data) for original, pixels in pairs[:4]]

    def sealing() -> None:
        for original, pixels in pairs:
            seal(pixels, original)

    def sealing_with_digests() -> None:
        for original, pixels in pairs:
            seal(pixels, original)
            array_sha256(original.prepared[None])

    folder = tempfile.TemporaryDirectory()
    written, rewritten = (Path(folder.name) / name for name in ("residuals.parquet", "again.parquet"))
    with SealedWriter(written) as writer:
        for (original, _), residual in zip(pairs, sealed, strict=True):
            writer.add(original.row_id, residual)
    ids = pa.chunked_array([[original.row_id for original, _ in pairs]])

    def sealing_into_a_file() -> None:
        with SealedWriter(rewritten) as writer:
            for original, pixels in pairs:
                writer.add(original.row_id, seal(pixels, original))
                array_sha256(original.prepared[None])

    def opening_from_a_file() -> None:
        residuals = [residual for batch in published_residuals([written], ids, SIDE) for residual in batch]
        for (original, _), residual, (prepared, content) in zip(pairs, residuals, digests, strict=True):
            open_row(residual, original, prepared_sha256=prepared, content_sha256=content)

    def opening() -> None:
        for (original, _), residual, (prepared, content) in zip(pairs, sealed, digests, strict=True):
            open_row(residual, original, prepared_sha256=prepared, content_sha256=content)

    def deciphering() -> None:
        for (original, pixels), cipher in zip(pairs, itertools.cycle(ciphers), strict=False):
            deciphered(np.frombuffer(cipher, np.uint8).reshape(pixels.shape), original.data)

    def rival() -> None:
        for (original, pixels), cipher in zip(pairs, ciphers, strict=False):
            assert authors_cipher(cipher, original.data) == pixels.tobytes()

    speeds = measured(
        {
            "seal": (sealing, IMAGES),
            "seal, and digest the prepared original": (sealing_with_digests, IMAGES),
            BUILD: (sealing_into_a_file, IMAGES),
            "open, and check the pixels": (opening, IMAGES),
            MATERIALIZE: (opening_from_a_file, IMAGES),
            "decipher PartialBROAD": (deciphering, IMAGES),
            RIVAL: (rival, len(ciphers)),
        }
    )
    share = sum(map(len, sealed)) / (IMAGES * SIDE * SIDE * 3)
    for name, speed in speeds.items():
        print(f"{name:42} {speed:6.1f} MB/s of pixels, {speed / speeds[RIVAL]:5.1f} times the authors' cipher")
    print(f"sealed residuals take {share:.4f} of the raw bytes")
    folder.cleanup()
    fast = min(speeds["seal"], speeds["open, and check the pixels"]) >= max(150, 50 * speeds[RIVAL])
    fast = fast and min(speeds[BUILD], speeds[MATERIALIZE]) >= 150
    return 0 if fast and speeds["decipher PartialBROAD"] >= 20 and share <= 0.6 else 1


if __name__ == "__main__":
    sys.exit(main())
