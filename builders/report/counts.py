"""Tables of the page from the manifest: rows built and published, exclusions, files and sources.

Tested by `tests/builders/report/test_counts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builders.card.words import ROLE_NAMES, RULE_MEANINGS
from builders.release.entries import Manifest
from builders.release.tables import Exclusion
from builders.report.charts import chip, filled, stacked
from unknown_detection.pages.content import Cell, PageColumn, PageTable, Value, anchor
from unknown_detection.words import byte_text

MOST_IMAGES = 500
"""Single images that the page lists as left out, at most (ours); the tables of exclusions have all."""


@dataclass(frozen=True)
class Reason:
    """Why the rows of a split differ from the paper's table, or from what complete sources give."""

    split: str
    difference: str
    sentences: tuple[str, ...]


def configs_table(manifest: Manifest) -> PageTable:
    """Return the table of configs with their rows, bytes, and the shares of each role."""
    rows: list[list[Value | Cell]] = []
    for name, config in sorted(manifest.configs.items()):
        pieces = [piece for split in config.splits.values() for piece in split.pieces()]
        roles = [(role, ROLE_NAMES[role], sum(p.rows for p in pieces if p.role == role)) for role in ROLE_NAMES]
        size = sum(file.size for split in config.splits.values() for file in split.files)
        count = sum(piece.rows for piece in pieces)
        bar = stacked([role for role in roles if role[2]])
        rows.append(
            [
                Cell(name, href=f"#{anchor('config', name)}"),
                len(config.splits),
                count,
                Cell(byte_text(size), size),
                bar,
            ]
        )
    columns = [PageColumn("config")] + [PageColumn(title, numeric=True) for title in ("splits", "rows", "size")]
    return PageTable("overview", "Configs", [*columns, PageColumn("roles", sortable=False)], rows)


def splits_table(manifest: Manifest, name: str) -> PageTable:
    """Return the table of the splits of a config: rows built, of complete sources, and of the paper."""
    config = manifest.configs[name]
    published = bool(manifest.benchmarks[config.benchmark].citation)
    rows: list[list[Value | Cell]] = []
    pieces = [(split, piece) for split, entry in sorted(config.splits.items()) for piece in entry.pieces()]
    for split, piece in pieces:
        title = f"{split}.{piece.name}" if piece.name else split
        bar = filled(piece.rows, piece.paper if published else piece.expected)
        rows.append(
            [
                Cell(title, style="code"),
                chip(piece.role),
                f"{manifest.sources[piece.source].title}, {' and '.join(piece.partitions)}",
                piece.rows,
                bar,
                piece.expected,
                piece.paper if published else None,
                piece.rows - piece.paper if published else None,
            ]
        )
    numeric = [PageColumn(title, numeric=True) for title in ("expected", "published", "difference")]
    columns = [
        PageColumn("split"),
        PageColumn("role"),
        PageColumn("source"),
        PageColumn("built", numeric=True),
        PageColumn("share", sortable=False),
    ]
    return PageTable(anchor("splits", name), "Rows, built and published", [*columns, *numeric], rows)


def reasons(manifest: Manifest, name: str) -> list[Reason]:
    """Return why splits of a config have other rows than published, in the order of its table."""
    config = manifest.configs[name]
    published = bool(manifest.benchmarks[config.benchmark].citation)
    explained = []
    for split, entry in sorted(config.splits.items()):
        difference = _difference(entry.rows - entry.paper) if published else ""
        why = dict.fromkeys([entry.why, *(piece.why for piece in entry.pieces())])
        sentences = [text for text in why if text] + list(entry.shortfalls)
        if entry.withdrawn:
            sentences.append(f"withdrawn: {len(entry.withdrawn):,}")
        if difference and not sentences:
            sentences.append("the manifest gives no reason")
        if sentences:
            explained.append(Reason(split, difference, tuple(sentences)))
    return explained


