"""`python -m taxonomy`: explains why a class is selected or not, and freezes the rules' decisions."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from taxonomy import freeze as frozen
from taxonomy.errors import ERRORS
from taxonomy.explain import explain_as_document, explain_class
from unknown_detection.help import HelpGroup
from unknown_detection.terminal.command_line import run_command_line


@click.group("python -m taxonomy", cls=HelpGroup, examples=("python -m taxonomy explain caltech256 lightning",))
def command() -> None:
    """Show the classes of the sources, and which of them the benchmarks use."""


@command.command(examples=("python -m taxonomy explain places365 museum/outdoor",))
@click.argument("source")
@click.argument("class_", metavar="CLASS")
@click.option("--all", "every_match", is_flag=True, help="List all synsets that the class's name matches.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def explain(source: str, class_: str, every_match: bool, as_json: bool) -> None:
    """Explain why CLASS of SOURCE is selected or not.

    SOURCE is imagenet, tiny158, cifar100, food101, caltech256, places365, sun397 or coco2017, a decision table such as
    facets-wordnet-t45 or cocomagenet, or a config such as cifar or facets-t1; CLASS is a class's id or name.
    """
    if as_json:
        document = {"schema": 1, "command": "explain"}
        document |= explain_as_document(source, class_, every_match=every_match)
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(explain_class(source, class_, every_match=every_match))


@command.command(examples=("python -m taxonomy freeze --check",))
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file differs from the rules' decisions.")
def freeze(check: bool) -> None:
    """Compute the decision tables from the rules and write them into the package."""
    if not check:
        paths = frozen.write(Path(__file__).parent / "data")
        click.echo("\n".join(map(str, paths)))
        return
    stale = frozen.stale()
    if stale:
        raise click.ClickException(
            f"Frozen tables differ from the rules: {', '.join(stale)}. Run `python -m taxonomy freeze` and check the "
            "difference."
        )
    click.echo(f"All {len(frozen.FILES)} frozen tables agree with the rules.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return run_command_line(command, argv, ERRORS, stopped="stopped; run the same command again.")


if __name__ == "__main__":
    sys.exit(main())
