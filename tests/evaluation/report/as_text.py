"""Pages and tables as text, in which tests are read."""

import html
import re

import pandas as pd


def text_lines(table):
    """The heading and the rows, with cells between bars and bold ones between stars."""
    page = table.page()
    head = [f"{column.group} {column.title}".strip() for column in page.columns]
    rows = [
        [
            re.sub("<[^>]*>", "", first),
            *(f"**{cell.text}**" if cell.style == "strong" else cell.text for cell in cells),
        ]
        for first, *cells in page.rows
    ]
    return [f"| {' | '.join(line)} |" for line in (head, *rows)]


def figures_of(folder):
    """The figures of a report."""
    return pd.read_parquet(folder / "figures.parquet")


def page_of(folder):
    """The words of a report's page."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    words = re.sub(r"<(style|script)>.*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(words).split())


def svg_texts(path):
    """The texts of an SVG, in its order."""
    return re.findall(r"<text[^>]*>([^<]+)</text>", path.read_text(encoding="utf-8"))
