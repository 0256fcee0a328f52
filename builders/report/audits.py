"""Tables of the audits recorded in a release, and the commands of those not run.

Tested by `tests/builders/report/test_audits.py`.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from builders.release.duplicates import KNOWN_ROLE, counted, is_known_and_unknown, read_pairs
from builders.release.entries import AuditEntry, Manifest
from builders.release.layout import Layout
from builders.release.reader import read_index
from builders.release.schema import ID_OVERLAP_KIND, ROLES
from builders.release.split_entries import SplitEntry
from builders.report.charts import chip
from builders.storage.text_files import read_csv
from taxonomy.overlaps import CLOSENESS
from unknown_detection.csv_text import plain_text
from unknown_detection.pages.content import Cell, PageColumn, PageTable, Style, Value, anchor

_AREA = re.compile(r"[01]\.\d{1,10}")
_ADVICE = "Run the audit again with python -m builders.commands.audit."
_OVERLAP = ("split", "known_class", "unknown_class", "unknown_class_name", "rows", "rows_of_split")
_ARTIFACTS = ("split", "role", "number", "auroc", "flagged")


@dataclass(frozen=True)
class Audit:
    """An audit: its summary and tables if it was run, otherwise the command that runs it."""

    title: str
    summary: str = ""
    tables: tuple[PageTable, ...] = ()
    command: str = ""


def overlap_audit(root: Path, manifest: Manifest) -> Audit:
    """Return the audit of unknown classes that overlap known ones.

    Raises:
        BuildError: its table cannot be read.
    """
    entry = manifest.audits.get("overlap")
    if entry is None:
        return Audit("Overlap", command=_command("overlap", root))
    rows: list[list[Value | Cell]] = [
        [
            Cell(line["split"], style="code"),
            _class(line["unknown_class"], line["unknown_class_name"]),
            line["known_class"],
            _number(line["rows"]),
        ]
        for line in _lines(root, entry, _OVERLAP)
    ]
    columns = [
        PageColumn("split"),
        PageColumn("unknown class"),
        PageColumn("known class"),
        PageColumn("rows", numeric=True),
    ]
    table = PageTable(
        "overlap-table", "Unknown classes that overlap a known one", columns, rows, searchable=True, first=12
    )
    return Audit("Overlap", tables=(table,))


def overlapping_rows(root: Path, manifest: Manifest) -> PageTable:
    """Count the rows of each split whose class overlaps a known one (`id_overlap`, `id_overlap_kind`).

    Raises:
        BuildError: an index cannot be read.
    """
    splits = [
        (key, _kinds(root, split) if ID_OVERLAP_KIND.name in config.columns else {}, split)
        for key, config, split in manifest.splits()
        if split.overlaps is not None and split.roles != (KNOWN_ROLE,)
    ]
    kinds = [kind for kind in CLOSENESS if any(kind in rows_by_kind for _, rows_by_kind, _ in splits)]
    rows: list[list[Value | Cell]] = [
        [Cell(key, style="code"), split.overlaps, *(rows_by_kind.get(kind) for kind in kinds), split.rows]
        for key, rows_by_kind, split in splits
    ]
    titles = ("overlapping", *kinds, "rows")
    columns = [PageColumn("split"), *(PageColumn(title, numeric=True) for title in titles)]
    return PageTable("overlapping-rows", "Rows whose class overlaps a known one", columns, rows, first=12)


def _kinds(root: Path, split: SplitEntry) -> Counter[str]:
    """Count the rows of a split by the kind of their overlap."""
    kinds = read_index(root, split, (ID_OVERLAP_KIND.name,))[ID_OVERLAP_KIND.name]
    return Counter(kinds.drop_null().to_pylist())


def artifacts_audit(root: Path, manifest: Manifest, config: str) -> Audit:
    """Return the audit of a config for numbers that separate splits without a model: splits by numbers.

    Raises:
        BuildError: its table cannot be read.
    """
    entry = manifest.audits.get(f"{config}/artifacts")
    if entry is None:
        return Audit(config, command=_command("artifacts", root, "--splits", config))
    cells: dict[tuple[str, str], dict[str, Cell]] = {}
    numbers: dict[str, None] = {}
    for line in _lines(root, entry, _ARTIFACTS):
        numbers.setdefault(line["number"])
        area = f"{float(line['auroc']):.2f}" if _AREA.fullmatch(line["auroc"]) else line["auroc"] or None
        style: Style = "strong" if line["flagged"] == "yes" else ""
        cells.setdefault((line["split"], line["role"]), {})[line["number"]] = Cell(area, style=style)
    rows: list[list[Value | Cell]] = [
        [Cell(split.partition("/")[2], style="code"), _role(role), *(numbers_of.get(name) for name in numbers)]
        for (split, role), numbers_of in cells.items()
    ]
    columns = [
        PageColumn("split"),
        PageColumn("role"),
        *(PageColumn(name.replace("_", " "), numeric=True) for name in numbers),
    ]
    caption = f"AUROC of single numbers in {config}, without a model; 0.5 is chance, bold is flagged"
    table = PageTable(anchor("artifacts", config), caption, columns, rows)
    return Audit(config, plain(entry.summary), (table,))


def other_audits(manifest: Manifest) -> list[tuple[str, AuditEntry]]:
    """Return the audits that the page has no table for, with their keys."""
    tabulated = {"overlap", *(f"{config}/artifacts" for config in manifest.configs)}
    return [(key, audit) for key, audit in sorted(manifest.audits.items()) if key not in tabulated]


def duplicates_table(root: Path, manifest: Manifest) -> tuple[PageTable, int] | None:
    """Count the pairs of rows with the same picture by splits, and those of a known and an unknown row.

    Returns:
        None for releases from before there was a table of duplicates.

    Raises:
        BuildError: the table cannot be read.
    """
    if manifest.duplicates is None:
        return None
    pairs = read_pairs(Layout(root).inside(manifest.duplicates.path))
    rows: list[list[Value | Cell]] = [
        [
            Cell(count.split, style="code"),
            Cell(count.other_split, style="code"),
            count.pairs,
            count.two_roles,
            count.two_classes,
        ]
        for count in counted(pairs)
    ]
    numeric = [PageColumn(title, numeric=True) for title in ("pairs", "of two roles", "of two classes")]
    columns = [PageColumn("split"), PageColumn("and split"), *numeric]
    table = PageTable(
        "pairs", "Pairs of rows that show one picture, or nearly one", columns, rows, searchable=True, first=12
    )
    return table, sum(map(is_known_and_unknown, pairs))


def compared(manifest: Manifest) -> list[tuple[str, str]]:
    """Return the comparisons made for duplicates: the method, and the splits as text."""
    if manifest.duplicates is None:
        return []
    return [
        (
            entry.by,
            f"{', '.join(entry.splits)}, with each other and within each"
            if entry.splits == entry.others
            else f"{', '.join(entry.splits)} with {', '.join(entry.others)}",
        )
        for entry in manifest.duplicates.compared
    ]


def plain(summary: str) -> str:
    """Remove the Markdown from a line of the card."""
    return summary.replace("**", "").replace("`", "")


def _lines(root: Path, entry: AuditEntry, columns: tuple[str, ...]) -> list[Mapping[str, str]]:
    lines = read_csv(Layout(root).inside(entry.table.path), columns, _ADVICE)
    return [{name: plain_text(cell) for name, cell in line.items()} for _, line in lines]


def _class(class_id: str, name: str) -> str:
    return class_id if name in ("", class_id) else f"{name} ({class_id})"


def _role(text: str) -> str:
    return next((chip(role) for role in ROLES if role == text), text)


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else text


def _command(audit: str, root: Path, *more: str) -> str:
    return shlex.join(["python", "-m", "builders.commands.audit", audit, str(root), *more])
