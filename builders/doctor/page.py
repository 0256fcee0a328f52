"""Renders the page of a diagnosis or a comparison, with the pictures that differ side by side.

Tested by `tests/builders/doctor/test_page.py`.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from builders.doctor.diagnose import Diagnosis, count_kinds
from builders.doctor.kinds import Picture, decoded
from builders.doctor.sides import Difference, Side
from builders.release.images import UnreadableImageError
from builders.release.remarks import collect_remarks
from unknown_detection.pages.content import Cell, Entry, PageTable, Value, code, table
from unknown_detection.pages.render import render_template
from unknown_detection.words import quantity

_FOLDER = Path(__file__).parent

_OF_EACH_KIND = 12
"""Pairs of pictures of each kind (ours: a screen or two)."""

_SIDE = 240
"""Pixels of a picture's longer side at most, half as many again as are shown (ours)."""

_ROWS = 2000
"""Differences in the page's table (ours: a megabyte); the CSV has all."""


def diagnosis_page(found: Diagnosis) -> str:
    """Render the page of a diagnosis."""
    rows: list[list[Value | Cell]] = [
        [
            counts.source,
            counts.partition,
            counts.images,
            counts.expected,
            counts.classes,
            counts.expected_classes,
            counts.layout,
        ]
        for counts in found.counts
    ]
    titles = ["source", "partition", "images", "the owner's images", "classes", "the owner's classes", "layout"]
    counted = table("found", "What is here, beside the owner's counts", titles, rows, folded=False)
    wrong: list[list[Value | Cell]] = [
        [counts.source, counts.partition, code(name), here, owners]
        for counts in found.counts
        for name, (here, owners) in sorted(counts.wrong_classes.items())
    ]
    tables = [counted]
    if wrong:
        titles = ["source", "partition", "class", "images", "the owner's"]
        tables.append(table("classes", "Classes with other counts than the owner's", titles, wrong))
    return _page(
        f"{found.place}: is it the dataset?",
        found.sentence,
        found.differences,
        found.ours,
        found.theirs,
        tables,
        found.remarks,
    )


def differences_page(sentence: str, differences: Sequence[Difference], ours: Side, theirs: Side) -> str:
    """Render the page of a comparison of two sides."""
    keys = [key for key in dict.fromkeys([*ours.about, *theirs.about]) if ours.about.get(key) != theirs.about.get(key)]
    beside = [[key, ours.about.get(key, ""), theirs.about.get(key, "")] for key in keys]
    tables = [table("beside", "What is said of both", ["", ours.name, theirs.name], beside)] if beside else []
    return _page(f"{ours.name} and {theirs.name}", sentence, differences, ours, theirs, tables, ())


def _page(
    title: str,
    sentence: str,
    differences: Sequence[Difference],
    ours: Side,
    theirs: Side | None,
    tables: Sequence[PageTable],
    remarks: Sequence[str],
) -> str:
    kinds = count_kinds(differences)
    rows: list[list[Value | Cell]] = [
        [each.kind, each.group, code(each.id) if each.id else None, each.detail] for each in differences[:_ROWS]
    ]
    note = f"The first {_ROWS:,} of {len(differences):,}; --csv has all." if len(differences) > _ROWS else ""
    listed = table("differences", "Differences", ["kind", "group", "image", "detail"], rows, note=note)
    return render_template(
        "doctor.html.j2",
        folders=[_FOLDER],
        style=(_FOLDER / "doctor.css").read_text(encoding="utf-8"),
        title=title,
        lead=f"{sentence}.",
        contents=[Entry("kinds", "By kind"), Entry("pictures", "Side by side"), Entry("all", "All differences")],
        facts=[(kind, count, quantity(count, "image").rpartition(" ")[2]) for kind, count in kinds.items()],
        tables=tables,
        remarks=remarks,
        pairs=list(_pairs(differences, ours, theirs)),
        names=(ours.name, theirs.name if theirs else ""),
        listed=listed if differences else None,
    )


def _pairs(differences: Sequence[Difference], ours: Side, theirs: Side | None) -> Iterator[dict[str, Any]]:
    """Yield for each kind the first differences with their pictures."""
    by_kind: dict[str, list[Difference]] = {}
    for each in differences:
        if each.id and (each.ours >= 0 or each.theirs >= 0):
            by_kind.setdefault(each.kind, []).append(each)
    chosen = {kind: found[:_OF_EACH_KIND] for kind, found in by_kind.items()}
    numbers = [each for found in chosen.values() for each in found]
    mine = ours.pictures([each.ours for each in numbers if each.ours >= 0]) if ours.pictures else {}
    other = theirs.pictures([n.theirs for n in numbers if n.theirs >= 0]) if theirs and theirs.pictures else {}
    for kind, found in chosen.items():
        shown = [
            {
                "id": each.id,
                "detail": each.detail,
                "ours": _thumbnail(mine.get(each.ours)),
                "theirs": _thumbnail(other.get(each.theirs)),
            }
            for each in found
        ]
        yield {"kind": kind, "pairs": shown, "all": len(by_kind[kind])}


def _thumbnail(picture: Picture | None) -> dict[str, Any] | None:
    """Return a picture's data: URI and size; None if there is none, or it does not decode."""
    if picture is None:
        return None
    with collect_remarks():
        try:
            image = decoded(picture)
        except UnreadableImageError:
            return None
    size, file = image.size, io.BytesIO()
    image = image.convert("RGB")
    if max(size) <= _SIDE // 4:
        image = image.resize((size[0] * 3, size[1] * 3), Image.Resampling.NEAREST)
    image.thumbnail((_SIDE, _SIDE))
    image.save(file, "JPEG", quality=80)
    uri = f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
    return {"uri": uri, "width": size[0], "height": size[1]}
