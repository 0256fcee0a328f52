"""Lists of image numbers: exactly their images, and files that are no such list."""

import json

import pytest

from builders.adopt.copies import adopt
from builders.broad_benchmark import BENCHMARK
from builders.errors import BuildError
from builders.sources.datasets.coco2017 import COCO2017
from builders.sources.opening import open_source
from tests.sentences import stops

SEVERAL, ALONE = "broad-multi-label/cocomagenet", "broad-multi-label/cocomagenet_mono"
LISTED = [397, 450, 620]
"""Numbers that the authors' list of CoComageNet and the demo have."""


@pytest.fixture(scope="module")
def indexes(demo):
    return {"coco2017": open_source(COCO2017, demo["coco2017"], ("train",))}


def adopted(copy, indexes, *keys):
    return adopt(BENCHMARK, keys or (SEVERAL,), copy, indexes, lambda _: None, seed=0)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def ids(numbers):
    return tuple(f"train2017/{number:012d}.jpg" for number in sorted(numbers))


def test_a_list_gives_exactly_its_images(tmp_path, indexes):
    path = write(tmp_path / "CoComageNet.json", {"-1": LISTED[::-1]})
    for copy in (path, tmp_path):
        choice = adopted(copy, indexes)
        assert choice[SEVERAL].source_ids == ids(LISTED)
        assert choice[SEVERAL].class_ids == ("several",)


def test_lists_of_both_splits_are_found_in_the_authors_repository(tmp_path, indexes):
    write(tmp_path / "broad" / "CoComageNet.json", {"-1": LISTED})
    write(tmp_path / "broad" / "CoComageNet-mono.json", {"340": [34], "879": [36]})  # zebra and umbrella
    choice = adopted(tmp_path, indexes, SEVERAL, ALONE)
    assert choice[SEVERAL].source_ids == ids(LISTED)
    assert (choice[ALONE].source_ids, choice[ALONE].class_ids) == (ids([34, 36]), ("umbrella", "zebra"))


def test_a_split_without_a_list_is_drawn(tmp_path, indexes):
    write(tmp_path / "CoComageNet.json", {"-1": LISTED})
    assert set(adopted(tmp_path, indexes, SEVERAL, ALONE)) == {SEVERAL}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"-1": [*LISTED, 397]}, "lists the image 397 twice"),
        ({"-1": LISTED, "340": [450]}, "lists the image 450 twice"),
        ({"-1": []}, "lists no image"),
        ({"-1": ["397"]}, "is not a list of image numbers by label"),
        (LISTED, "is not a list of image numbers by label"),
        ('{"-1": [397', "is not a list of image numbers by label"),
        ({"-1": [397, 581_921, 581_920]}, "lacks 2 of the 3 images that"),
    ],
)
def test_other_files_are_refused(tmp_path, indexes, content, words):
    path = write(tmp_path / "CoComageNet.json", content)
    with pytest.raises(BuildError) as caught:
        adopted(tmp_path, indexes)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_folder_without_lists_is_refused(tmp_path, indexes):
    with stops(BuildError, "CoComageNet.json", SEVERAL):
        adopted(tmp_path, indexes)


def test_two_lists_of_one_split_are_refused(tmp_path, indexes):
    for name in ("a", "b"):
        write(tmp_path / name / "CoComageNet.json", {"-1": LISTED})
    with stops(BuildError, SEVERAL):
        adopted(tmp_path, indexes)
