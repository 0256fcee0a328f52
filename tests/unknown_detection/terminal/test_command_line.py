"""Command lines of every package: an error that a user can fix is one escaped line, and a defect stays one."""

import click
import pytest

from unknown_detection.terminal.command_line import run_command_line


class FixableError(Exception):
    pass


def command_raising(error):
    @click.command("toy")
    def command():
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (FixableError("no file a\x1b[2J\u202e"), 2, "error: no file a\\x1b[2J\\u202e\n"),
        (FixableError("two files:\na\nb"), 2, "error: two files:\na\nb\n"),
        (click.ClickException("out of date"), 1, "error: out of date\n"),
        (click.UsageError("no such flag."), 2, "error: no such flag. See toy --help.\n"),
    ],
)
def test_what_a_user_can_fix_is_a_line_without_a_traceback(error, code, line, capsys):
    assert run_command_line(command_raising(error), [], (FixableError,), stopped="stopped.") == code
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", line)


@pytest.mark.parametrize("error", [ValueError("a defect"), EOFError("a defect")])
def test_a_defect_keeps_its_traceback(error, capsys):
    with pytest.raises(type(error), match="a defect"):
        run_command_line(command_raising(error), [], (FixableError,), stopped="stopped.")
