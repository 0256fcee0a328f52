"""Makes the page's tables from the manifest: counts of rows, exclusions, files and sources; draws roles and bars.

Bars are inline SVG in colours of the page's style, so they follow its theme. Tested by
`tests/builders/report/test_counts.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from builders.card.words import ROLE_NAMES, RULE_MEANINGS
from builders.release.entries import Manifest
from builders.release.schema import Role
from builders.release.tables import Exclusion
from unknown_detection.pages.content import Cell, PageColumn, PageTable, Value, anchor, code, table
from unknown_detection.words import byte_text

MOST_IMAGES = 500
"""Single images that the page lists as left out, at most (ours); the tables of exclusions have all."""

_WIDTH, _HEIGHT = 200, 10


class Reason(NamedTuple):
    """Why a split has other rows than the paper's table, or than complete sources give."""

    split: str
    difference: str
    sentences: tuple[str, ...]


def chip(role: Role) -> Markup:
    """Draw a role's name in the role's colour."""
    return Markup('<span class="chip {}">{}</span>').format(role, ROLE_NAMES[role])


def stacked(parts: Sequence[tuple[str, str, int]]) -> Markup:
    """Draw a bar divided by the numbers of its parts; each part has a CSS class, a name and a number."""
    total = sum(number for _, _, number in parts)
    rectangles, start = Markup(""), 0.0
    for style, name, number in parts:
        width = _WIDTH * number / total if total else 0.0
        rectangles += Markup('<rect class="{}" x="{:.2f}" width="{:.2f}" height="{}"><title>{}</title></rect>').format(
            style, start, width, _HEIGHT, f"{name}: {number:,}"
        )
        start += width
    return _bar(", ".join(f"{name} {number:,}" for _, name, number in parts), rectangles)


def filled(number: int, total: int) -> Markup:
    """Draw a bar that is filled to `number / total`, at most fully."""
    share = min(number / total, 1.0) if total else 0.0
    return _bar(
        f"{number:,} of {total:,}",
        Markup('<rect class="rest" width="{}" height="{}"/><rect class="done" width="{:.2f}" height="{}"/>').format(
            _WIDTH, _HEIGHT, _WIDTH * share, _HEIGHT
        ),
    )


def _bar(label: str, content: Markup) -> Markup:
    return Markup(
        '<svg class="bar" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>'
    ).format(label, _WIDTH, _HEIGHT, content)


def configs_table(manifest: Manifest) -> PageTable:
    """Return the table of configs with their rows, bytes, and the shares of each role."""
    rows: list[list[Value | Cell]] = []
    for name, config in sorted(manifest.configs.items()):
        counts: Counter[Role] = Counter()
        for part in (part for split in config.splits.values() for part in split.parts):
            counts[part.role] += part.rows
        size = sum(file.size for split in config.splits.values() for file in split.files)
        bar = stacked([(role, title, counts[role]) for role, title in ROLE_NAMES.items() if counts[role]])
        link = Cell(name, href=f"#{anchor('config', name)}")
        rows.append([link, len(config.splits), counts.total(), Cell(byte_text(size), size), bar])
    roles = PageColumn("roles", sortable=False)
    return table("overview", "Configs", ("config", "splits", "rows", "size", roles), rows, folded=False)


def splits_table(manifest: Manifest, name: str) -> PageTable:
    """Return the table of the splits of a config: rows built, of complete sources, and of the paper."""
    config = manifest.configs[name]
    published = bool(manifest.benchmarks[config.benchmark].citation)
    rows: list[list[Value | Cell]] = []
    for part in (part for _, entry in sorted(config.splits.items()) for part in entry.parts):
        title = part.key.partition("/")[2]
        source = f"{manifest.sources[part.source].title}, {' and '.join(part.partitions)}"
        bar = filled(part.rows, part.paper if published else part.expected)
        paper = [part.paper, part.rows - part.paper] if published else [None, None]
        rows.append([code(title), chip(part.role), source, part.rows, bar, part.expected, *paper])
    share = PageColumn("share", sortable=False)
    titles = ("split", "role", "source", "built", share, "expected", "published", "difference")
    return table(anchor("splits", name), "Rows, built and published", titles, rows, folded=False)


def reasons(manifest: Manifest, name: str) -> list[Reason]:
    """Return why splits of a config have other rows than published, in the order of the table."""
    config = manifest.configs[name]
    published = bool(manifest.benchmarks[config.benchmark].citation)
    explained = []
    for split, entry in sorted(config.splits.items()):
        more = entry.rows - entry.paper if published else 0
        difference = f"{abs(more):,} {'more' if more > 0 else 'fewer'} than published" if more else ""
        why = dict.fromkeys(part.why for part in entry.parts)
        sentences = [text for text in why if text] + list(entry.shortfalls)
        if entry.withdrawn:
            sentences.append(f"withdrawn: {len(entry.withdrawn):,}")
        if difference and not sentences:
            sentences.append("the manifest gives no reason")
        if sentences:
            explained.append(Reason(split, difference, tuple(sentences)))
    return explained


def rules_table(manifest: Manifest) -> PageTable:
    """Return the table of images left out of each split, by rule."""
    rows = [
        (code(key), rule, images, RULE_MEANINGS.get(rule, ""))
        for key, _, split in manifest.splits()
        for rule, images in sorted(split.excluded_by_rule.items())
    ]
    return table("rules", "Images left out, by rule", ("split", "rule", "images", "what the rule says"), rows)


def images_table(excluded: Sequence[Exclusion]) -> PageTable:
    """Return the table of individual images and stray files that are left out."""
    single = [line for line in excluded if line.image]
    rows = [(code(line.image), code(line.split), line.rule, line.evidence) for line in single[:MOST_IMAGES]]
    note = f"The first {MOST_IMAGES:,} of {len(single):,}; excluded/ has all." if len(single) > MOST_IMAGES else ""
    titles = ("image or file", "split", "rule", "evidence")
    return table("images", "Single images and files left out", titles, rows, note=note)


def withdrawn_table(manifest: Manifest) -> PageTable:
    """Return the table of withdrawn rows."""
    rows = [(code(row.id), code(key), row.reason) for key, row in manifest.withdrawn()]
    return table("withdrawn", "Withdrawn rows", ("id", "split", "reason"), rows)


def digests_table(manifest: Manifest) -> PageTable:
    """Return the table of the digests of each split's rows."""
    rows = [(code(key), split.rows, code(split.digest)) for key, _, split in manifest.splits()]
    note = "Two releases with equal digests have the same rows with the same images, whatever made them."
    titles = ("split", "rows", "SHA-256 over id, label, role and content")
    return table("split-digests", "Rows of each split", titles, rows, note=note)


def files_table(manifest: Manifest) -> PageTable:
    """Return the table of the files of the release."""
    files = sorted(manifest.files_and_card(), key=lambda file: file.path)
    rows = [(code(file.path), file.size, code(file.sha256)) for file in files]
    return table("files", "Files", ("file", "bytes", "SHA-256"), rows)


def sources_table(manifest: Manifest) -> PageTable:
    """Return the table of sources with their licences, and the rows that come from them."""
    counts: Counter[str] = Counter()
    for part in (part for _, _, split in manifest.splits() for part in split.parts):
        counts[part.source] += part.rows
    rows = []
    for key, source in sorted(manifest.sources.items()):
        licence = Cell(source.licence.name, href=source.licence.url)
        rows.append((source.title, source.edition, licence, source.licence.publish, counts[key]))
    return table("source-table", "Sources", ("source", "edition", "licence", "may be published", "rows"), rows)
