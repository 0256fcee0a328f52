"""Records the result of an audit in the release: a table and a picture in audit/, and a line in the card."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from PIL import Image

from builders.card import card
from builders.errors import BuildError, os_errors_as_build_errors
from builders.release.entries import AuditEntry, Manifest
from builders.release.layout import CARD, MANIFEST, Layout, shows_images
from builders.release.manifest import file_entry, read_manifest
from builders.storage.files import atomic_path, write_text
from builders.storage.locks import is_locked
from unknown_detection.csv_text import csv_text
from unknown_detection.words import printable

Cell = str | int | float


@dataclass(frozen=True)
class Findings:
    """The result of an audit: its table, chart and summary.

    `key` is the path of its files below audit/, without a suffix; `summary` its line in the card, as whole sentences;
    `picture` a chart, or a picture of images, which stays on this machine (`builders.release.layout.shows_images`).
    """

    key: str
    summary: str
    splits: tuple[str, ...]
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    picture: Image.Image


@contextlib.contextmanager
def audited(root: Path, *, dry_run: bool, doing: str = "audit the release") -> Iterator[Manifest]:
    """Read a release's manifest, and lock builds out of its folder until the audit is recorded.

    `dry_run` only asks whether a build is writing, and writes nothing, not even the lock file. If the operating system
    refuses something, the message begins with "Cannot" and `doing`.
    """
    layout = Layout(root)
    busy = f"A build or another audit is writing to {root}. Wait until it ends, and run the same command again."
    with os_errors_as_build_errors(doing), contextlib.ExitStack() as stack:
        read_manifest(root)  # before a lock file is written into a folder that may be no release
        if dry_run:
            if is_locked(layout.lock):
                raise BuildError(busy)
        else:
            stack.enter_context(layout.locked(busy))
        yield read_manifest(root)


def record(root: Path, manifest: Manifest, findings: Findings) -> Manifest:
    """Write an audit's files, then the card, then the manifest that lists them; returns the manifest.

    A run that is killed between two of them leaves files that the manifest does not list; the same audit, run again,
    replaces them.
    """
    layout, entries = Layout(root), manifest.by_key()
    table, picture = (layout.inside(f"audit/{findings.key}.{suffix}") for suffix in ("csv", "png"))
    write_text(table, table_text(findings))
    save_picture(findings.picture, picture)
    entry = AuditEntry(
        summary=printable(findings.summary),
        splits={key: entries[key].digest for key in sorted(findings.splits)},
        table=file_entry(layout, table),
        chart=None if shows_images(layout.relative(picture)) else file_entry(layout, picture),
    )
    audits = dict(sorted({**manifest.audits, findings.key: entry}.items()))
    return card.write_card_and_manifest(layout, msgspec.structs.replace(manifest, audits=audits), manifest)


def paths(findings: Findings) -> list[str]:
    """Return the paths of the files that recording an audit writes, relative to the release folder."""
    return [f"audit/{findings.key}.csv", f"audit/{findings.key}.png", CARD, MANIFEST]


def table_text(findings: Findings) -> str:
    """Return the table of an audit as CSV."""
    return csv_text([findings.columns, *findings.rows])


def save_picture(picture: Image.Image, path: Path) -> None:
    """Write a picture atomically, in the format of the file name's suffix (`picture_format`)."""
    form = picture_format(path)
    with atomic_path(path) as temporary:
        picture.save(temporary, form)


def picture_format(path: Path) -> str:
    """Return Pillow's name of the format of a picture file."""
    name = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}.get(path.suffix.lower())
    if name is None:
        ending = f"ends in {path.suffix}" if path.suffix else "has no extension"
        raise BuildError(f"The picture {path} {ending}, which names no format. End it in .png or .jpg.")
    return name
