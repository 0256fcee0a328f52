"""Help pages of all commands: options in sections, the essential ones first, and examples at the end."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from unknown_detection.commands import as_started
from unknown_detection.durable import unflushed

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}

_CONTINUED = " \\"
"""The end of a line that continues in the next."""

ESSENTIALS, OTHERS = "Essential options", "Other options"


class StartedContext(click.Context):
    """A context that names a command as the user started it."""

    @property
    def command_path(self) -> str:
        """The command's words in usage lines."""
        return as_started(super().command_path)


class HelpCommand(click.Command):
    """A command whose help has sections and examples.

    Args:
        sections: parameter names by the title of a section. Other options get a section of their own at the end.
        examples: commands that run, as `python -m` starts them.
    """

    context_class = StartedContext

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Sequence[str]] | None = None,
        examples: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        super().__init__(*args, **{"context_settings": CONTEXT_SETTINGS, **settings})
        self.sections = {} if sections is None else dict(sections)
        self.examples = tuple(examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {param.name: record for param in options if (record := param.get_help_record(ctx)) is not None}
        placed = {name for names in self.sections.values() for name in names}
        unplaced = [str(param.name) for param in options if param.name in records and param.name not in placed]
        sections = {title: list(names) for title, names in self.sections.items()}
        if sections and [param.opts[-1] for param in options if param.name in unplaced] == ["--help"]:
            sections[list(sections)[-1]] += unplaced
        else:
            sections[OTHERS if sections else "Options"] = unplaced
        for title, names in sections.items():
            lines = [records[name] for name in names if name in records]
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        write_examples(formatter, self.examples)


class HelpGroup(click.Group):
    """A group of commands that is named as the user started it; its own commands are `HelpCommand`s.

    Without arguments it shows its help, unless it is itself a command. `examples` are as of a `HelpCommand`.
    """

    context_class = StartedContext
    command_class = HelpCommand

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **{"context_settings": CONTEXT_SETTINGS, **settings})
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the group's own arguments."""
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word; the error for a wrong word suggests the nearest name."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(args[0], names, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Those are {', '.join(names)}."
            raise click.UsageError(f"There is no command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        write_examples(formatter, self.examples)


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write examples one below the other; a long one takes several lines, which a shell reads as one."""
    if not examples:
        return
    with formatter.section("Examples" if len(examples) > 1 else "Example"):
        indent = " " * formatter.current_indent
        for example in examples:
            lines = textwrap.wrap(
                re.sub(r"( --?\w[\w-]*) (?!-)", "\\1\0", as_started(example)),  # keeps a value with its option
                formatter.width - len(indent) - len(_CONTINUED),
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            formatter.write(f"{_CONTINUED}\n".join(indent + line for line in lines).replace("\0", " ") + "\n")


def helpful(
    name: str, *, examples: Sequence[str], sections: Mapping[str, Sequence[str]] | None = None, **settings: Any
) -> Callable[[Callable[..., Any]], HelpCommand]:
    """Return a decorator that makes a `HelpCommand` of a function; `name` is how `python -m` starts it."""
    return click.command(name, cls=HelpCommand, examples=examples, sections=sections, **settings)


def _skip_sync(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.with_resource(unflushed())


no_sync_option = click.option(
    "--no-sync",
    is_flag=True,
    expose_value=False,
    callback=_skip_sync,
    help="Do not wait until each finished file is on the disk. A killed run still resumes; after a power cut, remove "
    "what was written and begin again.",
)
"""The option of commands that flush their files to the disk."""


def usage_error(error: click.ClickException) -> str:
    """Return the line for an error that click found in the arguments: what is wrong, and whose --help to read."""
    message = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return as_started(f"error: {message}")
    return as_started(f"error: {message} See {context.command_path} --help.")
