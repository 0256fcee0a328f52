"""Writes small made-up copies of every source in its official layout, to try each command without a download.

Images are drawn: two colours and a shape for each class, a size, a position and a row of bars for each image. Like the
real archives, the copies have troubled images, stray files and duplicates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from importlib import resources
from pathlib import Path

from builders.demo.containers import CONTAINERS
from builders.demo.duplicates import COPIES, DUPLICATES, Duplicate
from builders.demo.files import FILES
from builders.demo.images import DemoSource, digest, draw_image, encode_jpeg, lines
from builders.errors import BuildError
from builders.sources.base import DEMO_MARKER, is_demo
from builders.sources.titles import TITLES
from builders.storage.files import write_text
from unknown_detection.durable import flush_tree, make_folder
from unknown_detection.terminal.progress import bar

DEMOS: dict[str, DemoSource] = {key: FILES.get(key) or CONTAINERS[key] for key in TITLES}
"""Every source's demo by its key."""

_FINISHED = ".finished"
"""The record of a folder of `keep_demo`: the edition, then the key of every source that is there, a line each."""

_MARKER_TEXT = """This folder was written by `python -m builders.commands.demo`.
Its images are drawn by a program. They have the names and the layout of a real dataset and nothing else of it:
results computed from them mean nothing. Remove the folder whenever you like.
"""


def write_demo(
    root: Path, keys: Collection[str] | None = None, *, seed: int = 0, progress: bool = False
) -> dict[str, Path]:
    """Write a demo copy of every source, or of some; returns the folder of each by its key.

    A source has the same bytes whichever others are written. `root` is a new or empty folder, or a demo to which these
    sources are added, or in which they are written again; if it holds other files, `BuildError` is raised.
    """
    if root.exists() and not is_demo(root) and (not root.is_dir() or any(root.iterdir())):
        raise BuildError(f"{root} holds other files than a demo. Name a new or empty folder.")
    demos = {key: demo for key, demo in DEMOS.items() if keys is None or key in keys}
    _write(root / DEMO_MARKER, _MARKER_TEXT.encode())
    for key in demos:
        _write(root / key / DEMO_MARKER, _MARKER_TEXT.encode())
    drawings = {key: list(demo.images()) for key, demo in demos.items()}
    with bar(sum(map(len, drawings.values())), "drawing demo sources", quiet=not progress) as shown:
        for key, images in drawings.items():
            for image in images:
                _write(root / key / image.path, demos[key].encoded(key, image, seed))
                shown.update()
    for copy in DUPLICATES:
        if copy.source in drawings:
            _write(root / copy.source / copy.path, COPIES[copy.kind](_original(copy, seed)))
    for key, demo in demos.items():
        demo.write(root / key, seed)
        for name, text in demo.lists(drawings[key]).items():
            _write(root / key / name, text.encode())
        for stray in demo.strays:
            drawn_from = digest(seed, key, stray)
            if stray.endswith("/"):
                (root / key / stray).mkdir(parents=True, exist_ok=True)
            else:
                drawn = encode_jpeg(draw_image(drawn_from, drawn_from))
                _write(root / key / stray, drawn if stray.endswith(".jpg") else b"Not an image.\n")
    return {key: root / key for key in demos}


def keep_demo(root: Path, keys: Collection[str], *, progress: bool = False) -> dict[str, Path]:
    """Write demo copies of some sources into a folder, unless it has them already; returns their folders by key."""
    record, edition = root / _FINISHED, _edition()
    recorded = record.read_text(encoding="utf-8").splitlines() if record.is_file() else []
    finished = set(recorded[1:]) if recorded[:1] == [edition] else set()
    missing = sorted(set(keys) - finished)
    if missing:
        make_folder(root)
        write_demo(root, missing, progress=progress)
        flush_tree(root)
        write_text(record, lines((edition, *sorted(finished.union(missing)))))
    return {key: root / key for key in sorted(keys)}


def _edition() -> str:
    """Return the digest of what determines a demo with seed 0: this folder's code and the tables of classes."""
    tables = resources.files("taxonomy") / "data"
    files = [*Path(__file__).parent.glob("*.py"), *(file for file in tables.iterdir() if file.name.endswith(".csv"))]
    digests = sorted(hashlib.sha256(file.read_bytes()).digest() for file in files)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _original(copy: Duplicate, seed: int) -> bytes:
    """Return the file that a copy is made of, drawn again, since its source may not be written."""
    demo = FILES[copy.of_source]
    image = next(image for image in demo.images() if image.path == copy.of_path)
    return demo.encoded(copy.of_source, image, seed)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except FileNotFoundError:
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
