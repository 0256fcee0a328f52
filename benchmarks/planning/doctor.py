"""`doctor` against `sha256sum` on the same bytes: small files, photographs, one tar, and 20 GB.

    python -m benchmarks.planning.doctor small|photographs|tar|gigabytes --scratch DIR

`small` are JPEGs of 800 bytes, all of one size, under the names of ILSVRC2012 (`--files 1331167` has all of them).
`photographs` have 110 KB, `tar` is one archive of them, and `gigabytes` are links to them, 20 GB in all.

`sha256sum` reads with one process, and `doctor` here with `--workers`; so wall time says how long one waits, and
processor time what the work takes. Both read from the page cache, if all of it fits.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
from itertools import islice
from pathlib import Path

import click
import numpy as np
from PIL import Image

from benchmarks.building.photographs import photograph
from benchmarks.planning.complete_sources import imagenet
from benchmarks.rivals import Run, interleave, report, run_process

_DRAWN = 100
"""Photographs that are drawn; the others differ from them in their last bytes (ours)."""

_LINKED = 2_000
"""Photographs to which all of `gigabytes` are links: 220 MB (ours)."""

RIVAL = "sha256sum"


def _small() -> bytes:
    noise = np.random.default_rng(0).integers(0, 255, (12, 12, 3), np.uint8).repeat(2, axis=0)
    return _encoded(Image.fromarray(noise), 60)


def _encoded(image: Image.Image, quality: int) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def _numbered(data: bytes, number: int) -> bytes:
    """Return a JPEG with other last bytes of image data, so that no two have one digest."""
    return data[:-10] + b"%08d" % number + data[-2:]


def _write(root: Path, images: list[bytes], files: int) -> int:
    """Write so many images under names of ILSVRC2012; returns their bytes."""
    size, folder = 0, Path()
    for number, name in enumerate(islice(imagenet(), files)):
        path = root / name
        if path.parent != folder:
            folder = path.parent
            folder.mkdir(parents=True, exist_ok=True)
        data = _numbered(images[number % len(images)], number)
        path.write_bytes(data)
        size += len(data)
    return size


def _photographs() -> list[bytes]:
    """Return photographs of 110 KB on average, which is ILSVRC2012's mean."""
    return [_encoded(photograph(number).resize((500, 375)), 97) for number in range(_DRAWN)]


def _write_tar(root: Path, files: int) -> int:
    images, size = _photographs(), 0
    root.mkdir(parents=True)
    with tarfile.open(root / "photographs.tar", "w") as archive:
        for number in range(files):
            data = _numbered(images[number % _DRAWN], number)
            member = tarfile.TarInfo(f"class{number % 100:02}/{number:06}.jpg")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
            size += len(data)
    return size


def _link(root: Path, scratch: Path, size: int) -> tuple[int, int]:
    """Fill a folder with links to some photographs until they have so many bytes; returns files and bytes."""
    _write(scratch / "linked", _photographs(), _LINKED)
    paths = sorted((scratch / "linked").rglob("*.JPEG"))
    files, total = 0, 0
    while total < size:
        path = paths[files % len(paths)]
        folder = root / f"{files // 1000:04}"
        folder.mkdir(parents=True, exist_ok=True)
        os.link(path, folder / f"{files:07}.jpg")
        files, total = files + 1, total + path.stat().st_size
    return files, total


def _measured(root: Path) -> tuple[int, int]:
    """Return the files below a folder and their bytes."""
    paths = [os.path.join(place, name) for place, _, names in os.walk(root) for name in names]  # noqa: PTH118
    return len(paths), sum(map(os.path.getsize, paths))


@click.command(epilog="Example: python -m benchmarks.planning.doctor small --scratch /tmp/doctor")
@click.argument("kind", type=click.Choice(["small", "photographs", "tar", "gigabytes"]))
@click.option("--scratch", type=click.Path(path_type=Path), required=True, help="A folder for all files.")
@click.option("--files", default=0, help="Images.  [default: 100,000 small ones, 8,000 photographs]")
@click.option("--gigabytes", default=20, show_default=True, help="Of the last kind.")
@click.option("--keep", is_flag=True, help="Leave the images in the folder, for a further run.")
@click.option("--workers", default=2, show_default=True, help="Workers of doctor.")
@click.option("--repeats", default=3, show_default=True, help="Rounds of each side; the median counts.")
def main(kind: str, scratch: Path, files: int, gigabytes: int, keep: bool, workers: int, repeats: int) -> None:
    """Read the same images by doctor and by sha256sum."""
    root = scratch / "copy"
    files = files or (100_000 if kind == "small" else 8_000)
    there = root.exists()
    scratch.mkdir(parents=True, exist_ok=True)
    try:
        if there:
            files, size = _measured(root)
        elif kind == "tar":
            size = _write_tar(root, files)
        elif kind == "gigabytes":
            files, size = _link(root, scratch, gigabytes * 10**9)
        else:
            size = _write(root, [_small()] if kind == "small" else _photographs(), files)
        place = root / "photographs.tar" if kind == "tar" else root
        # Exit code 1 is what doctor says of images that are no complete dataset.
        words = f"{sys.executable} -m builders.commands.doctor {place} --workers {workers}; test $? -le 1"
        both = {"doctor": words, RIVAL: f"find {root} -type f -print0 | xargs -0 sha256sum > {scratch / 'sums'}"}
        environment = {**os.environ, "XDG_CACHE_HOME": str(scratch / "cache")}
        runs = {
            name: Run(lambda: None, lambda line=line: run_process(["sh", "-c", line], environment))  # type: ignore[misc]
            for name, line in both.items()
        }
        if there:
            runs[RIVAL].work()  # the first reading warms the cache and is nobody's; what was just written is in it
        results = interleave(runs, repeats)
    finally:
        if not keep:
            shutil.rmtree(scratch)
    report(results, RIVAL, f"planning.doctor, {kind}", files=files, bytes=size, workers=workers)
    each = (results["doctor"].median_processor - results[RIVAL].median_processor) / files
    print(f"{files:,} files, {size / 1e9:.2f} GB: doctor takes {each * 1e6:.1f} us of processor time more a file")


if __name__ == "__main__":
    main()
