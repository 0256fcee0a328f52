"""The multi-label config of BROAD, from the demo's COCO to a release, against a second implementation."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from datasets import load_dataset

from builders.broad_benchmark import BENCHMARK, MULTI_LABEL, main
from builders.declare.quotas import Largest
from builders.declare.ranking import even_shares
from builders.plan.candidates import Draws, KeyedRanks
from builders.plan.completeness import agreement
from builders.plan.planner import plan
from builders.sources.base import DEMO_MARKER, PartitionIndex, SourceIndex
from builders.sources.datasets.coco2017 import COCO2017
from builders.sources.opening import open_source
from hf_scripts import verify
from taxonomy import tables
from tests.builders import coco_oracle
from tests.builders.conftest import build_demo
from tests.builders.trees import link
from tests.sentences import assert_sentence

# pycocotools 2.0.11 turns masks into arrays as NumPy 1 did; our code makes no arrays of masks.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

SEVERAL, ALONE = "broad-multi-label/cocomagenet", "broad-multi-label/cocomagenet_mono"
FILE = "annotations/instances_train2017.json"


@pytest.fixture(scope="module")
def index(demo):
    return open_source(COCO2017, demo["coco2017"], ("train",))


@pytest.fixture(scope="module")
def coco(demo):
    return coco_oracle.read(demo["coco2017"] / FILE)


@pytest.fixture(scope="module")
def release(demo, tmp_path_factory):
    root = tmp_path_factory.mktemp("broad") / "release"
    build_demo(demo, root, benchmark=BENCHMARK, splits=(SEVERAL, ALONE))
    return root


def smaller(several, alone):
    """The same config with other totals, so that a rank decides in the demo."""
    of = {"cocomagenet": several, "cocomagenet_mono": alone}
    splits = tuple(
        dataclasses.replace(split, quota=dataclasses.replace(split.quota, images=of[split.name]))
        for split in MULTI_LABEL.splits
    )
    return dataclasses.replace(BENCHMARK, variants=(), configs=(dataclasses.replace(MULTI_LABEL, splits=splits),))


def drawn(index, several, alone):
    planned = plan(Draws(smaller(several, alone), 0), {"coco2017": index}, splits=(SEVERAL, ALONE))
    return {split.key: split for split in planned}


def numbers(split):
    return {int(name[10:22]) for name in split.table["source_id"].to_pylist()}


@pytest.mark.parametrize("count", [1, 7, 20, 39, 40])
def test_cocomagenet_is_what_a_plain_loop_finds(index, coco, count):
    assert numbers(drawn(index, count, 1)[SEVERAL]) == set(coco_oracle.cocomagenet(coco, count))


def taken(split, index, rows):
    """Images that are drawn by their values alone, without a key."""
    return KeyedRanks(index, None).take(split.quota, rows, split.partitions)


def test_the_other_reading_ranks_by_last_objects(index, coco):
    """A dictionary of areas that each object of a category overwrites, in the order of the file."""
    seconds = {}
    for image in coco.dataset["images"]:
        areas = {}
        for annotation in coco.loadAnns(coco.getAnnIds(imgIds=[image["id"]])):
            if annotation["category_id"] in coco_oracle.SHARED:
                areas[annotation["category_id"]] = annotation["area"] / (image["width"] * image["height"])
        if len(areas) >= 2:
            seconds[image["id"]] = sorted(areas.values())[-2]
    benchmark = BENCHMARK.with_variants(["last-object-areas"])
    assert benchmark.version.endswith("+last-object-areas")
    split = next(split for key, split in benchmark.parts.items() if key == SEVERAL)
    few = dataclasses.replace(split, quota=dataclasses.replace(split.quota, images=20))
    rows = taken(few, index, np.arange(94))
    expected = sorted(seconds, key=lambda image: (-seconds[image], image))[:20]
    assert {int(name[10:22]) for name in index.values("source_id", rows).to_pylist()} == set(expected)
    assert set(expected) != set(coco_oracle.cocomagenet(coco, 20))


def test_mono_is_what_a_plain_loop_finds(index, coco):
    # 17 classes of 3 images, one of them with 4: 36 are two of each, and one more of the two most populated, which
    # are bananas and of the equal ones the first.
    split = drawn(index, 1, 2 * 17 + 2)[ALONE]
    expected = coco_oracle.mono(coco, 2, ("banana", "backpack"))
    assert numbers(split) == {number for images in expected.values() for number in images}
    classes = dict(zip(split.table["source_id"].to_pylist(), split.table["class_id"].to_pylist(), strict=True))
    assert {f"train2017/{number:012d}.jpg": name for name, images in expected.items() for number in images} == classes


def test_each_split_accounts_for_every_image(index):
    for split in drawn(index, 20, 30).values():
        assert split.available == 94
        assert len(split.rows) + sum(exclusion.images for exclusion in split.excluded) == 94
        assert {exclusion.rule for exclusion in split.excluded if exclusion.images} <= {"image-not-drawn", "outside"}


def test_the_papers_counts_follow_from_an_even_share():
    """Appendix A's numbers: classes below 157 give all, and two of the others 158."""
    short = {"laptop": 112, "mouse": 8, "microwave": 65, "cup": 20, "toaster": 8, "backpack": 58}
    names = list(coco_oracle.SHARED.values())
    sizes = [short.get(name, 1_900 if name == "zebra" else 800 if name == "skis" else 400) for name in names]
    expected = [short.get(name, 158 if name in ("zebra", "skis") else 157) for name in names]
    assert even_shares(2_000, sizes, names) == expected
    listed = Counter(image.category for image in tables.cocomagenet_images() if image.category)
    assert dict(zip(names, expected, strict=True)) == listed


