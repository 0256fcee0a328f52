import gzip
import struct

import numpy as np
import pytest

from builders.errors import BuildError
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from builders.sources.unpack import UNPACKERS
from tests.builders.cifar_layouts import mnist_arrays, mnist_unpacked
from tests.builders.trees import contents, opened, refusal, tree, write_parquet
from tests.published_lists import needs_lists, published

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)


def idx(array, kind=8):
    """An array as an idx file, by the description at the end of the owners' page."""
    return struct.pack(f">HBB{array.ndim}I", 0, kind, array.ndim, *array.shape) + array.tobytes()


def files(images=None, labels=None, ending=""):
    """The two files of the test set with three images, or other bytes in place of one."""
    of = {"images-idx3": images, "labels-idx1": labels}
    whole = {"images-idx3": idx(PIXELS), "labels-idx1": idx(np.array([7, 2, 1], np.uint8))}
    return {f"t10k-{name}-ubyte{ending}": whole[name] if content is None else content for name, content in of.items()}


def test_pixels_ids_and_classes_are_those_of_the_bytes(demo):
    images = contents(opened("mnist", demo["mnist"]))
    for partition in ("train", "test"):
        labels, pixels = mnist_arrays(demo["mnist"], partition)
        for place, label in enumerate(labels):
            assert images.pop((partition, str(label), f"{partition}/{place:05d}")) == pixels[place].tobytes()
    assert images == {}


def test_unpacked_files_are_read_where_they_lie(demo, tmp_path):
    index = opened("mnist", mnist_unpacked(demo["mnist"], tmp_path))
    rows = index.table.select(["how", "form", "size"]).to_pylist()
    assert {tuple(row.values()) for row in rows} == {("span", "grey28", 784)}


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (files(images=b""), "is no idx file of its name (it begins with nothing)"),
        (files(images=idx(PIXELS)[:10]), "(it begins with 00 00 08 03)"),
        (files(images=idx(PIXELS, kind=9)), "(it begins with 00 00 09 03)"),
        (files(images=idx(PIXELS[0])), "(it begins with 00 00 08 02)"),
        (files(images=idx(PIXELS)[:-1]), "it has fewer than the 2,352 bytes that it announces"),
        (files(images=idx(PIXELS) + b"x"), "it has more than the 2,352 bytes that it announces"),
        (files(images=idx(PIXELS[:, :20])), "has images of 20 x 28 pixels instead of 28 x 28"),
        (files(images=idx(PIXELS[:2])), "has 3 labels for 2 images"),
        (files(images=struct.pack(">HBB3I", 0, 8, 3, 10**9, 28, 28)), "it would have 1,000,000,000 x 28 x 28 bytes"),
        (files(labels=idx(np.array([7, 2, 10], np.uint8))), "has the label 10, which is not from 0 to 9"),
        (files(labels=idx(np.array([7, 2, 1], np.uint8))[:-1]), "it has fewer than the 3 bytes that it announces"),
        (files(labels=idx(np.array([7, 2, 1], np.uint8)) + b"x"), "it has more than the 3 bytes that it announces"),
        (files(ending=".gz"), "it cannot be read as gz"),
        ({"t10k-images-idx3-ubyte": idx(PIXELS)}, "lies there without t10k-labels-idx1-ubyte. Put both files"),
    ],
)
def test_files_that_are_not_the_owners(tmp_path, of, words):
    assert words in refusal("mnist", tree(tmp_path, of), "test")


def test_a_packed_file_that_is_cut_or_changed_after_it_was_indexed(tmp_path):
    packed = {name: gzip.compress(content) for name, content in files(ending=".gz").items()}
    path = tree(tmp_path, packed) / "t10k-images-idx3-ubyte.gz"
    assert open_source(SOURCES["mnist"], tmp_path, ("test",)).num_rows == 3
    with pytest.raises(BuildError, match="expected at least 6 images, found 3"):
        list(UNPACKERS["idx"](path, np.array([5])))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(BuildError, match=r"cannot be read as gz|has fewer than"):
        list(UNPACKERS["idx"](path, np.array([0])))


def test_a_mirror_with_other_label_names_is_refused(tmp_path):
    write_parquet(tmp_path / "mnist" / "test-00000-of-00001.parquet", [(None, 0, b"")], "1234567890")
    assert "('1' is number 0)" in refusal("mnist", tmp_path, "test")


@needs_lists
def test_counts_are_those_of_openoods_list_of_all_images():
    counted = {}
    for path in published("openood_cifar10_mnist"):
        partition, name = path.split("/")[1:]
        of = counted.setdefault(partition, {})
        of[name[0]] = of.get(name[0], 0) + 1
    assert counted == {name: size.per_class for name, size in SOURCES["mnist"].expected().items()}
