"""docs/tables-and-figures.md has every table and figure of the five papers, each with a command or a reason."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tables-and-figures.md").read_text(encoding="utf-8")
PAPERS = ROOT.parent / "shared" / "papers"

CAPTION = r"^((?:Table|Figure) \d+):"
SECTIONS = {
    "Unified benchmark": ("unified-unknown-detection.txt", CAPTION),
    # The text has no captions, but names each in a sentence.
    "FACETS": ("facets-realistic-benchmark.txt", r"\b(Table [IVX]+|Figure \d+)\b"),
    "BROAD": ("broad.txt", CAPTION),
    "OD-test": ("od-test-poster.txt", r"^## .*\((n = \d+/bar).*\)$"),
    "Optimizers": ("optimizer-robustness.txt", CAPTION),
}
COUNTS = {
    "Unified benchmark": (7, 7, 0),
    "FACETS": (7, 4, 0),
    "BROAD": (15, 3, 0),
    "OD-test": (0, 0, 3),
    "Optimizers": (15, 4, 0),
}
"""Numbers of tables, figures and charts, counted in the papers by hand."""

MAKERS = (
    r"`(?:unknown-detection |python |report`|[A-Z_]+` in `|figures\.csv`)"  # a command, or a name in a file
    r"|bold cells|^as (?:table|figure) \d|same table"  # another row
)


def rows(section):
    """Its lines: which, what it shows, and what makes it."""
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\| .*\|$", text, re.M)[1:]]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_table_and_figure_has_a_maker_or_a_reason(section):
    found = rows(section)
    names = [name for name, *_ in found]
    assert len(names) == len(set(names))
    kinds = ("Table", "Figure", "Chart")
    assert tuple(sum(name.startswith(kind) for name in names) for kind in kinds) == COUNTS[section]
    for name, shows, maker in found:
        assert shows, name
        assert maker.startswith("not made") or re.search(MAKERS, maker), name
        assert not maker.startswith("not made") or len(maker) > len("not made: "), name
        for other in re.findall(r"\bas ((?:table|figure) \d+)\b", maker):
            assert other.capitalize() in names, name


@pytest.mark.parametrize("section", SECTIONS)
def test_the_list_is_that_of_the_papers_captions(section):
    file, caption = SECTIONS[section]
    if not (PAPERS / file).is_file():
        pytest.skip(f"needs the text of the paper, {file}")
    found = re.findall(caption, (PAPERS / file).read_text(encoding="utf-8"), re.M)
    names = [name for name, *_ in rows(section)]
    if section == "OD-test":  # the charts have headings, not numbers
        assert len(found) == len(names)
    else:
        assert sorted(set(found)) == sorted(names)


def test_files_and_options_of_the_page_exist():
    for path in re.findall(r"`((?:examples|evaluation|taxonomy)/[\w/.]+)`", PAGE):
        assert (ROOT / path).is_file(), path
    from unknown_detection.evaluation.protocols import PROTOCOLS

    named = re.findall(r"--protocol ([\w/.:-]+)", PAGE)
    assert {name for name in named if ".py:" not in name} <= {*PROTOCOLS}
    assert all((ROOT / name.partition(":")[0]).is_file() for name in named if ".py:" in name)
