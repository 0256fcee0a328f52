import functools
import os
import random
import shutil

import pytest

from builders.cli.source_flags import missing_source
from builders.demo.files import FILES
from builders.imagenet_benchmark import BENCHMARK
from builders.plan.candidates import Draws
from builders.plan.completeness import count_shortfalls
from builders.plan.planner import plan
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders import facets_layouts, layouts
from tests.builders.broad_layouts import inaturalist_archive
from tests.builders.trees import contents, link, opened, tree, write_tar
from tests.fuzz.harness import run_cases
from tests.published_lists import labels, needs_lists, touched


@pytest.fixture(scope="module")
def index_of(demo):
    """Gives the index of a source in its official layout."""
    return functools.cache(lambda key: opened(key, demo[key]))


@pytest.fixture(scope="module")
def official(index_of):
    """Gives the images and plans of a source in its official layout."""
    return functools.cache(lambda key: images_and_plans(key, index_of(key)))


def images_and_plans(key, index):
    """The content of every image, and the plans of the source's splits in the ImageNet-scale benchmark."""
    splits = [name for name, split in BENCHMARK.parts.items() if split.source.key == key]
    return contents(index), {
        split.key: split.table for split in plan(Draws(BENCHMARK, 0), {key: index}, splits=splits)
    }


# Images that containers hold, by hand: classes times images of each; of COCO's 96 two are not annotated, and
# PartialBROAD has 40 ciphers. Of other sources each image is drawn into a file of its own, or found in a tar.
IN_CONTAINERS = {
    "cifar10": 200,
    "cifar100": 1_200,
    "mnist": 200,
    "svhn": 300,
    "lsun": 120,
    "coco2017": 94,
    "partial_broad": 2_040,
}


LONGER_LISTS = (
    "imagenet21k",
    "imagenet_c",
    "inaturalist",
    "mos_sun",
    "tiny_imagenet",
    "imagenet_es",
    "cub200",
    "fgvc_aircraft",
)


@pytest.mark.parametrize("key", SOURCES)
def test_official_layout_has_every_class_and_image_of_the_demo(index_of, key):
    index = index_of(key)
    class_ids = index.table["class_id"].unique().to_pylist()
    if key == "imagenet_o":  # its images may be of any class of the full ImageNet release but for the 1,000
        assert set(class_ids) < set(SOURCES[key].classes())
    else:
        assert sorted(class_ids) == sorted(SOURCES[key].classes())
    drawn = IN_CONTAINERS.get(key) or len(list(FILES[key].images()))
    assert index.table.num_rows == drawn
    assert index.table.schema.names[:5] == ["class_id", "source_id", "file", "offset", "size"]
    own = {column.name: column.arrow for column in SOURCES[key].columns}
    assert {name: index.table.schema.field(name).type for name in own} == own
    # Some lists are in the package, and not as short as the demo.
    if key not in LONGER_LISTS:
        assert not any(len(partition.missing) for partition in index.partitions)


@pytest.mark.parametrize("key", ["dtd", "sun397", "svhn_full"])
def test_images_of_the_official_layout_are_the_files(demo, official, key):
    files = {(image.class_id, image.source_id): (demo[key] / image.path).read_bytes() for image in FILES[key].images()}
    assert {(class_id, name): content for (_, class_id, name), content in official(key)[0].items()} == files


@pytest.mark.parametrize(
    ("key", "archive", "folder", "read"),
    [
        ("sun397", facets_layouts.sun397_archive, "SUN397", {"images": "category folders in SUN397"}),
        (
            "svhn_full",
            facets_layouts.svhn_full_archives,
            "train",
            {"train": "image files in train", "test": "archive test.tar.gz"},
        ),
        ("inaturalist", inaturalist_archive, "iNaturalist", {"images": "image files in iNaturalist/images"}),
    ],
)
def test_unpacked_images_go_before_the_archive_beside_them(demo, tmp_path, key, archive, folder, read):
    archive(demo[key], tmp_path)
    link(demo[key] / folder, tmp_path / folder)
    assert opened(key, tmp_path).layouts == read


# A search one folder below is the same for every source, and of the others a quick layout has the same reader: folders
# and names, archives compressed or not, or mirrors of one file or several. test_lists.py has Kaggle's folders.
LONG = [
    "one_level_up",
    "imagenet_class_archives",
    "imagenet_converted",
    "imagenet_flat_kit_archive",
    "imagenet_flat_train",
    "imagenet_kaggle_inside",
    "imagenet_mixed",
    "imagenet_suffixed_folders",
    "imagenet_two_mirrors",
    "imagenet21k_tars",
    "cifar10_parquet_shards",
    "cifar100_parquet_shards",
    "cifar100_converted",
    "svhn_parquet_shards",
    "coco2017_compressed",
    "inaturalist_tar_archive",
    "mos_sun_tar_archive",
    "sun397_tar_archive",
    "sun397_kaggle",
    "sun397_divided_tree",
    "sun397_parquet_two_splits",
    "places365_two_mirrors",
]


