"""Writes a report to a folder atomically, and records which files belong to it.

Tested by `tests/evaluation/report/test_compose.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from evaluation.errors import EvaluationError
from evaluation.files import read_json
from evaluation.progress import Progress
from evaluation.protocols.results import over_runs, write_figures
from evaluation.report.compose import ScoresFile
from evaluation.report.layouts import paper_tables
from evaluation.report.pictures import Picture
from evaluation.report.summary import summary
from evaluation.report.tables import write_table
from evaluation.scoring.duplicates import LeftOut
from evaluation.scoring.overlap import Overlapping

RECORD = "report.json"
"""File with the report's inputs and the names of its files."""

FORMAT = 1


def check_output_folder(out: Path) -> None:
    """Check that a folder can be written or replaced.

    Args:
        out: a folder that does not exist, is empty, or has a report and nothing else.

    Raises:
        EvaluationError: it is a file, or has other files.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise EvaluationError(f"{out} is a file, not a folder for the report; choose another name.")
    found = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir())
    own = {RECORD, *_own_files(out / RECORD)}
    others = [name for name in found if name not in own]
    if others:
        raise EvaluationError(
            f"{out} has files that are not part of a report: {len(others):,}, such as {others[0]}. Choose another "
            "folder."
        )


@dataclass(frozen=True)
class ReportContents:
    """The contents of a report.

    Attributes:
        figures: the result of `results.tidy`.
        pictures: the pictures to draw.
        files: the scores files, recorded by name and digest.
        titles: titles of the detectors.
        protocols: configs by protocol.
        notes: sentences on figures that are missing.
        left_out: the splits that lose rows in figures without duplicates; None if there are no such figures.
        overlapping: the classes that figures without overlap leave out; None if there are no such figures.
    """

    figures: pa.Table
    pictures: Sequence[Picture]
    files: Sequence[ScoresFile]
    titles: Mapping[str, str]
    protocols: Mapping[str, Sequence[str]]
    notes: Sequence[str] = ()
    left_out: Sequence[LeftOut] | None = None
    overlapping: Sequence[Overlapping] | None = None


def write_report(out: Path, contents: ReportContents, progress: Progress) -> dict[str, Any]:
    """Write a report to a temporary folder and move it into place, replacing an older one.

    Args:
        out: the folder, checked by `check_output_folder`.
        contents: the contents to write.
        progress: called with the number of pictures done.

    Returns:
        The record as written to `report.json`.
    """
    out = out.resolve()
    temporary = out.with_name(f".{os.getpid()}.{out.name}")
    temporary.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.mkdir()
        files = write_figures(temporary, contents.figures)
        left_out, overlapping = contents.left_out or (), contents.overlapping or ()
        tables = paper_tables(over_runs(contents.figures), contents.titles, left_out, overlapping)
        for entry in tables:
            files += [f"tables/{name}" for name in write_table(temporary / "tables", entry.table)]
        for picture in contents.pictures:
            files += [f"plots/{name}" for name in picture.save(temporary / "plots")]
            progress(1)
        record = _record(contents)
        page = summary(record, contents.figures, tables, contents.pictures, contents.titles)
        _write(temporary / "README.md", page)
        record["files"] = sorted([*files, "README.md"])
        _write(temporary / RECORD, json.dumps(record, indent=2, sort_keys=True) + "\n")
        _put(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return record


def _record(contents: ReportContents) -> dict[str, Any]:
    runs = []
    lines = {line["run"]: line for line in contents.figures.to_pylist()}
    for file in contents.files:
        line = lines[file.path.stem]
        told = {name: line[name] for name in ("run", "variant", "seed", "model", "model_digest")}
        content = hashlib.sha256(file.path.read_bytes()).hexdigest()
        runs.append(told | {"scores": file.path.name, "scores_sha256": content})
    first = next(iter(lines.values()))
    return {
        "format": FORMAT,
        "release": first["release"],
        "release_digest": first["release_digest"],
        "protocols": {name: list(configs) for name, configs in contents.protocols.items()},
        "notes": list(contents.notes),
        "duplicates_sha256": first["duplicates_sha256"],
        "left_out": None if contents.left_out is None else [asdict(one) for one in contents.left_out],
        "overlapping": None if contents.overlapping is None else [asdict(one) for one in contents.overlapping],
        "runs": runs,
    }


def _own_files(record: Path) -> list[str]:
    if not record.is_file():
        return []
    try:
        found = read_json(record)
        return [str(name) for name in found["files"]] if found.get("format") == FORMAT else []
    except (ValueError, KeyError, TypeError, AttributeError):
        return []  # a report.json of another program


def _put(temporary: Path, out: Path) -> None:
    """Move the new folder into place with two renames, because no rename replaces a folder that has files."""
    old = out.with_name(f".{os.getpid()}.old.{out.name}")
    if out.exists():
        out.replace(old)
    temporary.replace(out)
    shutil.rmtree(old, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
