"""What commands share: how they run, how splits are chosen, and how tables and JSON documents are printed.

Tested by `tests/unknown_detection/terminal/test_interrupts.py` and `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from builders.errors import BuildError, one_line, printable
from unknown_detection.commands import as_started
from unknown_detection.help import usage_error
from unknown_detection.terminal.interrupts import run_stoppable


def exit_code(command: click.Command, argv: Sequence[str] | None, *, stopped: str) -> int:
    """Run a command line; errors that the user can fix are printed without a traceback.

    Args:
        command: the command, named as `python -m` starts it; an integer that it returns is the exit code.
        argv: arguments; None for those of the process.
        stopped: the line after Ctrl-C.

    Returns:
        0 for success, 2 for an error that the user can fix, 130 after Ctrl-C, or the command's own code.
    """
    return run_stoppable(lambda: _run(command, argv), stopped)


def _run(command: click.Command, argv: Sequence[str] | None) -> int:
    try:
        return int(command.main(args=argv, prog_name=command.name, standalone_mode=False) or 0)
    except BuildError as error:
        click.echo(as_started(f"error: {printable(str(error), keep=chr(10))}"), err=True)
        return 2
    except click.ClickException as error:
        click.echo(usage_error(error), err=True)
        return 2
    except click.Abort as abort:  # what click makes of other interrupts, and of an EOFError, which is a defect
        raise abort.__cause__ or abort from None


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, with words aligned left and numbers right."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    numeric = [all(line[i].replace(",", "").lstrip("+-").isdigit() for line in lines[1:]) for i in range(len(widths))]
    return [
        "  ".join(
            cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    ]


SCHEMA = 1
"""The version of the documents: raised when a key is removed or changes its meaning, not when one is added."""


def json_option(*, only: str = "") -> Callable[[Any], Any]:
    """Return the flag `--json`; `only` is the flag without which it is refused (`check_json`)."""
    with_flag = f" (with {only})" if only else ""
    return click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document instead{with_flag}.")


def check_json(*, as_json: bool, dry_run: bool) -> None:
    """Refuse `--json` without `--dry-run`.

    Raises:
        BuildError: as said.
    """
    if as_json and not dry_run:
        raise BuildError("--json describes what --dry-run would do. Add --dry-run, or leave --json out.")


def print_document(command: str, values: Mapping[str, Any]) -> None:
    """Print a document.

    Args:
        command: the command's name, as `unknown-detection` has it.
        values: the other keys, which docs/command-line.md lists.
    """
    document = {"schema": SCHEMA, "command": command, **values}
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def splits_option(
    help: str,  # noqa: A002 - as in click
    *,
    keys: Sequence[str] = (),
) -> Callable[[Any], Any]:
    """Return the option; its value is what `chosen_splits` takes.

    Args:
        help: what is done with the splits, as the start of the option's help.
        keys: the splits that a shell offers; those of the release where a command's first argument names one.
    """

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        return offered(keys or _splits_there(ctx), incomplete)

    return click.option(
        "--splits",
        multiple=True,
        shell_complete=complete,
        metavar="CONFIG[/SPLIT],...",
        help=f"{help} A config stands for all its splits.",
    )


def offered(keys: Sequence[str], incomplete: str) -> list[str]:
    """Completions of a value for the shell: configs, and splits once their config is written."""
    before, comma, last = incomplete.rpartition(",")
    configs = dict.fromkeys(key.partition("/")[0] for key in keys)
    names = [*configs, *(key for key in keys if last.startswith(f"{key.partition('/')[0]}/"))]
    return [before + comma + name for name in names if name.startswith(last)]


def _splits_there(ctx: click.Context) -> list[str]:
    """The splits of the release folder that is the first argument of a command line; none if there is no such."""
    from builders.release.manifest import read_manifest  # not for `--help`

    arguments = [str(param.name) for param in ctx.command.params if isinstance(param, click.Argument)]
    # click leaves arguments unread where the option at the end still lacks its value.
    given = next((value for value in (*(ctx.params.get(name) for name in arguments[:1]), *ctx.args) if value), "")
    try:
        return list(read_manifest(Path(str(given))).by_key())
    except BuildError:
        return []


def named(wanted: Sequence[str]) -> list[str]:
    """The names in the option's values, which may be given several times.

    Raises:
        BuildError: a value has an empty name, such as that of a variable that is not set.
    """
    names = [name.strip() for value in wanted for name in value.split(",")]
    if "" in names:
        raise BuildError(
            f"--splits {one_line(repr(','.join(wanted)))} has an empty name. Give CONFIG or CONFIG/SPLIT, with a "
            "comma between two of them, or leave --splits out."
        )
    return names


def is_named(key: str, names: Collection[str]) -> bool:
    """Whether a split (`config/split`) or its config is among some names."""
    return key in names or key.partition("/")[0] in names


def refuse_unknown(names: Iterable[str], keys: Sequence[str], where: str) -> None:
    """Refuse names that are neither a split nor a config.

    Args:
        names: what was asked for.
        keys: all splits, as `config/split`.
        where: what has these splits, for the message.

    Raises:
        BuildError: there is such a name.
    """
    configs = sorted({key.partition("/")[0] for key in keys})
    for name in names:
        if name not in keys and name not in configs:
            near = difflib.get_close_matches(name, [*configs, *keys], n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            example = f" or splits such as {keys[0]}" if keys else ""
            raise BuildError(
                f"{where} has no config or split {one_line(name)}{hint}. Give configs ({', '.join(configs)})"
                f"{example} with --splits."
            )


def chosen_splits(wanted: Sequence[str], keys: Sequence[str], where: str) -> tuple[str, ...]:
    """The splits that the option's values choose, in the order of `keys`; all of them if it is not given.

    Args:
        wanted: the option's values.
        keys: all splits, as `config/split`.
        where: what has these splits, for the message.

    Raises:
        BuildError: a name is empty, or neither a config nor a split.
    """
    names = named(wanted)
    refuse_unknown(names, keys, where)
    return tuple(key for key in keys if not names or is_named(key, names))
