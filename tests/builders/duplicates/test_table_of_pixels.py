"""Near-duplicates in the table of CIFAR-scale releases: whatever is built first, with shards or without."""

import itertools
import pickle
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from builders.cifar_benchmark import BENCHMARK
from builders.demo.cifar100 import python2_pickle
from builders.duplicates.search import THRESHOLD, distance
from builders.release import images
from builders.release.duplicates import comparison, listed_comparisons, read_pairs
from hf_scripts.verify import main as verify
from tests.builders.conftest import build_demo, files_of
from tests.manifests import manifest_of, typed

SPLITS = ("cifar/test", "cifar/near_ood", "cifar/far_ood_dtd", "cifar-train/train")


@pytest.fixture(scope="module")
def complete_release(demo, tmp_path_factory):
    """A release of four splits, built in one run."""
    root = tmp_path_factory.mktemp("complete_release") / "release"
    build_demo(demo, root, benchmark=BENCHMARK, splits=SPLITS)
    return root


def table(root):
    return root / "duplicates" / "pairs.parquet"


def pixels_of(root):
    """The image of every row of a release by its split and id."""
    pictures = {}
    for path in sorted((root / "data").rglob("*.parquet")):
        key = f"{path.parent.name}/{path.name.split('-00')[0]}"
        for row in pq.read_table(path, columns=["id", "image"]).to_pylist():
            pictures[key, row["id"]] = np.asarray(images.decode(row["image"]["bytes"]))
    return pictures


def test_every_distance_is_that_of_the_two_images(complete_release):
    pictures, pairs = pixels_of(complete_release), read_pairs(table(complete_release))
    for pair in pairs:
        picture, other_picture = pictures[pair.split, pair.id], pictures[pair.other_split, pair.other_id]
        if np.array_equal(picture, other_picture):
            assert pair.distance == 0
            continue
        # Only one of the two is moved by the measure, a training image never (builders.duplicates.distance).
        least = min(distance(other_picture, picture), distance(picture, other_picture))
        assert pair.distance == pytest.approx(least, abs=1e-6)
        assert 0 < pair.distance <= THRESHOLD
    assert {0, 1} == {bool(pair.distance) for pair in pairs}


def kept_in(release):
    return {path: path.read_bytes() for path in sorted((release / ".state" / "pixels").rglob("*.rgb"))}


def test_a_near_pair_inside_test_is_found(demo, complete_release, tmp_path):
    """ciFAIR lists 104 candidates inside CIFAR-100's test set, of which 74 are one photograph."""
    listed = {name for pair in read_pairs(table(complete_release)) for name in (pair.id, pair.other_id)}
    index = pq.read_table(complete_release / "index" / "cifar" / "test.parquet")["id"].to_pylist()
    row_id, copy_id = [name for name in index if name not in listed][:2]
    shutil.copytree(demo["cifar100"], tmp_path / "cifar100")
    path = tmp_path / "cifar100" / "cifar-100-python" / "test"
    batch = pickle.loads(path.read_bytes(), encoding="latin1")
    rows = batch["data"].reshape(-1, 3, 32, 32)
    rows[int(copy_id.rpartition("/")[2])] = rows[int(row_id.rpartition("/")[2])][:, :, ::-1] // 2 + 60
    path.write_bytes(python2_pickle(batch))
    build_demo({"cifar100": tmp_path / "cifar100"}, tmp_path / "out", benchmark=BENCHMARK, splits=("cifar/test",))
    near = [pair for pair in read_pairs(table(tmp_path / "out")) if pair.distance]
    assert [(pair.splits, {pair.id, pair.other_id}) for pair in near] == [
        (("cifar/test", "cifar/test"), {row_id, copy_id})
    ]


def test_the_manifest_says_what_was_compared(complete_release):
    keys = sorted(SPLITS)
    compared = set(listed_comparisons(typed(manifest_of(complete_release)).duplicates.compared))
    pixels = {comparison("pixels", *pair) for pair in itertools.product(keys, keys)}
    # The training images and those of test, which are known, with all others of the config: test with itself, too.
    similarity = {
        comparison("similarity-2", key, other_key) for key in (SPLITS[3], SPLITS[0]) for other_key in SPLITS[:3]
    }
    assert compared == pixels | similarity
    assert comparison("similarity-2", "cifar/test", "cifar/test") in similarity


@pytest.mark.parametrize("order", [(3, 2, 0, 1), pytest.param((0, 1, 3, 2), marks=pytest.mark.slow)])
def test_the_order_of_runs_does_not_show(demo, complete_release, tmp_path, order):
    for number in order:
        key = SPLITS[number]
        # No run has a source that only other runs need.
        needed = {"dtd"} if key.endswith("dtd") else {"cifar100"}
        roots = {name: root for name, root in demo.items() if name in needed}
        build_demo(roots, tmp_path, benchmark=BENCHMARK, splits=(key,))
    assert files_of(tmp_path) == files_of(complete_release)


def test_splits_without_shards_take_part(demo, complete_release, tmp_path):
    build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=SPLITS[:2], index_only=True)
    first = [pair for pair in read_pairs(table(complete_release)) if set(pair.splits) <= set(SPLITS[:2])]
    assert read_pairs(table(tmp_path)) == first
    build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=SPLITS[2:], index_only=True)
    assert table(tmp_path).read_bytes() == table(complete_release).read_bytes()
    assert not (tmp_path / "data").exists()
    kept = kept_in(tmp_path)
    assert len(kept) == 4
    build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=SPLITS)
    assert files_of(tmp_path) == files_of(complete_release)
    assert kept_in(tmp_path) == kept


def test_a_split_whose_pixels_are_gone_is_not_compared_and_the_run_says_so(demo, tmp_path, capsys):
    build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=("cifar-train/train",), index_only=True)
    for path in kept_in(tmp_path):
        path.unlink()
    from builders.cifar_benchmark import main

    source = ["--cifar100", str(demo["cifar100"]), "--allow-partial", "--workers", "1"]
    assert main([*source, "--splits", "cifar/test", "--out", str(tmp_path)]) == 0
    error = capsys.readouterr().err
    assert "cifar/test is not compared with the images of cifar-train/train: the pixels of one of them" in error
    keys = ["cifar-train/train", "cifar/test"]
    inside = {"by": "similarity-2", "splits": ["cifar/test"], "with": ["cifar/test"]}
    expected = [{"by": "pixels", "splits": keys, "with": keys}, inside]
    assert manifest_of(tmp_path)["duplicates"]["compared"] == expected
    assert verify([str(tmp_path), "--check", "fast", "--workers", "1"]) == 0


def test_only_what_is_compared_is_kept():
    keys = BENCHMARK.parts
    assert {key for key in keys if not BENCHMARK.is_searched(key)} == {"cifar-external/train"}
