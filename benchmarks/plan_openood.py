"""Planning every usual config of OpenOOD, MOS and ImageNet-OOD from complete sources of empty files.

`python -m benchmarks.plan_openood --scratch DIR` writes 615,207 empty files with the real names, as far as lists of
them are published (planning opens no image), and plans all configs as a dry run, without `--allow-partial`. Of
Places365's training images it writes MOS's 50 categories. It needs the published lists that the tests read.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.rivals import run_process
from taxonomy import lists, tables
from tests.published_lists import labels, published


def _imagenet() -> Iterator[str]:
    wnids = [row.wnid for row in tables.imagenet1k()]
    for path, label in (labels("openood_validation") | labels("openood_test")).items():
        yield f"val/{wnids[label]}/{path}"


def _sun397() -> Iterator[str]:
    # The categories of the listed images are not published: each gets 26 of them, and is filled up with other names.
    names = iter(published("mos_sun"))
    for row in tables.sun397():
        listed = [name for _, name in zip(range(min(26, row.images)), names, strict=False)]
        invented = (
            f"sun_{''.join(chr(97 + int(digit)) for digit in f'{number:016}')}.jpg" for number in range(row.images)
        )
        for _, name in zip(range(row.images), [*listed, *invented], strict=False):
            yield f"SUN397{row.category}/{name}"


def _places365() -> Iterator[str]:
    for category in sorted(set(lists.load_list("mos_places").values()) - {lists.UNKNOWN}):
        for number in range(1, 5_001):
            yield f"data_256{category}/{number:08}.jpg"
    for number in range(1, 36_501):
        yield f"val_256/Places365_val_{number:08}.jpg"


def _dtd() -> Iterator[str]:
    listed = published("textures")
    yield from (f"images/{path}" for path in listed)
    for name in sorted(set(tables.dtd()) - {path.partition("/")[0] for path in listed}):
        yield from (f"images/{name}/{name}_{number:04}.jpg" for number in range(1, 121))


def _imagenet_c() -> Iterator[str]:
    wnids = [row.wnid for row in tables.imagenet1k()]
    for path, label in labels("openood_imagenet_c").items():
        kind, _, name = path.rpartition("/")
        yield f"{kind}/{wnids[label]}/{name}"


def _files() -> dict[str, Iterable[str]]:
    """Return the paths of each source's files, by its key."""
    openimages = [
        f"openimage_o/images/{name}" for part in ("", "_validation") for name in published(f"openimage_o{part}")
    ]
    return {
        "imagenet": _imagenet(),
        "imagenet21k": dict.fromkeys([*published("ssb_hard"), *published("imagenet_ood")]),
        "ninco": published("ninco"),
        "inaturalist": [f"iNaturalist/images/{name}" for name in tables.inaturalist()],
        "dtd": _dtd(),
        "openimage_o": openimages,
        "sun397": _sun397(),
        "places365": _places365(),
        "imagenet_v2": published("imagenet_v2"),
        "imagenet_r": published("imagenet_r"),
        "imagenet_c": _imagenet_c(),
    }


def write_sources(root: Path) -> int:
    """Write the sources' files and lists; return how many files."""
    files = 0
    for key, paths in _files().items():
        folders = set()
        for path in paths:
            place = root / key / path
            if place.parent not in folders:
                place.parent.mkdir(parents=True, exist_ok=True)
                folders.add(place.parent)
            os.close(os.open(place, os.O_CREAT))
            files += 1
    categories = [row.category for row in tables.places365()]
    validation = (f"Places365_val_{number:08}.jpg {number % 365}\n" for number in range(1, 36_501))
    (root / "places365" / "places365_val.txt").write_text("".join(validation))
    numbered = (f"{category} {number}\n" for number, category in enumerate(categories))
    (root / "places365" / "categories_places365.txt").write_text("".join(numbered))
    for partition, name in (("test", "openimage_o"), ("val", "openimage_o_validation")):
        text = "".join(f"openimage_o/images/{file} -1\n" for file in published(name))
        (root / "openimage_o" / f"{partition}_openimage_o.txt").write_text(text)
    return files


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="folder with 0.8 million free inodes; emptied")
    root = parser.parse_args().scratch / "sources"
    started = time.perf_counter()
    files = write_sources(root)
    print(f"{files:,} files written in {time.perf_counter() - started:.0f} s")
    sources = [text for key in _files() for text in (f"--{key}", str(root / key))]
    command = [sys.executable, "-m", "builders.openood_benchmark", "--dry-run", "--json", "--quiet", *sources]
    out = ["--out", str(root.parent / "out")]
    plan = json.loads(subprocess.run([*command, *out], check=True, capture_output=True, text=True).stdout)
    print(json.dumps(plan, indent=1))
    started = time.perf_counter()
    peak = run_process([*command, *out])
    print(f"planned in {time.perf_counter() - started:.1f} s, at most {peak:,.0f} MB")
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
