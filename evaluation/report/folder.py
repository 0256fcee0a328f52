"""A report on disk: a folder that is whole or not there, and that says which files are its own.

Tested by `tests/evaluation/report/test_compose.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from evaluation.errors import EvaluationError
from evaluation.protocols.results import over_runs, write_figures
from evaluation.report.compose import Source
from evaluation.report.layouts import paper_tables
from evaluation.report.pictures import Picture
from evaluation.report.summary import summary
from evaluation.report.tables import write_table
from evaluation.scoring.duplicates import LeftOut

RECORD = "report.json"
"""What the report is of, and the names of its files."""

FORMAT = 1

Advance = Callable[[int], object]
"""Called with the number of files done since the last call."""


def check_out(out: Path) -> None:
    """Refuse to write where something else is.

    Args:
        out: a folder that does not exist, is empty, or holds a report and nothing else.

    Raises:
        EvaluationError: it is a file, or has files that are of no report.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise EvaluationError(f"expected a folder for the report at {out}, found a file; name another.")
    found = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir())
    own = {RECORD, *_own_files(out / RECORD)}
    others = [name for name in found if name not in own]
    if others:
        raise EvaluationError(
            f"expected a new or empty folder, or a report to replace, at {out}, found {others[0]} and "
            f"{len(others) - 1:,} more files beside; name another folder."
        )


@dataclass(frozen=True)
class Contents:
    """What a report is made of.

    Attributes:
        figures: as `results.tidy` gives them.
        pictures: what to draw.
        sources: the scores files, which are recorded by name and digest.
        titles: of detectors.
        protocols: configs by protocol.
        notes: sentences on what is left out.
        left_out: the splits that lose rows in figures without duplicates; None where there are no such figures.
    """

    figures: pa.Table
    pictures: Sequence[Picture]
    sources: Sequence[Source]
    titles: Mapping[str, str]
    protocols: Mapping[str, Sequence[str]]
    notes: Sequence[str] = ()
    left_out: Sequence[LeftOut] | None = None


def write_report(out: Path, contents: Contents, advance: Advance) -> dict[str, Any]:
    """Write a report beside its place and then put it there, in place of an older one.

    Args:
        out: the folder, once `check_out` has passed it.
        contents: what to write.
        advance: progress, in pictures.

    Returns:
        The record that stands in `report.json`.
    """
    out = out.resolve()
    temporary = out.with_name(f".{os.getpid()}.{out.name}")
    temporary.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.mkdir()
        files = write_figures(temporary, contents.figures)
        tables = paper_tables(over_runs(contents.figures), contents.titles, contents.left_out or ())
        for placed in tables:
            files += [f"tables/{name}" for name in write_table(temporary / "tables", placed.table)]
        for picture in contents.pictures:
            files += [f"plots/{name}" for name in picture.save(temporary / "plots")]
            advance(1)
        record = _record(contents)
        page = summary(record, contents.figures, tables, contents.pictures, contents.titles)
        _write(temporary / "README.md", page)
        record["files"] = sorted([*files, "README.md"])
        _write(temporary / RECORD, json.dumps(record, indent=2, sort_keys=True) + "\n")
        _put(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return record


def _record(contents: Contents) -> dict[str, Any]:
    runs = []
    lines = {line["run"]: line for line in contents.figures.to_pylist()}
    for source in contents.sources:
        line = lines[source.path.stem]
        told = {name: line[name] for name in ("run", "variant", "seed", "model", "model_digest")}
        content = hashlib.sha256(source.path.read_bytes()).hexdigest()
        runs.append(told | {"scores": source.path.name, "scores_sha256": content})
    first = next(iter(lines.values()))
    return {
        "format": FORMAT,
        "release": first["release"],
        "release_digest": first["release_digest"],
        "protocols": {name: list(configs) for name, configs in contents.protocols.items()},
        "notes": list(contents.notes),
        "duplicates_sha256": first["duplicates_sha256"],
        "left_out": None if contents.left_out is None else [asdict(one) for one in contents.left_out],
        "runs": runs,
    }


def _own_files(record: Path) -> list[str]:
    if not record.is_file():
        return []
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
        return [str(name) for name in found["files"]] if found.get("format") == FORMAT else []
    except (ValueError, KeyError, TypeError, AttributeError):
        return []  # somebody else's report.json


def _put(temporary: Path, out: Path) -> None:
    """Two renames, because none replaces a folder with files; between them the old report lies beside its place."""
    old = out.with_name(f".{os.getpid()}.old.{out.name}")
    if out.exists():
        out.replace(old)
    temporary.replace(out)
    shutil.rmtree(old, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