@pytest.mark.parametrize(
    ("total", "sizes", "shares"),
    [
        (0, [3, 4], [0, 0]),
        (7, [3, 4], [3, 4]),
        (99, [3, 4], [3, 4]),
        (6, [9, 9], [3, 3]),
        (7, [9, 9], [4, 3]),  # of equal classes the first
        (7, [9, 10], [3, 4]),
        (10, [1, 9, 9], [1, 5, 4]),
        (11, [0, 2, 5, 7], [0, 2, 4, 5]),
    ],
)
def test_even_shares(total, sizes, shares):
    names = [chr(ord("a") + place) for place in range(len(sizes))]
    assert even_shares(total, sizes, names) == shares


def valued(values, ids, classes=None):
    """A source's index with one column of values."""
    classes = classes or ["zebra"] * len(ids)
    table = pa.table(
        {
            "class_id": pa.array(classes).dictionary_encode(),
            "source_id": pa.array(ids),
            "second_area": pa.array(values, pa.float64()),
        }
    )
    return SourceIndex(COCO2017, None, (PartitionIndex("train", "made up", "file", table),))


def test_of_equal_values_the_lesser_id_is_taken_whatever_the_order():
    images = list(zip([0.2, 0.5, 0.2, 0.2, 0.0], ["d", "a", "b", "c", "e"], strict=True))
    split = dataclasses.replace(MULTI_LABEL.splits[0], quota=Largest(3, "second_area"))
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        index = valued(*zip(*(images[place] for place in order), strict=True))
        rows = taken(split, index, np.arange(5))
        assert set(index.values("source_id", rows).to_pylist()) == {"a", "b", "c"}
        assert rows.tolist() == sorted(rows.tolist())
    everything = dataclasses.replace(split, quota=Largest(9, "second_area"))
    assert len(taken(everything, index, np.arange(5))) == 4  # what has none is never taken


def test_a_release_has_the_portions_and_is_whole(release, coco, capsys):
    assert verify.main([str(release)]) == 0
    assert "is whole: 2 splits, 92 rows" in capsys.readouterr().out
    parts = coco_oracle.portions(coco)
    for key, rows in ((SEVERAL, 40), (ALONE, 52)):
        config, split = key.split("/")
        loaded = load_dataset(str(release), config, split=split)
        assert loaded.num_rows == rows
        for row in loaded:
            expected = parts[int(row["source_id"][10:22])]
            ordered = [*sorted(expected.values(), reverse=True), 0.0]
            assert (row["largest_area"], row["second_area"]) == (ordered[0], ordered[1])
            assert {name: row[f"area_{name}"] for name in expected} == expected
            assert set(row["categories"].split(", ")) == set(expected)
            assert row["label"] == -1


def test_the_build_compares_with_the_authors_lists(index):
    planned = list(drawn(index, 10, 2_000).values())
    several, alone = (agreement(Draws(BENCHMARK, 0), split, index) for split in planned)
    assert several.startswith(
        f"{SEVERAL}: 10 of its 10 images are on the authors' list of 2,000, of which the source has 40; by "
        "second_object_area it would be 10"
    )
    # The banana of no list is the 52nd.
    assert alone.startswith(f"{ALONE}: 51 of its 52 images are on the authors' list of 2,000, of which")


def test_adopting_builds_exactly_the_list(demo, tmp_path, capsys):
    lists = tmp_path / "broad"
    lists.mkdir()
    listed = sorted(image.image_id for image in tables.cocomagenet_images() if image.split == "cocomagenet")[:5]
    (lists / "CoComageNet.json").write_text(json.dumps({"-1": listed}))
    arguments = ["--coco2017", str(demo["coco2017"]), "--out", str(tmp_path / "out"), "--workers", "1", "--index-only"]
    assert main([*arguments, "--splits", SEVERAL, "--adopt", str(lists)]) == 0
    assert "adopted 1 class, 5 images" in capsys.readouterr().err
    assert verify.main([str(tmp_path / "out"), "--workers", "1"]) == 0
    assert "complete sources give" not in capsys.readouterr().out  # that is known of a draw, not of a list
    rows = load_dataset(str(tmp_path / "out"), "broad-multi-label-index", split="cocomagenet")
    assert sorted(int(name[10:22]) for name in rows["source_id"]) == listed


def test_annotations_that_changed_are_noticed_where_the_same_images_are_drawn(demo, tmp_path, capsys):
    copy = tmp_path / "coco"
    link(demo["coco2017"] / "train2017", copy / "train2017")
    (copy / "annotations").mkdir()
    content = json.loads((demo["coco2017"] / FILE).read_text())
    (copy / FILE).write_text(json.dumps(content))
    link(demo["coco2017"] / DEMO_MARKER, copy / DEMO_MARKER)
    command = ["--splits", SEVERAL, "--coco2017", str(copy), "--out", str(tmp_path / "o")]
    assert main([*command, "--index-only", "--workers", "1"]) == 0
    for image in content["images"]:
        image["license"] = content["licenses"][-1]["id"]
    (copy / FILE).write_text(json.dumps(content))
    assert main([*command, "--index-only", "--workers", "1"]) == 2
    assert_sentence(capsys.readouterr().err, SEVERAL)
