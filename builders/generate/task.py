"""Generates one batch: a task for any executor, which may be killed and run again."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.errors import BuildError
from builders.executors.base import Progress, ProgressCounter, Resources, once_per_worker
from builders.generate.arrays import AS_PNG
from builders.generate.batches import Batch
from builders.generate.contract import Generate, Generated, Generator, SourceImage
from builders.generate.inputs import Inputs
from builders.generate.pack import PackWriter
from builders.generate.sealed import Original, prepare_original, seal
from builders.release import images
from builders.release.images import LEAVE_OUT, unreadable_image
from builders.release.schema import PREPARED_SHA256
from builders.release.split_entries import PreparationEntry
from builders.sources.broken import known_broken
from builders.storage.byte_ranges import Reader
from builders.storage.files import atomic_path
from builders.storage.parquet import arrow_rows, read_parquet
from builders.storage.sealed_files import SealedWriter


@dataclass(frozen=True)
class _SetUp:
    """The setup of a generator, as `once_per_worker` calls it."""

    generator: Generator

    def __call__(self) -> Generate:
        return self.generator.start(self.generator)


@dataclass(frozen=True)
class BatchTask:
    """Generate the images of one batch; a `builders.executors.base.Task`.

    If the batch already has a record, its pack was lost. Its images are then generated again, and refused if they or
    their inputs differ from the record, on which the rest of the release is based.

    Args:
        plan: an Arrow IPC file with the plan's columns and `root`, `file`, `offset`, `size`, `form`.
        batch: the rows of the plan, and the pack for their images.
        roots: the folder of each name in `root`.
        generator: the generator.
        drop_unreadable: leave out images that cannot be read or generated.
    """

    plan: Path
    batch: Batch
    roots: Mapping[str, str]
    generator: Generator
    drop_unreadable: bool

    @property
    def resources(self) -> Resources:
        """The generator's resources."""
        return self.generator.resources

    def run(self, progress: Progress) -> None:
        """Generate the images and write the pack, their sealed residuals if they are sealed, and then the record.

        Raises:
            BuildError: an image is missing or unreadable (unless `drop_unreadable` or it is known to be broken in the
                owner's archive), an image changed since the batch was first generated, or the generator cannot be set
                up.
            OSError: the pack or the record cannot be written.
        """
        batch = self.batch
        earlier = read_parquet(batch.record) if batch.record.exists() else None
        with (
            arrow_rows(self.plan, batch.start, batch.stop) as rows,
            Reader() as reader,
            _sealer(self) as sealer,
            atomic_path(batch.pack) as temporary,
            temporary.open("wb", buffering=0) as sink,
        ):
            pack = PackWriter(sink, rows.num_rows, self.generator.columns)
            run = _BatchRun(self, rows, Inputs(rows, self.roots, reader), earlier, sealer)
            record = run.store(pack, progress) if run.stores_arrays() else run.generate(pack, progress)
            if earlier is not None:
                _refuse_other_images(rows, earlier, record)
        if earlier is None:
            with atomic_path(batch.record) as temporary:
                pq.write_table(record, temporary, compression="zstd")


@contextlib.contextmanager
def _sealer(task: BatchTask) -> Iterator[_Sealer | None]:
    """Yield the sealer of a task's images; None if they are not sealed."""
    preparation = task.generator.sealed
    if preparation is None:
        yield None
        return
    with atomic_path(task.batch.sealed) as temporary, SealedWriter(temporary) as writer:
        yield _Sealer(preparation, writer)


class _Sealer:
    """Seals generated images, and writes their residuals."""

    def __init__(self, preparation: PreparationEntry, writer: SealedWriter) -> None:
        self._preparation, self._writer = preparation, writer

    def seal(self, source: SourceImage, generated: Generated) -> Generated:
        """Write the sealed residual of an image, and add the digest of its prepared original to its values."""
        if generated.pixels is None:
            return generated
        prepared = prepare_original(source.rgb, self._preparation)
        self._writer.add(source.id, seal(generated.pixels, Original(source.id, source.data, prepared)))
        (digest,) = images.rgb_sha256(prepared[np.newaxis])
        return dataclasses.replace(generated, values={**generated.values, PREPARED_SHA256.name: digest})


