"""Writes what pages in `docs/` state of our measurements into them: `python -m benchmarks.pages`.

Each block of a page stands between `<!-- figures: NAME -->` and `<!-- end of figures -->` and is made from
`figures.json`. Tested by `tests/benchmarks/test_pages.py`, which also finds times outside blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import figures, performance_page, scale_page
from benchmarks.duplicates import page as duplicates_page

DOCS = Path(__file__).parents[1] / "docs"

BLOCK = re.compile(r"(<!-- figures: (?P<name>[^>]+?) -->\n\n)(?P<text>.*?)(\n\n<!-- end of figures -->)", re.S)

PAGES: Mapping[str, Callable[[figures.Figures], Mapping[str, str]]] = {
    "performance.md": performance_page.blocks,
    "scale.md": scale_page.blocks,
    "benchmarks/duplicates.md": duplicates_page.blocks,
}
"""Functions that return a page's blocks by name."""


def written(text: str, blocks: Mapping[str, str]) -> str:
    """Return a page with its blocks as they should be.

    Raises:
        ValueError: the page has other blocks.
    """
    names = [match["name"] for match in BLOCK.finditer(text)]
    if sorted(names) != sorted(blocks):
        raise ValueError(f"the page has the blocks {names}, and there are {list(blocks)}")
    return BLOCK.sub(lambda match: match[1] + blocks[match["name"]] + match[4], text)


def pages() -> dict[Path, str]:
    """Return the pages as they should be."""
    measured = figures.read()
    return {
        DOCS / name: written((DOCS / name).read_text(encoding="utf-8"), blocks(measured))
        for name, blocks in PAGES.items()
    }


def main() -> None:
    """Write the pages."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
