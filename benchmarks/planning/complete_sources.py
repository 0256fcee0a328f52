"""Planning a benchmark from complete sources of empty files against a bare scan of their folders.

    python -m benchmarks.planning.complete_sources imagenet|facets|openood --scratch DIR

writes files with the real folders, counts and kinds of names (planning opens no image), and plans every split as a dry
run: of ILSVRC2012's 1,331,167 files, and of a part of them, for the cost of a file; of FACETS' sources, with SUN397's
108,754, Places365's 36,500 validation images and SVHN's 46,470, about a million rows; of OpenOOD, MOS and
ImageNet-OOD, 615,207 files under the real names, as far as lists of them are published, and of Places365's training
images MOS's 50 categories. The last needs the published lists that the tests read, and its plan is printed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import click

from benchmarks.rivals import Run, interleave, report, run_process
from builders.sources.datasets.svhn_full import SVHN_FULL
from taxonomy import lists, tables
from tests.published_lists import labels, published

SCAN = """
import os, sys
files = sum(1 for _, _, names in os.walk(sys.argv[1]) for _ in names)
"""

SPLITS = (
    "imagenet/validation,imagenet/test,imagenet/near_ood,imagenet/external_validation,imagenet-train,imagenet-external"
)


def _touch(root: Path, paths: Iterable[str]) -> int:
    """Write empty files; returns how many."""
    files, folders = 0, set()
    for path in paths:
        place = root / path
        if place.parent not in folders:
            place.parent.mkdir(parents=True, exist_ok=True)
            folders.add(place.parent)
        os.close(os.open(place, os.O_CREAT))
        files += 1
    return files


def imagenet(per_cent: int = 100) -> Iterator[str]:
    """Return the names of a percentage of each class's training images, and of all validation images."""
    for place, row in enumerate(tables.imagenet1k()):
        for number in range(row.train_images * per_cent // 100):
            yield f"train/{row.wnid}/{row.wnid}_{number}.JPEG"
        for number in range(50):
            yield f"val/{row.wnid}/ILSVRC2012_val_{50 * place + number + 1:08d}.JPEG"


def _places365_validation(root: Path) -> None:
    """Write Places365's list of validation images."""
    lines = (f"Places365_val_{number:08}.jpg {number % 365}\n" for number in range(1, 36_501))
    (root / "places365_val.txt").write_text("".join(lines), encoding="utf-8")


def _letters(number: int) -> str:
    """Return a name of letters alone, as SUN397's images have."""
    return "".join(chr(ord("a") + number // 26**place % 26) for place in range(16))


def facets() -> dict[str, Iterable[str]]:
    """Return the names of the files in FACETS's sources, by source key."""
    return {
        "imagenet": imagenet(),
        "sun397": (
            f"SUN397/{row.category[1:]}/sun_{_letters(number)}.jpg"
            for row in tables.sun397()
            for number in range(row.images)
        ),
        "places365": (f"val_256/Places365_val_{number:08}.jpg" for number in range(1, 36_501)),
        "svhn_full": (
            f"{partition}/{number + 1}.png"
            for partition, expected in SVHN_FULL.expected().items()
            for number in range(expected.total)
        ),
    }


def _listed_sun397() -> Iterator[str]:
    # The categories of the listed images are not published: each gets 26 of them, and is filled up with other names.
    names = iter(published("mos_sun"))
    for row in tables.sun397():
        invented = (f"sun_{_letters(number)}.jpg" for number in range(row.images))
        for name in islice(chain(islice(names, min(26, row.images)), invented), row.images):
            yield f"SUN397{row.category}/{name}"


def _listed_places365() -> Iterator[str]:
    for category in sorted(set(lists.load_list("mos_places").values()) - {lists.UNKNOWN}):
        yield from (f"data_256{category}/{number:08}.jpg" for number in range(1, 5_001))
    yield from (f"val_256/Places365_val_{number:08}.jpg" for number in range(1, 36_501))


def _dtd() -> Iterator[str]:
    listed = published("textures")
    yield from (f"images/{path}" for path in listed)
    for name in sorted(set(tables.dtd()) - {path.partition("/")[0] for path in listed}):
        yield from (f"images/{name}/{name}_{number:04}.jpg" for number in range(1, 121))


def openood() -> dict[str, Iterable[str]]:
    """Return the names of the files in the sources of OpenOOD, MOS and ImageNet-OOD, by source key."""
    wnids = [row.wnid for row in tables.imagenet1k()]
    validation = labels("openood_validation") | labels("openood_test")
    corrupted = ((*path.rpartition("/"), label) for path, label in labels("openood_imagenet_c").items())
    openimages = [name for part in ("", "_validation") for name in published(f"openimage_o{part}")]
    return {
        "imagenet": (f"val/{wnids[label]}/{path}" for path, label in validation.items()),
        "imagenet21k": dict.fromkeys([*published("ssb_hard"), *published("imagenet_ood")]),
        "ninco": published("ninco"),
        "inaturalist": (f"iNaturalist/images/{name}" for name in tables.inaturalist()),
        "dtd": _dtd(),
        "openimage_o": (f"openimage_o/images/{name}" for name in openimages),
        "sun397": _listed_sun397(),
        "places365": _listed_places365(),
        "imagenet_v2": published("imagenet_v2"),
        "imagenet_r": published("imagenet_r"),
        "imagenet_c": (f"{kind}/{wnids[label]}/{name}" for kind, _, name, label in corrupted),
    }


@click.command(epilog="Example: python -m benchmarks.planning.complete_sources facets --scratch /tmp/planning")
@click.argument("benchmark", type=click.Choice(["imagenet", "facets", "openood"]))
@click.option("--scratch", type=click.Path(path_type=Path), required=True, help="1.7 million free inodes.")
@click.option("--repeats", default=3, show_default=True, help="Rounds of each side; the median counts.")
def main(benchmark: str, scratch: Path, repeats: int) -> None:
    """Plan a benchmark from complete sources of empty files, and scan their folders."""
    scratch /= "sources"
    plan = [sys.executable, "-m", f"builders.{benchmark}_benchmark", "--dry-run", "--out", str(scratch / "out")]
    plans: dict[int, list[str]] = {}
    if benchmark == "imagenet":
        for per_cent in (4, 100):
            root = scratch / str(per_cent)
            files = _touch(root, imagenet(per_cent))
            run_process([sys.executable, "-c", SCAN, str(root)])  # the first scan warms the cache and is nobody's
            plans[files] = [*plan, "--allow-partial", "--splits", SPLITS, "--imagenet", str(root)]
    else:
        sources = {"facets": facets, "openood": openood}[benchmark]()
        files = sum(_touch(scratch / key, paths) for key, paths in sources.items())
        _places365_validation(scratch / "places365")
        for partition, name in (("test", "openimage_o"), ("val", "openimage_o_validation")):
            if "openimage_o" in sources:
                text = "".join(f"openimage_o/images/{file} -1\n" for file in published(name))
                (scratch / "openimage_o" / f"{partition}_openimage_o.txt").write_text(text)
        plans[files] = [*plan, *(word for key in sources for word in (f"--{key}", str(scratch / key)))]
    if benchmark == "openood":
        command = [*plans[files], "--json", "--quiet"]
        print(json.dumps(json.loads(subprocess.run(command, check=True, capture_output=True).stdout), indent=1))
    scan = [sys.executable, "-c", SCAN, str(root if benchmark == "imagenet" else scratch)]
    run_process(scan)  # the first scan warms the cache and is nobody's
    runs = {
        f"plan {count:,}": Run(lambda: None, lambda command=command: run_process(command))  # type: ignore[misc]
        for count, command in plans.items()
    }
    results = interleave(runs | {"bare os.walk": Run(lambda: None, lambda: run_process(scan))}, repeats)
    report(results, "bare os.walk", f"planning.complete_sources, {benchmark}", files=files)
    for count in plans:
        print(f"{count:,} files: {results[f'plan {count:,}'].median / count * 1e6:.2f} us a file")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
