"""Copies that are whole for what is drawn from them, and copies that are not."""

import dataclasses

import pyarrow as pa
import pytest

from builders.cifar_benchmark import BENCHMARK as CIFAR
from builders.facets_benchmark import BENCHMARK as FACETS
from builders.imagenet_benchmark import BENCHMARK as IMAGENET
from builders.plan.completeness import count_shortfalls
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders.indexes import counted_index
from tests.builders.trees import tree

CALTECH45 = IMAGENET.parts["imagenet/far_ood_caltech45"].class_ids(0)
PLACES82 = IMAGENET.parts["imagenet/far_ood_places82"].class_ids(0)
CLUTTER = "257.clutter"


def copy_of(key, partition, counts, **fields):
    """The index of a copy that has so many images of each class."""
    return counted_index(SOURCES[key], {partition: counts}, **fields)


def counts_of(key, partition):
    return dict(SOURCES[key].expected()[partition].per_class)


def parts_with_counts():
    """Every partition with counts by class, and for each benchmark the classes that a split needs of it."""
    ids = {}
    for benchmark in (IMAGENET, CIFAR, FACETS):
        for part, split in benchmark.parts.items():
            for partition in split.partitions:
                if split.source.on_disk and split.source.expected()[partition].per_class:
                    place = (split.source.key, partition, tuple(split.class_ids(0)))
                    ids.setdefault((benchmark.name, *place[:2]), pytest.param(*place, id=f"{part}-{partition}"))
    return ids.values()


