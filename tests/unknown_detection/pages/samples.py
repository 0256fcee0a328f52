"""A page with all pieces, and words that a page must not obey."""

from pathlib import Path

from markupsafe import Markup

from unknown_detection.pages.content import Cell, Entry, PageColumn, PageTable
from unknown_detection.pages.render import render_template

HERE = Path(__file__).parent

HOSTILE = '<script>document.title = "seized"</script><img src=x onerror="document.title = 1">"\'><b>&amp;'

PICTURE = Markup('<svg width="2000" height="20"><rect width="2000" height="20" fill="currentColor"/></svg>')

NUMBERS = PageTable(
    "numbers",
    "Numbers",
    (
        PageColumn("split"),
        PageColumn("rows", numeric=True, group="built"),
        PageColumn("bytes", numeric=True, group="built"),
    ),
    [["ten", 10, 7.5], ["nine", 9, None], ["thousand", 1000, 12.25]],
    note="A dash says that there is no number.",
    searchable=True,
)
WIDE = PageTable("wide", "Wide", [PageColumn(f"column {n}") for n in range(30)], [[f"value-{n}" for n in range(30)]])
LONG = PageTable(
    "long",
    "Long",
    (PageColumn("row"), PageColumn("text")),
    [[number, Cell("even" if number % 2 == 0 else "odd", style="code")] for number in range(50)],
    searchable=True,
    first=10,
)


def sample(**changes):
    context = {
        "title": "A sample",
        "lead": "What a page may hold.",
        "contents": [Entry("words", "Words"), Entry("tables", "Tables", [Entry("numbers", "Numbers")])],
        "words": "Some words.",
        "address": "https://example.org/terms",
        "tables": [NUMBERS, WIDE, LONG],
        "picture": PICTURE,
    }
    return render_template("page.html.j2", folders=[HERE], **(context | changes))
