"""Hub mirrors without names, with names of their own, or whose names and labels contradict each other."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders.circulating import write_named, write_places365
from tests.builders.trees import refusal, tree, write_parquet
from tests.sentences import assert_sentence

PLACES = [row.category for row in tables.places365()]
SUN = [row.category for row in tables.sun397()]
NAMES = {"dtd": list(tables.dtd()), "sun397": SUN, "imagenet": [row.wnid for row in tables.imagenet1k()]}
TENCH, GOLDFISH = "n01440764", "n01443537"
ABBEY, BALCONY = "sun_aqswjsnjlrfzzhiz.jpg", "sun_bvkmlcpyxfsbywqz.jpg"


def mirror(root, rows, names=None, split="train"):
    """A mirror's only file, with rows of (file name, label)."""
    path = root / "data" / f"{split}-00000-of-00001.parquet"
    write_parquet(path, [(name, label, b"") for name, label in rows], names)
    return root


@pytest.mark.parametrize(
    ("key", "such", "instead"),
    [
        ("caltech256", "ilee0022/Caltech-256 has none", "bitmind/caltech-256, which has a column of file"),
        ("dtd", "GATE-engine/describable_textures has none", "bitmind/dtd, which has a column of file"),
        ("places365", "dpdl-benchmark/Places365-Validation may have none", "Take Andron00e/Places365-custom"),
        ("inaturalist", "holds images without file names", "Take a mirror that kept the file names, or the owners'"),
        ("imagenet", "holds images without file names", "Take the files that the Hub serves for that partition"),
    ],
)
def test_without_file_names_no_id_is_invented(tmp_path, key, such, instead):
    message = refusal(key, mirror(tmp_path, [(None, 0), (None, 1)]), next(iter(SOURCES[key].expected())))
    assert_sentence(message)
    assert such in message
    assert instead in message


@pytest.mark.parametrize(
    ("key", "name", "words"),
    [
        ("caltech256", "133_1.jpg", "is not like <number>.<class>/<number>_<4 digits>.jpg (row 0 of"),
        ("caltech256", "133_1.jpg", "the file name 133.lightning/133_1.jpg is not"),
        ("caltech256", "258_0001.jpg", "the file name 258_0001.jpg is not"),
        ("caltech256", "001.ak47/133_0001.jpg", "the file name 001.ak47/133_0001.jpg is not"),
        ("dtd", "blotchy/banded_0002.jpg", "the file name blotchy/banded_0002.jpg is not"),
        ("dtd", "bandeau_0002.jpg", "the file name bandeau_0002.jpg is not"),
    ],
)
def test_file_names_that_are_not_the_owners(tmp_path, key, name, words):
    write_named(tmp_path / "data" / "train-00000-of-00001.parquet", [(name, b"")], "filename")
    assert words in refusal(key, tmp_path)


def test_folders_before_a_file_name_are_no_part_of_the_id(tmp_path):
    rows = [("/data/256_ObjectCategories/133.lightning/133_0001.jpg", b""), ("001_0001.jpg", b"")]
    write_named(tmp_path / "data" / "train-00000-of-00001.parquet", rows, "filename")
    table = open_source(SOURCES["caltech256"], tmp_path, ("images",)).table
    assert table["source_id"].to_pylist() == ["133.lightning/133_0001.jpg", "001.ak47/001_0001.jpg"]
    assert table["class_id"].to_pylist() == ["133.lightning", "001.ak47"]


def places(root, partition="val"):
    """Classes and ids of a partition."""
    table = open_source(SOURCES["places365"], root, (partition,)).table
    return list(zip(table["class_id"].to_pylist(), table["source_id"].to_pylist(), strict=True))


def test_label_numbers_alone_count_where_folders_say_the_same(tmp_path):
    path = "/x/train/apartment_building-outdoor/00000007.jpg"
    rows = [(path, PLACES.index("/a/apartment_building/outdoor"))]
    assert places(mirror(tmp_path, rows), "train") == [
        ("/a/apartment_building/outdoor", "train/a/apartment_building/outdoor/00000007.jpg")
    ]


