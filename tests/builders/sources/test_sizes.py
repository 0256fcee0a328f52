"""Mirrors with resized images and the edition with blurred faces are recognised and named."""

import numpy as np
import PIL.Image
import pytest

from builders.commands.benchmark import run_command
from builders.demo.images import encode_image
from builders.errors import BuildError
from builders.imagenet_benchmark import BENCHMARK
from builders.sources import sizes
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from builders.sources.sizes import refuse_resized
from taxonomy import lists, tables
from tests.builders.trees import tree, write_parquet, write_tar
from tests.sentences import assert_sentence

TENCH = "n01440764"
WNIDS = [row.wnid for row in tables.imagenet1k()]


def picture(width, height):
    return encode_image(PIL.Image.new("RGB", (width, height), "gray"), "JPEG")


def varied(count):
    """Sizes as in ILSVRC2012: half have a side of 375, a few are small, and hardly two of the rest are equal."""
    generator = np.random.default_rng(0)
    usual = [(500, 375), (375, 500), (500, 375), (500, 333), (640, 480)]
    sizes = [usual[number % 5] for number in range(count * 4 // 5)]
    sizes += [(int(w), int(h)) for w, h in generator.integers(60, 1200, (count - len(sizes), 2))]
    return sizes


def imagenet(root, sizes):
    files = {
        f"val/{TENCH}/ILSVRC2012_val_{number:08d}.JPEG": picture(*size) for number, size in enumerate(sizes, start=1)
    }
    return open_source(SOURCES["imagenet"], tree(root, files), ("val",))


def refused(index):
    with pytest.raises(BuildError) as caught:
        refuse_resized(index)
    message = str(caught.value)
    assert str(index.root) in message
    assert message.endswith("Give the original images with --imagenet.")
    return message


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ([(64, 64)] * 40, "all 40 images examined are 64 x 64 pixels"),
        ([(224, 224)] * 90, "all 64 images examined are 224 x 224 pixels"),
        ([(256, 256 + 7 * number) for number in range(40)], "all 40 images examined have a side of 256"),
        ([(40 + number, 90) for number in range(40)], "40 of 40 images examined have a side below 100 pixels"),
    ],
)
def test_a_resized_copy_is_named(tmp_path, sizes, problem):
    message = refused(imagenet(tmp_path, sizes))
    assert_sentence(message, "ImageNet-1k", "ILSVRC2012", problem)


@pytest.mark.parametrize(
    "sizes",
    [
        varied(100),
        [(500, 375)] * 99 + [(320, 240)] * 20,
        [(64, 64)] * 15,  # too few to say anything
        [(64, 64)],
    ],
)
def test_copies_that_may_be_full_pass(tmp_path, sizes):
    refuse_resized(imagenet(tmp_path, sizes))


def test_images_without_a_readable_header_say_nothing(tmp_path):
    files = {f"val/{TENCH}/ILSVRC2012_val_{number:08d}.JPEG": b"no image" for number in range(40)}
    refuse_resized(open_source(SOURCES["imagenet"], tree(tmp_path, files), ("val",)))


def test_a_bounded_number_of_images_is_looked_at(tmp_path, monkeypatch):
    index = imagenet(tmp_path, varied(300))
    looked_at = []
    monkeypatch.setattr(
        sizes.Image, "open", lambda head, opened=PIL.Image.open: looked_at.append(head.getvalue()) or opened(head)
    )
    refuse_resized(index)
    assert len(looked_at) == 64
    first = list(looked_at)
    refuse_resized(index)
    assert looked_at[64:] == first  # the same ones every time


def test_images_in_archives_and_parquet_files_are_looked_at(tmp_path):
    data = picture(64, 64)
    names = [f"{TENCH}_{number}.JPEG" for number in range(40)]
    inner = tmp_path / "inner.tar"
    write_tar(inner, dict.fromkeys(names, data))
    (tmp_path / "tar").mkdir()
    write_tar(tmp_path / "tar/ILSVRC2012_img_train.tar", {f"{TENCH}.tar": inner.read_bytes()})
    rows = [(f"{name[:-5]}_{TENCH}.JPEG", 0, data) for name in names]
    for shard in range(6):
        part = rows[shard::6]
        write_parquet(tmp_path / f"hub/data/train-{shard:05d}-of-00006.parquet", part, WNIDS)
    for root in (tmp_path / "tar", tmp_path / "hub"):
        assert "images examined are 64 x 64 pixels" in refused(open_source(SOURCES["imagenet"], root, ("train",)))


@pytest.mark.parametrize(
    ("folder", "sizes", "words"),
    [
        ("data_256", [(256, 256)] * 40, ""),
        ("data_large", [(512, 512 + number) for number in range(40)], ""),
        ("data_256", [(64, 64)] * 40, "images examined are 64 x 64 pixels"),
        ("data_256", [(128, 171)] * 40, "images examined are 128 x 171 pixels"),
    ],
)
def test_both_editions_of_places365_pass_and_others_do_not(tmp_path, folder, sizes, words):
    files = {f"{folder}/a/airfield/{number:08d}.jpg": picture(*size) for number, size in enumerate(sizes)}
    index = open_source(SOURCES["places365"], tree(tmp_path, files), ("train",))
    if not words:
        refuse_resized(index)
        return
    with pytest.raises(BuildError, match=words):
        refuse_resized(index)


# Tiny ImageNet has images of 64 x 64 pixels (Le and Yang, 2015), and there are scripts that scale it to 224 for larger
# networks; ImageNet-C is made of crops of 224 x 224 (Hendrycks and Dietterich, 2019).
@pytest.mark.parametrize(
    ("key", "partition", "name", "side"),
    [
        ("tiny_imagenet", "val", "val/images/val_{}.JPEG", 64),
        ("imagenet_c", "openood", "brightness/1/ILSVRC2012_val_{:08}.JPEG", 224),
    ],
)
def test_copies_of_a_source_of_one_size_have_that_size(tmp_path, key, partition, name, side):
    """Few images are enough; a copy of another size was built, with its rows as those of the owner's."""
    listed = [int(path[-13:-5]) for path in lists.load_list("openood_imagenet_c") if path.startswith("brightness/1/")]
    numbers = {"tiny_imagenet": range(3), "imagenet_c": listed[:3]}[key]
    for of, words in (((side, side), ""), ((96, 96), "3 of 3 images examined are not of")):
        files = {name.format(number): picture(*of) for number in numbers}
        index = open_source(SOURCES[key], tree(tmp_path / str(of[0]), files), (partition,))
        if not words:
            refuse_resized(index)
            continue
        with pytest.raises(BuildError, match=f"{words} {side} x {side} pixels, one of them of 96 x 96"):
            refuse_resized(index)


def test_the_build_refuses_a_resized_copy_also_in_part_and_writes_nothing(tmp_path, capsys):
    imagenet(tmp_path / "imagenet", [(64, 64)] * 50)
    out = tmp_path / "out"
    arguments = ["--imagenet", str(tmp_path / "imagenet"), "--splits", "imagenet/test", "--allow-partial", "--quiet"]
    assert run_command(BENCHMARK, [*arguments, "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert " looks like a resized copy" in line
    assert not out.exists()
