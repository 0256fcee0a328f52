"""The demo's COCO: its annotations are of what is drawn, and like the real ones."""

import json
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from taxonomy import tables
from tests.builders import coco_oracle

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module")
def annotations(demo):
    return json.loads((demo["coco2017"] / "annotations" / "instances_train2017.json").read_text())


def test_pictures_have_the_sizes_of_their_annotations(demo, annotations):
    for image in annotations["images"]:
        with Image.open(demo["coco2017"] / "train2017" / image["file_name"]) as picture:
            assert picture.size == (image["width"], image["height"])
    assert len(annotations["images"]) == 96


def test_masks_lie_on_what_is_drawn(demo):
    """Inside the mask of an image's last object, most of the picture has one colour: less at edges, and as encoded."""
    coco = coco_oracle.read(demo["coco2017"] / "annotations" / "instances_train2017.json")
    examined = 0
    for image in coco.dataset["images"]:
        objects = coco.loadAnns(coco.getAnnIds(imgIds=[image["id"]]))
        if not objects or coco.annToMask(objects[-1]).sum() < 150:
            continue
        with Image.open(demo["coco2017"] / "train2017" / image["file_name"]) as picture:
            pixels = np.asarray(picture.convert("RGB")).astype(int)[coco.annToMask(objects[-1]) > 0]
        middle = np.median(pixels, axis=0)
        assert (np.abs(pixels - middle).max(axis=1) < 60).mean() > 0.6, image["file_name"]
        examined += 1
    assert examined > 60


def test_the_oddities_of_the_real_annotations_are_there(annotations):
    objects = annotations["annotations"]
    annotated = {entry["image_id"] for entry in objects}
    unannotated = [image["id"] for image in annotations["images"] if image["id"] not in annotated]
    assert len(unannotated) == 2
    crowds = [entry["segmentation"] for entry in objects if entry["iscrowd"]]
    assert crowds and all(sum(mask["counts"]) == np.prod(mask["size"]) for mask in crowds)
    assert [entry["image_id"] for entry in objects if entry["bbox"][3] == 0] == [200_365]
    repeated = Counter((entry["image_id"], json.dumps(entry["segmentation"])) for entry in objects)
    assert sum(times == 2 for times in repeated.values()) >= 17
    assert {category["id"] for category in annotations["categories"]} == {item.id for item in tables.coco80()}


def test_listed_images_have_what_the_lists_say(demo):
    coco = coco_oracle.read(demo["coco2017"] / "annotations" / "instances_train2017.json")
    listed = {image.image_id: image for image in tables.cocomagenet_images()}
    several, alone = coco_oracle.cocomagenet(coco, 10_000), coco_oracle.mono(coco, 10_000, ())
    assert {listed[number].split for number in several} == {"cocomagenet"}
    for name, images in alone.items():
        assert {listed[number].category for number in images if number in listed} == {name}
