"""Bars: their label, their end, and lines and errors beside them."""

import contextlib
import io
import re

import click
import pytest

from tests.unknown_detection.terminal.running import drawn
from unknown_detection.terminal.progress import TerminalMeter, bar, log, result


class Screen(io.StringIO):
    def isatty(self):
        return True

    @property
    def lines(self):
        return drawn(self.getvalue().replace("\n", "\r\n").encode())


@contextlib.contextmanager
def terminal():
    """Stdout and stderr as one terminal."""
    made = Screen()
    with contextlib.redirect_stdout(made), contextlib.redirect_stderr(made):
        yield made


def test_a_bar_is_full_at_the_end_of_its_block_and_stays_where_it_is_after_an_error():
    with terminal() as screen, bar(3, "counting") as shown:
        shown.update(1)  # an earlier run has done the others
    (line,) = screen.lines
    assert line.startswith("counting: 100%|") and "3/3" in line
    with terminal() as screen, pytest.raises(ValueError, match="broken"), bar(4, "counting") as shown:
        shown.update(1)
        raise ValueError("broken")
    assert screen.lines[0].startswith("counting:  25%|")


@pytest.mark.parametrize(("total", "quiet"), [(0, False), (5, True)])
def test_nothing_to_do_and_quiet_draw_nothing(total, quiet):
    with terminal() as screen, bar(total, "counting", quiet=quiet) as shown:
        shown.update(total)
    assert screen.getvalue() == ""


def test_a_file_has_a_line_of_a_bar_now_and_then_and_nothing_of_short_work(monkeypatch):
    for seconds, shares in ((60, set()), (0, {"0", "50", "100"})):
        monkeypatch.setattr("unknown_detection.terminal.progress._SECONDS", seconds)
        with contextlib.redirect_stderr(io.StringIO()) as file, bar(2, "counting") as shown:
            shown.update(1)
            shown.set_description("counting")
            log("a note")
        assert "a note\n" in file.getvalue()
        assert set(re.findall(r"counting: +(\d+)%", file.getvalue())) == shares


def test_a_notebook_draws_bars(tmp_path):
    """With the kernel that runs notebooks: `stderr` is no terminal there. Its bars are widgets where it has them."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    code = (
        "from unknown_detection.terminal.progress import bar\n"
        "for quiet in (True, False):\n"
        "    with bar(2, f'quiet {quiet}', quiet=quiet) as shown:\n"
        "        shown.update(2)"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(book, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    text = str(book.cells[0].outputs)
    assert "quiet False: 100%" in text and "quiet True" not in text


def test_bars_within_a_bar_go_where_they_end():
    with terminal() as screen:
        with bar(2, "searching") as shown:
            for number in range(2):
                with bar(3, f"setting {number}") as inner:
                    inner.update(3)
                    assert screen.lines[1].startswith(f"setting {number}: ")
                shown.update(1)
        with bar(1, "scoring") as shown:
            shown.update(1)
    assert [line.partition("|")[0] for line in screen.lines] == ["searching: 100%", "scoring: 100%"]


def test_lines_stand_above_the_bar():
    with terminal() as screen, bar(2, "counting") as shown:
        log("a note")
        result("a result")
        shown.update(2)
    assert screen.lines[:2] == ["a note", "a result"]
    assert [line[:14] for line in screen.lines[2:]] == ["counting: 100%"]


def test_a_meter_ends_each_step_before_the_next_and_before_results():
    meter = TerminalMeter(quiet=False)
    with terminal() as screen:
        with meter.step("first", 10) as advance:
            advance(4)
        with meter.step("second", 5) as advance:
            meter.note("a note")
            advance(5, 1000)
        click.echo("split  rows")
    shown = screen.lines
    assert [line.partition("|")[0] for line in shown] == ["first: 100%", "a note", "second: 100%", "split  rows"]
