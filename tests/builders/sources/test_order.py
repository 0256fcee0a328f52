"""Arrays identify an image by its place: a complete copy in another order than the owner's is refused."""

import collections
import pickle
import struct

import numpy as np
import pytest

from builders.errors import BuildError
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders.trees import write_parquet
from tests.published_lists import needs_lists, published


def mnist_files(root, labels):
    """The two idx files of the test set; the file of pixels has a hole in place of them."""
    (root / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">HBBI", 0, 8, 1, len(labels)) + bytes(labels))
    with (root / "t10k-images-idx3-ubyte").open("wb") as file:
        file.write(struct.pack(">HBB3I", 0, 8, 3, len(labels), 28, 28))
        file.truncate(16 + 784 * len(labels))


def mirror(root, labels):
    """A mirror's one file of the test set, without pixels."""
    write_parquet(root / "test-00000-of-00001.parquet", [(None, label, b"") for label in labels], "0123456789")


def published_digits(source):
    """The digit of each test image in the owner's order, by the names of OpenOOD's list."""
    names = [
        path.rpartition("/")[2].partition(".")[0] for path in published(f"openood_cifar10_{source}") if "test/" in path
    ]
    pairs = [name.split("_") for name in names]
    if source == "svhn":  # 022008_2: place and digit; MNIST's 8_8486 has digit and place
        pairs = [(digit, place) for place, digit in pairs]
    return [int(digit) for digit, _ in sorted(pairs, key=lambda pair: int(pair[1]))]


def sorted_digits(source):
    counts = SOURCES[source].expected()["test"].per_class
    return [int(digit) for digit, count in counts.items() for _ in range(count)]


@needs_lists
@pytest.mark.parametrize(("source", "write"), [("mnist", mnist_files), ("mnist", mirror), ("svhn", mirror)])
def test_the_order_of_openoods_list_is_the_owners(tmp_path, source, write):
    labels = published_digits(source)
    write(tmp_path, labels)
    index = open_source(SOURCES[source], tmp_path, ("test",))
    assert index.table["class_id"].to_pylist() == [str(label) for label in labels]


@pytest.mark.parametrize(("source", "write"), [("mnist", mnist_files), ("mnist", mirror), ("svhn", mirror)])
def test_equal_counts_in_another_order_are_refused(tmp_path, source, write):
    write(tmp_path, sorted_digits(source))
    with pytest.raises(BuildError, match=r"stand in another order than the owner's test images.*identified by"):
        open_source(SOURCES[source], tmp_path, ("test",))


def test_a_copy_that_lacks_images_is_short_by_its_counts_alone(tmp_path):
    mirror(tmp_path, sorted_digits("mnist")[1:])
    assert open_source(SOURCES["mnist"], tmp_path, ("test",)).num_rows == 9_999


def test_one_pair_of_exchanged_images_of_cifar_100_is_refused(tmp_path):
    """With the superclasses that belong to the labels, so that nothing but the order is wrong."""
    order = list(tables.cifar_order("cifar100", "test"))
    assert collections.Counter(order) == dict.fromkeys(range(100), 100)
    write_cifar100(tmp_path / "right", order)
    assert open_source(SOURCES["cifar100"], tmp_path / "right", ("test",)).num_rows == 10_000
    order[3], order[4] = order[4], order[3]
    write_cifar100(tmp_path / "other", order)
    with pytest.raises(BuildError, match="stand in another order than the owner's test images"):
        open_source(SOURCES["cifar100"], tmp_path / "other", ("test",))


def write_cifar100(root, labels):
    coarse = sorted({row.coarse for row in tables.cifar100()})
    of_fine = np.array([coarse.index(row.coarse) for row in tables.cifar100()])
    root.mkdir()
    batch = {"data": np.zeros((len(labels), 3072), np.uint8), "fine_labels": labels}
    batch["coarse_labels"] = of_fine[labels].tolist()
    with (root / "test").open("wb") as file:
        pickle.dump(batch, file, protocol=2)
