"""Every figure of a paper that README, docs, cards or declarations state has its place in the paper.

`tests/stated_figures.csv` is the table: where a figure is stated, of which paper it is, and in which section or table
it stands there. What is a stated figure is found mechanically:

- every number of rows or classes that a declaration gives as the paper's (`PaperCount`), by `config/split`;
- every number in a table's column whose header names the paper;
- every number in a sentence or table cell that says "paper", "authors", "et al.", "section N" or "table N", in
  README.md, docs/, the card's template, descriptions of configs and the reasons that declarations give.

Numbers inside names and versions (ImageNet-200, T40, 2.0.0), in code, numbers of sections and tables, and the year of
a publication (NeurIPS 2020) are none.
A figure in such a sentence that is not a paper's is listed too, with `ours` or its source in place of the paper.
Spelled numbers (five kinds of shift) and docstrings are not looked at.
"""

import csv
import fnmatch
import functools
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from builders.declare.splits import AllClasses
from builders.registry import BENCHMARKS

ROOT = Path(__file__).parents[1]
PAPERS = ROOT.parent / "shared" / "papers"
TEXTS = {
    "kim2023": "unified-unknown-detection.txt",
    "recalcati2023": "facets-realistic-benchmark.txt",
    "guille2023": "broad.txt",
    "abdelzad2020": "optimizer-robustness.txt",
}
NOT_PAPERS = ("ours", "derived", "elsewhere")
"""What stands in the column `paper` for a figure that the paper does not print: one of our own, one that follows from
its figures, or one of another publication; the column `place` then says how, or where it stands."""

EVERY = "*"

BEFORE, AFTER = 40, 160
"""Characters before and after an anchor in which a figure must stand in the paper."""

_NAMES_A_PAPER = re.compile(r"\bpapers?\b|\bauthors?\b|\bet al\.|\b(?:sections?|tables?) [IVX\d]", re.I)
_REFERENCE = re.compile(
    r"\b(?:sections?|tables?|figures?|appendix) [IVX\d][IVX\d.]*\d?(?:(?:,| and| to) [IVX\d][\d.]*\d?)*", re.I
)
_YEAR = re.compile(r"\b[A-Z][A-Za-z]+ (?:19|20)\d\d\b")
_FIGURE = re.compile(r"(?<![\w.,/+-])\d(?:[\d,]*\d)?(?:\.\d+)?(?![\w/]|\.\d|-\w)")
_BLOCKS = re.compile(r"^```.*?^```|^ {4,}\S[^\n]*$", re.S | re.M)
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")


@dataclass(frozen=True)
class Stated:
    """A figure that a text states as a paper's: where, in which sentence."""

    where: str
    figure: str
    sentence: str


@dataclass(frozen=True)
class Entry:
    """A row of the table.

    Attributes:
        where: `split` for a count of a declaration, or the text's name.
        near: For a count the pattern of `config/split`, else words of the sentence that states it.
        figure: The number as stated, or `EVERY` for counts that another test finds in the lists themselves.
        paper: A key of `TEXTS`, or one of `NOT_PAPERS`.
        place: Section or table of the paper, or the origin.
        anchor: Words of the paper beside which the figure stands there.
    """

    where: str
    near: str
    figure: str
    paper: str
    place: str
    anchor: str

    def covers(self, stated: Stated) -> bool:
        """Whether this row is about a stated figure."""
        if self.where != stated.where or self.figure not in (stated.figure, EVERY):
            return False
        return fnmatch.fnmatch(stated.sentence, self.near) if self.where == "split" else self.near in stated.sentence


@functools.cache
def entries() -> tuple[Entry, ...]:
    with (ROOT / "tests" / "stated_figures.csv").open(encoding="utf-8", newline="") as file:
        return tuple(Entry(**row) for row in csv.DictReader(file))


def figures(sentence):
    """The numbers in a sentence that names a paper; none in another."""
    if not _NAMES_A_PAPER.search(sentence):
        return []
    return _FIGURE.findall(_YEAR.sub(" ", _REFERENCE.sub(" ", sentence)))


def sentences(text):
    """The sentences of a text without tables, each on one line."""
    for block in re.split(r"\n\s*\n|\n(?=[-*] )", text):
        yield from re.split(r"(?<=[.:])\s+(?=[A-Z(*\d])", " ".join(block.split()))


def rows_of(lines):
    """The rows of a Markdown table as dictionaries by the header; an empty first cell repeats the one above."""
    header, _, *others = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    first = ""
    for cells in others:
        first = cells[0] or first
        yield dict(zip(header, [first, *cells[1:]], strict=True))


def stated_in_row(where, row):
    """Figures in a row of a table; a row of a table of splits states the same as their declarations."""
    for name, cell in row.items():
        papers = re.search(r"\bpaper", name, re.I)
        numbers = _FIGURE.findall(cell) if papers else figures(_CODE.sub(" ", cell))
        if papers and "split" in row:
            sentence = f"{row['config']}/{row['split']}".replace("`", "")
            yield from (Stated("split", number, sentence) for number in numbers)
        else:
            yield from (Stated(where, number, " | ".join(row.values())) for number in numbers)