@pytest.mark.parametrize(
    ("key", "convert"),
    [
        pytest.param(key, convert, marks=[pytest.mark.slow] if convert.__name__ in LONG else [])
        for key, converts in layouts.LAYOUTS.items()
        for convert in converts
    ],
)
def test_every_layout_has_the_same_ids_classes_and_bytes_and_gives_one_plan(official, laid_out, key, convert):
    images, plans = images_and_plans(key, opened(key, laid_out(key, convert)))
    expected, expected_plans = official(key)
    assert images == expected
    assert plans == expected_plans


# The rows and classes of OpenOOD's lists; the owners' READMEs say the same of NINCO ("64 OOD classes with a total of
# 5879 samples"), ImageNetV2 ("10 images per class") and ImageNet-R ("renditions of 200 ImageNet classes resulting in
# 30,000 images").
OPENOOD = {
    "ninco": ("ninco", 5_879, 64),
    "imagenet_v2": ("imagenet_v2", 10_000, 1_000),
    "imagenet_r": ("imagenet_r", 30_000, 200),
    "imagenet_c": ("openood_imagenet_c", 10_000, 1_000),
}
MORE = ("imagenet_r", "imagenet_c")
# Those with the same folders as OpenOOD's: 40,000 files would take seconds.
ARCHIVES = {
    "imagenet_v2": ("imagenetv2-matched-frequency.tar", "imagenetv2-matched-frequency-format-val/"),
    "imagenet_r": ("imagenet-r.tar", "imagenet-r/"),
}


@needs_lists
@pytest.mark.parametrize("key", ["ninco", "imagenet_v2", *(pytest.param(key, marks=pytest.mark.slow) for key in MORE)])
def test_a_copy_of_the_images_of_openoods_list_has_its_labels(key, tmp_path):
    name, images, classes = OPENOOD[key]
    of_list = labels(name)
    if key in ARCHIVES:
        write_tar(tmp_path / ARCHIVES[key][0], {ARCHIVES[key][1] + path: b"" for path in of_list})
    else:
        touched(tmp_path / "images_largescale" / key, of_list)
    index = opened(key, tmp_path)
    wnids = [row.wnid for row in tables.imagenet1k()]
    class_ids = {path: path.partition("/")[0] if label < 0 else wnids[label] for path, label in of_list.items()}
    assert (
        dict(zip(*(index.table[column].to_pylist() for column in ("source_id", "class_id")), strict=True)) == class_ids
    )
    ((partition, size),) = SOURCES[key].expected().items()
    assert index.num_rows == size.total == images
    assert index.partitions[0].images_by_class == {name: count for name, count in size.per_class.items() if count}
    assert len(index.partitions[0].images_by_class) == classes
    assert count_shortfalls(index, (partition,), list(SOURCES[key].classes())) == []
    assert not index.partitions[0].strays and not len(index.partitions[0].missing)


def test_one_folder_of_openood_is_the_copy_of_several_sources(demo, tmp_path):
    """Beside each other as OpenOOD has them; ImageNet-1k's training folders have classes of ImageNet-R."""
    images = tmp_path / "images_largescale"
    places = {
        "ninco": ("NINCO/NINCO_OOD_classes", "ninco"),
        "imagenet_v2": ("imagenetv2-matched-frequency-format-val", "imagenet_v2"),
        "imagenet_r": ("imagenet-r", "imagenet_r"),
        "imagenet_c": (".", "imagenet_c"),
        "imagenet21k": (".", "ssb_hard"),
        "imagenet": ("train", "imagenet_1k/train"),
        "dtd": ("images", "texture"),
    }
    for key, (inner, place) in places.items():
        shutil.copytree(demo[key] / inner, images / place, copy_function=os.link)
    for key in places:
        partitions = {"imagenet": ["train"]}.get(key, list(SOURCES[key].expected()))
        index, expected = (open_source(SOURCES[key], root, partitions) for root in (tmp_path, demo[key]))
        assert index.table["source_id"].equals(expected.table["source_id"]), key
        assert index.table["class_id"].equals(expected.table["class_id"]), key


def test_a_missing_source_is_shown_with_the_way_to_get_it_and_its_layouts():
    first, page, get, mirror, *layouts_shown = missing_source(SOURCES["dtd"], ["cifar/far_ood_dtd"])
    assert first == "  --dtd DIR  Describable Textures (DTD), for cifar/far_ood_dtd"
    assert page.startswith("      get it from https://www.robots.ox.ac.uk/~vgg/data/dtd/: download dtd-r1.0.1.tar.gz;")
    assert get == "      or run python -m builders.commands.sources get dtd --into DIR"
    assert mirror == "      or give --dtd hf://datasets/bitmind/dtd"
    assert [line.strip() for line in layouts_shown] == list(SOURCES["dtd"].layouts)


