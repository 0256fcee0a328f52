"""OpenOOD's benchmarks on CIFAR-10 and CIFAR-100: every row against the published lists, and a build of the demo."""

import hashlib
import io
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.demo import cifar10 as demo_cifar10
from builders.openood_benchmark import BENCHMARK
from builders.plan.candidates import Draws
from builders.plan.planner import plan
from builders.release.duplicates import read_pairs
from builders.release.manifest import read_manifest
from builders.release.openood_tree import LISTS, list_text
from builders.sources.datasets.tiny_imagenet import validation_classes
from builders.sources.registry import SOURCES
from hf_scripts import materialize
from taxonomy import tables
from taxonomy.wordnet.nouns import load_wordnet
from tests.builders.cifar_layouts import mnist_arrays
from tests.builders.indexes import listed_rows, named_index
from tests.published_lists import PUBLISHED, content, labels, needs_lists, published

KEYS = [key for key in BENCHMARK.parts if "cifar" in key and "-train/" not in key]


def _list_name(key):
    """The published list of a split: MNIST, SVHN and DTD have one for both benchmarks."""
    config, _, name = key.partition("/")
    of = config.removeprefix("openood-")
    if name in ("mnist", "svhn", "texture"):
        of = "cifar10"
    return f"openood_{of}_{'places' if name == 'places365' else name}"


def _cifar100_order():
    """The labels of CIFAR-100's test set in the order of the owner's file, from a file that no table is made of."""
    return np.load(PUBLISHED / "cifar100_labels.npz")["test"].tolist()


def _id_of(path, places):
    """The id of an image by its path in OpenOOD's tree, as each set's names are to be read."""
    source, *folders, name = path.split("/")
    stem = name.partition(".")[0]
    match source:
        case "cifar10" | "cifar100":  # numbered from 1 within the class
            return f"test/{places[source][folders[1]][int(stem) - 1]:05d}"
        case "mnist":  # digit and place
            return f"{folders[0]}/{int(stem[2:]):05d}"
        case "svhn":  # place from 1, and digit
            return f"test/{int(stem[:6]) - 1:05d}"
        case "tin" | "places365":
            return f"val/{name}"
        case "texture":
            return f"{folders[0]}/{name}"
    raise AssertionError(path)


@pytest.fixture(scope="module")
def places():
    """The places of each class's images in CIFAR's test files."""
    names = [row.fine for row in tables.cifar100()]
    orders = {
        "cifar10": [tables.cifar10()[label] for label in tables.cifar_order("cifar10", "test")],
        "cifar100": [names[label] for label in _cifar100_order()],
    }
    of = {source: {} for source in orders}
    for source, order in orders.items():
        for place, name in enumerate(order):
            of[source].setdefault(name, []).append(place)
    return of


def _complete(places):
    """Ids and classes of complete copies, by source and partition."""
    mnist, svhn = {"train": {}, "test": {}}, {}
    for path in published("openood_cifar10_mnist"):
        source_id = _id_of(path, places)
        mnist[source_id.partition("/")[0]][source_id] = path.rpartition("/")[2][0]
    for path in published("openood_cifar10_svhn"):
        svhn[_id_of(path, places)] = path[-5]
    categories = [row.category for row in tables.places365()]
    by_folder = {row.name.replace("/", "-"): row.category for row in tables.places365()}
    scenes = {f"val/Places365_val_{number:08d}.jpg": categories[number % 365] for number in range(1, 36_501)}
    for name in ("openood_cifar10_places", "openood_cifar100_places"):
        scenes |= {f"val/{path.rpartition('/')[2]}": by_folder[path.split("/")[1]] for path in published(name)}
    textures = {path.removeprefix("texture/"): path.split("/")[-2] for path in published("openood_cifar10_texture")}
    cifar = {
        source: {f"test/{place:05d}": name for name, of in places[source].items() for place in of} for source in places
    }
    fine = [row.fine for row in tables.cifar100()]
    train = {
        "cifar10": {
            f"train/{place:05d}": tables.cifar10()[label]
            for place, label in enumerate(tables.cifar_order("cifar10", "train"))
        },
        "cifar100": {
            f"train/{place:05d}": fine[label] for place, label in enumerate(tables.cifar_order("cifar100", "train"))
        },
    }
    return {
        **{source: {"train": train[source], "test": cifar[source]} for source in cifar},
        "mnist": mnist,
        "svhn": {"test": svhn},
        "dtd": {"images": textures},
        "places365": {"val": scenes},
        "tiny_imagenet": {"val": dict(validation_classes())},
    }


