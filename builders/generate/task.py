"""Generates one batch: a task for any executor, which may be killed and run again.

The digest of an input that is an image file is the SHA-256 of its bytes; with a companion, of the bytes of both,
joined. That of an array is `builders.release.images.array_sha256`, which does not depend on how a copy of the source
stores it. It is empty if there is no source image.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from builders.errors import BuildError
from builders.executors.base import Progress, Resources, once_per_worker
from builders.generate.batches import Batch, PackWriter
from builders.generate.contract import (
    COMPANION_COLUMNS,
    COMPANION_VALUE,
    NOT_FINITE,
    Companion,
    Generated,
    Generator,
    SourceImage,
)
from builders.generate.sealed import Original, prepare_original, seal
from builders.release import images
from builders.release.images import LEAVE_OUT, image_place, unreadable_image
from builders.release.remarks import ImageRemarks, collect_remarks
from builders.release.schema import INPUT_DIGEST, PLACES, PREPARED_SHA256
from builders.sources.base import ARRAY_SHAPES
from builders.sources.broken import known_broken
from builders.storage.byte_ranges import Reader
from builders.storage.files import atomic_path
from builders.storage.kept_tables import find_kept, write_kept
from builders.storage.parquet import arrow_rows
from builders.storage.sealed_files import SealedWriter

Pixels = npt.NDArray[np.uint8]

_COLUMNS = tuple(name for name in PLACES if name != "form")
"""Columns of a plan: where an image's bytes lie."""


@dataclass(frozen=True)
class BatchTask:
    """A `builders.executors.base.Task` that generates the images of one batch.

    If the batch already has a record, its pack was lost. Its images are then generated again, and refused if they or
    their inputs differ from the record, on which the rest of the release is based.

    `plan` is an Arrow IPC file with the plan's columns and `root`, `file`, `offset`, `size`, `form`, and with
    `COMPANION_COLUMNS` and the companions' values if the generator takes companions. `roots` maps the names in `root`
    to folders. `drop_unreadable` leaves out images that cannot be read or generated.
    """

    plan: Path
    batch: Batch
    roots: Mapping[str, str]
    generator: Generator
    drop_unreadable: bool

    @property
    def resources(self) -> Resources:
        """The cores and GPUs that the generator needs."""
        return self.generator.resources

    def run(self, progress: Progress) -> ImageRemarks:
        """Generate the images; write the pack, the sealed residuals if they are sealed, and last the record.

        Returns what decoders remarked on the source images.

        Raises:
            BuildError: an image is unreadable (unless `drop_unreadable` or it is known to be broken in the owner's
                archive), or changed since the batch was first generated, or the generator cannot be set up.
        """
        batch = self.batch
        sealed: SealedWriter | None = None
        earlier = find_kept(batch.record)
        with contextlib.ExitStack() as opened:
            remarks = opened.enter_context(collect_remarks())
            rows = opened.enter_context(arrow_rows(self.plan, batch.start, batch.stop))
            reader = opened.enter_context(Reader())
            inputs = _Inputs(rows, self.roots, reader, companions=self.generator.companions)
            if self.generator.sealed is not None:
                sealed = opened.enter_context(SealedWriter(opened.enter_context(atomic_path(batch.sealed))))
            temporary = opened.enter_context(atomic_path(batch.pack))
            pack = PackWriter(opened.enter_context(temporary.open("wb", buffering=0)), self.generator.columns)
            if not self.generator.name and inputs.shape:
                pack.add_arrays(inputs.arrays(progress))
            else:
                self._generate(inputs, pack, sealed, progress, remarks)
            record = pack.record()
            if earlier is not None:
                _refuse_other_images(inputs, earlier, record)
        if earlier is None:
            write_kept(batch.record, record)
        return remarks

    def _generate(
        self, inputs: _Inputs, pack: PackWriter, sealed: SealedWriter | None, progress: Progress, remarks: ImageRemarks
    ) -> None:
        inputs.announce()
        generate, broken = once_per_worker(self.generator), known_broken(inputs.rows)
        for first in range(0, len(inputs), self.generator.together):
            numbers = range(first, min(first + self.generator.together, len(inputs)))
            read = {number: inputs.read(number) for number in numbers}
            generated: dict[int, Generated] = {}
            sources: dict[int, SourceImage] = {}
            for number, (source, _) in read.items():
                try:
                    sources[number] = inputs.decode(number, source)
                except images.UnreadableImageError as error:
                    if not self.drop_unreadable and number not in broken:
                        raise unreadable_image(inputs.rows, number, inputs.path(number), error) from error
                    generated[number] = Generated(None, reason=str(error))
                finally:
                    if remarks.heard:
                        remarks.assign(image_place(inputs.rows, number, inputs.path(number)))
            if sources:
                generated |= zip(sources, generate(list(sources.values())), strict=True)
            for number, (_, digest) in read.items():
                image = generated[number]
                if image.reason and not self.drop_unreadable:
                    raise self._not_generated(inputs, number, image.reason)
                if sealed is not None and image.pixels is not None:
                    image = self._sealed(sources[number], image, sealed)
                pack.add(image, digest)
                progress(1, inputs.size(number))
            # Freed before the next images are decoded, or every photograph would get fresh memory (5 % of a resize).
            del read, generated, sources, source, image

    def _not_generated(self, inputs: _Inputs, number: int, reason: str) -> BuildError:
        """Return the error for an image that cannot be generated, because of its source or of a model."""
        ids = {name: inputs.rows[name][number] for name in ("id", "source_id")}
        if reason == NOT_FINITE:
            image, advice = f"for {ids['id']}", f"Check the weights of {self.generator.name}"
        else:
            image, advice = f"from {ids['source_id']} in {inputs.path(number)}", "Replace it with a good copy"
        return BuildError(f"No image can be generated {image}: {reason}. {advice}{LEAVE_OUT}.")

    def _sealed(self, source: SourceImage, generated: Generated, writer: SealedWriter) -> Generated:
        """Write the sealed residual of an image, and add the digest of its prepared original to its values."""
        if self.generator.sealed is None or generated.pixels is None:
            raise AssertionError("images without pixels or originals are not sealed")
        prepared = prepare_original(source.rgb, self.generator.sealed)
        writer.add(source.id, seal(generated.pixels, Original(source.id, source.data, prepared)))
        (digest,) = images.array_sha256(prepared[np.newaxis])
        return replace(generated, values={**generated.values, PREPARED_SHA256.name: digest})


