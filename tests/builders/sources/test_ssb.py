"""The two sources of the Semantic Shift Benchmark: their owners' counts, and copies of all images in one place."""

import collections
import re

import pytest

from builders.sources.datasets import cub200, fgvc_aircraft
from builders.sources.registry import SOURCES
from tests.builders.trees import linked, opened, tree


def test_the_counts_are_the_owners():
    """CUB has 5,794 test images; FGVC-Aircraft 3,333 of 10,000, and 100 of each variant: 33, 33, 34 in turn test."""
    birds, aircraft = (SOURCES[key].expected() for key in ("cub200", "fgvc_aircraft"))
    assert birds["test"].total == 5_794
    assert {*birds["train"].per_class.values()} == {0, 29, 30}
    assert list(aircraft["test"].per_class.values()) == [(33, 33, 34)[place % 3] for place in range(100)]
    train = {name: count for name, count in aircraft["train"].per_class.items() if count}
    assert train == {name: 100 - aircraft["test"].per_class[name] for name in train}


@pytest.mark.parametrize("module", [cub200, fgvc_aircraft])
def test_no_image_is_in_both_partitions(module):
    assert not module.listed_images("train").keys() & module.listed_images("test").keys()


def test_a_birds_folder_and_file_name_the_same_kind():
    for name, folder in {**cub200.listed_images("train"), **cub200.listed_images("test")}.items():
        kind, file = name.split("/")
        assert kind == folder
        assert re.sub(r"_[0-9]{4}_[0-9]+\.jpg$", "", file).lower() == folder[4:].lower()


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("cub200", "CUB_200_2011/images/002.Laysan_Albatross/Laysan_Albatross_0003_1033.jpg"),
        ("fgvc_aircraft", "fgvc-aircraft-2013b/data/images/0000000.jpg"),
    ],
)
def test_an_image_of_neither_list_is_left_alone(demo, tmp_path, key, other):
    """As training images of unknown classes are."""
    root = tree(linked(demo[key], tmp_path / "copy"), {other: b""})
    index = opened(key, root)
    assert collections.Counter(map(len, (part.strays for part in index.partitions))) == {1: 2}  # .DS_Store alone
    assert index.num_rows == opened(key, demo[key]).num_rows
