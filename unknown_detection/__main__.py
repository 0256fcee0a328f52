"""`unknown-detection`: the overview of all commands, each of which is imported when it is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from unknown_detection.commands import COMMANDS, GROUPS, MODULE, PROGRAM, Command, as_started, program, version
from unknown_detection.help import HelpCommand, HelpGroup, StartedContext, usage_error

COMPLETE_VARIABLE = "_UNKNOWN_DETECTION_COMPLETE"
"""The environment variable by which a shell asks for completions (click's convention)."""

OWN_PROCESS = "own process"
"""The context's object where the process was started for the command, which may then do without pandas (as
`builders.executors.base.without_pandas` explains)."""

SHELLS = ("bash", "zsh", "fish")

_START = {
    "bash": 'eval "$(unknown-detection completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(unknown-detection completion zsh)"    # in ~/.zshrc, below compinit',
    "fish": "unknown-detection completion fish | source    # in ~/.config/fish/config.fish",
}


class _Leaf(click.Command):
    """Hands its arguments, unread, to the command line of the module."""

    context_class = StartedContext

    def __init__(self, command: Command, name: str) -> None:
        super().__init__(name, help=command.summary, add_help_option=False)
        self.command = command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep all arguments as they are."""
        ctx.args = list(args)
        return ctx.args

    def invoke(self, ctx: click.Context) -> int:
        """Run the module's `main`."""
        inside = [self.command.inside] if self.command.inside else []
        return int(_module(self.command, ctx).main([*inside, *ctx.args]))


def _module(command: Command, ctx: click.Context) -> Any:
    """Import a command's module, unless this installation does not have it."""
    try:
        if ctx.find_root().obj == OWN_PROCESS and command.module.startswith(("builders.", "hf_scripts.")):
            importlib.import_module("builders.executors.base").without_pandas()
        return importlib.import_module(command.entry)
    except ModuleNotFoundError as error:
        if error.name not in (command.module, command.entry):
            raise
        raise click.ClickException(f"This version has no command {command.name}.") from error


def click_command(command: Command, ctx: click.Context) -> click.Command:
    """Return the click command that a module's `main` runs, for completion and for tests of its help."""
    module = _module(command, ctx)
    if command.made_in:
        declared = [module.BENCHMARK] if hasattr(module, "BENCHMARK") else []
        outer = importlib.import_module(command.made_in).make_command(*declared)
    else:
        outer = module.command if hasattr(module, "command") else module.make_command()
    inner: click.Command = outer.get_command(click.Context(outer), command.inside) if command.inside else outer
    return inner


class _Table(HelpGroup):
    """A group with the commands of the table whose names begin with a prefix."""

    def __init__(self, name: str, prefix: str, text: str) -> None:
        super().__init__(name, help=text, subcommand_metavar="COMMAND ...", options_metavar="")
        self.prefix = prefix
        self.listed = {c.name.removeprefix(prefix): c for c in COMMANDS if c.name.startswith(prefix)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the next words, in the order of the table."""
        return [*dict.fromkeys(name.partition(" ")[0] for name in self.listed), *self.commands]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command of this name, or the group of commands that begin with it."""
        if name in self.listed:
            command = self.listed[name]
            return click_command(command, ctx) if ctx.resilient_parsing else _Leaf(command, name)
        if not self.prefix and name in GROUPS:
            return _Table(name, f"{name} ", GROUPS[name])
        return super().get_command(ctx, name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names from the table, so that no module is imported for it."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        lines = {name: line for section in self.lines().values() for name, line in section.items()}
        lines |= {name: command.get_short_help_str(70) for name, command in self.commands.items()}
        return [CompletionItem(name, help=line) for name, line in lines.items() if name.startswith(incomplete)]

    def lines(self) -> dict[str, dict[str, str]]:
        """Return summaries by name, by their headings in the overview."""
        sections: dict[str, dict[str, str]] = {}
        for name, command in self.listed.items():
            word, _, more = name.partition(" ")
            sections.setdefault(command.section, {})[word] = GROUPS[word] if more else command.summary
        return sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, close together, so that the overview fits a screen of 24 lines."""
        width = max(map(len, self.list_commands(ctx)))
        for title, lines in self.lines().items():
            formatter.write(f"{title}:\n")
            for name, line in lines.items():
                formatter.write(f"  {name:<{width}}  {line}\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write how to begin, and where to read on."""
        begin = f"{MODULE} {self.prefix or 'build '}imagenet --demo"
        formatter.write(f"Start here: {as_started(begin)}\n")
        formatter.write("Every command has --help.")
        formatter.write("\n" if self.prefix else " Also: --version, completion bash|zsh|fish.\n")


def _show_version(ctx: click.Context, _: click.Parameter, requested: bool) -> None:
    if requested and not ctx.resilient_parsing:
        click.echo(f"{PROGRAM} {version()}")
        ctx.exit()


def make_command() -> click.Group:
    """Make the whole command line."""
    overview = _Table(PROGRAM, "", "Rebuild benchmarks for out-of-distribution detection from your own datasets.")
    overview.params.append(
        click.Option(["--version"], is_flag=True, expose_value=False, is_eager=True, callback=_show_version)
    )
    overview.add_command(_completion)
    return overview


@click.command("completion", cls=HelpCommand)
@click.argument("shell", type=click.Choice(SHELLS))
def _completion(shell: str) -> None:
    """Print a completion script for bash, zsh or fish."""
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise click.ClickException(f"This version of click completes nothing in {shell}.")
    click.echo(f"# {_START[shell]}")
    click.echo(completion_class(make_command(), {}, PROGRAM, COMPLETE_VARIABLE).source())


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, or the process's, and return the exit code: 2 for wrong arguments, 130 after Ctrl-C."""
    try:
        code = make_command().main(
            None if argv is None else list(argv),
            prog_name=program() or MODULE,
            complete_var=COMPLETE_VARIABLE,
            standalone_mode=False,
            obj=OWN_PROCESS if argv is None else None,
        )
        return int(code or 0)
    except click.ClickException as error:
        click.echo(usage_error(error), err=True)
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        return 130


if __name__ == "__main__":
    sys.exit(main())
