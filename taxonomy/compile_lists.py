"""Compiles published lists of images into tables: `python -m taxonomy.compile_lists NAME FILE`.

Tested by `tests/taxonomy/test_lists.py`.
"""

import csv
import gzip
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from taxonomy.errors import ERRORS, TaxonomyError
from taxonomy.lists import LISTS, list_file
from unknown_detection.help import helpful
from unknown_detection.terminal.command_line import run_command_line


def compiled(name: str, path: Path) -> bytes:
    """Return the table of a published list: one line per class, or per image if the list has no classes.

    `path`: the published file, plain or compressed by gzip.
    """
    content = path.read_bytes()
    lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode().split("\n")
    images_of: dict[str, set[str]] = {}
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        parsed = LISTS[name].parsed(line)
        if parsed is None or parsed[1] in images_of.get(parsed[0], ()):
            problem = "is no line of such a list" if parsed is None else "lists an image again"
            raise TaxonomyError(f"Line {number} of {path} {problem}: {line!r}. Give {LISTS[name].published}.")
        images_of.setdefault(parsed[0], set()).add(parsed[1])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("class", "images"))
    for class_ in sorted(images_of):
        images = sorted(images_of[class_], key=lambda image: (len(image), image) if image.isdigit() else (0, image))
        writer.writerows([(class_, " ".join(images))] if len(images_of) > 1 else ((class_, image) for image in images))
    return text.getvalue().encode()


@helpful(
    "python -m taxonomy.compile_lists",
    examples=("python -m taxonomy.compile_lists --check ssb_hard benchmark_imglist/imagenet/test_ssb_hard.txt",),
)
@click.argument("name", type=click.Choice(list(LISTS)))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the package's table differs.")
def command(name: str, file: Path, check: bool) -> None:
    """Write the table of the list NAME from its published FILE into the package."""
    out = Path(__file__).parent / "data" / list_file(name)
    content = compiled(name, file)
    if not check:
        out.write_bytes(content)
    if check and out.read_bytes() != content:
        raise click.ClickException(
            f"{out} is not what {file} gives. Compile it without --check, and look at the change."
        )
    click.echo(f"{out}: {'as published' if check else 'written'}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return run_command_line(command, argv, ERRORS, stopped="stopped; run the same command again.")


if __name__ == "__main__":
    sys.exit(main())
