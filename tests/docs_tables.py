"""What pages in `docs/` repeat of declarations, written into them: tables of splits, the datasets and their citations.

    python -m tests.docs_tables    # then look at the diff

Of a table of splits the counts and new rows are written, and the words of rows that are there stay.
Tested by `tests/test_docs_tables.py`.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from builders.card.words import ROLE_NAMES
from builders.declare.benchmark import Benchmark
from builders.registry import BENCHMARKS
from builders.sources.base import Source
from builders.sources.registry import SOURCES

ROOT = Path(__file__).parents[1]
DATASETS = ROOT / "docs" / "datasets.md"
OVERVIEW = ROOT / "docs" / "benchmarks" / "index.md"
SPLITS = "| config | split | rows | the paper's table | role | from |\n|---|---|---:|---:|---|---|\n"


def datasets(page: str) -> str:
    """The page of the datasets with every source that is downloaded, and every work to cite once."""
    rows = [
        f"| {source.title} | <{source.obtain.page}> | [{source.licence.name}]({source.licence.url}) |"
        for source in downloaded(SOURCES.values())
    ]
    works = dict.fromkeys(
        work for source in SOURCES.values() for work in source.citation.strip().split("\n\n") if work
    )
    header = "| dataset | owner's page | licence |\n|---|---|---|\n"
    listed = "\n".join(rows) + "\n\n## Cite\n\n```bibtex\n" + "\n\n".join(works) + "\n```\n"
    return page.partition(header)[0] + header + listed


def splits(page: str, benchmark: Benchmark) -> str:
    """A benchmark's page with the counts of each split, and a row for those that had none behind the one before."""
    before, header, after = page.partition(SPLITS)
    end = re.match(r"(?:\|.*\n)*", after).end()
    rows: dict[str, list[str]] = {}
    config = ""
    for line in after[:end].splitlines():
        first, name, *cells = (cell.strip() for cell in line.strip()[1:-1].split(" | ", 5))
        config = first or config
        rows[f"{config}/{name}".replace("`", "")] = cells
    written: dict[str, list[str]] = {}
    for key, parts in benchmark.splits.items():
        pattern = next((row for row in rows if "<" in row and row.split("/")[0] == key.split("/")[0]), key)
        joined = [benchmark.parts[part] for part in parts]
        roles = ", ".join(dict.fromkeys(ROLE_NAMES[part.role] for part in joined))
        count = benchmark.count(key)
        words = rows.get(pattern, ["", "", roles, joined[0].source.title])[2:]
        written[pattern] = [f"{count.rows:,}", f"{count.paper:,}", *words]
    lines, last = [], ""
    for key, cells in written.items():
        config, name = key.split("/")
        lines.append(f"| {' | '.join([f'`{config}`' if config != last else '', f'`{name}`', *cells])} |\n")
        last = config
    return before + header + "".join(lines).replace("|  |", "| |") + after[end:]


def overview(page: str) -> str:
    """The page of all benchmarks with the sources of each that are downloaded, by their titles."""
    for name, benchmark in BENCHMARKS.items():
        titles = [source.title.partition(" (")[0] for source in downloaded(benchmark.sources())]
        row = re.compile(rf"^(\| [^|]+ \| [^|]+ \| )[^|]+( \| \[[^|]+\]\({name}\.md\) \|)$", re.M)
        page = row.sub(rf"\g<1>{', '.join(dict.fromkeys(titles))}\2", page)
    return page


def downloaded(sources: Iterable[Source]) -> list[Source]:
    """Those that have owners who offer them."""
    return [source for source in sources if source.on_disk and source.obtain is not None]


def pages() -> dict[Path, str]:
    """The pages as they should be."""
    found = {DATASETS: datasets(DATASETS.read_text(encoding="utf-8"))}
    found[OVERVIEW] = overview(OVERVIEW.read_text(encoding="utf-8"))
    for name, benchmark in BENCHMARKS.items():
        path = ROOT / "docs" / "benchmarks" / f"{name}.md"
        found[path] = splits(path.read_text(encoding="utf-8"), benchmark)
    return found


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
