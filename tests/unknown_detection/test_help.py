"""Help pages of all commands: they fit a terminal, begin with the essentials and end with examples that parse."""

import re
import shlex
import sys

import click
import pytest

from unknown_detection.__main__ import click_command, main, make_command
from unknown_detection.commands import COMMANDS, GROUPS, PROGRAM
from unknown_detection.help import ESSENTIALS, HelpCommand

COLUMNS, LINES = 80, 24

GROUPED = {"audit": ("overlap", "duplicates", "artifacts", "sheet", "pairs", "smoothness")} | {
    "evaluate": ("extract", "score", "report"),
    "sources": ("show", "get"),
}


def leaves():
    """The words of every command that has options of its own."""
    for command in COMMANDS:
        yield from (f"{command.name} {inner}".rstrip() for inner in GROUPED.get(command.name, ("",)))


LEAVES = [*leaves(), "completion"]


@pytest.fixture(autouse=True)
def installed(monkeypatch, tmp_path):
    """As the installed command runs, in a terminal of 80 columns, beside the file that examples name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sources.toml").touch()
    monkeypatch.setattr(sys, "argv", [f"/bin/{PROGRAM}"])
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


def helped(capsys, words):
    assert main([*words.split(), "--help"]) == 0
    return capsys.readouterr().out


def parsed_line(words):
    """The click command for some words, and the words that are left."""
    words = list(words)
    for command in COMMANDS:
        own = command.name.split()
        if words[: len(own)] == own:
            made, words = click_command(command, click.Context(make_command())), words[len(own) :]
            if isinstance(made, click.Group):
                made, words = made.get_command(click.Context(made), words[0]), words[1:]
            return made, words
    raise AssertionError(words)


@pytest.mark.parametrize("words", ["", *GROUPS, *GROUPED])
def test_an_overview_fits_a_screen(capsys, words):
    text = helped(capsys, words)
    assert len(text.splitlines()) < LINES  # and the prompt
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert text.startswith(f"Usage: {PROGRAM} {words}".rstrip())


@pytest.mark.parametrize("words", LEAVES)
def test_a_help_page_fits_the_width_and_begins_with_the_essentials(capsys, words):
    text = helped(capsys, words)
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert text.startswith(f"Usage: {PROGRAM} {words} ")
    assert "python -m" not in text
    titles = re.findall(r"^(\S.*):$", text, re.M)
    options = [title for title in titles if title not in ("Example", "Examples")]
    assert options[0] == (ESSENTIALS if len(options) > 1 else "Options")
    # Purpose and the beginning of the essentials are seen without scrolling.
    assert text[: text.index(f"{options[0]}:")].count("\n") < LINES - 4
    assert words == "completion" or titles[-1] in ("Example", "Examples")


@pytest.mark.parametrize("words", [words for words in LEAVES if words != "completion"])
def test_every_option_has_one_place_and_examples_parse(capsys, words):
    command, _ = parsed_line(words.split())
    names = [name for names in command.sections.values() for name in names]
    assert len(set(names)) == len(names)
    assert set(names) <= {param.name for param in command.params}, "a section names no option"
    text = helped(capsys, words)
    for option in (param for param in command.params if isinstance(param, click.Option) and not param.hidden):
        assert len(re.findall(rf"^  (?:-\w, )?{re.escape(option.opts[0])}\b(?!-)", text, re.M)) == 1, option.name
    examples = re.split(r"^Examples?:\n", text, flags=re.M)[1].replace(" \\\n", " ")
    for line in examples.splitlines():
        start, *arguments = shlex.split(line)
        assert start == PROGRAM
        target, options = parsed_line(arguments)
        assert target.name == command.name
        with target.make_context("example", options):
            pass


def test_options_without_a_section_come_last():
    options = [click.Option([f"--{name}"], help=f"Option {name}.") for name in ("first", "second", "third")]
    command = HelpCommand("toy", params=options, sections={ESSENTIALS: ["second"]}, callback=lambda **_: None)
    text = command.get_help(click.Context(command))
    order = [text.index(part) for part in (ESSENTIALS, "--second", "Other options", "--first", "--third", "--help")]
    assert order == sorted(order)


def test_a_long_example_is_one_command_for_a_shell():
    words = ["python", "-m", "x", *(part for n in range(12) for part in (f"--option-{n}", f"value/{n}-{n}"))]
    command = HelpCommand("toy", examples=[" ".join(words)], callback=lambda: None)
    text = command.get_help(click.Context(command)).split("Example:\n")[1]
    lines = text.splitlines()
    assert len(lines) > 2 and max(map(len, lines)) <= COLUMNS
    assert all(line.split()[-2 if line.endswith("\\") else -1].startswith("value") for line in lines)
    assert shlex.split(text.replace("\\\n", "")) == words  # as a shell joins lines
