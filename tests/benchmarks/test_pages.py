"""Pages state what benchmarks recorded, and processor time counts all that a command started."""

import json
import re
import subprocess
import sys

import pytest

from benchmarks import figures, pages
from benchmarks.building.commands import exponent
from benchmarks.tables import compared, seconds

TIME = re.compile(r"\b\d[\d,.]*(?: to \d[\d,.]*)? (?:s|ms|µs|ns|seconds?|minutes?|MB|times)\b(?! an answer)")

BURNS = "import time\nwhile time.process_time() < 0.7: pass"


def test_pages_are_made_from_the_figures():
    for path, text in pages.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run python -m benchmarks.pages"


@pytest.mark.parametrize("name", ["performance.md", "scale.md"])
def test_no_time_stands_outside_of_the_blocks(name):
    text = pages.BLOCK.sub("", (pages.DOCS / name).read_text(encoding="utf-8"))
    assert not TIME.findall(text)


def test_a_block_that_the_page_lacks_is_named():
    with pytest.raises(ValueError, match="times"):
        pages.written("a page", {"times": "1 s"})


def test_a_block_is_replaced_and_the_rest_stays():
    page = "before\n\n<!-- figures: a -->\n\nold\n\n<!-- end of figures -->\n\nbehind\n"
    assert pages.written(page, {"a": r"new \1"}) == page.replace("old", r"new \1")


def test_recorded_figures_say_where_and_when(tmp_path):
    file = tmp_path / "figures.json"
    figures.record("a", {"x": 1}, file)
    figures.record("b", {"x": 2}, file)
    figures.record("a", {"x": 3}, file)
    read = figures.read(file)
    assert {name: of["x"] for name, of in read.items()} == {"a": 3, "b": 2}
    assert {"machine", "commit", "date", "load"} == read["a"]["measured"].keys()


@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2)")
def test_time_of_orphans_counts():
    """A child's child that outlives its parent works 0.7 s, as workers of a fork server do; alone it takes as long."""
    orphaning = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {BURNS!r}])"
    script = (
        "import os, sys\nfrom benchmarks.rivals import run_process\nrun_process([sys.executable, '-c', sys.argv[1]])\n"
        "print(os.times().children_user + os.times().children_system)"
    )
    done = subprocess.run([sys.executable, "-c", script, orphaning], check=True, capture_output=True, text=True)
    assert float(done.stdout) >= 0.7


def test_words_of_ratios_by_hand():
    assert compared(2, 5) == "2.5 times faster"
    assert compared(5, 6) == "1.20 times faster"
    assert compared(6, 5) == "takes 1.20 times as long"
    assert compared(5, 1) == "takes 5.0 times as long"
    assert [seconds(value) for value in (0.0123, 1.234, 12.34, 1234.5)] == ["12 ms", "1.23 s", "12.3 s", "1,234 s"]


def test_exponent_of_a_square_is_two():
    assert exponent({10: 3.0, 20: 12.0, 40: 48.0}) == pytest.approx(2)


def test_the_file_is_written_sorted():
    text = figures.FILE.read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"
