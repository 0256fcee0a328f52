"""Each sentence that a person can meet when a source is not what it should be."""

import gzip

import pytest

from builders.sources.base import Stray
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from tests.builders.trees import refusal, tree, write_tar

TENCH, GOLDFISH = "n01440764", "n01443537"
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
    ("imagenet_es", "param_control"): (
        # The validation set, alone and in its folder.
        ({"es-val/param_control/l1/param_1/n02699494/ILSVRC2012_val_00030992.JPEG": ""}, "(54,000 images) is not in"),
        (
            {f"es-test/param_control/l1/param_28/{GOLDFISH}/ILSVRC2012_val_00000994.JPEG": ""},
            "none of the 1 images in",
        ),
        ({"ImageNet-ES.zip": "no archive"}, "is not a whole zip"),
    ),
    ("cub200", "test"): (
        # Birds of the edition of 2010, and files that somebody numbered anew.
        (
            {"images/001.Black_footed_Albatross/Black_footed_Albatross_0001_2950163169.jpg": ""},
            "none of the 1 images in",
        ),
        ({"images/001.Black_footed_Albatross/0000.jpg": ""}, "the partition test (5,794 images) is not in"),
        ({"CUB_200_2011.tgz": "no archive"}, "cannot be read as a tar.gz"),
    ),
    ("fgvc_aircraft", "test"): (
        ({"data/images/0000000.jpg": ""}, "is one of the 3,333 of the partition test, for instance 0000000.jpg"),
        ({"707-320/a.jpg": ""}, "the partition test (3,333 images) is not in"),
        ({"fgvc-aircraft-2013b.tar.gz": "no archive"}, "cannot be read as a tar.gz"),
    ),
    ("tiny_imagenet", "train"): (
        ({"train/apple/0001.png": ""}, "the partition train (100,000 images) is not in"),
        (
            {f"train/{GOLDFISH}/ILSVRC2012_val_00000994.JPEG": ""},
            f"holds no image of its class: ILSVRC2012_val_00000994.JPEG is not named {GOLDFISH}_<number>.JPEG",
        ),
        ({"tiny-imagenet-200.zip": "no archive"}, "is not a whole zip"),
        ({"data/train-00000-of-00001.parquet": "no Parquet"}, "cannot be read as Parquet"),
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
TETRA = "n01443537/cardinal_tetra_Paracheirodon_axelrodi_0.99767953.JPEG"
PLANT = "000309dd0c724a5104df8e716b9008a0"  # the first of MOS's subset of iNaturalist
KEY = "abc".ljust(40, "0")  # of an image of LSUN

# A source and partition: the path of an image, and those of strays by their reason; a folder's ends with a slash.
STRAYS = {
    ("food101", "images"): ("images/apple_pie/1.jpg", {"not named <number>.jpg": ["images/apple_pie/notes.txt"]}),
    ("lsun", "test"): (
        f"test/{KEY}.webp",
        {
            "not named <key>.webp in the folder of the key's first digits": [
                *("test/readme.txt", f"test/f/{KEY}.jpg", f"test/{KEY}.gif", f"test/{'0/' * 7}x", "test/g/y"),
            ],
        },
    ),
    ("dtd", "images"): (
        "images/banded/banded_0002.jpg",
        {
            "not named banded_<4 digits>.jpg": [
                f"images/banded/{name}"
                for name in (".directory", "banded_0002.JPG", "banded_002.jpg", "blotchy_0003.jpg")
            ],
            "not a texture's folder": ["images/x"],
        },
    ),
    ("sun397", "images"): (
        "SUN397/a/abbey/sun_aqswjsnjlrfzzhiz.jpg",
        {
            "not named sun_<letters>.jpg": [
                f"SUN397/a/abbey/{name}"
                for name in (
                    "sun_abc.png",
                    "SUN_abc.jpg",
                    "sun_000_00001.jpg",
                    "sun_abc (1).jpg",
                    "sun_.jpg",
                    "notes.txt",
                )
            ],
            "not a category folder": ["SUN397/a/readme"],
            "a folder": ["SUN397/a/abbey/thumbs/"],
        },
    ),
    ("svhn_full", "test"): (
        "test/13068.png",
        {"not named <number>.png": [f"test/{name}" for name in ("1.jpg", "01.png", "0.png", "x1.png", "1 (1).png")]},
    ),
    ("inaturalist", "images"): (
        f"{PLANT}.jpg",
        {
            "not one of the 10,000 images of the subset": [f"{'0' * 32}.jpg"],
            "not named <32 hexadecimal digits>.jpg": ["notes.txt", f"{PLANT}.png"],
        },
    ),
    ("imagenet_o", "images"): (
        TETRA,
        {
            "not named <wnid>/<lemmas>_<confidence>.JPEG": [
                *(f"n01443537/{name}" for name in ("n01443537_10026.JPEG", "benthos_0.5.png", "._benthos_0.5.JPEG")),
                "README.txt",
            ]
        },
    ),
    ("ninco", "images"): (
        "waffles/waffles_000_1.jpg",
        {
            "not named waffles_<3 digits>_<name>.jpg (or .jpeg, .png, .gif)": [
                f"waffles/{name}" for name in ("donuts_000_1.jpg", "waffles_1.jpg", "waffles_001_2.webp")
            ]
        },
    ),
    ("imagenet_r", "images"): (  # ImageNet-1k's tench is none of the 200
        f"{GOLDFISH}/art_0.jpg",
        {"not named <rendition>_<number>.jpg": [f"{GOLDFISH}/art_0.png"], "not a class folder": [f"{TENCH}/"]},
    ),
    ("imagenet_v2", "images"): (
        NAMES_V2[0],
        {"not named <40 hexadecimal digits>.jpeg": ["3/6.jpeg", NAMES_V2[1].upper()]},
    ),
    ("imagenet21k", "ssb_hard"): (
        "n00470682/n00470682_1000.JPEG",
        {"not named <wnid>_<number>.JPEG": ["n00470682/notes.txt", "n00470682/n02666943_1000.JPEG"]},
    ),
}
# What the owners have beside their images.
BESIDE = {"svhn_full": ["test/digitStruct.mat", "test/see_bboxes.m"], "sun397": ["SUN397/ClassName.txt"]}


@pytest.mark.parametrize("source", STRAYS, ids=lambda source: source[0])
def test_files_of_other_names_and_classes_are_strays(tmp_path, source):
    (key, partition), (image, names_by_reason) = source, STRAYS[source]
    reasons = {name: reason for reason, names in names_by_reason.items() for name in names}
    names = (image, *BESIDE.get(key, ()), *reasons)
    tree(tmp_path, {f"{name}art_0.jpg" if name.endswith("/") else name: "" for name in names})
    (partition,) = open_source(SOURCES[key], tmp_path, (partition,)).partitions
    assert partition.table["file"].to_pylist() == [image]
    assert set(partition.strays) == {Stray(name.rstrip("/"), reason) for name, reason in reasons.items()}


@pytest.mark.parametrize(
    ("key", "archive", "image", "others", "strays"),
    [
        (
            "imagenet_r",
            "imagenet-r.tar",
            f"imagenet-r/{GOLDFISH}/toy_12.jpg",
            ["imagenet-r/README.txt"],
            (Stray("imagenet-r.tar:imagenet-r/README.txt", "not named <wnid>/<rendition>_<number>.jpg"),),
        ),
        (  # what else NINCO's archive has is not looked at
            "ninco",
            "NINCO_all.tar.gz",
            "NINCO/NINCO_OOD_classes/waffles/waffles_000_903753.jpg",
            [
                "NINCO/NINCO_OOD_unit_tests/black/black_000.png",
                "NINCO/NINCO_popular_datasets_subsamples/SSB_hard/a.jpg",
            ],
            (),
        ),
    ],
)
def test_what_an_archive_holds_beside_images(tmp_path, key, archive, image, others, strays):
    write_tar(tmp_path / archive, dict.fromkeys((image, *others), b""))
    (partition,) = open_source(SOURCES[key], tmp_path, ("images",)).partitions
    assert partition.table["source_id"].to_pylist() == ["/".join(image.split("/")[-2:])]
    assert partition.strays == strays


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
        ({"ILSVRC2012_devkit_t12.tar.gz": gzip.compress(b"nothing")}, "cannot be read as a tar.gz (it is cut short"),
        ({"LOC_val_solution.csv": "a,b\n1,2\n"}, "lacks the columns ImageId and PredictionString (found in"),
    ],
)
def test_ground_truth_that_cannot_be_used(tmp_path, files, words):
    tree(tmp_path, {"val/ILSVRC2012_val_00000001.JPEG": ""} | files)
    assert words in refusal("imagenet", tmp_path, "val")


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
    assert index.partitions[0].missing.to_pylist() == ["train/z/zen_garden/00000001.jpg"]
    reason = "not in places365_train_standard.txt"
    assert index.partitions[0].strays == (Stray("data_256/a/airfield/00000002.jpg", reason),)


