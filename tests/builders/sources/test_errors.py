"""Each sentence that a person can meet when a source is not what it should be."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.sources.base import Stray, open_source
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders.trees import refusal, tree, write_parquet, write_tar

TENCH, GOLDFISH = "n01440764", "n01443537"
WNIDS = [row.wnid for row in tables.imagenet1k()]


# A source (and partition), small trees of something else, and the words that each is refused with.
SOMETHING_ELSE = {
    ("sun397", "images"): (
        (  # Places365, and its easy format
            {"a/airfield/00000001.jpg": "", "a/airplane_cabin/00000001.jpg": ""},
            "a/airplane_cabin holds no image of its class: 00000001.jpg",
        ),
        ({"train/airplane_cabin/00000001.jpg": ""}, "train/airplane_cabin holds no image of its class: 00000001.jpg"),
        ({"SUN397/a/abbey/sun_000_00001.jpg": ""}, "SUN397/a/abbey holds no image of its class: sun_000_00001.jpg"),
        ({"train/n01440764/n01440764_1.JPEG": ""}, "which holds train. Accepted layouts are SUN397/a/abbey/"),
    ),
    ("svhn_full", "test"): (
        ({"test_32x32.mat": ""}, "which holds test_32x32.mat"),  # the cropped digits
        ({"test/0/1.png": ""}, "which holds test. Accepted layouts are test/<number>.png or the original archive"),
        ({"test/digitStruct.mat": ""}, "which holds test"),
    ),
    ("mos_sun", "images"): (
        ({f"SUN/images/sun_{'z' * 16}.jpg": ""}, "none of the 1 images in"),
        ({"SUN/images/b_badlands_00001234.jpg": ""}, "the partition images (10,000 images) is not in"),
        ({"SUN.tar": "cut"}, "is not a whole, uncompressed tar"),
    ),
    ("imagenet_o", "images"): (
        ({"n01443537/n01443537_10026.JPEG": ""}, "the partition images (2,000 images) is not in"),  # ImageNet-1k
        ({"imagenet-o/n00007846/person_0.5.JPEG": ""}, "is not one of ImageNet-1k's classes"),
        ({"imagenet-o.tar": "no archive"}, "is not a whole, uncompressed tar"),
        ({"default/test/0000.parquet": "no Parquet"}, "cannot be read as Parquet"),
    ),
    ("inaturalist", "images"): (
        ({f"images/{'0' * 32}.jpg": ""}, "none of the 1 images in"),
        ({"images/sun_aaalbzqrimafwbiv.jpg": ""}, "the partition images (10,000 images) is not in"),
        ({"iNaturalist.tar.gz": "cut"}, "cannot be read as a tar.gz"),
        ({"data/test-00000-of-00001.parquet": "cut"}, "cannot be read as Parquet"),
    ),
    ("openimage_o", "test"): (
        ({"images/photo.jpg": ""}, "the partition test (15,869 images) is not in"),
        (
            {"images/0123456789abcdef.jpg": ""},
            "is not known: there is no test_openimage_o.txt beside them. Put OpenOOD's list there",
        ),
        ({"openimage_o.tar": "cut"}, "is not a whole, uncompressed tar"),
    ),
    ("ninco", "images"): (
        ({"windsor_chair/image_0001.jpg": ""}, "holds no image of its class"),  # a folder of Caltech-101
        ({"images/tench/tench_000_1.jpg": ""}, "the partition images (5,879 images) is not in"),
        ({"NINCO_all.tar.gz": "no archive"}, "cannot be read as a tar.gz"),
    ),
    ("imagenet_r", "images"): (
        ({f"train/{GOLDFISH}/{GOLDFISH}_10026.JPEG": ""}, "holds no image of its class"),  # ImageNet-1k
        ({"imagenet-r.tar": "no archive"}, "is not a whole, uncompressed tar"),
        ({"images/a.jpg": ""}, "the partition images (30,000 images) is not in"),
    ),
    ("imagenet_v2", "images"): (
        # The archive of December 2020 (modestyachts/ImageNetV2, issue 6).
        (
            {"imagenetv2-matched-frequency-format-val/n02865351/6.jpeg": ""},
            "the partition images (10,000 images) is not",
        ),
        ({"0/6.jpeg": ""}, "holds no image of its class: 6.jpeg is not named <40 hexadecimal digits>.jpeg"),
        ({"imagenetv2-matched-frequency.tar.gz": "no archive"}, "cannot be read as a tar.gz"),
    ),
    ("imagenet_c", "openood"): (
        ({"val/n01735189/ILSVRC2012_val_00000806.JPEG": ""}, "the partition openood (10,000 images) is not in"),
        ({"fog/2/n01735189/ILSVRC2012_val_00000806.JPEG": ""}, "the partition openood (10,000 images) is not in"),
        ({"blur.tar": "no archive"}, "is not a whole, uncompressed tar"),
    ),
    ("imagenet21k", "ssb_hard"): (
        ({f"{TENCH}/{TENCH}_10026.JPEG": ""}, "the partition ssb_hard (49,000 images) is not in"),  # ImageNet-1k
        ({"n00470682/n00470682_7.JPEG": ""}, "is one of the 49,000 of the partition ssb_hard, for instance"),
        ({"n00470682.tar": "no archive"}, "is not a whole, uncompressed tar"),
        ({"fall11_whole.tar": "no archive"}, "is not a whole, uncompressed tar"),
    ),
}


@pytest.mark.parametrize(
    ("source", "files", "words"),
    [(source, files, words) for source, trees in SOMETHING_ELSE.items() for files, words in trees],
)
def test_copies_of_something_else(tmp_path, source, files, words):
    message = refusal(source[0], tree(tmp_path, files), source[1])
    assert words in message
    assert f"--{source[0]}" in message or "Download" in message or "Restore its images" in message or "Put" in message


NAMES_V2 = [f"3/{number:040x}.jpeg" for number in (10, 11)]


@pytest.mark.parametrize(
    ("key", "image", "strays"),
    [
        (
            "ninco",
            "waffles/waffles_000_1.jpg",
            dict.fromkeys(
                ("waffles/donuts_000_1.jpg", "waffles/waffles_1.jpg", "waffles/waffles_001_2.webp"),
                "not named waffles_<3 digits>_<name>.jpg (or .jpeg, .png, .gif)",
            ),
        ),
        (  # ImageNet-1k's tench is none of the 200
            "imagenet_r",
            f"{GOLDFISH}/art_0.jpg",
            {f"{GOLDFISH}/art_0.png": "not named <rendition>_<number>.jpg", f"{TENCH}/": "not a class folder"},
        ),
        (
            "imagenet_v2",
            NAMES_V2[0],
            dict.fromkeys(("3/6.jpeg", NAMES_V2[1].upper()), "not named <40 hexadecimal digits>.jpeg"),
        ),
        (
            "imagenet21k",
            "n00470682/n00470682_1000.JPEG",
            dict.fromkeys(("n00470682/notes.txt", "n00470682/n02666943_1000.JPEG"), "not named <wnid>_<number>.JPEG"),
        ),
    ],
)
def test_files_of_other_names_and_classes_are_strays(tmp_path, key, image, strays):
    tree(tmp_path, {f"{name}art_0.jpg" if name.endswith("/") else name: "" for name in (image, *strays)})
    partition = next(iter(SOURCES[key].expected()))
    (piece,) = open_source(SOURCES[key], tmp_path, (partition,)).pieces
    assert piece.table["source_id"].to_pylist() == [image]
    assert set(piece.strays) == {Stray(name.rstrip("/"), reason) for name, reason in strays.items()}


def test_no_folder(tmp_path):
    assert "there is no folder" in refusal("imagenet", tmp_path / "nowhere")


@pytest.mark.parametrize("key", SOURCES)
def test_missing_partition_names_count_places_layouts_and_flag(tmp_path, key):
    for number in range(7):
        (tmp_path / f"file{number}").touch()
    for partition, size in SOURCES[key].expected().items():
        message = refusal(key, tmp_path, partition)
        assert f"the partition {partition} ({size.total:,} images) is not in {tmp_path}, which holds" in message
        assert "holds file0, file1, file2, file3, file4 and 2 more" in message
        assert all(line.partition(": ")[2] in message for line in SOURCES[key].layouts if line.startswith(partition))
        assert f"--{key}" in message


KIT_LABELS = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({KIT_LABELS: "1001\n"}, "1001 in "),
        (
            {"ILSVRC2012_devkit_t12.tar.gz": gzip.compress(b"nothing")},
            "ILSVRC2012_devkit_t12.tar.gz cannot be read as a tar.gz (it is cut short",
        ),
        (
            {"LOC_val_solution.csv": "a,b\n1,2\n"},
            "lacks the columns ImageId and PredictionString (found in line 1: a, b)",
        ),
    ],
)
def test_ground_truth_that_cannot_be_used(tmp_path, files, words):
    tree(tmp_path, {"val/ILSVRC2012_val_00000001.JPEG": ""} | files)
    assert words in refusal("imagenet", tmp_path, "val")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("n01440764_1.jpg", 0, b""), "the file name n01440764_1.jpg is not like <wnid>_<number>.JPEG (row 1 of"),
        ((f"{TENCH}_7_{GOLDFISH}.JPEG", 0, b""), f"{TENCH}_7_{GOLDFISH}.JPEG is not like"),
        (
            (f"{GOLDFISH}_1_{GOLDFISH}.JPEG", 5, b""),
            f"{GOLDFISH}_1_{GOLDFISH}.JPEG has a label that is not the position of its class",
        ),
        ((None, 0, b""), "image.path has no file name (row 1 of"),
    ],
)
def test_parquet_rows(tmp_path, row, words):
    rows = [(f"{TENCH}_1_{TENCH}.JPEG", 0, b""), row]
    write_parquet(tmp_path / "data" / "train-00000-of-00001.parquet", rows, WNIDS)
    assert words in refusal("imagenet", tmp_path, "train")


def test_parquet_with_other_columns_or_content(tmp_path):
    path = tmp_path / "train-00000-of-00001.parquet"
    pq.write_table(pa.table({"img": [b""], "label": [0]}), path)
    assert "(found: img, label)" in refusal("food101", tmp_path)
    path.write_bytes(b"nothing")
    assert "cannot be read" in refusal("food101", tmp_path)


@pytest.mark.parametrize(
    ("row", "names", "words"),
    [
        (("1.jpg", 0, b""), ["apple_pie", "apple_tart"], "the label name 'apple_tart' of"),
        (
            ("one.jpg", 0, b""),
            ["apple_pie"],
            "the file name apple_pie/one.jpg is not like <class>/<number>.jpg (row 0 of",
        ),
    ],
)
def test_food101_parquet(tmp_path, row, names, words):
    write_parquet(tmp_path / "data" / "train-00000-of-00001.parquet", [row], names)
    assert words in refusal("food101", tmp_path)


def test_places365_editions_are_not_mixed(tmp_path):
    files = {"val_256/Places365_val_00000001.jpg": "", "data_large/a/airfield/00000001.jpg": ""}
    tree(tmp_path, files | {"places365_val.txt": "Places365_val_00000001.jpg 0\n"})
    assert "has its partitions in different editions" in refusal("places365", tmp_path)
    assert open_source(SOURCES["places365"], tmp_path, ("train",)).layouts == {"train": "large edition, data_large"}


def test_places365_small_edition_goes_first(tmp_path):
    tree(tmp_path, {f"{folder}/a/airfield/00000001.jpg": "" for folder in ("data_256", "data_large")})
    index = open_source(SOURCES["places365"], tmp_path, ("train",))
    assert index.layouts == {"train": "256 px edition, data_256"}
    assert index.table["file"].to_pylist() == ["data_256/a/airfield/00000001.jpg"]


def test_places365_keeps_the_standard_images_of_a_challenge_copy(tmp_path):
    files = {f"data_256/a/airfield/0000000{number}.jpg": "" for number in (1, 2)}
    listing = {"places365_train_standard.txt": "/a/airfield/00000001.jpg 0\n/z/zen_garden/00000001.jpg 364\n"}
    index = open_source(SOURCES["places365"], tree(tmp_path, files | listing), ("train",))
    assert index.table["source_id"].to_pylist() == ["train/a/airfield/00000001.jpg"]
    assert index.pieces[0].missing.to_pylist() == ["train/z/zen_garden/00000001.jpg"]
    reason = "not in places365_train_standard.txt"
    assert index.pieces[0].strays == (Stray("data_256/a/airfield/00000002.jpg", reason),)


def test_a_place_has_several_spellings_and_shares_none():
    from builders.sources.places365 import category_of

    names = list(SOURCES["places365"].classes())
    assert [category_of(name) for name in names] == names
    assert [category_of(name[1:].replace("/", "-")) for name in names] == names
    assert [category_of(name[3:].replace("/", "-").replace("_", "-")) for name in names] == names
    assert {category_of(name) for name in ("exterior", "b_airfield", "")} == {None}


def test_strays_of_the_demo_are_named_with_their_reason(demo):
    """Of the sources before NINCO; those since have theirs in a test of their own."""
    expected = {
        "imagenet/train/n01440764/README.txt": "not named n01440764_<number>.JPEG",
        "food101/images/apple_pie/notes.txt": "not named <number>.jpg",
        "food101/images/creme_brulee/crème brûlée.jpg": "not named <number>.jpg",
        "caltech256/256_ObjectCategories/056.dog/greg": "a folder",
        "caltech256/256_ObjectCategories/133.lightning/relámpago 雷.jpg": "not named 133_<4 digits>.jpg",
        "caltech256/256_ObjectCategories/198.spider/RENAME2": "not named 198_<4 digits>.jpg",
        "places365/val_256/.DS_Store": "not named Places365_val_<8 digits>.jpg",
        "lsun_fix/LSUN_fix/Thumbs.db": "not named correct_resize_<0 to 9999>.png",
        "dtd/images/waffled/.directory": "not named waffled_<4 digits>.jpg",
        "sun397/SUN397/a/abbey/._sun_aqswjsnjlrfzzhiz.jpg": "not named sun_<letters>.jpg",
        "sun397/SUN397/b/balcony/exterior/balcón 陽台.jpg": "not named sun_<letters>.jpg",
        "sun397/SUN397/w/wine_cellar/Thumbs.db": "not a category folder",
        "svhn_full/train/.DS_Store": "not named <number>.png",
        "coco2017/train2017/.DS_Store": "not named <12 digits>.jpg",
        "inaturalist/iNaturalist/images/.DS_Store": "not named <32 hexadecimal digits>.jpg",
        "openimage_o/images_largescale/openimage_o/images/._11e9b2ed1207bae6.jpg": "not named <16 hexadecimal "
        "digits>.jpg",
        "imagenet_o/imagenet-o/README.txt": "not named <wnid>/<lemmas>_<confidence>.JPEG",
    }
    strays = {}
    for key in {path.partition("/")[0] for path in expected}:
        for piece in open_source(SOURCES[key], demo[key], tuple(SOURCES[key].expected())).pieces:
            strays |= {f"{key}/{stray.path}": stray.reason for stray in piece.strays}
    assert strays == expected


def test_strays_between_class_folders_and_names_that_are_no_text(tmp_path):
    tree(tmp_path, {f"train/{TENCH}/{TENCH}_1.JPEG": "", "train/.DS_Store": "", "train/n01/x": ""})
    (tmp_path / "train" / TENCH / "caf\udce9.JPEG").touch()
    index = open_source(SOURCES["imagenet"], tmp_path, ("train",))
    assert [stray.path for stray in index.pieces[0].strays] == [
        f"train/{TENCH}/caf\ufffd.JPEG",
        "train/.DS_Store",
        "train/n01",
    ]
    tree(tmp_path, {"data_256/a/airfield/00000001.jpg": "", "data_256/a/b/c": "", "data_256/readme": ""})
    index = open_source(SOURCES["places365"], tmp_path, ("train",))
    assert [stray.path for stray in index.pieces[0].strays] == ["data_256/readme", "data_256/a/b"]


def test_train_archive_without_class_tars(tmp_path):
    write_tar(tmp_path / "ILSVRC2012_img_train.tar", {"readme.txt": b""})
    assert "has no tar of a class. Give an ILSVRC2012 copy" in refusal("imagenet", tmp_path, "train")
