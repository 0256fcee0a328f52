import gzip
import io
import pickle
import shutil

import numpy as np
import pytest
from PIL import Image

from builders.demo.cifar100 import python2_pickle
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders.cifar_layouts import (
    CIFAR10_FOLDER,
    cifar10_all,
    cifar10_binary,
    cifar10_folders,
    cifar10_folders_from_1,
    cifar10_parquet,
)
from tests.builders.trees import contents, opened, refusal, tree

FIRST = [tables.cifar10()[label] for label in tables.cifar_order("cifar10", "test")[:3]]


def test_pixels_ids_and_classes_are_those_of_numpy_and_pickle(demo):
    """The expected values come from the standard unpickler, read as the owner's page says; five files are one."""
    index = opened("cifar10", demo["cifar10"])
    images = contents(index)
    for partition in ("train", "test"):
        labels, pixels = cifar10_all(demo["cifar10"], partition)
        for place, label in enumerate(labels):
            key = partition, tables.cifar10()[label], f"{partition}/{place:05d}"
            assert images.pop(key) == pixels[place].tobytes()
    assert images == {}
    rows = index.table.select(["how", "form", "size"]).to_pylist()
    assert {tuple(row.values()) for row in rows} == {("span", "planar32", 3072)}  # read where they lie


def test_the_first_images_have_the_classes_that_everybody_prints():
    """The first four of the test set, as tutorials show them (PyTorch's among them), and of the training set."""
    names, order = tables.cifar10(), tables.cifar_order
    assert [names[label] for label in order("cifar10", "test")[:4]] == ["cat", "ship", "ship", "airplane"]
    assert [names[label] for label in order("cifar10", "train")[:4]] == ["frog", "truck", "truck", "deer"]
    for partition, each in (("train", 5_000), ("test", 1_000)):
        assert np.bincount(order("cifar10", partition)).tolist() == [each] * 10
    assert np.bincount(order("cifar100", "test")).tolist() == [100] * 100


def batch(**changes):
    """The first two images of the test set, as Python 2 pickled them."""
    labels = list(tables.cifar_order("cifar10", "test")[:2])
    values = {"batch_label": "x", "labels": labels, "data": np.zeros((2, 3072), np.uint8), "filenames": ["a", "b"]}
    return python2_pickle({key: value for key, value in (values | changes).items() if value is not None})


PNG = io.BytesIO()
Image.new("RGB", (32, 32)).save(PNG, "PNG")


def folders(**changes):
    """A PNG of each class, numbered from 1, but for some."""
    names = {name: ["0001.png"] for name in tables.cifar10()} | changes
    return {f"test/{name}/{file}": PNG.getvalue() for name, files in names.items() for file in files}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"test_batch": b""}, "cannot be read as a pickle"),
        ({"test_batch": pickle.dumps(print)}, "it has a call for"),
        (
            {"test_batch": batch(labels=None)},
            "(found: batch_label, data, filenames), which CIFAR-100",
        ),
        ({"test_batch": batch(labels=[3])}, "has 2 images and 1 labels"),
        ({"test_batch": batch(labels=[3, 10])}, "has 10 in its labels, which is not from 0 to 9"),
        ({"test_batch": batch(labels=[8, 3])}, "test_batch is of the class ship, and the owner's of cat"),
        ({"cifar-10-python.tar.gz": gzip.compress(b"nothing")}, "cannot be read as a tar.gz"),
        ({"test_batch.bin": bytes(3072)}, "has 3,072 bytes, which are no images of 3,073 bytes with their labels"),
        ({"test_batch.bin": b""}, "has 0 bytes"),
        ({"test_batch.bin": b"\x0a" + bytes(3072)}, "has 10 in its labels"),
        ({"test_batch.bin": b"\x08" + bytes(3072)}, "is of the class ship, and the owner's of cat"),
        (folders(cat=["0000.jpg"]), "test/cat/0000.jpg is a JPEG, which has other pixels than the owner's image"),
        (folders(cat=["cat_s_000081.png"]), "test/cat has no files that are numbered in the owner's order"),
        (folders(cat=["0001.png", "1.png"]), "test/cat has a number twice or above 1,000, counted from 1"),
        (folders(cat=["1001.png"]), "test/cat has a number twice or above 1,000, counted from 1"),
        (folders(**{name: ["0007.png"] for name in tables.cifar10()[:5]}), "may count from 0 or from 1"),
        (folders(cat=["0000.png", "1000.png"]), "test/cat has a number twice or above 999, counted from 0"),
    ],
)
def test_files_that_are_not_the_owners(tmp_path, files, words):
    assert words in refusal("cifar10", tree(tmp_path, files), "test")


def test_a_training_batch_that_is_missing_is_named(demo, tmp_path):
    """The images behind it would move to its places."""
    shutil.copytree(demo["cifar10"] / CIFAR10_FOLDER, tmp_path / CIFAR10_FOLDER)
    (tmp_path / CIFAR10_FOLDER / "data_batch_3").unlink()
    assert "has data_batch_1 and lacks data_batch_3" in refusal("cifar10", tmp_path, "train")
    root = cifar10_binary(demo["cifar10"], tmp_path / "binary")
    (root / "cifar-10-batches-bin" / "data_batch_1.bin").unlink()
    assert "has data_batch_2.bin and lacks data_batch_1.bin" in refusal("cifar10", root, "train")


def test_batches_that_changed_places_are_refused_by_their_labels(demo, tmp_path):
    home = shutil.copytree(demo["cifar10"] / CIFAR10_FOLDER, tmp_path / CIFAR10_FOLDER)
    (home / "data_batch_1").rename(home / "x")
    (home / "data_batch_2").rename(home / "data_batch_1")
    (home / "x").rename(home / "data_batch_2")
    assert "an image is identified by its place in the owner's order" in refusal("cifar10", tmp_path, "train")


def test_a_mirror_in_another_order_is_refused(demo, tmp_path):
    root = cifar10_parquet(demo["cifar10"], tmp_path, shards=2)
    names = [root / "plain_text" / f"test-0000{number}-of-00002.parquet" for number in (0, 1)]
    contents_of = [name.read_bytes() for name in names]
    for name, content in zip(names, reversed(contents_of), strict=True):
        name.write_bytes(content)
    assert "an image is identified by its place in the owner's order" in refusal("cifar10", root, "test")


def test_a_folder_that_lacks_some_images_has_the_places_of_the_others(demo, tmp_path):
    """Whether numbers count from 0 shows by any 0; without one, that they count from 1 shows by most classes' 1."""
    expected = open_source(SOURCES["cifar10"], demo["cifar10"], ("test",)).table["source_id"].to_pylist()
    for make, name in ((cifar10_folders, "0000.png"), (cifar10_folders_from_1, "0001.png")):
        root = make(demo["cifar10"], tmp_path / make.__name__)
        (root / "test" / FIRST[0] / name).unlink()  # the first image of all
        index = open_source(SOURCES["cifar10"], root, ("test",))
        assert index.table["source_id"].to_pylist() == expected[1:]