@pytest.mark.parametrize(
    ("key", "row", "names", "words"),
    [
        ("places365", ("Places365_val_00000300.jpg", 7), None, "is in no category's folder, and label numbers"),
        ("places365", ("x/00000001.jpg", 7), None, "x/00000001.jpg is in no category's folder"),
        ("places365", ("Places365_val_00000300.jpg", 2), ["airfield", "alley"], "the label 2 has no name (row 0 of"),
        ("places365", ("Places365_val_00000300.jpg", 1), ["airfield", "moon"], "the label name 'moon' of"),
        (
            "places365",
            ("Places365_test_00000001.jpg", 1),
            PLACES,
            "Places365_test_00000001.jpg is not like",
        ),
        ("food101", ("1.jpg", 0), ["apple_pie", "apple_tart"], "the label name 'apple_tart' of"),
        ("food101", ("one.jpg", 0), ["apple_pie"], "apple_pie/one.jpg is not like <class>/<number>.jpg (row 0 of"),
        ("sun397", (ABBEY, 0), ["/a/abattoir", *SUN[1:]], "the label name '/a/abattoir' of"),
        ("dtd", ("image_0002.jpg", 0), None, "the file name image_0002.jpg is not"),
    ],
)
def test_labels_and_names_that_do_not_fit(tmp_path, key, row, names, words):
    assert words in refusal(key, mirror(tmp_path, [row], names))


@pytest.mark.parametrize(
    ("key", "row", "words"),
    [
        ("imagenet", (None, 0), "image.path has no file name (row 1 of"),
        ("imagenet", (f"{TENCH}_1.jpg", 0), f"{TENCH}_1.jpg is not like <wnid>_<number>.JPEG (row 1 of"),
        ("imagenet", (f"{TENCH}_7_{GOLDFISH}.JPEG", 0), f"{TENCH}_7_{GOLDFISH}.JPEG is not like"),
        ("imagenet", (f"{GOLDFISH}_1_{GOLDFISH}.JPEG", 5), "has a label that is not the position of its class"),
        ("dtd", (None, 0), "image.path has no file name (row 1 of"),
        ("dtd", ("banded_2.jpg", 0), "banded/banded_2.jpg is not like <texture>/<texture>_<4 digits>.jpg (row 1 of"),
        ("dtd", ("train/banded_0002.jpg", 0), "the file name train/banded_0002.jpg is not"),
        ("dtd", ("image_0002.jpg", 0), "the file name image_0002.jpg is not"),
        ("sun397", (None, 0), "image.path has no file name (row 1 of"),
        ("sun397", ("sun_1.jpg", 0), "a/abbey/sun_1.jpg is not like SUN397/a/abbey/sun_<letters>.jpg (row 1 of"),
    ],
)
def test_a_row_after_a_good_one(tmp_path, key, row, words):
    good = {"imagenet": (f"{TENCH}_1_{TENCH}.JPEG", 0), "dtd": ("blotchy_0003.jpg", 1), "sun397": (BALCONY, 28)}
    root = mirror(tmp_path, [good[key], row], NAMES[key])
    assert words in refusal(key, root, next(iter(SOURCES[key].expected())))


@pytest.mark.parametrize(
    ("key", "class_of"),
    [
        ("dtd", {"banded_0002.jpg": "banded", "polka-dotted_0001.jpg": "polka-dotted"}),
        ("sun397", {f"a_abbey/{ABBEY}": "/a/abbey", BALCONY: "/b/balcony/exterior"}),
    ],
)
def test_a_mirror_may_number_the_classes_otherwise_and_keep_folders_in_the_names(tmp_path, key, class_of):
    names = NAMES[key][::-1]
    rows = [(name, names.index(class_id)) for name, class_id in class_of.items()]
    table = open_source(SOURCES[key], mirror(tmp_path, rows, names, "test"), ("images",)).table
    assert table["class_id"].to_pylist() == list(class_of.values())
    files = [name.rpartition("/")[2] for name in class_of]
    assert table["source_id"].to_pylist() == [
        f"{class_id.removeprefix('/')}/{file}" for class_id, file in zip(class_of.values(), files, strict=True)
    ]


def test_a_partition_that_the_mirror_has_not(tmp_path):
    write_places365(tmp_path / "data" / "train-00000-of-00001.parquet", [(0, "/x/00000001.jpg", b"")], PLACES, [0])
    assert places(tmp_path, "train") == [("/a/airfield", "train/a/airfield/00000001.jpg")]
    assert "hold no images of the partition val" in refusal("places365", tmp_path, "val")


@pytest.mark.parametrize("key", ["imagenet", "food101", "caltech256", "places365", "dtd", "sun397", "cifar100"])
def test_columns_of_another_dataset(tmp_path, key):
    path = tree(tmp_path, {"data/x": ""}) / "data" / "train-00000-of-00001.parquet"
    pq.write_table(pa.table({"text": ["a"]}), path)
    message = refusal(key, tmp_path, next(iter(SOURCES[key].expected())))
    assert_sentence(message, path, "(found: text).")