def test_a_place_has_several_spellings_and_shares_none():
    from builders.sources.datasets.places365 import category_of

    names = list(SOURCES["places365"].classes())
    assert [category_of(name) for name in names] == names
    assert [category_of(name[1:].replace("/", "-")) for name in names] == names
    assert [category_of(name[3:].replace("/", "-").replace("_", "-")) for name in names] == names
    assert {category_of(name) for name in ("exterior", "b_airfield", "")} == {None}


def test_strays_of_the_demo_are_named_with_their_reason(demo):
    """Of sources whose strays are not all in the table above."""
    expected = {
        "imagenet/train/n01440764/README.txt": "not named n01440764_<number>.JPEG",
        "food101/images/apple_pie/notes.txt": "not named <number>.jpg",
        "food101/images/creme_brulee/crème brûlée.jpg": "not named <number>.jpg",
        "caltech256/256_ObjectCategories/056.dog/greg": "a folder",
        "caltech256/256_ObjectCategories/133.lightning/relámpago 雷.jpg": "not named 133_<4 digits>.jpg",
        "caltech256/256_ObjectCategories/198.spider/RENAME2": "not named 198_<4 digits>.jpg",
        "places365/val_256/.DS_Store": "not named Places365_val_<8 digits>.jpg",
        "lsun_fix/LSUN_fix/Thumbs.db": "not named correct_resize_<0 to 9999>.png",
        "openimage_o/images_largescale/openimage_o/images/._11e9b2ed1207bae6.jpg": "not named <16 hexadecimal "
        "digits>.jpg",
    }
    strays = {}
    for key in {path.partition("/")[0] for path in expected}:
        for partition in open_source(SOURCES[key], demo[key], tuple(SOURCES[key].expected())).partitions:
            strays |= {f"{key}/{stray.path}": stray.reason for stray in partition.strays}
    assert strays == expected


def test_strays_between_class_folders_and_names_that_are_no_text(tmp_path):
    tree(tmp_path, {f"train/{TENCH}/{TENCH}_1.JPEG": "", "train/.DS_Store": "", "train/n01/x": ""})
    (tmp_path / "train" / TENCH / "caf\udce9.JPEG").touch()
    index = open_source(SOURCES["imagenet"], tmp_path, ("train",))
    assert [stray.path for stray in index.partitions[0].strays] == [
        f"train/{TENCH}/caf\ufffd.JPEG",
        "train/.DS_Store",
        "train/n01",
    ]
    tree(tmp_path, {"data_256/a/airfield/00000001.jpg": "", "data_256/a/b/c": "", "data_256/readme": ""})
    index = open_source(SOURCES["places365"], tmp_path, ("train",))
    assert [stray.path for stray in index.partitions[0].strays] == ["data_256/readme", "data_256/a/b"]


def test_train_archive_without_class_tars(tmp_path):
    write_tar(tmp_path / "ILSVRC2012_img_train.tar", {"readme.txt": b""})
    assert "has no tar of a class. Give an ILSVRC2012 copy" in refusal("imagenet", tmp_path, "train")
