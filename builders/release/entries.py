"""The entries of a manifest as typed, immutable values.

`builders.release.manifest` reads, checks and writes them, so code that uses them needs no checks of its own: names are
valid, counts are in range, and every reference resolves. To change an entry, use `msgspec.structs.replace`.

Fields that have their default value are omitted from the file, so a new optional field changes no manifest that does
not use it.

Tested by `tests/builders/release/test_manifest.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, replace

from builders.errors import UNPRINTABLE
from builders.release.columns import KNOWN_COLUMNS, Column, ColumnType
from builders.release.schema import Role

FORMAT = 1
"""Version of the release format; readers refuse others."""

By = Literal["bytes", "pixels", "similarity"]
"""Methods of comparing images: encoded bytes, decoded pixels, or similarity (`builders.duplicates.search`)."""

Reproducible = Literal["exact", "recorded"]
"""Whether generated images can be generated again: `exact` pixels are the same on every machine; `recorded` ones
depend on hardware, library versions or batches, so only the published pixels exist."""

OPEN = "open"
"""`LicenceEntry.publish` of sources whose images may be public."""

METHODS: tuple[By, ...] = get_args(By)

TEXT = rf"\A[^{UNPRINTABLE}]*\Z"
PROSE = rf"\A([^{UNPRINTABLE}]|[\n\t])*\Z"
SHA256 = r"\A[0-9a-f]{64}\Z"
CONFIG_NAME = r"\A[a-z0-9]+(-[a-z0-9]+)*\Z"
SPLIT_NAME = r"\A[a-z0-9]+(_[a-z0-9]+)*\Z"
NAME = r"\A[a-z0-9]+([_-][a-z0-9]+)*\Z"
REPOSITORY = r"\A[A-Za-z0-9._-]+/[A-Za-z0-9._-]+\Z"

PATTERNS = {
    TEXT: "one line of printable text",
    PROSE: "printable text",
    SHA256: "a SHA-256 in lower-case hex",
    CONFIG_NAME: "a config's name (a-z, 0-9, hyphens between)",
    SPLIT_NAME: "a split's name (a-z, 0-9, underscores between)",
    NAME: "a name (a-z, 0-9, hyphens or underscores between)",
    REPOSITORY: "the name of a repository, ORG/NAME",
}
"""Descriptions of the patterns, for messages."""

Text = Annotated[str, Meta(pattern=TEXT, max_length=10_000)]
"""A line of printable text."""

Prose = Annotated[str, Meta(pattern=PROSE, max_length=100_000)]
"""Printable text that may have several lines."""

Count = Annotated[int, Meta(ge=0, le=10**15)]
"""A number of rows, images or bytes; the limit is far above any release, and exact in every JSON reader."""

Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Sha256 = Annotated[str, Meta(pattern=SHA256)]

ConfigName = Annotated[str, Meta(pattern=CONFIG_NAME, max_length=100)]
"""Configs have hyphens in their names; splits have underscores, because the Hub allows no hyphens there."""

SplitName = Annotated[str, Meta(pattern=SPLIT_NAME, max_length=100)]
Name = Annotated[str, Meta(pattern=NAME, max_length=100)]


class FileEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the release: its path below the root (with forward slashes), size in bytes and SHA-256."""

    path: Text
    size: Count = field(name="bytes")
    sha256: Sha256


class LicenceEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A source's licence in its owner's words; `publish` is `open`, `gated` or `ids-only`."""

    name: Text
    url: Text
    publish: Text
    statement: Prose


class SourceEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """An upstream dataset from which rows of the release come."""

    title: Text
    edition: Text
    licence: LicenceEntry
    citation: Prose


class BenchmarkEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A benchmark to which configs of the release belong, with the choices that determine their rows.

    `roles_by_config`: an image may have different roles in different configs.
    """

    title: Text
    paper: Prose
    citation: Prose
    version: Text
    seed: Seed
    limit_per_class: Count | None
    demo: bool
    roles_by_config: bool = False


class PartEntry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rows of one role from one source: a part of a joined split, or a split that is not joined.

    `rows` and `excluded` add up to `available`, the images of the source in `partitions`. `adopted` is the digest of
    the lists from which the images were adopted, empty if they were drawn. For a split that is not joined, `name` is
    empty and `classes` are not counted.
    """

    role: Role
    source: Name
    partitions: tuple[Text, ...]
    rows: Count
    expected: Count
    paper: Count
    why: Prose
    available: Count
    excluded: Count
    excluded_by_rule: dict[Text, Count]
    adopted: Text
    name: Text
    labelled: bool
    classes: Count
    paper_classes: Count


class WithdrawnRow(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A withdrawn row; `split` (`config/split`) is given in the release's list, and empty in a split's own."""

    id: Text
    reason: Prose
    split: Text = ""


InputSize = Annotated[int, Meta(ge=0, le=2**16 - 1)]
"""Width and height of a model's input in pixels; 0 for none."""


