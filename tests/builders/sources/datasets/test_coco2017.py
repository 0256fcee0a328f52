"""COCO's training images: what its annotations say of them, and copies that cannot be used."""

import functools
import json

import pytest

from builders.sources.base import Stray
from builders.sources.datasets.coco2017 import OTHER, SEVERAL, classes
from builders.sources.registry import SOURCES
from tests.builders.broad_layouts import coco2017_parquet
from tests.builders.trees import link, opened, refusal, tree
from tests.sentences import assert_sentence

FILE = "annotations/instances_train2017.json"
CAT, BANANA, ORANGE, PERSON, ZEBRA, HOT_DOG = 17, 52, 55, 1, 24, 58


def box(x0, y0, x1, y1):
    return [float(side) for point in ((x0, y0), (x1, y0), (x1, y1), (x0, y1)) for side in point]


def write_copy(root, images, categories, **fields):
    """Write empty images of 20 x 10 pixels and their annotations: {number: [(category, box, ...)]}."""
    content = {
        "licenses": [{"id": 4, "url": "http://creativecommons.org/licenses/by/2.0/", "name": "Attribution License"}],
        "images": [
            {
                "id": number,
                "file_name": f"{number:012d}.jpg",
                "width": 20,
                "height": 10,
                "license": 4,
                "flickr_url": f"http://farm1.staticflickr.com/{number}.jpg",
            }
            for number in images
        ],
        "annotations": [
            {
                "id": 10 * number + place,
                "image_id": number,
                "category_id": category,
                "area": 8.0 * (place + 1),
                "iscrowd": 0,
                "segmentation": [corners],
            }
            for number, objects in images.items()
            for place, (category, corners) in enumerate(objects)
        ],
        "categories": categories,
    }
    files = {f"train2017/{number:012d}.jpg": b"" for number in images}
    return tree(root, {FILE: json.dumps(content | fields), **files})


@pytest.fixture(scope="module")
def categories(demo):
    return json.loads((demo["coco2017"] / FILE).read_text())["categories"]


IMAGES = {
    # The paper's examples: a person with bananas is of the class banana, a cat beside a banana is not.
    1: [(PERSON, box(0, 0, 5, 10)), (BANANA, box(10, 0, 20, 10)), (BANANA, box(15, 0, 20, 10))],
    2: [(CAT, box(0, 0, 5, 10)), (BANANA, box(10, 0, 20, 10))],
    # Two of the 17, and a hot dog, whose name has two words.
    3: [
        (ORANGE, box(0, 0, 4, 10)),
        (BANANA, box(4, 0, 14, 10)),
        (ORANGE, box(2, 0, 6, 10)),
        (HOT_DOG, box(0, 0, 20, 10)),
    ],
    4: [(PERSON, box(0, 0, 5, 10))],
    5: [(HOT_DOG, box(0, 0, 5, 10))],
    6: [],
    # Twice what it has, as COCO's image 99844.
    7: [(ZEBRA, box(0, 0, 2, 10)), (ZEBRA, box(0, 0, 2, 10))],
}


def test_classes_and_values_follow_the_masks(tmp_path, categories):
    table = opened("coco2017", write_copy(tmp_path, IMAGES, categories)).table
    rows = {int(row["source_id"][10:22]): row for row in table.to_pylist()}
    assert {number: row["class_id"] for number, row in rows.items()} == {
        1: "banana",
        2: OTHER,
        3: SEVERAL,
        4: OTHER,
        5: OTHER,
        7: "zebra",
    }
    # By hand: of 200 pixels image 3 has bananas on 100 and oranges on 60, of which 20 are theirs twice.
    assert (rows[3]["categories"], rows[3]["wnids"]) == ("banana, orange", "n07753592, n07747607")
    assert (rows[3]["largest_area"], rows[3]["second_area"]) == (0.5, 0.3)
    assert (rows[3]["area_banana"], rows[3]["area_orange"], rows[3]["area_zebra"]) == (0.5, 0.3, 0.0)
    # The annotated areas of its objects are 8, 16, 24 and 32; of the oranges the last is the third.
    assert (rows[3]["largest_object_area"], rows[3]["second_object_area"]) == (24 / 200, 16 / 200)
    assert (rows[1]["categories"], rows[1]["largest_area"], rows[1]["second_area"]) == ("banana", 0.5, 0.0)
    assert rows[1]["largest_object_area"] == 24 / 200
    assert rows[7]["largest_area"] == 0.1
    assert (rows[4]["categories"], rows[4]["wnids"], rows[4]["largest_area"]) == ("", "", 0.0)
    assert rows[1]["licence"] == "http://creativecommons.org/licenses/by/2.0/"
    assert rows[1]["flickr_url"] == "http://farm1.staticflickr.com/1.jpg"


