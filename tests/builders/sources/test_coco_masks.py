"""Areas of unions of masks, against pycocotools's own class and against pixels."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.errors import BuildError
from builders.sources.coco_annotations import category_areas, read_instances
from builders.sources.datasets.coco2017 import shared
from taxonomy import tables
from tests.builders import coco_oracle
from tests.sentences import assert_sentence, stops

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

ZEBRA, SKIS, PERSON = 24, 35, 1
WIDTH, HEIGHT = 40, 30


def annotation(number, segmentation, category=ZEBRA, image=7):
    return {
        "id": number,
        "image_id": image,
        "category_id": category,
        "area": 1.0,
        "iscrowd": int(isinstance(segmentation, dict)),
        "segmentation": segmentation,
    }


def content(*annotations):
    return {
        "images": [{"id": 7, "file_name": "000000000007.jpg", "width": WIDTH, "height": HEIGHT, "license": 1}],
        "annotations": list(annotations),
        "categories": [{"id": category.id, "name": category.name} for category in tables.coco80()],
    }


def areas_of(path, *annotations, categories=(ZEBRA, SKIS)):
    path.write_text(json.dumps(content(*annotations)))
    return category_areas(read_instances(path), categories)[0].tolist()


def test_areas_of_the_demo_are_those_of_a_plain_loop(demo):
    path = demo["coco2017"] / "annotations" / "instances_train2017.json"
    instances = read_instances(path)
    names = [name for name, _ in shared().values()]
    areas = category_areas(instances, list(shared()))
    expected = coco_oracle.portions(coco_oracle.read(path))
    parts = {
        image.id: {name: area / (image.width * image.height) for name, area in zip(names, row, strict=True) if area}
        for image, row in zip(instances.images, areas.tolist(), strict=True)
    }
    covered = {image: {name: part for name, part in row.items() if part} for image, row in expected.items()}
    assert parts == covered
    assert sum(len(row) >= 2 for row in parts.values()) == 40


BOX = [2.0, 3.0, 12.0, 3.0, 12.0, 8.0, 2.0, 8.0]  # 10 x 5 pixels, corners on the grid


def test_what_overlaps_counts_once(tmp_path):
    path = tmp_path / "a.json"
    shifted = [x + 5 * (place % 2 == 0) for place, x in enumerate(BOX)]
    assert areas_of(path, annotation(1, [BOX])) == [50, 0]
    assert areas_of(path, annotation(1, [BOX]), annotation(2, [BOX])) == [50, 0]
    assert areas_of(path, annotation(1, [BOX, shifted])) == [75, 0]
    assert areas_of(path, annotation(1, [BOX]), annotation(2, [shifted], SKIS)) == [50, 50]


def test_a_crowd_joins_the_rest_of_its_category(tmp_path):
    column = {"size": [HEIGHT, WIDTH], "counts": [0, 2 * HEIGHT, HEIGHT * (WIDTH - 2)]}  # the first two columns
    assert areas_of(tmp_path / "a.json", annotation(1, column), annotation(2, [BOX])) == [2 * HEIGHT + 50, 0]


def test_lines_and_points_cover_nothing(tmp_path):
    path = tmp_path / "a.json"
    assert areas_of(path, annotation(1, [[2.0, 3.0, 9.0, 9.0], [1.0, 1.0]]), annotation(2, [BOX], SKIS)) == [0, 50]
    assert areas_of(path, annotation(1, [[]]), annotation(2, [BOX], SKIS)) == [0, 50]


def test_other_categories_are_not_looked_at(tmp_path):
    assert areas_of(tmp_path / "a.json", annotation(1, "nonsense", PERSON), annotation(2, [BOX])) == [50, 0]


points = st.tuples(st.floats(0, WIDTH), st.floats(0, HEIGHT))
polygons = st.lists(points, min_size=3, max_size=8).map(lambda found: [side for point in found for side in point])


@settings(max_examples=60)
@given(st.lists(polygons, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_the_union_of_any_polygons(tmp_path_factory, drawn, order):
    path = tmp_path_factory.mktemp("union") / "a.json"
    expected = coco_oracle.merged_area(drawn, HEIGHT, WIDTH)
    (union, _) = areas_of(path, annotation(1, drawn))
    assert union == expected
    # Neither the order, nor repetition, nor the division into objects changes a union.
    mixed = order.sample(drawn, len(drawn)) + drawn[:1]
    assert areas_of(path, *(annotation(number, [polygon]) for number, polygon in enumerate(mixed))) == [union, 0]
    areas = [areas_of(path, annotation(1, [polygon]))[0] for polygon in drawn]
    assert max(areas) <= union <= min(sum(areas), WIDTH * HEIGHT)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), polygons)
def test_the_union_with_a_crowd(tmp_path_factory, seed, polygon):
    path = tmp_path_factory.mktemp("union") / "a.json"
    pixels = np.random.default_rng(seed).random((HEIGHT, WIDTH)) < 0.5
    flat = pixels.T.reshape(-1)
    changes = np.flatnonzero(np.diff(np.concatenate([[False], flat]))).tolist()
    counts = np.diff([0, *changes, flat.size]).tolist()
    crowd = annotation(1, {"size": [HEIGHT, WIDTH], "counts": counts})
    assert areas_of(path, crowd) == [int(pixels.sum()), 0]
    (alone, _), (union, _) = areas_of(path, annotation(2, [polygon])), areas_of(path, crowd, annotation(2, [polygon]))
    assert max(alone, int(pixels.sum())) <= union <= alone + int(pixels.sum())


@pytest.mark.parametrize(
    ("segmentation", "words"),
    [
        ([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]], "7 numbers are not pairs of x and y"),
        ([[1.0, 2.0, 3.0, 4.0, 5e9, 6.0]], "far outside of the 40 x 30 pixels"),
        ([[1.0, 2.0, 3.0, -4e5, 5.0, 6.0]], "far outside of the 40 x 30 pixels"),
        ([["a", 2.0]], "Expected `float`, got `str`"),
        ([1.0, 2.0], "Expected `array`, got `float`"),
        (None, "got `null`"),
        ("3;Tf0", "got `str`"),
        ({"size": [WIDTH, HEIGHT], "counts": [WIDTH * HEIGHT]}, "has 30 x 40 pixels (1,200 in its runs), its image"),
        ({"size": [HEIGHT, WIDTH], "counts": [5, 5]}, "has 40 x 30 pixels (10 in its runs), its image 40 x 30"),
        ({"size": [HEIGHT, WIDTH], "counts": [-5, 1205]}, "`int` >= 0"),
        ({"size": [HEIGHT, WIDTH], "counts": "compressed"}, "Expected `array`, got `str`"),
        ({"size": [HEIGHT, WIDTH]}, "missing required field `counts`"),
    ],
)
def test_malformed_masks_are_refused(tmp_path, segmentation, words):
    path = tmp_path / "a.json"
    with pytest.raises(BuildError) as caught:
        areas_of(path, annotation(31, segmentation))
    message = str(caught.value)
    assert words in message
    assert_sentence(message, path, "annotations_trainval2017.zip")
    assert "\n" not in message


def test_boxes_alone_are_refused(tmp_path):
    with stops(BuildError, "a.json"):
        areas_of(tmp_path / "a.json", annotation(1, []), annotation(2, [], SKIS))
