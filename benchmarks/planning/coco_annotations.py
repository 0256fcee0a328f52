"""Planning CoComageNet from annotations of COCO's size, and against a plain pycocotools loop on a tenth of it.

`python -m benchmarks.planning.coco_annotations --scratch DIR` writes an annotation file as large as
`instances_train2017.json` (118,287 images, 860,001 objects of which 10,052 are crowds, about 450 MB) with polygons of
such sizes and lengths as the first 128 training images have, and a folder of empty files with the images' names. It
plans the multi-label config of BROAD from them as a dry run, with time and memory of the whole command. Then both
sides read a tenth of the file in turn: ours, and the loop that a person would write with pycocotools's own class.
Their areas are compared on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rivals import Run, interleave, report, run_process
from builders.sources.coco_annotations import FILE
from builders.sources.datasets.coco2017 import image_name, shared
from taxonomy import tables

IMAGES, OBJECTS, CROWDS = 118_287, 860_001, 10_052
SHARED_PART = 0.13
"""The part of COCO's objects that are of the 17 categories, about: 114,000 of 860,001."""

# Of the 939 objects of the first 128 training images: the tenth, half and nine tenths of the areas are below 96, 1,562
# and 33,082 pixels; half of the polygons have at most 16 points.
MEDIAN_AREA, AREA_SIGMA = 1_562.0, 2.38
MEDIAN_POINTS, POINTS_SIGMA = 16.0, 0.75
RUNS = 600

OURS = """
import sys
from pathlib import Path
import numpy as np
from builders.sources.datasets.coco2017 import shared
from builders.sources.coco_annotations import category_areas, read_instances
np.save(sys.argv[2], category_areas(read_instances(Path(sys.argv[1])), list(shared())))
"""

LOOP = """
import sys
import numpy as np
from pycocotools import mask
from pycocotools.coco import COCO
coco = COCO(sys.argv[1])
wanted = [int(number) for number in sys.argv[3].split(",")]
images = sorted(coco.getImgIds())
areas = np.zeros((len(images), len(wanted)), np.int64)
for row, image in enumerate(images):
    masks = {}
    for one in coco.loadAnns(coco.getAnnIds(imgIds=[image])):
        if one["category_id"] in wanted:
            masks.setdefault(one["category_id"], []).append(coco.annToRLE(one))
    for category, runs in masks.items():
        areas[row, wanted.index(category)] = mask.area(mask.merge(runs))
np.save(sys.argv[2], areas)
"""


def _polygon(rng: np.random.Generator, width: int, height: int) -> tuple[list[float], float, list[float]]:
    """Draw a polygon around a point of the image; returns coordinates, area and box."""
    area = min(MEDIAN_AREA * float(np.exp(AREA_SIGMA * rng.standard_normal())), 0.8 * width * height)
    points = int(np.clip(MEDIAN_POINTS * np.exp(POINTS_SIGMA * rng.standard_normal()), 4, 200))
    angles = np.sort(rng.random(points)) * 2 * np.pi
    radius = (area / np.pi) ** 0.5 * (0.7 + 0.6 * rng.random(points))
    x = np.clip(rng.random() * width + radius * np.cos(angles), 0, width).round(2)
    y = np.clip(rng.random() * height + radius * np.sin(angles), 0, height).round(2)
    covered = abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
    box = [float(x.min()), float(y.min()), float(np.ptp(x)), float(np.ptp(y))]
    return np.column_stack([x, y]).reshape(-1).tolist(), covered, box


def _crowd(rng: np.random.Generator, width: int, height: int) -> dict[str, list[int]]:
    cuts = np.sort(rng.choice(width * height, RUNS, replace=False))
    return {"counts": np.diff(np.concatenate([[0], cuts, [width * height]])).tolist(), "size": [height, width]}


