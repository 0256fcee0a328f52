"""Writes small made-up copies of every source in its official layout, to try each command without a download.

The class names are real, the images are drawn: two colours and a shape for each class, a size, a position and a row of
bars for each image. File names are fixed; only the pixels depend on the seed. Like the real archives, the copies have
troubled images and stray files (`builders.demo.base`) and duplicates
(`builders.demo.duplicates`).
"""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

from builders.demo.base import Demo, DemoContainers, DemoFiles
from builders.demo.duplicates import COPIES, DUPLICATES
from builders.demo.images import digest, draw, jpeg
from builders.errors import BuildError
from builders.sources.registry import SOURCES
from unknown_detection.terminal.progress import bar

DEMOS: dict[str, Demo] = {key: source.demo for key, source in SOURCES.items() if source.demo is not None}
"""Every source's demo by its key."""

MARKER = "DEMO.txt"
"""The file in the demo's root and in each source's folder that says that the images are made up."""

_MARKER_TEXT = """This folder was written by `python -m builders.demo`.
Its images are drawn by a program. They have the names and the layout of a real dataset and nothing else of it:
results computed from them mean nothing. Remove the folder whenever you like.
"""


def write_demo(root: Path, *, seed: int = 0, progress: bool = False) -> dict[str, Path]:
    """Write a demo copy of every source.

    Args:
        root: a new or empty folder, or a demo to be written again.
        seed: seed of the pixels.
        progress: show a bar on stderr if that is a terminal.

    Returns:
        The folder of each source by its key.

    Raises:
        BuildError: `root` holds other files.
    """
    if root.exists() and not is_demo(root) and (not root.is_dir() or any(root.iterdir())):
        raise BuildError(f"{root} holds other files than a demo. Name a new or empty folder.")
    _write(root / MARKER, _MARKER_TEXT.encode())
    for key in DEMOS:
        _write(root / key / MARKER, _MARKER_TEXT.encode())
    files = {key: demo for key, demo in DEMOS.items() if isinstance(demo, DemoFiles)}
    drawings = {key: list(demo.images()) for key, demo in files.items()}
    with bar(sum(map(len, drawings.values())), "drawing demo sources", quiet=not progress) as shown:
        for key, images in drawings.items():
            for image in images:
                _write(root / key / image.path, files[key].encoded(key, image, seed))
                shown.update()
    for copy in DUPLICATES:
        if {copy.source, copy.of_source} <= drawings.keys():
            original = (root / copy.of_source / copy.of_path).read_bytes()
            _write(root / copy.source / copy.path, COPIES[copy.kind](original))
    for key, demo in DEMOS.items():
        if isinstance(demo, DemoContainers):
            demo.write(root / key, seed)
        else:
            for name, text in demo.lists(drawings[key]).items():
                _write(root / key / name, text.encode())
        for stray in demo.strays:
            _write_stray(root / key / stray, stray, digest(seed, key, stray))
    return {key: root / key for key in DEMOS}


def edition() -> str:
    """Digest of all that a demo with seed 0 follows from: this folder's code and the tables of classes."""
    tables = resources.files("taxonomy") / "data"
    files = [*Path(__file__).parent.glob("*.py"), *(file for file in tables.iterdir() if file.name.endswith(".csv"))]
    digests = sorted(hashlib.sha256(file.read_bytes()).digest() for file in files)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def is_demo(folder: Path) -> bool:
    """Whether a folder is a demo or one of its sources."""
    return (folder / MARKER).is_file()


def _write_stray(path: Path, name: str, drawn_from: bytes) -> None:
    if name.endswith("/"):
        path.mkdir(parents=True, exist_ok=True)
    elif name.endswith(".jpg"):
        _write(path, jpeg(draw(drawn_from, drawn_from)))
    else:
        _write(path, b"Not an image.\n")


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except FileNotFoundError:
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