def test_the_17_classes_are_in_cocos_order():
    names = list(classes())
    assert (names[0], names[16:], len(names)) == ("zebra", ["vase", SEVERAL, OTHER], 19)


def test_images_that_only_one_side_has_are_told(tmp_path, categories):
    root = write_copy(tmp_path, IMAGES, categories)
    (root / "train2017" / "000000000003.jpg").unlink()
    tree(root, {"train2017/000000000099.jpg": b"", "train2017/3.jpg": b""})
    (partition,) = opened("coco2017", root).partitions
    assert partition.missing.to_pylist() == ["train2017/000000000003.jpg"]  # 6 has no annotation and is not asked for
    assert partition.strays == (
        Stray("train2017/000000000099.jpg", "its number is not in instances_train2017.json"),
        Stray("train2017/3.jpg", "not named <12 digits>.jpg"),
    )


def test_a_mirror_without_unannotated_images_has_the_same_values_and_lacks_nothing(demo, laid_out):
    columns = ["source_id", *(column.name for column in SOURCES["coco2017"].columns)]
    folder, mirror = (opened("coco2017", root) for root in (demo["coco2017"], laid_out("coco2017", coco2017_parquet)))
    tables = (index.table.select(columns).sort_by("source_id") for index in (folder, mirror))
    assert next(tables).equals(next(tables))
    assert not any(len(index.partitions[0].missing) for index in (folder, mirror))


def damaged(root, demo, change):
    """The demo with other annotations: text in their place, or a value at a path in them, None to leave it out."""
    link(demo["coco2017"] / "train2017", root / "train2017")
    text = (demo["coco2017"] / FILE).read_text()
    if callable(change):
        return tree(root, {FILE: change(text)})
    content = json.loads(text)
    *path, last, value = change
    place = functools.reduce(lambda inner, key: inner[key], path, content)
    if value is None:
        del place[last]
    elif last == "append":
        place.append(place[value])
    else:
        place[last] = value
    return tree(root, {FILE: json.dumps(content)})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("annotations", 5, "segmentation", None), "missing required field `segmentation` - at `$.annotations[5]`"),
        (("images", "append", 0), "has the image 34 twice"),
        (("annotations", 3, "area", float("nan")), "JSON is malformed"),
        (("annotations", 0, "image_id", 599_999), "has the annotation 1 of the image 599999 or the category"),
        (("annotations", 0, "category_id", 12), "or the category 12, which it does not list"),
        (("categories", 0, "name", "people"), "has other categories than COCO's 80"),
        (("images", 0, "file_name", "COCO_train2014_000000000034.jpg"), "calls the image 34 COCO_train2014_"),
        (("images", []), "has no images or no annotations"),
        (("images", 0, "width", 10**6), "Expected `int` <= 16384"),
        (("images", 0, "flickr_url", "javascript:alert(1)"), "Expected `str` matching regex"),
        (("annotations", None), "missing required field `annotations`"),
        (lambda text: text[:-200], "Input data was truncated"),
        (lambda text: "", "Input data was truncated"),
        (lambda text: "PK\x03\x04", "JSON is malformed"),
        (lambda text: b"\xff" + text.encode(), "JSON is malformed"),
        (lambda text: '{"images": ' + "[" * 200_000, "is not a whole file of COCO's annotations"),
        (lambda text: '{"annotations": [{"segmentation": ' + "[" * 200_000, "maximum recursion depth"),
        (lambda text: "[]", "Expected `object`, got `array`"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged_annotations_are_refused(demo, tmp_path, change, words):
    message = refusal("coco2017", damaged(tmp_path, demo, change))
    assert words in message
    assert_sentence(message, "annotations_trainval2017.zip")


def test_a_file_beyond_reason_is_not_read(demo, tmp_path):
    root = damaged(tmp_path, demo, lambda text: "")
    with (root / FILE).open("r+b") as file:
        file.truncate(2**31)  # sparse: no disk is used
    assert "has 2,147,483,648 bytes, more than COCO's annotations" in refusal("coco2017", root)


def test_images_without_annotations_beside_them_are_refused(demo, tmp_path):
    link(demo["coco2017"] / "train2017", tmp_path / "train2017")
    message = refusal("coco2017", tmp_path)
    assert "no annotations/instances_train2017.json" in message
    assert "Unpack annotations_trainval2017.zip" in message


def test_a_packed_zip_is_named(tmp_path):
    message = refusal("coco2017", tree(tmp_path, {"train2017.zip": b"PK"}))
    assert_sentence(message, "train2017.zip")