PreparedSide = Annotated[int, Meta(ge=1, le=4096)]
"""Pixels of a side of a prepared original. The limit is ours: several times the largest input of timm's models."""


class PreparationEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """How originals are prepared before their images are generated (`builders.generate.sealed.prepare`).

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
        """What determines the images, by name, for `builders.generate.contract.differences`.

        `prepared` and `sealed` say how to evaluate and to publish them and change no pixel: a generator that works at
        that size, or prepares its originals, has this among its parameters.
        """
        return {name: value for name, value in asdict(self).items() if name not in ("prepared", "sealed")}


class SplitEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A split: its counts, its files, and the digest of its rows.

    A joined split lists its `parts` instead of a role, source, partitions and adoption; `pieces` gives the parts of
    every split. `made` describes how its images were generated, and `generator` records it. `sealed` are the files of
    sealed residuals of its images, one for each shard. `samples` is a picture of some of its images, of sources whose
    licence lets images be public. `near_duplicates` is only in releases with the column
    `near_duplicate_of`. `overlaps` counts rows with an `id_overlap`, in configs with this column. `labelled` is only
    there if rows have labels although they are not in-distribution, or none although they are.
    """

    rows: Count
    expected: Count
    paper: Count
    why: Prose
    available: Count
    excluded: Count
    excluded_by_rule: dict[Text, Count]
    withdrawn: tuple[WithdrawnRow, ...]
    shortfalls: tuple[Prose, ...]
    digest: Sha256
    data: tuple[FileEntry, ...]
    index: FileEntry
    role: Role | None = None
    source: Name | None = None
    partitions: tuple[Text, ...] | None = None
    adopted: Text | None = None
    made: Prose | None = None
    generator: GeneratorEntry | None = None
    sealed: tuple[FileEntry, ...] = ()
    samples: FileEntry | None = None
    near_duplicates: Count | None = None
    overlaps: Count | None = None
    parts: tuple[PartEntry, ...] | None = None
    labelled: bool | None = None

    def pieces(self) -> tuple[PartEntry, ...]:
        """The parts of a joined split; otherwise the split itself as its only part, with an empty name."""
        if self.parts is not None:
            return self.parts
        if self.role is None or self.source is None or self.partitions is None or self.adopted is None:
            raise ValueError("a split that is not joined needs a role, a source, partitions and an adoption")
        return (
            PartEntry(
                role=self.role,
                source=self.source,
                partitions=self.partitions,
                rows=self.rows,
                expected=self.expected,
                paper=self.paper,
                why=self.why,
                available=self.available,
                excluded=self.excluded,
                excluded_by_rule=self.excluded_by_rule,
                adopted=self.adopted,
                name="",
                labelled=self.role == "in_distribution" if self.labelled is None else self.labelled,
                classes=0,
                paper_classes=0,
            ),
        )

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """Its files: the index, shards, and sealed residuals."""
        return (self.index, *self.data, *self.sealed)

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles of the rows without repetition, in the order of the parts."""
        return tuple(dict.fromkeys(piece.role for piece in self.pieces()))

    @property
    def sources(self) -> tuple[str, ...]:
        """The keys of the sources of the rows without repetition, in the order of the parts."""
        return tuple(dict.fromkeys(piece.source for piece in self.pieces()))


class ColumnEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A config's own column, unless it is in `builders.release.columns.KNOWN_COLUMNS`, which are listed by name."""

    name: Text
    type: ColumnType
    description: Text


def column_entry(column: Column) -> str | ColumnEntry:
    """A column as the manifest lists it: a known one by name, others with type and description."""
    if KNOWN_COLUMNS.get(column.name) == column:
        return column.name
    return ColumnEntry(column.name, column.type, column.description)


def listed_column(entry: str | ColumnEntry) -> Column:
    """The column that an entry lists; the inverse of `column_entry`.

    Raises:
        ValueError: the name is unknown, or cannot name a column.
    """
    if isinstance(entry, ColumnEntry):
        return Column(entry.name, entry.type, entry.description)
    if entry not in KNOWN_COLUMNS:
        raise ValueError(f"{entry} is unknown; known without a type are {', '.join(KNOWN_COLUMNS)}")
    return KNOWN_COLUMNS[entry]


class ConfigEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A config: its label names, its own columns and its splits.

    `audit` and `duplicates_of` are only in older releases, which have the column `near_duplicate_of`; newer ones have
    a table of duplicates instead.
    """

    benchmark: Name
    description: Prose
    label_names: tuple[Text, ...]
    columns: tuple[Text | ColumnEntry, ...]
    splits: dict[SplitName, SplitEntry]
    excluded: FileEntry
    audit: FileEntry | None = None
    duplicates_of: Text | None = None

    def own_columns(self) -> tuple[Column, ...]:
        """The columns of this config, in addition to those that all configs have."""
        return tuple(listed_column(column) for column in self.columns)


class ComparedEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Every split of `splits` was compared with every split of `others`; all are `config/split`."""

    by: By
    splits: tuple[Text, ...]
    others: tuple[Text, ...] = field(name="with")