@pytest.fixture(scope="module")
def planned(places):
    """The plan of every split from complete sources, by key."""
    indexes = {name: named_index(SOURCES[name], of) for name, of in _complete(places).items()}
    keys = [*KEYS, "openood-cifar10-train/train", "openood-cifar100-train/train"]
    return {split.key: split for split in plan(Draws(BENCHMARK, seed=0), indexes, splits=keys)}


@needs_lists
@pytest.mark.parametrize("key", KEYS)
def test_a_split_has_exactly_the_published_images(planned, places, key):
    expected = [_id_of(path, places) for path in _paths(key)]
    assert sorted(planned[key].table["source_id"].to_pylist()) == sorted(expected)
    assert len(expected) == len(set(expected)) == BENCHMARK.count(key).rows == BENCHMARK.count(key).paper


def _paths(key):
    """The paths of a list; `published` takes the set's folder away where OpenOOD's ImageNet lists have it, too."""
    name = _list_name(key)
    return [f"texture/{path}" for path in published(name)] if key.endswith("/texture") else published(name)


@needs_lists
@pytest.mark.parametrize("key", KEYS)
def test_an_exported_list_is_the_published_one_byte_for_byte(planned, key):
    assert list_text(listed_rows(planned[key])) == content(_list_name(key))


@needs_lists
@pytest.mark.parametrize(("of", "each"), [("cifar10", 5_000), ("cifar100", 500)])
def test_the_training_list_numbers_each_class_from_one(planned, of, each):
    """As the public copies of OpenOOD's train_cifar10.txt and train_cifar100.txt do (glhr/ood-labelnoise)."""
    names = tables.cifar10() if of == "cifar10" else [row.fine for row in tables.cifar100()]
    lines = [f"{of}/train/{name}/{n:04d}.png {label}" for label, name in enumerate(names) for n in range(1, each + 1)]
    key = f"openood-{of}-train/train"
    assert LISTS[key] == f"benchmark_imglist/{of}/train_{of}.txt"
    assert list_text(listed_rows(planned[key])).splitlines() == sorted(lines)


@needs_lists
def test_labels_are_those_of_the_published_lists(planned, places):
    for of in ("cifar10", "cifar100"):
        for split in ("validation", "test"):
            rows = planned[f"openood-{of}/{split}"].table
            built = dict(zip(rows["source_id"].to_pylist(), rows["label"].to_pylist(), strict=True))
            assert built == {_id_of(path, places): label for path, label in labels(f"openood_{of}_{split}").items()}


@needs_lists
def test_parts_of_a_source_are_disjoint_and_training_images_are_all_of_them(planned):
    ids = {key: set(split.table["id"].to_pylist()) for key, split in planned.items()}
    for of in ("cifar10", "cifar100"):
        assert not ids[f"openood-{of}/validation"] & ids[f"openood-{of}/test"]
        assert len(ids[f"openood-{of}/validation"] | ids[f"openood-{of}/test"]) == 10_000
        assert not ids[f"openood-{of}/tin"] & ids[f"openood-{of}/tin_validation"]
        assert len(ids[f"openood-{of}-train/train"]) == 50_000


# Classes and numbers as counted by hand from the lists: OpenOOD's authors left most kin of known classes out.
KIN = {
    "cifar10": {"tabby": 1, "Egyptian cat": 1, "cougar": 50, "limousine": 3, "moving van": 3},
    "cifar100": {"koala": 50, "spiny lobster": 50, "candle": 49, "pay-phone": 50, "viaduct": 46, "water jug": 49},
}