def stated_in(where, text):
    """Figures that a text states as a paper's."""
    found, table, prose = [], [], []
    for line in [*_BLOCKS.sub("", text).splitlines(), ""]:
        if line.startswith("|"):
            table.append(line)
            continue
        if table:
            found += [stated for row in rows_of(table) for stated in stated_in_row(where, row)]
            table = []
        prose.append(line)
    for sentence in sentences("\n".join(prose)):
        found += [Stated(where, number, sentence) for number in figures(_CODE.sub(" ", sentence))]
    return found


def of_split(benchmark, key):
    """The figures of a published split that is joined from parts: the sums, which tables print."""
    return [Stated("split", f"{benchmark.count(key).paper:,}", key)]


def declared():
    """Figures that declarations state: counts, descriptions of configs, and reasons."""
    found = []
    for benchmark in BENCHMARKS.values():
        for version in (benchmark, *(benchmark.with_variants([variant.name]) for variant in benchmark.variants)):
            for key, split in version.parts.items():
                numbers = [split.paper.rows, split.paper.classes]
                found += [Stated("split", f"{number:,}", key) for number in numbers if number]
                found += stated_in("reason", split.paper.reason())
                found += stated_in("description", version.config_of(key).description)
                if isinstance(split.classes, AllClasses):
                    found += stated_in("reason", split.classes.why)
            for key in version.splits:
                found += of_split(version, key)
    return found


def texts():
    """The texts by name; of the card's template what is not filled in, since declarations fill in its tables."""
    of_code = {ROOT / "docs" / "extending.md"}  # says what a change touches, and no paper's figure
    paths = [ROOT / "README.md", *sorted(set((ROOT / "docs").rglob("*.md")) - of_code)]
    found = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    templates = sorted((ROOT / "cards").rglob("*.j2"))
    card = "\n\n".join(path.read_text(encoding="utf-8") for path in templates)
    return found | {"card": re.sub(r"^\|.*$|\{%.*?%\}|\{\{.*?\}\}", "", card, flags=re.M)}


@functools.cache
def all_stated():
    found = [stated for where, text in texts().items() for stated in stated_in(where, text)]
    return tuple(dict.fromkeys([*found, *declared()]))


def unlisted(stated):
    """Those of the stated figures that no row of the table covers."""
    return [one for one in stated if not any(entry.covers(one) for entry in entries())]


def test_every_stated_figure_is_listed():
    assert unlisted(all_stated()) == []


def test_every_row_of_the_table_is_needed():
    for entry in entries():
        assert any(entry.covers(stated) for stated in all_stated()), entry


def test_every_row_names_a_paper_and_a_place_in_it():
    for entry in entries():
        assert entry.paper in (*TEXTS, *NOT_PAPERS), entry
        assert entry.place, entry
        assert entry.figure != EVERY or entry.paper == "elsewhere", entry
        if entry.paper in TEXTS:
            assert re.match(r"(section|table|appendix) [IVX\dA-Z]", entry.place), entry
            assert entry.anchor, entry


def stands_in(text, entry):
    """Whether a paper's text has the figure of a row beside its anchor, with or without commas."""
    plain = entry.figure.replace(",", "")
    figure = rf"(?<![\d.,])(?:{re.escape(entry.figure)}|{re.escape(plain)})(?!\d|,\d)"
    near = [text[max(0, at.start() - BEFORE) : at.end() + AFTER] for at in re.finditer(re.escape(entry.anchor), text)]
    return any(re.search(figure, part) for part in near)


@pytest.mark.parametrize("paper", TEXTS)
def test_the_paper_has_the_figure_at_its_place(paper):
    path = PAPERS / TEXTS[paper]
    if not path.is_file():
        pytest.skip(f"the text of the paper {paper} is not on this machine")
    text = " ".join(path.read_text(encoding="utf-8").split())
    for entry in entries():
        assert entry.paper != paper or stands_in(text, entry), entry


@pytest.mark.parametrize(
    ("figure", "expected"), [("319", True), ("46,851", True), ("319,000", False), ("46,850", False), ("6,851", False)]
)
def test_a_figure_that_the_paper_does_not_have_is_found(figure, expected):
    entry = Entry("split", "*", figure, "recalcati2023", "table V", "SUN397 |")
    assert stands_in("| SUN397 | 319 | 78 | 46851 |", entry) == expected
    assert not stands_in("| ImageNet | 319 | 78 | 46851 |", entry)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The paper has 12,345 images.", ["12,345"]),
        ("By table 7 there are 31 classes.", ["31"]),
        ("| what | the paper's |\n|---|---:|\n| rows | 777 |", ["777"]),
        ("| what | ours |\n|---|---:|\n| rows (the authors: 5,001) | 777 |", ["5,001"]),
        ("Their epsilon is 0.07 (section 2.2 of the paper).", ["0.07"]),
        ("We build 12,345 images. The paper has ImageNet-200, T40 and version 2.0.0 in section 4.1.", []),
        ("    the paper has 99 images in code", []),
    ],
)
def test_a_figure_that_nobody_listed_is_found(text, expected):
    found = stated_in("README.md", text)
    assert [stated.figure for stated in found] == expected
    assert unlisted(found) == found


def test_a_count_of_a_declaration_that_nobody_listed_is_found():
    assert unlisted([Stated("split", "10,001", "imagenet/validation")])
    assert not unlisted([Stated("split", "10,000", "imagenet/validation")])