class PairCount(Struct, frozen=True, forbid_unknown_fields=True):
    """Number of pairs of two splits, and the numbers of those with two roles and with two classes."""

    split: Text
    other_split: Text
    pairs: Count
    two_roles: Count
    two_classes: Count


class DuplicatesEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The table of duplicates: file, number of rows, and comparisons. Without `counts`, they follow from its pairs."""

    path: Text
    size: Count = field(name="bytes")
    sha256: Sha256
    rows: Count
    compared: tuple[ComparedEntry, ...]
    counts: tuple[PairCount, ...] | None = None

    @property
    def file(self) -> FileEntry:
        """The table as a file of the release."""
        return FileEntry(self.path, self.size, self.sha256)


class AuditEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What an audit of finished splits found (`builders.audit`).

    `summary` is its line in the card, and `splits` are the digests of the rows that were audited, by `config/split`.
    Pictures that show images are never listed.
    """

    summary: Prose
    splits: dict[Text, Sha256]
    table: FileEntry
    chart: FileEntry | None = None

    def files(self) -> tuple[FileEntry, ...]:
        """The table, and the chart if there is one."""
        return (self.table,) if self.chart is None else (self.table, self.chart)


class Manifest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The contents of manifest.json: the benchmarks, configs, sources and files of a release.

    `withdrawn` are the withdrawn rows of all splits. Only a manifest that is not yet written lacks the `card`; older
    releases have no `croissant` metadata.
    Releases from before there was a table of duplicates lack `duplicates`. The key of an audit is the path of its
    files below audit/, without suffix. Publishing sets `version` (the tag without its v), `previous` (the version
    before it, empty in the first), `changelog` (CHANGELOG.md and the tables in changes/) and, since there is
    `croissant`, the `repository` (ORG/NAME) of which the card gives commands.
    """

    format: int
    benchmarks: dict[Name, BenchmarkEntry]
    configs: dict[ConfigName, ConfigEntry]
    sources: dict[Name, SourceEntry]
    withdrawn: tuple[WithdrawnRow, ...]
    duplicates: DuplicatesEntry | None = None
    audits: dict[Text, AuditEntry] = {}
    card: FileEntry | None = None
    croissant: FileEntry | None = None
    repository: Annotated[str, Meta(pattern=REPOSITORY, max_length=200)] | None = None
    version: Text | None = None
    previous: Text | None = None
    changelog: tuple[FileEntry, ...] | None = None

    def splits(self) -> Iterator[tuple[str, ConfigEntry, SplitEntry]]:
        """All splits, sorted: `config/split`, the config's entry and the split's entry."""
        for config_name, config in sorted(self.configs.items()):
            for name, split in sorted(config.splits.items()):
                yield f"{config_name}/{name}", config, split

    def by_key(self) -> dict[str, SplitEntry]:
        """The entries of all splits by `config/split`, sorted."""
        return {key: split for key, _, split in self.splits()}

    def files(self) -> tuple[FileEntry, ...]:
        """Every listed file but the card and the Croissant metadata, sorted by path.

        A file that several configs share is included once.
        """
        entries = [entry for config in self.configs.values() for entry in (config.excluded, config.audit) if entry]
        for _, _, split in self.splits():
            entries += split.files
            if split.samples is not None:
                entries.append(split.samples)
        if self.duplicates is not None:
            entries.append(self.duplicates.file)
        for audit in self.audits.values():
            entries += audit.files()
        return tuple(sorted({*entries, *(self.changelog or ())}, key=lambda entry: (entry.path, entry.sha256)))

    def files_and_card(self) -> tuple[FileEntry, ...]:
        """Every listed file, the card and the Croissant metadata last."""
        return (*self.files(), *(file for file in (self.croissant, self.card) if file is not None))


EMPTY = Manifest(format=FORMAT, benchmarks={}, configs={}, sources={}, withdrawn=())
"""The manifest of a release without splits."""


def without_outdated_audits(manifest: Manifest) -> Manifest:
    """A manifest with only those audits whose splits it has, with the rows that were audited."""
    digests = {key: split.digest for key, split in manifest.by_key().items()}
    audits = {key: audit for key, audit in manifest.audits.items() if audit.splits.items() <= digests.items()}
    return replace(manifest, audits=audits)


def pieces_by_key(key: str, split: SplitEntry) -> dict[str, PartEntry]:
    """The parts of a joined split by `config/split.part`; any other split by `config/split`."""
    return {f"{key}.{piece.name}" if piece.name else key: piece for piece in split.pieces()}


def is_training(key: str, split: SplitEntry) -> bool:
    """Whether a split (`config/split`) is a training split of in-distribution images."""
    return key.endswith("/train") and split.roles == ("in_distribution",)