@pytest.mark.parametrize(("key", "partition", "needed"), parts_with_counts())
def test_the_needed_classes_alone_are_whole_and_one_image_less_is_not(key, partition, needed):
    counts = {name: counts_of(key, partition)[name] for name in needed}
    assert count_shortfalls(copy_of(key, partition, counts), (partition,), needed) == []
    short = needed[len(needed) // 2]
    (sentence,) = count_shortfalls(copy_of(key, partition, counts | {short: counts[short] - 1}), (partition,), needed)
    name = SOURCES[key].classes()[short]
    assert sentence.endswith(f": expected {counts[short]:,} images of {short} ({name}), found {counts[short] - 1:,}")


def test_all_classes_without_clutter_are_whole_for_caltech45():
    counts = counts_of("caltech256", "images")
    del counts[CLUTTER]
    assert count_shortfalls(copy_of("caltech256", "images", counts), ("images",), CALTECH45) == []
    assert count_shortfalls(copy_of("caltech256", "images", counts), ("images",), [*CALTECH45, CLUTTER]) == [
        "Caltech-256, images (made up): expected 827 images of 257.clutter (clutter), found 0"
    ]


@pytest.mark.parametrize("other", [CLUTTER, "250.zebra", "133.lightning"])
def test_a_needed_image_is_missed_also_where_another_is_one_more(other):
    counts = counts_of("caltech256", "images")
    counts[other] += 1
    needed = next(name for name in CALTECH45 if name != other)
    counts[needed] -= 1
    assert sum(counts.values()) == 30_607
    (sentence,) = count_shortfalls(copy_of("caltech256", "images", counts), ("images",), CALTECH45)
    assert f"of {needed} " in sentence
    assert "although the total is right" in sentence


def test_a_class_with_too_many_images_is_told():
    counts = counts_of("caltech256", "images")
    counts["133.lightning"] += 2
    (sentence,) = count_shortfalls(copy_of("caltech256", "images", counts), ("images",), CALTECH45)
    assert sentence.endswith("expected 136 images of 133.lightning (lightning), found 138")


def test_what_is_wrong_with_other_classes_does_not_matter():
    counts = counts_of("imagenet", "train")
    tench, goldfish = list(counts)[:2]
    counts[tench] -= 3
    assert count_shortfalls(copy_of("imagenet", "train", counts), ("train",), [goldfish]) == []


def places(count, names=PLACES82):
    return dict.fromkeys(names, count)


@pytest.mark.parametrize("others", [0, 10])
def test_places365_train_with_the_needed_categories_alone_is_taken_as_whole(others):
    counts = {row.category: others for row in tables.places365()} | places(4_900) | {PLACES82[0]: 3_068}
    assert count_shortfalls(copy_of("places365", "train", counts), ("train",), PLACES82) == []


@pytest.mark.parametrize("count", [3_067, 5_001, 0])
def test_a_places365_category_beyond_the_published_sizes_is_told(count):
    counts = places(4_900) | {PLACES82[3]: count}
    (sentence,) = count_shortfalls(copy_of("places365", "train", counts), ("train",), PLACES82)
    name = SOURCES["places365"].classes()[PLACES82[3]]
    assert sentence.endswith(f"expected 3,068 to 5,000 images of {PLACES82[3]} ({name}), found {count:,}")


def test_places365_train_with_all_categories_must_have_the_right_total():
    names = [row.category for row in tables.places365()]
    # 1,803,460 = 365 * 4,940 + 360
    counts = {name: 4_940 + (number < 360) for number, name in enumerate(names)}
    assert count_shortfalls(copy_of("places365", "train", counts), ("train",), PLACES82) == []
    counts[names[0]] -= 1
    (sentence,) = count_shortfalls(copy_of("places365", "train", counts), ("train",), PLACES82)
    assert sentence.endswith("expected 1,803,460 images, found 1,803,459")


def test_the_needed_categories_must_leave_others_a_possible_size():
    # With 5,000 images in each of the 283 others, the 82 would still have 1,803,460 - 283 * 5,000 = 388,460.
    (sentence,) = count_shortfalls(copy_of("places365", "train", places(4_500)), ("train",), PLACES82)
    assert sentence.endswith("expected 388,460 to 935,216 images in the 82 classes that are needed, found 369,000")


def test_the_owners_list_tells_of_one_image_less():
    names = [row.category for row in tables.places365()]
    listed = {name: 4_940 + (number < 360) for number, name in enumerate(names)}
    needed = {name: listed[name] for name in PLACES82}
    assert count_shortfalls(copy_of("places365", "train", needed, listed=listed), ("train",), PLACES82) == []
    category = PLACES82[5]
    gone = pa.array([f"train{names[0]}/00000001.jpg", f"train{category}/00000007.jpg"])
    short = needed | {category: needed[category] - 1}
    (sentence,) = count_shortfalls(
        copy_of("places365", "train", short, listed=listed, missing=gone), ("train",), PLACES82
    )
    assert f"expected {listed[category]:,} images of {category} " in sentence
    assert sentence.endswith(f"the first that its list names and the copy lacks is train{category}/00000007.jpg")


def test_places365_counts_the_owners_list(tmp_path):
    files = {"data_256/a/airfield/00000001.jpg": ""}
    files["places365_train_standard.txt"] = (
        "/a/airfield/00000001.jpg 0\n/a/airfield/00000002.jpg 0\n/z/zen_garden/00000001.jpg 364\n"
    )
    (partition,) = open_source(SOURCES["places365"], tree(tmp_path, files), ("train",)).partitions
    assert {name: count for name, count in partition.listed.items() if count} == {"/a/airfield": 2, "/z/zen_garden": 1}
    assert len(partition.listed) == 365


def test_a_source_without_any_counts_by_class_goes_by_its_total():
    source = dataclasses.replace(SOURCES["caltech256"], expected=lambda: {"images": complete_only(3)})
    index = dataclasses.replace(copy_of("caltech256", "images", {"133.lightning": 2}), source=source)
    assert count_shortfalls(index, ("images",), CALTECH45) == [
        "Caltech-256, images (made up): expected 3 images, found 2"
    ]


def complete_only(total):
    return type(SOURCES["caltech256"].expected()["images"])(total)


def test_empty_folders_and_strays_of_the_genuine_caltech_archive_change_no_count(tmp_path):
    counts = {"056.dog": 102, "198.spider": 108}
    files = {
        f"256_ObjectCategories/{name}/{name[:3]}_{number:04d}.jpg": ""
        for name, count in counts.items()
        for number in range(1, count + 1)
    }
    tree(tmp_path, files | {"256_ObjectCategories/198.spider/RENAME2": "x"})
    (tmp_path / "256_ObjectCategories/056.dog/greg/vision309").mkdir(parents=True)
    index = open_source(SOURCES["caltech256"], tmp_path, ("images",))
    assert count_shortfalls(index, ("images",), sorted(counts)) == []
    assert {stray.path.rpartition("/")[2]: stray.reason for stray in index.partitions[0].strays} == {
        "greg": "a folder",
        "RENAME2": "not named 198_<4 digits>.jpg",
    }
