"""What `mkdocs` does to the pages: generated tables, which cannot fall behind the code, and names that stay whole.

`mkdocs.yml` names it. Where a page says `<!-- table of NAME -->`, the table of that name stands in the site.

Tested by `tests/test_docs_tables.py`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from unknown_detection.evaluation.detectors import table
from unknown_detection.evaluation.metrics.metrics import METRICS

_RANKED = {
    "unknown": "unknown against known rows",
    "errors": "wrong against right predictions",
    "misclassified": "wrong against right predictions of known rows",
    "open_set": "both",
    "rejected": "decisions, in place of scores",
}


def detectors() -> list[dict[str, str]]:
    """Every detector, in the order of the registry."""
    names = {"name": "`--detectors`", "class": "class", "title": "in tables", "paper": "paper", "year": "year"}
    names |= {name: name for name in ("needs", "cost", "searched", "compared with")}
    rows = [{names[key]: row[key] for key in names} for row in table().to_dict("records")]
    return [row | {"`--detectors`": f"`{row['`--detectors`']}`", "class": f"`{row['class']}`"} for row in rows]


def metrics() -> list[dict[str, str]]:
    """Every metric, in the order of tables."""
    return [
        {
            "name": f"`{metric.name}`",
            "in tables": metric.title,
            "better": metric.better,
            "compares": _RANKED[metric.takes],
            "positive": metric.positive,
            "printed times": f"{metric.factor:,.0f}",
        }
        for metric in METRICS.values()
    ]


TABLES = {"detectors": detectors, "metrics": metrics}

_NAME = re.compile(r"<code>(?=[^<\s]{1,34}</code>)")
"""A name in a sentence that has room on a line of a window of 390 pixels (ours)."""

_CODE = re.compile(r"<code>.*?</code>", re.S)
_HYPHENATED = re.compile(r"(?<=[\s>])(?=[^\s<>]{1,34}[\s<])[^\s<>-]*-[^\s<>]*(?![^<]*>)")
"""A word of code that a browser would break behind its hyphens, such as a flag behind its first two."""

_MARK = re.compile(r"<!-- table of (\w+) -->")


def as_markdown(rows: Iterable[Mapping[str, str]]) -> str:
    """Rows as a table of Markdown."""
    rows = list(rows)
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    lines += ["| " + " | ".join(value.replace("|", "\\|") for value in row.values()) + " |" for row in rows]
    return "\n".join(lines)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables in their places; mkdocs calls it for each page."""
    return _MARK.sub(lambda found: as_markdown(TABLES[found[1]]()), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Mark names that no line breaks into two (`docs/assets/site.css`); mkdocs calls it for each page."""
    html = _NAME.sub('<code class="whole">', html)
    return _CODE.sub(lambda code: _HYPHENATED.sub(r'<span class="whole">\g<0></span>', code[0]), html)