def _difference(rows: int) -> str:
    if not rows:
        return ""
    return f"{abs(rows):,} {'more' if rows > 0 else 'fewer'} than published"


def rules_table(manifest: Manifest) -> PageTable:
    """Return the table of images left out of each split, by rule."""
    rows: list[list[Value | Cell]] = []
    for key, _, split in manifest.splits():
        for rule, images in sorted(split.excluded_by_rule.items()):
            rows.append([Cell(key, style="code"), rule, images, RULE_MEANINGS.get(rule, "")])
    columns = [
        PageColumn("split"),
        PageColumn("rule"),
        PageColumn("images", numeric=True),
        PageColumn("what the rule says"),
    ]
    return PageTable("rules", "Images left out, by rule", columns, rows, searchable=True, first=12)


def images_table(excluded: Sequence[Exclusion]) -> PageTable:
    """Return the table of single images and stray files that are left out."""
    single = [line for line in excluded if line.image]
    rows: list[list[Value | Cell]] = [
        [Cell(line.image, style="code"), Cell(line.split, style="code"), line.rule, line.evidence]
        for line in single[:MOST_IMAGES]
    ]
    note = f"The first {MOST_IMAGES:,} of {len(single):,}; excluded/ has all." if len(single) > MOST_IMAGES else ""
    columns = [PageColumn("image or file"), PageColumn("split"), PageColumn("rule"), PageColumn("evidence")]
    return PageTable("images", "Single images and files left out", columns, rows, note=note, searchable=True, first=12)


def withdrawn_table(manifest: Manifest) -> PageTable:
    """Return the table of withdrawn rows."""
    rows: list[list[Value | Cell]] = [
        [Cell(row.id, style="code"), Cell(key, style="code"), row.reason] for key, row in manifest.withdrawn()
    ]
    columns = [PageColumn("id"), PageColumn("split"), PageColumn("reason")]
    return PageTable("withdrawn", "Withdrawn rows", columns, rows, searchable=True, first=12)


def digests_table(manifest: Manifest) -> PageTable:
    """Return the table of the digests of each split's rows."""
    rows: list[list[Value | Cell]] = [
        [Cell(key, style="code"), split.rows, Cell(split.digest, style="code")] for key, _, split in manifest.splits()
    ]
    columns = [
        PageColumn("split"),
        PageColumn("rows", numeric=True),
        PageColumn("SHA-256 over id, label, role and content"),
    ]
    note = "Two releases with equal digests have the same rows with the same images, whatever made them."
    return PageTable("split-digests", "Rows of each split", columns, rows, note=note, searchable=True, first=12)


def files_table(manifest: Manifest) -> PageTable:
    """Return the table of the files of the release."""
    rows: list[list[Value | Cell]] = [
        [Cell(file.path, style="code"), file.size, Cell(file.sha256, style="code")]
        for file in sorted(manifest.files_and_card(), key=lambda file: file.path)
    ]
    columns = [PageColumn("file"), PageColumn("bytes", numeric=True), PageColumn("SHA-256")]
    return PageTable("files", "Files", columns, rows, searchable=True, first=12)


def sources_table(manifest: Manifest) -> PageTable:
    """Return the table of sources with their licences, and the rows that come from them."""
    by_source: dict[str, int] = {}
    for _, _, split in manifest.splits():
        for piece in split.pieces():
            by_source[piece.source] = by_source.get(piece.source, 0) + piece.rows
    rows: list[list[Value | Cell]] = [
        [
            source.title,
            source.edition,
            Cell(source.licence.name, href=source.licence.url),
            source.licence.publish,
            by_source.get(key, 0),
        ]
        for key, source in sorted(manifest.sources.items())
    ]
    columns = [PageColumn(title) for title in ("source", "edition", "licence", "may be published")]
    return PageTable("source-table", "Sources", [*columns, PageColumn("rows", numeric=True)], rows)
