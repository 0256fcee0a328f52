import json
import os
from pathlib import Path

import PIL.Image
import pytest

from builders.demo.images import digest, draw_image, encode_jpeg
from builders.plan.completeness import count_shortfalls
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders.broad_layouts import OPENOOD_IMAGES, OPENOOD_LISTS
from tests.builders.trees import opened, refusal, tree
from tests.sentences import assert_sentence

REFERENCE = Path(__file__).parents[5] / "shared" / "reference" / "published"
published = pytest.mark.skipif(not REFERENCE.is_dir(), reason="no published lists beside this checkout")
A, B, C = (f"{number:016x}.jpg" for number in (1, 2, 3))
IMAGE = encode_jpeg(draw_image(digest("a"), digest("b")))


def listed(partition):
    return json.loads((REFERENCE / f"openimage_o_{partition}.json").read_text(encoding="utf-8"))


def test_partitions_are_openoods_lists(demo):
    index = opened("openimage_o", demo["openimage_o"])
    lists = demo["openimage_o"] / OPENOOD_LISTS
    for partition in index.partitions:
        lines = (lists / f"{partition.name}_openimage_o.txt").read_text(encoding="utf-8").split("\n")
        names = {line.split()[0].rpartition("/")[2] for line in lines if line}
        assert set(partition.table["source_id"].to_pylist()) == names
    overlapping = index.table.filter(index.table["known_object_seen"])["source_id"].to_pylist()
    examined = {image.source_id for image in tables.examined_images() if image.decision == "i"}
    assert set(overlapping) == set(index.table["source_id"].to_pylist()) & examined
    assert len(overlapping) == 5


def test_missing_images_of_the_list_and_others_beside_them(tmp_path):
    files = {f"images/{name}": IMAGE for name in (A, C)}
    tree(tmp_path, files | {"test_openimage_o.txt": f"openimage_o/images/{A} -1\nopenimage_o/images/{B} -1\n"})
    (partition,) = open_source(SOURCES["openimage_o"], tmp_path, ("test",)).partitions
    assert partition.table["source_id"].to_pylist() == [A]
    assert partition.missing.to_pylist() == [B]
    assert partition.layout.startswith("image files in images, 1 of 2 by test_openimage_o.txt")


@published
@pytest.mark.parametrize("partition", ["test", "val"])
def test_a_copy_of_one_partition_alone_needs_no_list(tmp_path, partition):
    for name in listed(partition):
        (tmp_path / name).touch()
    index = open_source(SOURCES["openimage_o"], tmp_path, (partition,))
    assert set(index.table["source_id"].to_pylist()) == set(listed(partition))
    assert count_shortfalls(index, (partition,), ["unlabelled"]) == []
    other = {"test": "val", "val": "test"}[partition]
    message = refusal("openimage_o", tmp_path, other)
    assert_sentence(message, other, f"{other}_openimage_o.txt")


@published
def test_all_images_are_divided_by_the_lists_and_openoods_own_names_are_checked(tmp_path):
    for name in (*listed("test"), *listed("val")):
        (tmp_path / name).touch()
    assert "which of the 17,632 images in" in refusal("openimage_o", tmp_path, "test")
    for partition in ("test", "val"):
        (tmp_path / f"{partition}_openimage_o.txt").write_text("\n".join(listed(partition)))
    index = opened("openimage_o", tmp_path)
    assert {partition.name: partition.table.num_rows for partition in index.partitions} == {
        "test": 15_869,
        "val": 1_763,
    }
    assert index.table.num_rows == 17_632
    # A list of the right length with one other name is not OpenOOD's.
    (tmp_path / "val_openimage_o.txt").write_text("\n".join([*listed("val")[1:], listed("test")[0]]))
    assert "is not OpenOOD's list of val: it has other names" in refusal("openimage_o", tmp_path, "val")


@pytest.mark.parametrize(("side", "longest"), [(512, "512"), (1024, "1,024")])
def test_copies_of_other_sizes_are_told_apart(tmp_path, side, longest):
    picture = encode_jpeg(PIL.Image.new("RGB", (side, side // 2)))
    tree(tmp_path, {A: picture, "test_openimage_o.txt": A})
    layout = open_source(SOURCES["openimage_o"], tmp_path, ("test",)).layouts["test"]
    assert layout.endswith(f"; longest side up to {longest} pixels in 1 examined")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not OpenOOD's list of test: it has no lines"),
        ("openimage_o/images/photo.jpg -1\n", "is not OpenOOD's list of test: 'photo.jpg'"),
        (f"{B}\n", "none of the 1 images in"),
    ],
)
def test_lists_that_do_not_fit(tmp_path, text, words):
    message = refusal("openimage_o", tree(tmp_path, {A: "", "test_openimage_o.txt": text}), "test")
    assert words in message


def test_a_list_four_folders_above_is_not_taken(demo, tmp_path):
    place = tmp_path / "a" / "b" / "c" / "d"
    place.mkdir(parents=True)
    for path in sorted((demo["openimage_o"] / OPENOOD_IMAGES).glob("[0-9a-f]*.jpg")):
        os.link(path, place / path.name)
    name = "test_openimage_o.txt"
    (tmp_path / name).write_bytes((demo["openimage_o"] / OPENOOD_LISTS / name).read_bytes())
    assert "there is no test_openimage_o.txt" in refusal("openimage_o", place, "test")
