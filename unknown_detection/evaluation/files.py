"""Reads files that somebody else wrote, checks folders to write, and makes file names."""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
import types
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from msgspec import Meta

from builders.storage import files as regular
from builders.storage.parquet import open_parquet, read_bounded
from unknown_detection.evaluation.errors import EvaluationError, evaluation_errors, first_line, one_line, unknown_name
from unknown_detection.words import UNPRINTABLE, first_few

Text = Annotated[str, Meta(pattern=rf"\A[^{UNPRINTABLE}]*\Z")]
"""A line of printable text, in what msgspec decodes."""

VERIFY = "Run `python -m hf_scripts.verify` to find out what is wrong."

require_regular = evaluation_errors()(regular.require_regular)
"""Refuses a path that is no regular file: a named pipe would block for ever, a folder has no content."""


def require_folder_of(out: Path, kind: str, patterns: Collection[str]) -> None:
    """Check that a folder to write is new, or holds only what a folder of its kind holds.

    `patterns` are those of its files and folders; a folder of which a pattern names files is looked into, too.
    """
    if out.exists() and not out.is_dir():
        raise EvaluationError(f"{out} is a file, not a folder for the {kind}. Choose another name.")
    own = {path for pattern in patterns for path in out.glob(pattern)}
    folders = {out, *((out / pattern).parent for pattern in patterns)}
    found = sorted(
        path.relative_to(out).as_posix() for folder in folders for path in folder.glob("*") if path not in own
    )
    if found:
        raise EvaluationError(
            f"{out} has files that are not part of a {kind} ({first_few(found)}). Choose another folder."
        )


def require_writable(folder: Path) -> None:
    """Check before any work that files can be written to a folder, or that it can be created."""
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        reason = (error.strerror or first_line(error)).lower()
        raise EvaluationError(
            f"Nothing can be written to {there}: {reason}. Fix this, or choose another path."
        ) from error


def safe_file_name(*parts: str) -> str:
    """Join parts to a file name with hyphens, replacing characters that are unsafe in file names."""
    return "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-.") for part in parts)


def load_python(spec: str, kind: str) -> tuple[Any, str, Path, str]:
    """Load `FILE.py:NAME` from the user's file, whose code is run; `kind` says what it should be.

    Returned are the object, its name, the file and the SHA-256 of its content.
    """
    file, colon, name = spec.rpartition(":")
    path = Path(file)
    if not colon or path.suffix != ".py" or not name:
        raise EvaluationError(f"{one_line(spec)} does not name a {kind}; write FILE.py:NAME.")
    if not path.is_file():
        raise EvaluationError(f"There is no file {path} to load {one_line(name)} from; check the path.")
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    module = types.ModuleType(f"_loaded_{digest[:16]}")
    module.__file__ = str(path)
    try:
        code = compile(content, str(path), "exec")
    except (SyntaxError, ValueError) as error:
        raise EvaluationError(f"{path} is not a Python file: {first_line(error)}. Mend it.") from error
    sys.modules[module.__name__] = module  # dataclasses look their module up here
    # Not by importlib, which would leave a __pycache__ beside the user's file.
    exec(code, module.__dict__)
    if not hasattr(module, name):
        known = [attribute for attribute in vars(module) if not attribute.startswith("_")]
        raise unknown_name(f"name in {path}", name, known)
    return getattr(module, name), name, path, digest


def read_untrusted(
    path: Path, name: str, choose: Callable[[list[str]], list[str]] = list, *, sha256: str = ""
) -> pa.Table:
    """Read a Parquet table that somebody else wrote, within bounds, and check all its values.

    Refused is what is no regular file or no Parquet, is encrypted or damaged, claims an absurd number of rows, has a
    column twice, has a very long text, unpacks to far more than the file has, or has another SHA-256 than a manifest
    lists, if that is given. `choose` is given the names of all columns and returns those to read; it may refuse them
    before any value is read.
    """
    require_regular(path)
    try:
        with open_parquet(path, sha256=sha256, page_checksum_verification=True) as file:
            return read_bounded(file, path.stat().st_size, choose(file.schema_arrow.names))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise EvaluationError(
            f"Cannot read {name} as Parquet: {first_line(error)}. Write or download the file again."
        ) from error
