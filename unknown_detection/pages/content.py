"""The parts of a page as values that its templates show: contents, tables, cells and links.

All text is data. The templates escape it, so it may come from anyone; only `markupsafe.Markup` passes as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

Value = str | int | float | None
"""A cell without a style of its own; None is shown as a dash and sorted last. `Markup` is a text, shown as it is."""

Style = Literal["", "code", "strong", "muted"]

_URL = re.compile(r"https?://[^\s<>\"'`\\]+")
_RELATIVE = re.compile(r"#[\w.-]+|(?!/)[\w./-]+")
"""An anchor of the page, or a file beside it or below it. Without a colon it has no scheme."""


@dataclass(frozen=True)
class Entry:
    """An entry of the table of contents: the anchor that it leads to, its title, and the entries below it."""

    anchor: str
    title: str
    entries: Sequence[Entry] = ()


@dataclass(frozen=True)
class PageColumn:
    """A column of a table.

    Numeric ones are aligned to the right; equal neighbouring groups share a heading above. A column of pictures is not
    `sortable`.
    """

    title: str
    numeric: bool = False
    group: str = ""
    sortable: bool = True


@dataclass(frozen=True)
class Cell:
    """A cell of a table with a link, a style or a sort key.

    Attributes:
        text: its value; numbers are shown with thousands separators.
        order: the value that it is sorted by, if not by `text`.
        href: its link: a web address, an anchor of the page (`#...`) or a file beside the page. Others are dropped.
        style: `code`, `strong` (bold), or `muted`.
    """

    text: Value
    order: str | int | float | None = None
    href: str = ""
    style: Style = ""


@dataclass(frozen=True)
class PageTable:
    """A table, which a reader can sort, and also search if it is `searchable`.

    Attributes:
        anchor: its id on the page, unique there.
        caption: its title.
        columns: headings, the first of which names the rows.
        rows: the cells of each row, as many as there are columns.
        note: a sentence below it.
        searchable: it has a field to search its rows.
        first: the number of rows that are shown until the reader asks for all; 0 shows all.
    """

    anchor: str
    caption: str
    columns: Sequence[PageColumn]
    rows: Sequence[Sequence[Value | Cell]]
    note: str = ""
    searchable: bool = False
    first: int = 0

    def groups(self) -> list[tuple[str, int]]:
        """Return the headings above the columns with their numbers of columns; empty if no column has a group."""
        groups: list[tuple[str, int]] = []
        for column in self.columns:
            if groups and groups[-1][0] == column.group:
                groups[-1] = (column.group, groups[-1][1] + 1)
            else:
                groups.append((column.group, 1))
        return groups if any(name for name, _ in groups) else []


def table(
    anchor: str,
    caption: str,
    titles: Sequence[str | PageColumn],
    rows: Sequence[Sequence[Value | Cell]],
    *,
    note: str = "",
    folded: bool = True,
) -> PageTable:
    """Return a table whose columns are numeric if each cell sorts by a number.

    One that is `folded` can be searched, and shows twelve rows until a reader asks for all.
    """
    sorted_by = [
        {type(cell.text if cell.order is None else cell.order) for cell in map(as_cell, column)} - {type(None)}
        for column in zip(*rows, strict=True)
    ] or [set[type]()] * len(titles)
    columns = [
        title if isinstance(title, PageColumn) else PageColumn(title, numeric=bool(types) and types <= {int, float})
        for title, types in zip(titles, sorted_by, strict=True)
    ]
    return PageTable(anchor, caption, columns, rows, note, searchable=folded, first=12 if folded else 0)


def code(text: str) -> Cell:
    """Return a cell that shows a name in a program's typeface."""
    return Cell(text, style="code")


def as_cell(value: Value | Cell) -> Cell:
    """Return a value as a cell."""
    return value if isinstance(value, Cell) else Cell(value)


def display_text(value: Value) -> str:
    """Return a value as a page shows it: integers with thousands separators, other numbers as Python prints them."""
    if value is None:
        return "–"
    if isinstance(value, Markup):
        return value
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def anchor(*parts: str) -> str:
    """Return an id made of names: lower-case letters and digits; other characters become hyphens."""
    return "-".join(re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts)


def safe_href(url: str) -> str:
    """Return a web address, an anchor or a path beside the page unchanged, and an empty text for anything else.

    So a link to `javascript:` or `file:` in a manifest leads nowhere.
    """
    return url if _URL.fullmatch(url) or (_RELATIVE.fullmatch(url) and ".." not in url) else ""