@needs_lists
@pytest.mark.parametrize("of", KIN)
def test_kin_of_known_classes_that_the_lists_have_are_marked(planned, of):
    """Which classes are kin follows from WordNet's hypernyms alone."""
    wordnet = load_wordnet()
    wnids = {
        "cifar10": [row["wnid"] for row in tables.read_csv_rows("cifar10.csv")],
        "cifar100": [item.wnid for item in tables.cifar100_wnids()],
    }
    known = {wordnet.row(wnid) for wnid in wnids[of]}
    below = {wnid for wnid in tables.tiny_imagenet200() if known & {*wordnet.ancestors(wordnet.row(wnid)).tolist()}}
    rows = planned[f"openood-{of}/tin"].table.select(["class_id", "class_name", "id_overlap_kind"]).to_pylist()
    marked = [row for row in rows if row["id_overlap_kind"] == "descendant"]
    assert {row["class_id"] for row in marked} == {row["class_id"] for row in rows} & below
    assert Counter(row["class_name"] for row in marked) == KIN[of]
    lions = [row["class_name"] for row in rows if row["id_overlap_kind"] == "shared word"]
    assert Counter(lions) == ({"lion": 50} if of == "cifar10" else {})


@needs_lists
@pytest.mark.parametrize("of", KIN)
def test_unknowns_to_tune_on_have_no_class_of_those_to_test_on(planned, of):
    classes = {
        name: set(planned[f"openood-{of}/{name}"].table["class_id"].to_pylist()) for name in ("tin", "tin_validation")
    }
    assert len(classes["tin_validation"]) == 20 and not classes["tin"] & classes["tin_validation"]


@needs_lists
def test_cifar_classes_beside_each_other_have_their_evidence(planned):
    near = planned["openood-cifar10/cifar100"].table.select(["class_id", "id_overlap", "id_overlap_kind"]).to_pylist()
    of = {(row["class_id"], row["id_overlap"], row["id_overlap_kind"]) for row in near if row["id_overlap"]}
    assert of == {
        ("pickup_truck", "truck", "descendant"),
        ("streetcar", "automobile", "shared word"),
        *((name, "cat", "shared word") for name in ("leopard", "lion", "tiger")),
    }


# ---- the demo


def test_rows_of_grey_arrays_are_the_sources_pixels(openood_release, demo):
    entry = read_manifest(openood_release).by_key()["openood-cifar10/mnist"]
    rows = pq.read_table(openood_release / entry.data[0].path).select(["image", "source_id", "content_sha256"])
    arrays = {partition: mnist_arrays(demo["mnist"], partition)[1] for partition in ("train", "test")}
    for row in rows.to_pylist():
        image = Image.open(io.BytesIO(row["image"]["bytes"]))
        partition, _, place = row["source_id"].partition("/")
        pixels = arrays[partition][int(place)]
        assert (image.format, image.mode, image.size) == ("PNG", "L", (28, 28))
        assert np.array_equal(np.asarray(image), pixels)
        assert row["content_sha256"] == hashlib.sha256(b"L 28 28\n" + pixels.tobytes()).hexdigest()
    assert rows.num_rows == 200


def test_the_copies_in_the_demo_are_found(openood_release):
    """Each is a test image that is a training image of its class, as it is or changed."""
    found = {
        (pair.id, pair.other_id): pair.distance > 0
        for pair in read_pairs(openood_release / "duplicates" / "pairs.parquet")
        if "openood-cifar10-train/train" in (pair.split, pair.other_split)
    }
    planted = {
        frozenset((f"cifar10/test/{place:05d}", f"cifar10/train/{demo_cifar10.original(place):05d}")): place
        for place in range(demo_cifar10.EQUAL + 1)
    }
    near = {frozenset(pair): is_near for pair, is_near in found.items()}
    assert {pair: near.get(pair) for pair in planted} == {
        pair: place != demo_cifar10.EQUAL for pair, place in planted.items()
    }


def test_materialize_gives_equal_files(openood_release, demo, tmp_path):
    keys = ("cifar10", "cifar100", "tiny_imagenet", "mnist", "svhn", "dtd", "places365")
    sources = [f"--{key}={demo[key]}" for key in keys]
    splits = "openood-cifar10,openood-cifar10-train"
    command = [str(openood_release), *sources, f"--splits={splits}", f"--out={tmp_path / 'out'}", "--workers=1"]
    assert materialize.main([*command, "--quiet"]) == 0
    made, first = (read_manifest(root).by_key() for root in (tmp_path / "out", openood_release))
    assert {key: (entry.digest, entry.data) for key, entry in made.items()} == {
        key: (entry.digest, entry.data) for key, entry in first.items() if key.split("/")[0] in splits.split(",")
    }
