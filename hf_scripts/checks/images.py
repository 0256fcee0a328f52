"""Checks each image against its row: file name, digest, and decoding as `datasets` does it.

Tested by `tests/hf_scripts/checks/test_rows.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.duplicates.distance import SIDE, Images, scaled
from builders.duplicates.pixels import Pixels, joined
from builders.release import images
from builders.release.names import is_file_name
from builders.release.remarks import collect_remarks
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.values import SplitFacts


@dataclass(frozen=True)
class Decoded:
    """Decoded images of a split's rows, in order, as far as the split was compared by them.

    Attributes:
        rows: the number of rows.
        digests: `builders.release.images.pixel_sha256` of each, if it was compared by pixels; empty for one that does
            not decode.
        pixels: the images scaled to (32, 32, 3), in files, if it was compared by similarity; zeros for one that does
            not decode.
        broken: the numbers of the rows whose images do not decode.
    """

    rows: int = 0
    digests: pa.ChunkedArray = field(default_factory=lambda: pa.chunked_array([], pa.string()))
    pixels: Pixels = field(default_factory=lambda: Pixels(()))
    broken: frozenset[int] = frozenset()


def concatenate(parts: Sequence[Decoded]) -> Decoded:
    """Concatenate the rows of all parts."""
    rows, broken = 0, set[int]()
    for part in parts:
        broken.update(rows + number for number in part.broken)
        rows += part.rows
    digests = pa.chunked_array([chunk for part in parts for chunk in part.digests.chunks], pa.string())
    return Decoded(rows, digests, joined(part.pixels for part in parts), frozenset(broken))


@collect_remarks()  # on odd metadata of thousands of ImageNet's files, which decode all the same
def check_images(
    rows: pa.RecordBatch,
    path: str,
    first: int,
    problems: Problems,
    *,
    split: SplitFacts,
    decode: bool,
    keep: Callable[[Images], object] | None = None,
) -> Decoded:
    """Check file name, digest and decoding of the images of some rows of the shard `path`, from row `first` on.

    Images are decoded as `datasets` decodes them for whoever loads the release, without importing it, which takes half
    a second in each run. Without `decode`, digests over pixels are not compared either. Returns what was decoded,
    without the scaled images, which `keep` is called with.
    """
    column = rows.column("image")
    names = pc.struct_field(column, "path").to_pylist()
    stored, listed = rows.column("stored").to_pylist(), rows.column("content_sha256").to_pylist()
    digests: list[str] = []
    broken: list[int] = []
    scaled_images = np.zeros((rows.num_rows if keep else 0, SIDE, SIDE, 3), np.uint8)
    by_pixels = "pixels" in split.compared
    for i, value in enumerate(pc.struct_field(column, "bytes")):
        where = f"{path} row {first + i}"
        if not is_file_name(names[i] or ""):
            problems.add("image.path", f"{where}: image.path is {names[i] or 'empty'}, not a file name")
        buffer, digest, pixel_digest = value.as_buffer(), "", ""
        is_broken = True
        if buffer is None:
            problems.add("image missing", f"{where}: has no image bytes")
        elif stored[i] not in images.BY_PIXELS:
            digest = hashlib.sha256(buffer).hexdigest()  # which needs no copy of the bytes
        if decode and buffer is not None:
            try:
                image = images.decode_built(buffer.to_pybytes())
                if by_pixels or stored[i] in images.BY_PIXELS:
                    pixel_digest = images.pixel_sha256(image)
                    digest = digest or pixel_digest
                if keep:
                    scaled_images[i] = scaled(image)
                is_broken = False
                if split.prepared and image.size != (split.prepared, split.prepared):
                    sizes = f"{image.width} x {image.height} pixels in a split prepared for {split.prepared}"
                    problems.add("image size", f"{where}: the image has {sizes} x {split.prepared}")
            except images.UnreadableImageError as error:
                problems.add("image of no build", f"{where}: no build writes the image: {error}")
            except images.DECODE_ERRORS as error:
                reason = images.decode_reason(error)
                problems.add("image decoding", f"{where}: datasets cannot decode the image: {reason}")
        if digest and digest != listed[i]:
            found = f"{where}: the image has the digest {digest}, not {listed[i]} as in content_sha256"
            problems.add("image digest", found)
        digests.append(pixel_digest)
        broken += [i] * is_broken
    if keep:
        keep(scaled_images)
    pixel_digests = pa.chunked_array([digests] if by_pixels else [], pa.string())
    return Decoded(rows.num_rows, pixel_digests, broken=frozenset(broken))
