"""The entries of a manifest as typed, immutable values.

`builders.release.manifest` reads, checks and writes them, so code that uses them needs no checks of its own: names are
valid, counts are in range, and every reference resolves. To change an entry, use `msgspec.structs.replace`.

Fields that have their default value are omitted from the file, so a new optional field changes no manifest that does
not use it.

Tested by `tests/builders/release/test_manifest.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Final, Literal, get_args

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, replace

from builders.release.layout import samples_path, shard_path
from builders.release.schema import KNOWN_ROLE, Column, Role
from builders.release.values import (
    REPOSITORY,
    AuditKey,
    ConfigName,
    Count,
    Name,
    Prose,
    Seed,
    Sha256,
    SplitName,
    Text,
)

FORMAT = 1
"""Version of the release format; readers refuse others."""

By = Literal["bytes", "pixels", "similarity-2"]
"""Methods of comparing images: encoded bytes, decoded pixels, or similarity (`builders.duplicates.search`)."""

SIMILARITY: Final = "similarity-2"

OPEN = "open"
"""`Licence.publish` of sources whose images may be public."""

METHODS: tuple[By, ...] = get_args(By)

NEAR_DISTANCE: Final = 0.096
"""Greatest distance of two images that a search by similarity lists as a pair, unless a benchmark has a smaller one.
`builders.duplicates.search` says how it was chosen."""


class Licence(Struct, frozen=True, forbid_unknown_fields=True):
    """A source's licence as its owner states it, and what it permits us to publish.

    `publish` is `open` (pixels may be published), `gated` (private or gated repositories only) or `ids-only`; a word
    of later tools is read, and taken for `ids-only`. A source whose owner states no licence is not `open`.
    """

    name: Text
    url: Text
    publish: Text
    statement: Prose


class SourceEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """An upstream dataset from which rows of the release come."""

    title: Text
    edition: Text
    licence: Licence
    citation: Prose


class BenchmarkEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A benchmark to which configs of the release belong, with the choices that determine their rows.

    `roles_by_config`: an image may have different roles in different configs. `near_distance`: the greatest distance
    of pairs that were found by similarity; 0 if nothing was searched for.
    """

    title: Text
    paper: Prose
    citation: Prose
    version: Text
    seed: Seed
    limit_per_class: Count | None
    demo: bool
    roles_by_config: bool = False
    near_distance: Annotated[float, Meta(ge=0, le=NEAR_DISTANCE)] = NEAR_DISTANCE


CHOICES = {"version": "version", "seed": "seed", "limit_per_class": "limit per class", "demo": "demo sources"}
"""Fields of `BenchmarkEntry` that determine its rows, in the words of messages; a folder holds rows of one choice."""

Reproducible = Literal["exact", "recorded"]
"""Whether generated images can be generated again: `exact` pixels are the same on every machine; `recorded` ones
depend on hardware, library versions or batches, so only the published pixels exist."""


class FileEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the release: its path below the root with forward slashes, its size in bytes and its SHA-256."""

    path: Text
    size: Count = field(name="bytes")
    sha256: Sha256


class PartEntry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rows of one role and source: an entire split, or a part of a joined split.

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
    """A withdrawn row, and the reason."""

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
    """The record of a generator (`builders.generate.contract.Generator`); `weights` has the SHA-256 of each file.

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
        """Return by name what determines the images, for `builders.generate.contract.identity_differences`.

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
        """The number of rows."""
        return sum(part.rows for part in self.parts)

    @property
    def expected(self) -> int:
        """The number of rows that complete sources give."""
        return sum(part.expected for part in self.parts)

    @property
    def paper(self) -> int:
        """The number of rows in the paper's table."""
        return sum(part.paper for part in self.parts)

    @property
    def excluded_by_rule(self) -> Counter[str]:
        """The numbers of images that each rule excludes from the split."""
        counts = Counter[str]()
        for part in self.parts:
            counts.update(part.excluded_by_rule)
        return counts

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """The split's files: its index, shards, and sealed residuals."""
        return (self.index, *self.data, *self.sealed)

    @property
    def roles(self) -> tuple[Role, ...]:
        """The distinct roles of the rows, in the order of the parts."""
        return tuple(dict.fromkeys(part.role for part in self.parts))

    @property
    def is_known(self) -> bool:
        """Whether all rows of the split are in-distribution."""
        return self.roles == (KNOWN_ROLE,)

    @property
    def sources(self) -> tuple[str, ...]:
        """The distinct keys of the rows' sources, in the order of the parts."""
        return tuple(dict.fromkeys(part.source for part in self.parts))


def is_training(key: str, split: SplitEntry) -> bool:
    """Whether a split (`config/split`) is a training split of in-distribution images."""
    return key.endswith("/train") and split.is_known


class ConfigEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A config: its label names, its own columns and its splits.

    `group` is the config with whose splits its own are compared for duplicates, as training images are, if an image
    may have different roles in different configs; empty for itself.
    """

    benchmark: Name
    description: Prose
    label_names: tuple[Text, ...]
    columns: tuple[Column, ...]
    splits: dict[SplitName, SplitEntry]
    excluded: FileEntry
    group: Text = ""


class ComparedEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A comparison of every split of `splits` with every split of `others`, given as `config/split`."""

    by: By
    splits: tuple[Text, ...]
    others: tuple[Text, ...] = field(name="with")