@pytest.mark.parametrize(
    ("key", "partitions", "names"),
    [
        ("places365", ("val",), "places365-val"),
        ("places365", ("train", "val"), ""),  # the training images have no plain address
        ("places365", (), ""),
        ("svhn", ("test",), "svhn-test"),
        ("mnist", ("train", "test"), "mnist"),
        ("cifar100", ("test",), "cifar100"),  # one archive has both
    ],
)
def test_of_a_missing_source_only_the_partitions_that_are_needed_are_to_be_downloaded(key, partitions, names):
    """Places365 for OpenOOD's CIFAR: 525 MB of validation images, and not 26 GB of training images, too."""
    lines = missing_source(SOURCES[key], "openood-cifar10/places365", partitions)
    shown = [line.partition("sources get ")[2].removesuffix(" --into DIR") for line in lines if "sources get" in line]
    assert shown == [names] * bool(names)


def test_layouts_are_named_for_the_report(laid_out):
    index = opened("imagenet", laid_out("imagenet", layouts.imagenet_mixed))
    assert index.layouts == {"train": "original archive ILSVRC2012_img_train.tar", "val": "class folders in val"}
    index = opened("places365", laid_out("places365", layouts.places365_large))
    assert index.layouts == {"train": "large edition, data_large_standard", "val": "large edition, val_large"}


def test_partitions_not_asked_for_are_not_looked_at(demo, tmp_path):
    root = tree(tmp_path, {"train/n99999999/a.JPEG": b""})
    link(demo["imagenet"] / "val", root / "val")
    assert open_source(SOURCES["imagenet"], root, ("val",)).table.num_rows == 2000


@pytest.mark.parametrize("key", SOURCES)
def test_order_of_directory_listings_does_not_matter(demo, index_of, monkeypatch, key):
    expected = index_of(key)
    listing = os.listdir

    def shuffled(folder):
        return random.Random(str(folder)).sample(names := listing(folder), len(names))

    monkeypatch.setattr(os, "listdir", shuffled)
    index = opened(key, demo[key])
    assert index.table.equals(expected.table)
    assert index.partitions == expected.partitions


@pytest.mark.parametrize("key", SOURCES)
def test_declarations_are_filled(key):
    source = SOURCES[key]
    assert source.key == key
    assert source.obtain.page.startswith(("https://", "http://"))
    assert source.obtain.steps and not source.obtain.steps.endswith(".")
    assert source.licence.url.startswith("http")
    assert len(source.licence.statement) > 40
    assert source.citation.startswith("@")
    assert source.citation.count("{") == source.citation.count("}")
    assert all(any(line.startswith(f"{partition}: ") for line in source.layouts) for partition in source.expected())
    for expected in source.expected().values():
        if expected.per_class is not None:
            assert sum(expected.per_class.values()) == expected.total
            assert list(expected.per_class) == list(source.classes())


def test_expected_totals_are_the_owners():
    """Of the sources before NINCO but PartialBROAD; the others have theirs in tests of their own."""
    owners = {
        "imagenet": {"train": 1_281_167, "val": 50_000},
        "food101": {"images": 101_000},
        "caltech256": {"images": 30_607},
        "places365": {"train": 1_803_460, "val": 36_500},
        "cifar100": {"train": 50_000, "test": 10_000},
        "cifar10": {"train": 50_000, "test": 10_000},
        "mnist": {"train": 60_000, "test": 10_000},
        "svhn": {"train": 73_257, "test": 26_032},
        "lsun": {"test": 10_000},
        "lsun_fix": {"images": 10_000},
        "dtd": {"images": 5_640},
        "sun397": {"images": 108_754},
        "svhn_full": {"train": 33_402, "test": 13_068},
        "inaturalist": {"images": 10_000},
        "imagenet_o": {"images": 2_000},
        "openimage_o": {"test": 15_869, "val": 1_763},
        "coco2017": {"train": 117_266},
    }
    totals = {key: {name: size.total for name, size in SOURCES[key].expected().items()} for key in owners}
    assert totals == owners


def test_class_names_are_not_always_their_ids():
    names = {
        "imagenet": ("n01440764", "tench"),
        "food101": ("apple_pie", "apple pie"),
        "caltech256": ("133.lightning", "lightning"),
        "places365": ("/a/apartment_building/outdoor", "apartment_building/outdoor"),
        "cifar100": ("aquarium_fish", "aquarium fish"),
        "lsun_fix": ("church_outdoor", "church outdoor"),
        "sun397": ("/a/apartment_building/outdoor", "apartment_building/outdoor"),
        "svhn_full": ("number", "house number"),
    }
    assert {key: (class_id, SOURCES[key].classes()[class_id]) for key, (class_id, _) in names.items()} == names


def test_entries_that_are_no_image_files_are_refused_in_a_sentence():
    """In a child: opening a named pipe would wait for ever, and a device has no end."""
    outcomes = run_cases("tests.fuzz.targets.folders:folder")
    words = {
        "named pipe": "is a named pipe",
        "folder": "is a folder",
        "device": "is a device",
        "link to itself": "Too many levels of symbolic links",
        "link to nothing": "No such file or directory",
        "large": "has 1,099,511,627,776 bytes, more than any image of a source",
        "file as class folder": "Cannot list",
    }
    for name, reason in words.items():
        assert outcomes[name].kind == "refused", outcomes[name]
        assert reason in outcomes[name].message, outcomes[name]
    assert outcomes["control characters"].kind == outcomes["no UTF-8"].kind == "value"
