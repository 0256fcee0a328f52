"""Adopting a copy whose class folders are numbers."""

import io
import os

import PIL.Image
import pytest

from builders import cifar_benchmark, imagenet_benchmark
from builders.adopt.copies import adopt
from builders.adopt.file_listing import list_images
from builders.adopt.numbered import _digest, are_numbered
from builders.errors import BuildError
from builders.sources.base import open_source
from builders.sources.registry import SOURCES
from tests.builders.cifar_layouts import cifar100_batch, cifar100_parquet, png
from tests.builders.trees import tree

CIFAR60 = "cifar-bench/test/cifar60/labels"
NEAR_SET = "imagenet-bench/test/near-imagenet200/labels"
CLASSES = ("bear", "camel", "lion")
WNIDS = ("n01440764", "n01530575", "n01532829")


def adopted(benchmark, key, copy, source, root, partition):
    """What a copy says of one split, with one partition of its source indexed."""
    index = open_source(SOURCES[source], root, (partition,))
    notes = []
    return adopt(benchmark, (key,), copy, {source: index}, notes.append, seed=0), notes


@pytest.fixture(scope="module")
def pictures(demo):
    """The demo's CIFAR-100 test images of each class, as pixels."""
    batch, pixels = cifar100_batch(demo["cifar100"], "test")
    names = list(SOURCES["cifar100"].classes())
    found = {name: [] for name in names}
    for label, image in zip(batch["fine_labels"], pixels, strict=True):
        found[names[label]].append(image)
    return found


def cifar60(root, folders, pictures, encode=png):
    """A copy with the images of some classes in numbered folders."""
    for number, names in enumerate(folders):
        for name in names:
            for place, image in enumerate(pictures[name]):
                tree(root, {f"{CIFAR60}/{number}/{name[0]}{place}.png": encode(image)})
    return root


@pytest.mark.parametrize("mirrored", [False, True])
def test_pixels_tell_the_classes_of_numbered_folders(demo, pictures, tmp_path, mirrored):
    copy = cifar60(tmp_path / "copy", [[name] for name in CLASSES], pictures)
    root = cifar100_parquet(demo["cifar100"], tmp_path / "mirror") if mirrored else demo["cifar100"]
    choice, _ = adopted(cifar_benchmark.BENCHMARK, "cifar/near_ood", copy, "cifar100", root, "test")
    assert choice["cifar/near_ood"].class_ids == CLASSES


def jpeg(image):
    """An image encoded with loss."""
    buffer = io.BytesIO()
    PIL.Image.fromarray(image).save(buffer, "JPEG", quality=30)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("folders", "encode", "words"),
    [
        (
            [["bear"], ["lion"], ["camel"]],
            png,
            "1 holds images of lion, while the sorted list of its classes has camel",
        ),
        ([["bear"], ["camel", "lion"]], png, "1 holds images of camel and lion, so its class is unclear"),
        ([["bear"], ["bear"]], png, "0 and 1 hold images of the same class bear"),
        ([["bear"]], jpeg, "0 holds no image of CIFAR-100, so its class is unclear"),
    ],
)
def test_numbers_that_the_images_do_not_explain(demo, pictures, tmp_path, folders, encode, words):
    copy = cifar60(tmp_path / "copy", folders, pictures, encode)
    with pytest.raises(BuildError) as caught:
        adopted(cifar_benchmark.BENCHMARK, "cifar/near_ood", copy, "cifar100", demo["cifar100"], "test")
    assert f"CIFAR-100: the class folders of {copy / CIFAR60[:-7]} are numbers, and " in str(caught.value)
    assert words in str(caught.value)
    assert str(caught.value).endswith(". Name the folders after their classes.")


def test_a_file_that_does_not_decode_is_named(demo, tmp_path):
    copy = tree(tmp_path / "copy", {f"{CIFAR60}/0/a.png": b"\x89PNG"})
    with pytest.raises(BuildError, match=r"0/a\.png does not decode"):
        adopted(cifar_benchmark.BENCHMARK, "cifar/near_ood", copy, "cifar100", demo["cifar100"], "test")


def near(root, demo, order):
    """A copy of the near unknowns with the images of classes in numbered folders."""
    for number, wnid in enumerate(order):
        for path in (demo["imagenet"] / "val" / wnid).iterdir():
            tree(root, {f"{NEAR_SET}/{number}/{path.name}": path.read_bytes()})
    return root


def test_file_names_tell_the_classes_of_numbered_folders(demo, tmp_path):
    copy = near(tmp_path / "copy", demo, WNIDS)
    key, root = "imagenet/near_ood", demo["imagenet"]
    choice, _ = adopted(imagenet_benchmark.BENCHMARK, key, copy, "imagenet", root, "val")
    assert choice[key].class_ids == WNIDS
    other = near(tmp_path / "other", demo, WNIDS[::-1])
    with pytest.raises(BuildError, match=rf"0 holds images of {WNIDS[2]}, while the sorted list .* has {WNIDS[0]}"):
        adopted(imagenet_benchmark.BENCHMARK, key, other, "imagenet", root, "val")


def test_a_set_of_a_partition_that_is_not_read_decides_nothing(demo, pictures, tmp_path):
    copy = cifar60(tmp_path / "copy", [["bear"]], pictures)
    tree(copy, {"cifar-bench/valid/cifar40/labels/0/a.png": png(pictures["bear"][0])})
    _, notes = adopted(cifar_benchmark.BENCHMARK, "cifar/near_ood", copy, "cifar100", demo["cifar100"], "test")
    assert any("valid/cifar40: its class folders are numbers, and this run reads no images" in note for note in notes)


def test_what_counts_as_numbered():
    assert are_numbered(["0", "2", "1"]) and are_numbered(["0"])
    assert not any(map(are_numbered, ([], ["1", "2"], ["0", "0"], ["0", "a"])))


@pytest.mark.timeout(60)
def test_a_named_pipe_among_the_images_is_not_waited_for(tmp_path):
    (tmp_path / "0").mkdir()
    os.mkfifo(tmp_path / "0" / "a.png")
    listing = list_images(tmp_path)
    assert len(listing) == 1
    with pytest.raises(BuildError, match=r"a\.png is a named pipe, not a regular file"):
        _digest(listing.path(0))
