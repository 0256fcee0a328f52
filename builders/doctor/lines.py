"""Writes what was found as lines of a terminal, a CSV and a JSON document.

Tested by `tests/builders/doctor/test_doctor.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from builders.cli.console import aligned_lines
from builders.doctor.diagnose import Diagnosis, count_kinds
from builders.doctor.sides import Difference
from builders.errors import BuildError
from unknown_detection.csv_text import csv_text
from unknown_detection.words import printable

SHOWN = 10
"""Differences that are printed; --csv has all."""


def refuse_inside(out: Path | None, place: Path) -> None:
    """Refuse to write a file into a folder that is looked at."""
    if out is not None and place.is_dir() and out.resolve().is_relative_to(place.resolve()):
        raise BuildError(f"{out} lies inside {place}, into which nothing is written. Give another place.")


def kinds_table(differences: Sequence[Difference]) -> list[str]:
    """Return the lines of a table by kind, with an example of each."""
    if not differences:
        return []
    first: dict[str, Difference] = {}
    for each in differences:
        first.setdefault(each.kind, each)
    lines = [["kind", "images", "for instance"]]
    for kind, count in count_kinds(differences).items():
        lines.append([kind, f"{count:,}", printable(_example(first[kind]))])
    return aligned_lines(lines)


def _example(each: Difference) -> str:
    return ": ".join(part for part in (each.id or each.group, each.detail) if part)


def difference_rows(differences: Sequence[Difference]) -> Iterator[list[str]]:
    """Yield the rows of the CSV, headings first."""
    yield ["kind", "group", "id", "images", "detail"]
    for each in differences:
        yield [each.kind, each.group, each.id, str(each.images), each.detail]


def differences_csv(differences: Sequence[Difference]) -> str:
    """Return the CSV of all differences."""
    return csv_text(list(difference_rows(differences)))


def difference_values(differences: Sequence[Difference]) -> list[dict[str, Any]]:
    """Return differences as values of a JSON document."""
    return [
        {"kind": each.kind, "group": each.group, "id": each.id, "images": each.images, "detail": each.detail}
        for each in differences
    ]


def diagnosis_lines(found: Diagnosis) -> Iterator[str]:
    """Yield the lines of a diagnosis; the sentence comes last."""
    lines = [["source", "partition", "images", "owner's", "classes", "owner's", "layout"]]
    for counts in found.counts:
        numbers = (counts.images, counts.expected, counts.classes, counts.expected_classes)
        cells = ["-" if number is None else f"{number:,}" for number in numbers]
        lines.append([counts.source, counts.partition, *cells, printable(counts.layout)])
    yield from aligned_lines(lines)
    yield ""
    if table := kinds_table(found.differences):
        yield from table
        yield ""
    yield from (f"note: {printable(remark)}" for remark in found.remarks)
    yield printable(found.sentence)


def diagnosis_document(found: Diagnosis) -> Mapping[str, Any]:
    """Return the JSON document of a diagnosis."""
    return {
        "place": found.place,
        "whole": found.whole,
        "sentence": found.sentence,
        "found": [
            {
                "source": counts.source,
                "partition": counts.partition,
                "layout": counts.layout,
                "images": counts.images,
                "expected": counts.expected,
                "classes": counts.classes,
                "expected_classes": counts.expected_classes,
                "wrong_classes": {name: list(pair) for name, pair in sorted(counts.wrong_classes.items())},
            }
            for counts in found.counts
        ],
        "kinds": found.kinds,
        "differences": difference_values(found.differences),
        "notes": list(found.remarks),
    }