def write_annotations(path: Path, images: int, objects: int, crowds: int) -> list[int]:
    """Write a file of annotations; returns the numbers of its images."""
    rng = np.random.default_rng(0)
    numbers = np.sort(rng.choice(581_921, images, replace=False) + 1).tolist()
    sizes = [(640, 480) if upright else (427, 640) for upright in (rng.random(images) < 0.7).tolist()]
    ids = [category.id for category in tables.coco80()]
    shared_ids = list(shared())
    other_ids = [number for number in ids if number not in shared_ids]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="ascii") as file:
        licences = [{"url": "http://creativecommons.org/licenses/by/2.0/", "id": 4, "name": "Attribution License"}]
        described = [
            {
                "license": 4,
                "file_name": image_name(number),
                "coco_url": f"http://images.cocodataset.org/train2017/{image_name(number)}",
                "height": height,
                "width": width,
                "date_captured": "2013-11-14 11:18:45",
                "flickr_url": f"http://farm9.staticflickr.com/8186/{number}_4e622c8349_z.jpg",
                "id": number,
            }
            for number, (width, height) in zip(numbers, sizes, strict=True)
        ]
        head = {"info": {"description": "made up"}, "licenses": licences, "images": described}
        file.write(json.dumps(head)[:-1] + ', "annotations": [')
        for place in range(objects):
            image = int(rng.integers(images))
            width, height = sizes[image]
            pool = shared_ids if rng.random() < SHARED_PART else other_ids
            crowd = place >= objects - crowds
            points, area, box = _polygon(rng, width, height)
            annotation: dict[str, Any] = {
                "segmentation": _crowd(rng, width, height) if crowd else [points],
                "area": area,
                "iscrowd": int(crowd),
                "image_id": numbers[image],
                "bbox": box,
                # Squared, so that a few categories have most objects.
                "category_id": pool[int(rng.random() ** 2 * len(pool))],
                "id": place + 1,
            }
            file.write(", " * bool(place) + json.dumps(annotation))
        categories = [{"id": category.id, "name": category.name} for category in tables.coco80()]
        file.write('], "categories": ' + json.dumps(categories) + "}")
    return numbers


def _write_images(folder: Path, numbers: list[int]) -> None:
    folder.mkdir(parents=True)
    for number in numbers:
        os.close(os.open(folder / image_name(number), os.O_CREAT))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="folder for 500 MB; emptied at the end")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    complete, tenth = args.scratch / "whole", args.scratch / "tenth" / FILE
    _write_images(complete / "train2017", write_annotations(complete / "annotations" / FILE, IMAGES, OBJECTS, CROWDS))
    write_annotations(tenth, IMAGES // 10, OBJECTS // 10, CROWDS // 10)
    plan = [sys.executable, "-m", "builders.broad_benchmark", "--splits", "broad-multi-label", "--dry-run"]
    plan += ["--allow-partial", "--coco2017", str(complete)]
    results = interleave({"plan from whole file": Run(lambda: None, lambda: run_process(plan))}, args.repeats)
    print(f"{(complete / 'annotations' / FILE).stat().st_size / 1e6:,.0f} MB, {IMAGES:,} images, {OBJECTS:,} objects")
    report(results, "plan from whole file")
    own_areas, rival_areas = (args.scratch / f"{name}.npy" for name in ("ours", "theirs"))
    numbers = ",".join(map(str, shared()))
    loop = [sys.executable, "-c", LOOP, str(tenth), str(rival_areas), numbers]
    results = interleave(
        {
            "ours": Run(lambda: None, lambda: run_process([sys.executable, "-c", OURS, str(tenth), str(own_areas)])),
            "pycocotools loop": Run(lambda: None, lambda: run_process(loop)),
        },
        args.repeats,
    )
    print(f"{tenth.stat().st_size / 1e6:,.0f} MB")
    report(results, "pycocotools loop")
    if not np.array_equal(np.load(own_areas), np.load(rival_areas)):
        raise SystemExit("the areas differ")
    shutil.rmtree(args.scratch)


if __name__ == "__main__":
    main()
