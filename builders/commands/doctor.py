"""Says whether a copy of a dataset is the dataset: `python -m builders.commands.doctor DIR`.

Tested by `tests/builders/doctor/test_doctor.py`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import shutil
import sys
from pathlib import Path

import click

from builders.cli.build_options import default_cache
from builders.cli.console import exit_code, json_option, print_document
from builders.cli.executor_flags import workers_option
from builders.cli.source_flags import cache_option
from builders.errors import BuildError, os_errors_as_build_errors
from builders.executors.base import without_pandas
from builders.executors.local import LocalExecutor
from builders.hub.place import PREFIX
from builders.storage.files import write_text
from builders.storage.paths import LOCAL
from unknown_detection.commands import own_process
from unknown_detection.help import ESSENTIALS, helpful
from unknown_detection.terminal.progress import TerminalMeter, log
from unknown_detection.words import byte_text


@helpful(
    "python -m builders.commands.doctor",
    sections={
        ESSENTIALS: ("against", "quick", "csv", "page", "as_json"),
        "To publish digests": ("write_index_file",),
        "How it runs": ("revision", "cache", "workers"),
    },
    examples=(
        "python -m builders.commands.doctor /data/imagenet",
        "python -m builders.commands.doctor /data/imagenet --against ORG/NAME --page differences.html",
    ),
)
@click.argument("place", metavar="DIR|FILE")
@click.option(
    "--against",
    metavar="INDEX",
    help="Compare each image with this index: a file that --write-index made, a release's folder, or ORG/NAME.",
)
@click.option("--quick", is_flag=True, help="Read names, sizes and headers alone, not all bytes.")
@click.option("--csv", type=LOCAL, metavar="FILE", help="Write every finding to this file.")
@click.option("--page", type=LOCAL, metavar="FILE", help="Write a page with the pictures that differ side by side.")
@json_option()
@click.option(
    "--write-index",
    "write_index_file",
    type=LOCAL,
    metavar="FILE.parquet",
    help="Write ids and SHA-256 of all images, without a pixel, for others to compare theirs with.",
)
@click.option("--revision", metavar="TAG", help="Version, branch or commit of INDEX on the Hub.  [default: main]")
@cache_option
@workers_option("Processes that read images.")
def command(
    place: str,
    against: str | None,
    quick: bool,
    csv: Path | None,
    page: Path | None,
    as_json: bool,
    write_index_file: Path | None,
    revision: str | None,
    cache: Path,
    workers: int,
) -> int:
    """Say what the copy of a dataset in DIR, or in the archive FILE, is, and whether it is complete and sound.

    It is recognised by its names. All images are read once: damaged, doubled, missing, extra and misplaced ones are
    listed, and counts by class stand beside the owner's. With --against, each image is compared by id and digest, and
    what differs is explained. Nothing is written into DIR, and an interrupted run goes on where it stopped.

    The exit code is 0 if nothing is wrong, 1 if something is, and 2 if there is nothing to look at, or a
    folder may not be read.
    """
    if own_process():
        without_pandas()
    from builders.doctor.diagnose import diagnose
    from builders.doctor.index import reference, write_index
    from builders.doctor.lines import diagnosis_document, diagnosis_lines, differences_csv, refuse_inside

    if place.startswith(PREFIX):
        from builders.doctor.remote import downloaded_copy

        path = downloaded_copy(place, cache, log)
    else:
        path = Path(place)
    for out in (csv, page, write_index_file):
        refuse_inside(out, path)
    theirs = None
    if against is not None and (theirs := reference(against, revision, log)) is None:
        what = "a folder without a manifest.json" if Path(against).is_dir() else "no index"
        raise BuildError(
            f"{against} is {what}. --against takes an index that --write-index made, a release's folder, or ORG/NAME; "
            "python -m builders.commands.compare compares two folders or archives."
        )
    kept = default_cache() / "doctor" / hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    with os_errors_as_build_errors("look at the copy"):
        kept.mkdir(parents=True, exist_ok=True)
        with LocalExecutor(workers, preload=("builders.doctor.scan",)) as executor:
            meter = TerminalMeter(quiet=as_json)
            found = diagnose(path, theirs, executor, meter, quick=quick, kept=kept, name=place)
        if write_index_file is not None:
            if len(found.copies) > 1 or found.copies[0].source is None:
                raise BuildError(f"{place} is not one copy of a known dataset, so no index was written. Give one.")
            size = write_index(write_index_file, found.copies[0], found.facts[0])
            click.echo(f"wrote {write_index_file} ({byte_text(size)})", err=as_json)
        if csv is not None:
            write_text(csv, differences_csv(found.differences))
        if page is not None:
            from builders.doctor.page import diagnosis_page

            write_text(page, diagnosis_page(found))
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(kept)
    if as_json:
        print_document("doctor", diagnosis_document(found))
    else:
        click.echo("\n".join(diagnosis_lines(found)))
    return 0 if found.whole else 1


main = functools.partial(exit_code, command, stopped="stopped; run the same command again, and it goes on there.")
"""Runs the command line; returns its exit code."""


if __name__ == "__main__":
    sys.exit(main())
