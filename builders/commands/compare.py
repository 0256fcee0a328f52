"""Compares two releases, copies or indexes, row by row: `python -m builders.commands.compare A B`.

Tested by `tests/builders/doctor/test_compare.py`.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from builders.cli.console import aligned_lines, exit_code, json_option, print_document
from builders.cli.executor_flags import workers_option
from builders.errors import one_line, os_errors_as_build_errors
from builders.executors.base import without_pandas
from builders.executors.local import LocalExecutor
from builders.storage.files import write_text
from builders.storage.paths import LOCAL
from unknown_detection.commands import own_process
from unknown_detection.help import ESSENTIALS, helpful
from unknown_detection.terminal.progress import TerminalMeter, log
from unknown_detection.words import printable, quantity

_SHOWN = 120
"""Characters of a line of what is said of a side (ours)."""


@helpful(
    "python -m builders.commands.compare",
    sections={ESSENTIALS: ("csv", "page", "as_json"), "How it runs": ("revision_a", "revision_b", "workers")},
    examples=(
        "python -m builders.commands.compare build/before build/after",
        "python -m builders.commands.compare /data/imagenet ORG/NAME --csv differences.csv",
    ),
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--csv", type=LOCAL, metavar="FILE", help="Write every difference to this file.")
@click.option("--page", type=LOCAL, metavar="FILE", help="Write a page with the pictures that differ side by side.")
@json_option()
@click.option("--revision-a", metavar="TAG", help="Version, branch or commit of A on the Hub.  [default: main]")
@click.option("--revision-b", metavar="TAG", help="Version, branch or commit of B on the Hub.  [default: main]")
@workers_option("Processes that read images.")
def command(
    a: str,
    b: str,
    csv: Path | None,
    page: Path | None,
    as_json: bool,
    revision_a: str | None,
    revision_b: str | None,
    workers: int,
) -> int:
    """Compare the images of A with those of B by id and digest, and say of each that differs how and why.

    A and B are releases (a folder, or ORG/NAME on the Hub, of which the indexes alone are downloaded), indexes
    (`doctor --write-index`), or folders of images, such as a copy of a dataset, which are read once.

    The exit code is 0 if all rows are equal, 1 if some differ, and 2 if something cannot be read.
    """
    if own_process():
        without_pandas()
    from builders.doctor.copies import Copy, recognise
    from builders.doctor.diagnose import copy_side, count_kinds, counted_kinds, joined, refused_parts
    from builders.doctor.examine import strays
    from builders.doctor.index import reference
    from builders.doctor.lines import SHOWN, difference_values, differences_csv, kinds_table, refuse_inside
    from builders.doctor.scan import scan_copy
    from builders.doctor.sides import Difference, compare_sides, likeliest, other_classes

    for out in (csv, page):
        refuse_inside(out, Path(a))
        refuse_inside(out, Path(b))
    with os_errors_as_build_errors("compare"), LocalExecutor(workers, preload=("builders.doctor.scan",)) as executor:
        sides, here, refused = [], list[Sequence[Copy]](), list[Difference]()
        for text, revision in ((a, revision_a), (b, revision_b)):
            side, copies = reference(text, revision, log), list[Copy]()
            if side is None:
                recognised = recognise(Path(text))
                copies = [*recognised.copies]
                refused += [Difference("unreadable", text, "", why, images=0) for why in refused_parts(recognised)]
                meter = TerminalMeter(quiet=as_json)
                side = copy_side(text, copies, [scan_copy(copy, executor, meter) for copy in copies])
            sides.append(side)
            here.append(copies)
        ours, theirs = sides
        equal, differences = compare_sides(ours, theirs)
        beside_a, beside_b = strays(here, ours, theirs)
        differences = joined(beside_b, joined(beside_a, differences), absent="extra")
        differences = [*refused, *differences, *other_classes(ours, theirs)]
    kinds = count_kinds(differences)
    reason = likeliest(Counter({str(kind): count for kind, count in kinds.items()}), ours.rows.num_rows)
    total = sum(kinds.values())
    if not differences:
        rows = quantity(theirs.rows.num_rows, "row")
        how = "" if any(here) else ", by their indexes: no image was read (verify compares them with an index)"
        sentence = f"equal: every one of {rows} of {ours.name} as in {theirs.name}{how}"
    elif refused:
        sentence = f"{ours.name} and {theirs.name} are not compared as a whole: {refused[0].detail}"
    else:
        counted = counted_kinds(kinds)
        why = f". The likeliest reason: {reason}" if reason else ""
        sentence = f"{ours.name} and {theirs.name} differ in {quantity(total, 'row')}: {counted}{why}"
    beside = {
        key: [side.about.get(key, "") for side in sides]
        for key in dict.fromkeys([*ours.about, *theirs.about])
        if ours.about.get(key) != theirs.about.get(key)
    }
    if csv is not None:
        write_text(csv, differences_csv(differences))
    if page is not None:
        from builders.doctor.page import differences_page

        write_text(page, differences_page(sentence, differences, ours, theirs))
    document: dict[str, Any] = {
        "a": ours.name,
        "b": theirs.name,
        "equal": not differences,
        "sentence": sentence,
        "equal_groups": equal,
        "kinds": kinds,
        "differences": difference_values(differences),
        "beside": beside,
    }
    if as_json:
        print_document("compare", document)
        return 1 if differences else 0
    for group in equal:
        click.echo(f"equal  {group}")
    lines = [[each.kind, each.id or each.group, each.detail] for each in differences[:SHOWN]]
    table = [*kinds_table(differences), "", *map(printable, aligned_lines([["difference", "image", ""], *lines]))]
    click.echo("\n".join(table if differences else []), nl=bool(differences))
    if len(differences) > SHOWN:
        click.echo(f"and {len(differences) - SHOWN:,} more (--csv FILE has all)")
    if beside:
        said = [[key, *(one_line(text, _SHOWN) or "-" for text in pair)] for key, pair in beside.items()]
        click.echo("\n".join(["", *map(printable, aligned_lines([["", "A", "B"], *said]))]))
    click.echo(printable(sentence))
    return 1 if differences else 0


main = functools.partial(exit_code, command, stopped="stopped; nothing was changed.")
"""Runs the command line; returns its exit code."""


if __name__ == "__main__":
    sys.exit(main())
