"""What the site makes of the pages: tables of everything that there is, and names that stay whole."""

import re

import mkdocs_hooks
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
