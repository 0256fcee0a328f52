"""The entries of splits in a manifest; `builders.release.entries` has the other entries.

Tested by `tests/builders/release/test_manifest.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import asdict

from builders.release.schema import Role
from builders.release.values import Count, Name, Prose, Sha256, Text

Reproducible = Literal["exact", "recorded"]
"""Whether generated images can be generated again: `exact` pixels are the same on every machine; `recorded` ones
depend on hardware, library versions or batches, so only the published pixels exist."""


class FileEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the release: its path below the root (with forward slashes), size in bytes and SHA-256."""

    path: Text
    size: Count = field(name="bytes")
    sha256: Sha256


class PartEntry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rows of one role from one source: a whole split, or one of several parts that are joined to a split.

    `key` is `config/split`, or `config/split.part` in a split that is joined. `rows` and the images that are excluded
    by rules add up to `available`, the images of the source in `partitions`. `adopted` is the digest of the lists from
    which the images were adopted, empty if they were drawn. `classes` are those with rows.
    """

    key: Text
    role: Role
    source: Name
    partitions: tuple[Text, ...]
    rows: Count
    expected: Count
    paper: Count
    why: Prose
    available: Count
    excluded_by_rule: dict[Text, Count]
    adopted: Text
    labelled: bool
    classes: Count
    paper_classes: Count


class WithdrawnRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A withdrawn row, and why."""

    id: Text
    reason: Prose


InputSize = Annotated[int, Meta(ge=0, le=2**16 - 1)]
"""Width and height of a model's input in pixels; 0 for none."""


PreparedSide = Annotated[int, Meta(ge=1, le=4096)]
"""Pixels of a side of a prepared original. The limit is ours: several times the largest input of timm's models."""


class PreparationEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """How originals are prepared before their images are generated (`builders.generate.sealed.prepare_original`).

    The shorter side is resized to `resize` pixels, and the centre of `size` x `size` pixels is cropped.
    """

    size: PreparedSide
    resize: PreparedSide
    interpolation: Literal["bilinear", "bicubic"]


class GeneratorEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A generator of images as recorded (`builders.generate.contract.Generator`); `weights` are SHA-256 by name.

    `prepared`: the input size of the models that the images are prepared for; they are to be evaluated as they are
    stored, without another resize or crop. `sealed`: the images are also there as sealed residuals against their
    originals, which are prepared like this.
    """

    name: Text
    version: Count
    parameters: dict[Text, Text | bool | int | float]
    weights: dict[Text, Sha256]
    reproducible: Reproducible
    prepared: InputSize = 0
    sealed: PreparationEntry | None = None

    def identity(self) -> dict[str, object]:
        """Return what determines the images, by name, for `builders.generate.contract.identity_differences`.

        `prepared` and `sealed` say how to evaluate and to publish them and change no pixel: a generator that works at
        that size, or prepares its originals, has this among its parameters.
        """
        return {name: value for name, value in asdict(self).items() if name not in ("prepared", "sealed")}


class SplitEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A split: its parts, its files, and the digest of its rows.

    `made` describes how its images were generated, and `generator` records it. `sealed` are the files of sealed
    residuals of its images, one for each shard. `samples` is a picture of some of its images, of sources whose licence
    lets images be public. `overlaps` counts rows with an `id_overlap`, in configs with this column. `compared` says in
    sentences what a comparison of classes by WordNet and name cannot tell of the split's; None if there was none.
    """

    parts: Annotated[tuple[PartEntry, ...], Meta(min_length=1)]
    withdrawn: tuple[WithdrawnRow, ...]
    shortfalls: tuple[Prose, ...]
    digest: Sha256
    data: tuple[FileEntry, ...]
    index: FileEntry
    made: Prose | None = None
    generator: GeneratorEntry | None = None
    sealed: tuple[FileEntry, ...] = ()
    samples: FileEntry | None = None
    overlaps: Count | None = None
    compared: tuple[Prose, ...] | None = None

    @property
    def rows(self) -> int:
        """Number of its rows."""
        return sum(part.rows for part in self.parts)

    @property
    def expected(self) -> int:
        """Number of rows that complete sources give."""
        return sum(part.expected for part in self.parts)

    @property
    def paper(self) -> int:
        """Number of rows by the paper's table."""
        return sum(part.paper for part in self.parts)

    @property
    def excluded_by_rule(self) -> Counter[str]:
        """Numbers of images that each rule excludes from it."""
        counts = Counter[str]()
        for part in self.parts:
            counts.update(part.excluded_by_rule)
        return counts

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """Its files: the index, shards, and sealed residuals."""
        return (self.index, *self.data, *self.sealed)

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles of the rows without repetition, in the order of the parts."""
        return tuple(dict.fromkeys(part.role for part in self.parts))

    @property
    def sources(self) -> tuple[str, ...]:
        """The keys of the sources of the rows without repetition, in the order of the parts."""
        return tuple(dict.fromkeys(part.source for part in self.parts))


def is_training(key: str, split: SplitEntry) -> bool:
    """Whether a split (`config/split`) is a training split of in-distribution images."""
    return key.endswith("/train") and split.roles == ("in_distribution",)