class _BatchRun:
    """State of one run of a task: its inputs, the record of an earlier run, and the sealer of its images."""

    def __init__(
        self, task: BatchTask, rows: pa.Table, inputs: Inputs, earlier: pa.Table | None, sealer: _Sealer | None
    ) -> None:
        self.task, self.rows, self.inputs, self.sealer = task, rows, inputs, sealer
        self.expected = None if earlier is None else earlier["input_sha256"].to_pylist()
        self.known_broken = known_broken(rows)

    def stores_arrays(self) -> bool:
        """Whether the images are arrays that only need to be stored, many at a time."""
        return self.task.generator == AS_PNG and self.inputs.are_arrays()

    def store(self, pack: PackWriter, progress: Progress) -> pa.Table:
        """Write arrays into a pack and return the record."""
        pack.add_all(self.inputs.arrays(progress))
        # An array's digest is over its pixels, and those are stored as they are.
        for number, digest in enumerate(pack.digests):
            self._refuse_changed(number, digest)
        return pack.record(pack.digests)

    def generate(self, pack: PackWriter, progress: Progress) -> pa.Table:
        """Generate images, write them into a pack and return the record."""
        self.inputs.announce()
        generate = once_per_worker(_SetUp(self.task.generator))
        count = ProgressCounter(len(self.inputs), progress)
        digests: list[str] = []
        together = self.task.generator.together
        for first in range(0, len(self.inputs), together):
            numbers = range(first, min(first + together, len(self.inputs)))
            decoded = [self._read(number, digests) for number in numbers]
            sources = [source for source in decoded if isinstance(source, SourceImage)]
            outputs = iter(self._call(generate, sources))
            for number, source in zip(numbers, decoded, strict=True):
                generated = next(outputs) if isinstance(source, SourceImage) else source
                if self.sealer is not None and isinstance(source, SourceImage):
                    generated = self.sealer.seal(source, generated)
                self._refuse_without_image(number, generated)
                pack.add(generated)
                count.add(self.inputs.size(number))
            # Freed before the next images are decoded, or every photograph would get fresh memory (5 % of a resize).
            del decoded, sources, outputs, source, generated
        return pack.record(digests)

    def _read(self, number: int, digests: list[str]) -> SourceImage | Generated:
        """Read a source image, or return the reason why it cannot be read; append its digest to `digests`."""
        data, digest = self.inputs.read(number)
        self._refuse_changed(number, digest)
        digests.append(digest)
        try:
            return self.inputs.decode(number, data)
        except images.UnreadableImageError as error:
            if not self.task.drop_unreadable and number not in self.known_broken:
                raise unreadable_image(self.rows, number, self.inputs.path(number), error) from error
            return Generated(None, reason=str(error))

    def _call(self, generate: Generate, sources: Sequence[SourceImage]) -> Sequence[Generated]:
        outputs = generate(sources) if sources else ()
        generator = self.task.generator
        if len(outputs) != len(sources):
            raise ValueError(f"{generator.name} generated {len(outputs)} images of {len(sources)}")
        shape = (generator.prepared, generator.prepared, 3)
        if generator.prepared and any(image.pixels is not None and image.pixels.shape != shape for image in outputs):
            raise ValueError(f"{generator.name} generated an image of another size than it is prepared for")
        return outputs

    def _refuse_changed(self, number: int, digest: str) -> None:
        if self.expected is not None and self.expected[number] != digest:
            raise BuildError(
                f"The source image {self.rows['source_id'][number]} in {self.inputs.path(number)} changed since the "
                "images of this folder were generated. Restore it, or build into another --out."
            )

    def _refuse_without_image(self, number: int, generated: Generated) -> None:
        if generated.reason and not self.task.drop_unreadable:
            raise BuildError(
                f"No image can be generated from {self.rows['source_id'][number]} in {self.inputs.path(number)}: "
                f"{generated.reason}. Replace it with a good copy{LEAVE_OUT}."
            )


def _refuse_other_images(rows: pa.Table, earlier: pa.Table, record: pa.Table) -> None:
    """Refuse images or values that differ from those first generated from the same inputs."""
    for name in earlier.column_names:
        equal = pc.fill_null(pc.equal(record[name].cast(pa.string()), earlier[name].cast(pa.string())), True)
        differing = np.flatnonzero(~equal.to_numpy(zero_copy_only=False))
        if len(differing):
            raise BuildError(
                f"The image {rows['id'][int(differing[0])]} differs from the one that was first generated from the "
                f"same input ({name}). Use the versions and the device of that build, or build into another --out."
            )
