"""Tables of the audits that a release records, and the commands that run the missing ones.

Tested by `tests/builders/report/test_audits.py`.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from builders.release.duplicates import counted, is_known_and_unknown, read_pairs
from builders.release.entries import AuditEntry, Manifest
from builders.release.layout import Layout
from builders.release.reader import read_index
from builders.release.schema import ID_OVERLAP_KIND
from builders.storage.files import read_regular
from builders.storage.text_files import read_csv
from taxonomy.overlaps import CLOSENESS
from unknown_detection.csv_text import plain_text
from unknown_detection.pages.content import PageTable, Value, anchor, code, table

_NUMBER = re.compile(r"\d{1,15}(\.\d{1,10})?")
_ADVICE = "Run the audit again with python -m builders.commands.audit."

_CAPTIONS = {
    "overlap": "Unknown classes that overlap a known one",
    "artifacts": "AUROC of single numbers, without a model; 0.5 is chance",
}
_COLUMNS = {
    "overlap": ("split", "unknown_class", "unknown_class_name", "known_class", "rows"),
    "artifacts": ("split", "role", "number", "auroc", "direction", "flagged"),
}


@dataclass(frozen=True)
class Audit:
    """An audit on the page: its summary, table and chart (a data: URI), or the command that runs it."""

    title: str
    summary: str = ""
    table: PageTable | None = None
    chart: str = ""
    command: str = ""


def audit(root: Path, manifest: Manifest, kind: str, config: str = "") -> Audit:
    """Return an audit of the release or of a config; `kind` says which."""
    entry = manifest.audits.get(f"{config}/{kind}" if config else kind)
    if entry is None:
        words = ["python", "-m", "builders.commands.audit", kind, str(root), *(["--splits", config] if config else [])]
        return Audit(config or kind, command=shlex.join(words))
    columns = _COLUMNS[kind]
    rows = []
    for _, line in read_csv(Layout(root).inside(entry.table.path), columns, _ADVICE):
        split, *others = (plain_text(line[name]) for name in columns)
        rows.append((code(split), *map(_value, others)))
    listed = table(anchor(kind, config), _CAPTIONS[kind], [name.replace("_", " ") for name in columns], rows)
    chart = ""
    if entry.chart is not None:
        data = read_regular(Layout(root).inside(entry.chart.path))
        chart = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return Audit(config or kind, plain(entry.summary), listed, chart)


def _value(text: str) -> Value:
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text or None


def overlapping_rows(root: Path, manifest: Manifest) -> PageTable:
    """Count the rows of each split whose class overlaps a known one (`id_overlap`, `id_overlap_kind`)."""
    name, counts_of = ID_OVERLAP_KIND.name, dict[str, Counter[str]]()
    entries = manifest.by_key()
    for key, config, split in manifest.splits():
        if split.overlaps is not None and not split.is_known:
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


def other_audits(manifest: Manifest) -> list[tuple[str, AuditEntry]]:
    """Return the audits, with their keys, that have no table of their own on the page."""
    tabulated = {"overlap", *(f"{config}/artifacts" for config in manifest.configs)}
    return [(key, audit) for key, audit in sorted(manifest.audits.items()) if key not in tabulated]


def duplicates_table(root: Path, manifest: Manifest) -> tuple[PageTable, int] | None:
    """Return a table of pairs with the same picture by splits, and the number of known-and-unknown pairs."""
    if manifest.duplicates is None:
        return None
    pairs = read_pairs(Layout(root).inside(manifest.duplicates.path), manifest.duplicates.sha256)
    rows = [(code(c.split), code(c.other_split), c.pairs, c.two_roles, c.two_classes) for c in counted(pairs)]
    titles = ("split", "and split", "pairs", "of two roles", "of two classes")
    by_splits = table("pairs", "Pairs of rows that show one picture, or nearly one", titles, rows)
    return by_splits, sum(map(is_known_and_unknown, pairs))


def compared(manifest: Manifest) -> list[tuple[str, str]]:
    """Return which splits were compared for duplicates: the method, and the splits as text."""
    comparisons: list[tuple[str, str]] = []
    for entry in manifest.duplicates.compared if manifest.duplicates is not None else ():
        others = f" with {', '.join(entry.others)}"
        others = ", with each other and within each" if entry.splits == entry.others else others
        comparisons.append((entry.by, f"{', '.join(entry.splits)}{others}"))
    return comparisons


def plain(summary: str) -> str:
    """Remove the Markdown from a line of the card."""
    return summary.replace("**", "").replace("`", "")
