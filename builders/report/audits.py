"""Tables of the audits recorded in a release, and the commands of those not run.

Tested by `tests/builders/report/test_audits.py`.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.release.duplicates import KNOWN_ROLE, counted, is_known_and_unknown, read_pairs
from builders.release.entries import AuditEntry, Manifest
from builders.release.layout import Layout
from builders.release.reader import read_index
from builders.release.schema import ID_OVERLAP_KIND, ROLES
from builders.report.counts import chip
from builders.storage.text_files import read_csv
from taxonomy.overlaps import CLOSENESS
from unknown_detection.csv_text import plain_text
from unknown_detection.pages.content import Cell, PageColumn, PageTable, Value, anchor, code, table

_AREA = re.compile(r"[01]\.\d{1,10}")
_ADVICE = "Run the audit again with python -m builders.commands.audit."


@dataclass(frozen=True)
class Audit:
    """An audit: its summary and table if it was run, otherwise the command that runs it."""

    title: str
    summary: str = ""
    table: PageTable | None = None
    command: str = ""


def overlap_audit(root: Path, manifest: Manifest) -> Audit:
    """Return the audit of unknown classes that overlap known ones.

    Raises:
        BuildError: its table cannot be read.
    """
    entry = manifest.audits.get("overlap")
    if entry is None:
        return Audit("Overlap", command=_command("overlap", root))
    rows = []
    for line in _lines(root, entry, ("split", "known_class", "unknown_class", "unknown_class_name", "rows")):
        class_id, name, count = line["unknown_class"], line["unknown_class_name"], line["rows"]
        title = class_id if name in ("", class_id) else f"{name} ({class_id})"
        is_count = count.isascii() and count.isdecimal() and len(count) < 16
        rows.append((code(line["split"]), title, line["known_class"], int(count) if is_count else count))
    titles = ("split", "unknown class", "known class", PageColumn("rows", numeric=True))
    return Audit("Overlap", table=table("overlap-table", "Unknown classes that overlap a known one", titles, rows))


def overlapping_rows(root: Path, manifest: Manifest) -> PageTable:
    """Count the rows of each split whose class overlaps a known one (`id_overlap`, `id_overlap_kind`).

    Raises:
        BuildError: an index cannot be read.
    """
    name, counts_of = ID_OVERLAP_KIND.name, dict[str, Counter[str]]()
    entries = manifest.by_key()
    for key, config, split in manifest.splits():
        if split.overlaps is not None and split.roles != (KNOWN_ROLE,):
            known = ID_OVERLAP_KIND in config.columns
            kinds = read_index(root, split, (name,))[name].drop_null().to_pylist() if known else []
            counts_of[key] = Counter(kinds)
    shown = [kind for kind in CLOSENESS if any(kind in counts for counts in counts_of.values())]
    rows = [
        (code(key), entries[key].overlaps, *(counts.get(kind) for kind in shown), entries[key].rows)
        for key, counts in counts_of.items()
    ]
    titles = ("split", "overlapping", *shown, "rows")
    return table("overlapping-rows", "Rows whose class overlaps a known one", titles, rows)


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
    for line in _lines(root, entry, ("split", "role", "number", "auroc", "flagged")):
        numbers.setdefault(line["number"])
        area = f"{float(line['auroc']):.2f}" if _AREA.fullmatch(line["auroc"]) else line["auroc"] or None
        cell = Cell(area, style="strong" if line["flagged"] == "yes" else "")
        cells.setdefault((line["split"], line["role"]), {})[line["number"]] = cell
    rows: list[Sequence[Value | Cell]] = []
    for (split, role), areas in cells.items():
        mark = next((chip(known) for known in ROLES if known == role), role)
        rows.append([code(split.partition("/")[2]), mark, *map(areas.get, numbers)])
    columns = [PageColumn(number.replace("_", " "), numeric=True) for number in numbers]
    caption = f"AUROC of single numbers in {config}, without a model; 0.5 is chance, bold is flagged"
    return Audit(
        config,
        plain(entry.summary),
        table(anchor("artifacts", config), caption, ["split", "role", *columns], rows, folded=False),
    )


def other_audits(manifest: Manifest) -> list[tuple[str, AuditEntry]]:
    """Return the audits that the page has no table for, with their keys."""
    tabulated = {"overlap", *(f"{config}/artifacts" for config in manifest.configs)}
    return [(key, audit) for key, audit in sorted(manifest.audits.items()) if key not in tabulated]


def duplicates_table(root: Path, manifest: Manifest) -> tuple[PageTable, int] | None:
    """Count the pairs of rows with the same picture by splits, and those of a known and an unknown row.

    Returns:
        None for a release without a table of duplicates.

    Raises:
        BuildError: the table cannot be read.
    """
    if manifest.duplicates is None:
        return None
    pairs = read_pairs(Layout(root).inside(manifest.duplicates.path))
    rows = [(code(c.split), code(c.other_split), c.pairs, c.two_roles, c.two_classes) for c in counted(pairs)]
    titles = ("split", "and split", "pairs", "of two roles", "of two classes")
    by_splits = table("pairs", "Pairs of rows that show one picture, or nearly one", titles, rows)
    return by_splits, sum(map(is_known_and_unknown, pairs))


def compared(manifest: Manifest) -> list[tuple[str, str]]:
    """Return the comparisons made for duplicates: the method, and the splits as text."""
    listed = manifest.duplicates.compared if manifest.duplicates is not None else ()
    return [
        (
            entry.by,
            f"{', '.join(entry.splits)}, with each other and within each"
            if entry.splits == entry.others
            else f"{', '.join(entry.splits)} with {', '.join(entry.others)}",
        )
        for entry in listed
    ]


def plain(summary: str) -> str:
    """Remove the Markdown from a line of the card."""
    return summary.replace("**", "").replace("`", "")


def _lines(root: Path, entry: AuditEntry, columns: tuple[str, ...]) -> list[Mapping[str, str]]:
    lines = read_csv(Layout(root).inside(entry.table.path), columns, _ADVICE)
    return [{name: plain_text(cell) for name, cell in line.items()} for _, line in lines]


def _command(audit: str, root: Path, *more: str) -> str:
    return shlex.join(["python", "-m", "builders.commands.audit", audit, str(root), *more])
