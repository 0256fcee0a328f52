"""`python -m evaluation`: one pass of a model over a release, scores of detectors, and the papers' figures."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from evaluation.errors import EvaluationError
from evaluation.extras import EXTRA, without

# Imported when asked for, so that help needs neither torch nor matplotlib.
COMMANDS = {
    "extract": "Run a model over a release once and keep what detectors need.",
    "score": "Fit detectors and score every row of a release.",
    "report": "Give a paper's figures for scores: tables, plots, a summary.",
    "compare": "Set two results side by side, if they are of the same release.",
    "graph": "Draw which classes' images are taken for which classes, as the FACETS paper does.",
    "demo": "Go the whole way on a small release of real digits.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"evaluation.commands.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: python -m evaluation demo --out build/evaluation-demo",
)
def command() -> None:
    """Evaluate detectors of unknowns on releases of unknown-detection benchmarks."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: arguments; None takes the process's.

    Returns:
        0 when all went well, 2 for anything the user can mend, 130 after Ctrl-C, or the command's own code.
    """
    try:
        return int(command.main(args=argv, prog_name="python -m evaluation", standalone_mode=False) or 0)
    except EvaluationError as error:
        click.echo(f"error: {error}", err=True)
        return 2
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        click.echo(f"error: {without([error.name], 'do this')}", err=True)
        return 2
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped; finished splits are kept, and the same command goes on with the rest.", err=True)
        return 130


if __name__ == "__main__":
    sys.exit(main())
