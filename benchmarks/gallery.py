"""Draw the pictures of `docs/gallery.md` from demo releases: `python -m benchmarks.gallery DIR`.

DIR has a folder with the demo release of each benchmark, named as the benchmark, and `report.html` of
`examples/digits.py`.
Images of demo sources are made up by us, so no licence is in the way of showing them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from builders.commands.audit import main as audit
from builders.commands.report import main as report

GALLERY = Path(__file__).parents[1] / "docs" / "assets" / "gallery"
SHEETS = {
    "imagenet": "imagenet",
    "cifar": "cifar",
    "facets": "facets-t1",
    "broad": "broad-reference",
    "openood": "openood-imagenet1k",
    "ssb": "ssb-cub",
}
"""The config of each benchmark that is shown."""

COLOURS = 64
"""Few enough that all pictures together stay below 300 kB (ours)."""

WINDOW = {"width": 1000, "height": 760}


def draw(folder: Path) -> None:
    """Draw a sheet for a config of each benchmark, and take a picture of each page."""
    GALLERY.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for benchmark, config in SHEETS.items():
            sheet = Path(scratch, f"{benchmark}.png")
            audit(["sheet", str(folder / benchmark), "--splits", config, "--images", "6", "--out", str(sheet)])
            _keep(sheet)
        page = Path(scratch, "release.html")
        report([str(folder / "imagenet"), "--out", str(page), "--pictures", "all"])
        for shown, name in ((page, "release-page"), (folder / "report.html", "evaluation-page")):
            _keep(_photographed(shown, Path(scratch, f"{name}.png")))


def _photographed(page: Path, path: Path) -> Path:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport=WINDOW)
        tab.goto(page.resolve().as_uri())
        tab.screenshot(path=path)
        browser.close()
    return path


def _keep(path: Path) -> None:
    few = Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(GALLERY / path.name, optimize=True)


def main(arguments: Sequence[str]) -> int:
    """Draw all pictures."""
    draw(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