def _refuse_other_images(inputs: _Inputs, earlier: pa.Table, record: pa.Table) -> None:
    """Refuse inputs, images or values that differ from the batch's earlier record."""
    for name in (INPUT_DIGEST, *earlier.column_names):
        equal = pc.fill_null(pc.equal(record[name].cast(pa.string()), earlier[name].cast(pa.string())), True)
        differing = np.flatnonzero(~equal.to_numpy(zero_copy_only=False))
        if not len(differing):
            continue
        number = int(differing[0])
        if name == INPUT_DIGEST:
            raise BuildError(
                f"The source image {inputs.rows['source_id'][number]} in {inputs.path(number)} changed since the "
                "images of this folder were generated. Restore it, or build into another --out."
            )
        raise BuildError(
            f"The image {inputs.rows['id'][number]} differs from the one that was first generated from the same input "
            f"({name}). Use the versions and the device of that build, or build into another --out."
        )


class _Inputs:
    """The source images of some rows of a plan, which a reader reads below the folder of each name in `root`."""

    def __init__(self, rows: pa.Table, roots: Mapping[str, str], reader: Reader, *, companions: bool) -> None:
        self.rows, self._roots, self._reader, self._companions = rows, roots, reader, companions

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @functools.cached_property
    def _places(self) -> list[dict[str, Any]]:
        names = ("id", "class_id", "class_name", "root", "file", "offset", "size", "form")
        own = [name for name in self.rows.column_names if name in names or name.startswith("companion_")]
        places: list[dict[str, Any]] = self.rows.select(own).to_pylist()
        return places

    def path(self, number: int) -> str:
        """Return the path of an image's file."""
        return self._range(self._places[number])[0]

    def size(self, number: int) -> int:
        """Return the number of bytes of an image."""
        return int(self._places[number]["size"])

    def _range(self, place: Mapping[str, Any], columns: Sequence[str] = _COLUMNS) -> tuple[str, int, int]:
        """Return where bytes lie: a path, an offset and their number."""
        root, file, offset, size = (place[name] for name in columns)
        return self._path(root, file), offset, size

    def _path(self, root: str, file: str) -> str:
        return os.path.join(self._roots[root], file)  # noqa: PTH118 - called for every image

    def announce(self) -> None:
        """Announce to the reader that it will read all images in order, each with its companion."""
        columns = (_COLUMNS, COMPANION_COLUMNS) if self._companions else (_COLUMNS,)
        self._reader.expect(
            [self._range(place, names) for place in self._places if place["form"] != "none" for names in columns]
        )

    def read(self, number: int) -> tuple[SourceImage, str]:
        """Read an image and its companion without decoding the image; returns them with a digest of their bytes."""
        place, companion = self._places[number], None
        data, digest = b"", ""
        if place["form"] != "none":
            data = self._reader.read(*self._range(place))
            if self._companions:
                values = {
                    name.removeprefix(COMPANION_VALUE): value
                    for name, value in place.items()
                    if name.startswith(COMPANION_VALUE)
                }
                companion = Companion(self._reader.read(*self._range(place, COMPANION_COLUMNS)), values)
                digest = hashlib.sha256(data + companion.data).hexdigest()
            elif place["form"] in ARRAY_SHAPES:
                (digest,) = images.array_sha256(_pixels(data, place["form"]))
            else:
                digest = hashlib.sha256(data).hexdigest()
        return SourceImage(place["id"], place["class_id"], place["class_name"], None, data, companion), digest

    def decode(self, number: int, source: SourceImage) -> SourceImage:
        """Decode an image, unless it has a companion; `UnreadableImageError` if it does not decode."""
        form = self._places[number]["form"]
        if source.companion is not None or form == "none":
            return source
        if form in ARRAY_SHAPES:
            return replace(source, image=Image.fromarray(_pixels(source.data, form)[0]))
        return replace(source, image=images.decode_or_mend(source.data)[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of each image if all are arrays of one shape; else ()."""
        shapes = {ARRAY_SHAPES.get(form, ()) for form in pc.unique(self.rows["form"]).to_pylist()}
        return shapes.pop() if len(shapes) == 1 else ()

    def arrays(self, progress: Progress) -> Pixels:
        """Read images that are arrays of one shape; shape (n, 32, 32, 3) or (n, 28, 28)."""
        pixels = np.empty((len(self), *self.shape), np.uint8)
        columns = (self.rows[name].to_pylist() for name in ("root", "file", "offset"))
        reads = [
            (self._path(root, file), offset, pixels[0].nbytes) for root, file, offset in zip(*columns, strict=True)
        ]
        self._reader.expect(reads)
        for flat, (path, offset, _) in zip(pixels.reshape(len(self), -1), reads, strict=True):
            self._reader.read_into(flat.data, path, offset)
        planar = pc.equal(self.rows["form"], "planar32").to_numpy()
        if planar.any():
            pixels[planar] = _interleaved(pixels[planar])
        progress(len(self), pixels.nbytes)
        return pixels


def _pixels(data: bytes, form: str) -> Pixels:
    """Return the pixels of one array, as an array of one image."""
    array = np.frombuffer(data, np.uint8).reshape(1, *ARRAY_SHAPES[form])
    return _interleaved(array) if form == "planar32" else array


def _interleaved(arrays: Pixels) -> Pixels:
    """Interleave images that have one colour after the other; shape (n, 32, 32, 3)."""
    planes, pixels = arrays.reshape(-1, 3, *arrays.shape[1:3]), np.empty_like(arrays)
    for colour in range(3):  # five times faster than transposing all axes at once
        pixels[..., colour] = planes[:, colour]
    return pixels
