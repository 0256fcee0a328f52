"""The demo's NINCO, in the owners' folders.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing
from builders.demo.images import digest
from taxonomy import tables

_FOLDER = "NINCO/NINCO_OOD_classes"
_PER_CLASS = (2, 0)

# The folders with spaces in their names. The one .gif of the owners' list is here, too; the other names are made up.
_WITH_SPACES = {name.replace(" ", "_"): name for name in ("Caracal caracal caracal", "high heels")}
_GIF = "pseudorca_crassidens_047_67902086.gif"
_TROUBLES = {f"{_FOLDER}/pseudorca_crassidens/{_GIF}": "gif"}


def _images() -> Iterator[Drawing]:
    for name in (row["class"] for row in tables.read_csv_rows("ninco.csv")):
        folder = _WITH_SPACES.get(name, name)
        files = [
            f"{folder}_{place:03d}_{int.from_bytes(digest('ninco', name, place)[:4], 'big')}.{ending}"
            for place, ending in enumerate(("jpg", "JPEG"))
        ]
        for file in [files[0], _GIF] if name == "pseudorca_crassidens" else files:
            yield Drawing(f"{_FOLDER}/{folder}/{file}", f"{name}/{file.replace(' ', '_')}", name)


# The archive has the owners' other sets beside the classes.
DEMO = DemoFiles(_PER_CLASS, _images, troubles=_TROUBLES, strays=(f"{_FOLDER}/.DS_Store",))
