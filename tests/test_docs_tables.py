"""Tables of everything that there is, in the pages and in what the site makes of them; names that stay whole."""

import re

import mkdocs_hooks
from builders.openood_benchmark import BENCHMARK
from tests.docs_tables import pages, splits
from tests.test_docs import ROOT
from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.metrics.metrics import METRICS


def test_the_page_has_every_detector_and_metric_with_its_paper():
    page = mkdocs_hooks.on_page_markdown((ROOT / "docs" / "detectors.md").read_text(encoding="utf-8"))
    names = re.findall(r"^\| `(\w+)` \|", page, re.M)
    assert names == [*DETECTORS, *METRICS]
    assert "<!-- table" not in page
    for name, detector in DETECTORS.items():
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` | `{type(detector).__name__}`")]
        assert detector.source.replace("|", "\\|") in line


def test_pages_have_every_dataset_and_split_as_declared():
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, "python -m tests.docs_tables writes it"


def test_a_split_without_a_row_gets_one_behind_the_split_before_it():
    (path,) = (path for path in pages() if path.name == "openood.md")
    page = path.read_text(encoding="utf-8")
    row = "| | `ninco` | 5,879 | 5,879 | near-OoD | NINCO, 64 classes |\n"
    assert splits(page.replace(row, ""), BENCHMARK) == page.replace(row, row.replace(", 64 classes", ""))
    assert splits(page.replace("5,879", "5,878"), BENCHMARK) == page
    assert splits(page.replace(row, f"{row}| | `none` | 1 | 1 | near-OoD | no more |\n"), BENCHMARK) == page


def test_every_line_of_a_table_has_all_columns():
    for table in mkdocs_hooks.TABLES.values():
        lines = mkdocs_hooks.as_markdown(table()).splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_names_stay_whole_where_a_line_has_room_for_them():
    assert (
        mkdocs_hooks.on_page_content("<code>far_ood_caltech45</code>")
        == '<code class="whole">far_ood_caltech45</code>'
    )
    typed = '<code>x<span class="w-0"> </span>--release<span class="w"> </span>build/x\n</code>'
    assert mkdocs_hooks.on_page_content(typed) == typed.replace("--release", '<span class="whole">--release</span>')
    for long in (
        "<code>pip install x</code>",
        f"<code>x {'a-' * 18}</code>",
        "a-b <code>x y</code> --c",
        f"<code>{'a' * 35}</code>",
        '<pre><code class="x">a</code></pre>',
    ):
        assert mkdocs_hooks.on_page_content(long) == long