class PairCount(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of pairs of two splits, and how many of them have two roles and two classes."""

    split: Text
    other_split: Text
    pairs: Count
    two_roles: Count
    two_classes: Count


class DuplicatesEntry(FileEntry, frozen=True, kw_only=True, omit_defaults=True):
    """The file of the table of duplicates, with the number of its rows, comparisons, and counts of pairs.

    `doubtful` has the splits (`config/split`) in which near pairs are too many to be duplicates, with the number of
    their rows in such pairs (`builders.release.duplicates.are_too_many`).
    """

    rows: Count
    compared: tuple[ComparedEntry, ...]
    counts: tuple[PairCount, ...]
    doubtful: dict[Text, Count] = {}


class AuditEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What an audit of finished splits found (`builders.audit`).

    `summary` is its line in the card, and `splits` are the digests of the rows that were audited, by `config/split`.
    Pictures that show images are never listed.
    """

    summary: Prose
    splits: dict[Text, Sha256]
    table: FileEntry
    chart: FileEntry | None = None


class Manifest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The contents of manifest.json: the benchmarks, configs, sources and files of a release.

    Only a manifest that is not yet written lacks the `card` and the `croissant` metadata. The key of an audit is the
    path of its files below audit/, without suffix. Publishing sets `version` (the tag without its v), `previous` (the
    version before it, empty in the first), `changelog` (CHANGELOG.md and the tables in changes/) and the `repository`
    (ORG/NAME) of which the card gives commands.
    """

    format: int
    benchmarks: dict[Name, BenchmarkEntry]
    configs: dict[ConfigName, ConfigEntry]
    sources: dict[Name, SourceEntry]
    duplicates: DuplicatesEntry | None = None
    audits: dict[AuditKey, AuditEntry] = {}
    card: FileEntry | None = None
    croissant: FileEntry | None = None
    repository: Annotated[str, Meta(pattern=REPOSITORY, max_length=200)] | None = None
    version: Text | None = None
    previous: Text | None = None
    changelog: tuple[FileEntry, ...] | None = None

    def splits(self) -> Iterator[tuple[str, ConfigEntry, SplitEntry]]:
        """Yield all splits, sorted: `config/split`, the config's entry and the split's entry."""
        for config_name, config in sorted(self.configs.items()):
            for name, split in sorted(config.splits.items()):
                yield f"{config_name}/{name}", config, split

    def withdrawn(self) -> list[tuple[str, WithdrawnRow]]:
        """Return the withdrawn rows of all splits, each with its split (`config/split`)."""
        return [(key, row) for key, _, split in self.splits() for row in split.withdrawn]

    def by_key(self) -> dict[str, SplitEntry]:
        """Return the entries of all splits by `config/split`, sorted."""
        return {key: split for key, _, split in self.splits()}

    def places(self) -> Iterator[tuple[FileEntry, str, str]]:
        """Yield each file below a folder with the only path it may have, and its name; not those of changes."""
        for name, config in sorted(self.configs.items()):
            yield config.excluded, f"excluded/{name}.csv", f"the exclusions of {name}"
        for key, _, split in self.splits():
            yield split.index, f"index/{key}.parquet", f"the index of {key}"
            for folder, files in (("data", split.data), ("sealed", split.sealed)):
                for number, file in enumerate(files):
                    yield file, shard_path(folder, key, number, len(files)), f"file {number:,} of {key}"
            if split.samples is not None:
                yield split.samples, samples_path(key), f"the picture of {key}"
        if self.duplicates is not None:
            yield self.duplicates, "duplicates/pairs.parquet", "the table of duplicates"
        for key, audit in sorted(self.audits.items()):
            yield audit.table, f"audit/{key}.csv", f"the table of the audit {key}"
            if audit.chart is not None:
                yield audit.chart, f"audit/{key}.png", f"the chart of the audit {key}"

    def files(self) -> tuple[FileEntry, ...]:
        """Return every listed file except the card and the Croissant metadata, sorted by path."""
        files = [*(file for file, _, _ in self.places()), *(self.changelog or ())]
        return tuple(sorted(files, key=lambda entry: (entry.path, entry.sha256)))

    def files_and_card(self) -> tuple[FileEntry, ...]:
        """Return every listed file, the card and the Croissant metadata last."""
        return (*self.files(), *(file for file in (self.croissant, self.card) if file is not None))


EMPTY = Manifest(format=FORMAT, benchmarks={}, configs={}, sources={})
"""The manifest of a release without splits."""


def without_outdated_audits(manifest: Manifest) -> Manifest:
    """Return a manifest with only those audits that are of its present splits and rows."""
    digests = {key: split.digest for key, split in manifest.by_key().items()}
    audits = {key: audit for key, audit in manifest.audits.items() if audit.splits.items() <= digests.items()}
    return replace(manifest, audits=audits)
