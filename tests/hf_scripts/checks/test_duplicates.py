"""What `verify` says of the table of duplicates: every way in which it can differ from the rows."""

import collections
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import ImageFile

from builders.cifar_benchmark import BENCHMARK as CIFAR
from builders.duplicates import distance as distances
from builders.errors import BuildError
from builders.release.duplicates import Pair, compared_entries, comparison, counted, read_pairs, write_pairs
from builders.release.layout import Layout
from hf_scripts.verify import main as verify
from tests.builders.conftest import build_demo
from tests.hf_scripts.pair_tables import add_table, replace_pairs
from tests.hf_scripts.samples import linked_copy, make_release, png
from tests.manifests import as_json, entry_of, manifest_of, rows_in, save_manifest

TEST, NEAR, TRAIN = "bench/test", "bench/near_ood", "bench-train/train"

# Pictures that some rows have instead of their own: known and unknown, with a training image, and within a split.
SAME = {"near_ood/1.png": "test/0.png", "near_ood/3.png": "train/101.png", "test/2.png": "test/3.png"}


def picture(name):
    return png(SAME.get(name, name))


@pytest.fixture
def root(tmp_path):
    splits = {TEST: range(4), NEAR: range(4), TRAIN: range(100, 103)}
    return make_release(tmp_path / "release", splits, picture=picture)


@pytest.fixture
def check(root, capsys):
    """Verify the release; returns its problems and its notes on duplicates."""

    def run():
        code = verify([str(root), "--check", "fast", "--workers", "1"])
        lines = capsys.readouterr().out.splitlines()
        notes = [line for line in lines if line.startswith("note: ") and "duplicates" in line]
        problems = [line for line in lines[:-1] if not line.startswith("note: ")] if code else []
        assert code == bool(problems)
        return problems, notes

    return run


NOTES = [
    "note: 3 pairs of duplicates in 3 pairings of splits, 1 of them between bench-train/train and bench/near_ood "
    "(3 under two classes, 2 in two roles, 2 known and unknown, 1 with an in-distribution training image)",
]


def test_pairs_that_are_listed_are_notes(root, check):
    assert len(add_table(root)) == 3
    assert check() == ([], NOTES)


@pytest.mark.parametrize(
    ("number", "rows"),
    [
        (0, "source/train/101.png of bench-train/train and source/near_ood/3.png of bench/near_ood"),
        (1, "source/near_ood/1.png of bench/near_ood and source/test/0.png of bench/test"),
        (2, "source/test/2.png of bench/test and source/test/3.png of bench/test"),
    ],
)
def test_a_pair_that_is_not_listed(root, check, number, rows):
    add_table(root, lambda pairs: [pair for i, pair in enumerate(pairs) if i != number])
    problems, _ = check()
    assert problems == [f"duplicates/pairs.parquet: lacks the pair {rows}, which are equal"]


def test_a_pair_of_splits_that_were_not_compared_need_not_be_listed(root, check):
    keys = (TEST, NEAR, TRAIN)
    some = [comparison("bytes", one, other) for one in keys for other in keys if TRAIN not in (one, other)]
    add_table(root, lambda pairs: pairs[1:], compared=compared_entries(some))
    problems, notes = check()
    assert problems == []
    assert (
        "note: 3 pairs of splits were not compared for duplicates, such as bench-train/train and bench-train/train"
        in (notes)
    )


EXTRA = Pair(
    "source/near_ood/0.png", "source/test/1.png", NEAR, TEST, "near_ood", "in_distribution", "unknown", "n02", 0.0
)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, "the digests differ, and no comparison of the two splits gives distance 0.0"),
        ({"distance": 0.2}, "the digests differ, and no comparison of the two splits gives distance 0.2"),
        ({"other_id": "source/test/9.png"}, "there is no row source/test/9.png in bench/test"),
        ({"other_split": "bench/tests"}, "there is no row source/test/1.png in bench/tests"),
        ({"role": "far_ood"}, "near_ood/0.png has role far_ood and class unknown, but near_ood and unknown in bench"),
        ({"other_class_id": "n01"}, "and class n01, but in_distribution and n02 in bench/test"),
    ],
)
def test_a_pair_that_is_not_there(root, check, change, sentence):
    add_table(root, lambda pairs: [*pairs, EXTRA._replace(**change)])
    problems, _ = check()
    assert any(line.startswith("duplicates/pairs.parquet row 1") and sentence in line for line in problems), problems


def test_a_distance_that_equal_digests_do_not_have(root, check):
    add_table(root, lambda pairs: [pair._replace(distance=0.1) for pair in pairs[:1]] + pairs[1:])
    problems, _ = check()
    assert len(problems) == 1
    assert problems[0].endswith("the distance is 0.1, not 0, although the digests are equal")


@pytest.mark.parametrize(
    ("by", "distance", "wrong"),
    [("pixels", 0.0, 0), ("similarity-2", 0.05, 0), ("similarity-2", 0.3, 1), ("pixels", 0.05, 1)],
)
def test_other_bytes_are_a_pair_where_pixels_or_likeness_were_compared(root, check, by, distance, wrong):
    keys = (TEST, NEAR, TRAIN)
    every = {comparison("bytes", one, other) for one in keys for other in keys}
    compared = compared_entries(every | {comparison(by, TEST, NEAR)})
    add_table(root, lambda pairs: [*pairs, EXTRA._replace(distance=distance)], compared=compared)
    assert len(check()[0]) == wrong


def swapped(pair):
    return Pair(
        pair.other_id, pair.id, pair.other_split, pair.split, pair.other_role, pair.role, pair.other_class_id,
        pair.class_id, pair.distance,
    )  # fmt: skip


def test_sides_in_the_wrong_order(root, check):
    add_table(root, lambda pairs: [swapped(pairs[0]), *pairs[1:]])
    problems, _ = check()
    assert any("not in the order of split and id: bench/near_ood" in line for line in problems)


@pytest.mark.parametrize(("order", "wrong"), [([1, 0, 2], "sorts before"), ([0, 0, 1, 2], "repeats")])
def test_rows_that_are_not_sorted_or_come_twice(root, check, order, wrong):
    pairs = add_table(root)
    layout = Layout(root)
    table = pq.read_table(layout.duplicates)
    pq.write_table(table.take(order), layout.duplicates, write_page_index=True)
    listed = [pairs[i] for i in order]
    manifest = manifest_of(root)
    manifest["duplicates"] |= entry_of(root, layout.duplicates)
    manifest["duplicates"] |= {"rows": len(order), "counts": as_json(counted(listed))}
    save_manifest(root, manifest)
    problems, _ = check()
    assert problems == [f"duplicates/pairs.parquet row 1: the pair {wrong} the pair before it"]


def test_wrong_numbers_in_the_manifest(root, check):
    add_table(root, rows=7, counts=[])
    assert check()[0] == [
        "duplicates/pairs.parquet: has 3 rows, not 7 as manifest.json lists",
        "duplicates/pairs.parquet: the numbers of pairs of each two splits differ from manifest.json",
    ]


def with_column(table, name, values):
    return table.set_column(table.column_names.index(name), name, values)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: with_column(t, "id", pa.nulls(3, pa.string())), "has cells without a value"),
        (lambda t: with_column(t, "distance", pa.nulls(3, pa.float64())), "has cells without a value"),
        (lambda t: with_column(t, "role", pa.array([1, 2, 3])), "has the columns id, other_id, split"),
        (lambda t: t.drop_columns(["role"]), "has the columns id, other_id, split, other_split, other_role"),
        (lambda t: with_column(t, "id", not_text(3)), "cannot be read as Parquet ('utf-8' codec can't decode"),
        (lambda t: t.take(pa.array([0] * 2_000_000)), "claims 2,000,000 rows in "),
    ],
)
def test_a_damaged_table(root, check, change, reason):
    add_table(root)
    path = Layout(root).duplicates
    pq.write_table(change(pq.read_table(path)), path)
    problems, _ = check()
    assert f"duplicates/pairs.parquet: is not a table of duplicates: it {reason}" in " ".join(problems)
    with pytest.raises(BuildError, match=re.escape(f"pairs.parquet {reason}")):
        read_pairs(path)


def not_text(rows):
    """Text in bytes that are not UTF-8, as Arrow reads it from a file without looking."""
    return pa.array([b"\xff\xfe"] * rows, pa.binary()).view(pa.string())


def test_a_pair_of_other_pixels(root, capsys):
    keys = (TEST, NEAR, TRAIN)
    every = {comparison("bytes", one, other) for one in keys for other in keys}
    add_table(
        root, lambda pairs: [*pairs, EXTRA], compared=compared_entries(every | {comparison("pixels", TEST, NEAR)})
    )
    assert verify([str(root), "--check", "fast", "--workers", "1"]) == 0  # nobody looks at pixels
    assert verify([str(root), "--workers", "1"]) == 1
    expected = "source/near_ood/0.png and source/test/1.png: the distance is listed as 0, but the pixels differ"
    assert f"duplicates/pairs.parquet row 1, {expected}" in capsys.readouterr().out


def test_a_distance_that_the_images_do_not_have(demo, tmp_path, capsys):
    root = tmp_path / "release"
    build_demo({"cifar100": demo["cifar100"]}, root, benchmark=CIFAR, splits=("cifar/test", "cifar-train/train"))
    layout = Layout(root)
    pairs = read_pairs(layout.duplicates)
    near = next(number for number, pair in enumerate(pairs) if pair.distance > 0)
    wrong = pairs[near]._replace(distance=pairs[near].distance + 0.01)
    write_pairs(layout.duplicates, [wrong if number == near else pair for number, pair in enumerate(pairs)])
    manifest = manifest_of(root)
    manifest["duplicates"] |= entry_of(root, layout.duplicates)
    save_manifest(root, manifest)
    assert verify([str(root), "--check", "fast", "--workers", "1"]) == 0
    assert verify([str(root), "--workers", "1"]) == 1
    (problem,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("duplicates/pairs.parquet")]
    place = f"row {near}, {wrong.id} and {wrong.other_id}"
    assert problem.startswith(
        f"duplicates/pairs.parquet {place}: the distance is listed as {wrong.distance:.6g}, but "
    )
    assert f"{pairs[near].distance:.6g}" in problem


def test_a_near_pair_of_the_least_distance_is_not_equal(cifar_release, tmp_path, capsys):
    """The least distance of other pixels, 1e-6, is what rounding may make; 0 says that the pixels are equal."""
    root = linked_copy(cifar_release, tmp_path / "release")
    pairs = read_pairs(Layout(root).duplicates)
    number = next(number for number, pair in enumerate(pairs) if 0 < pair.distance <= 1e-6)
    replace_pairs(root, [pair._replace(distance=0.0) if pair is pairs[number] else pair for pair in pairs])
    assert verify([str(root), "--workers", "1", "--splits", "cifar/test,cifar-train/train"]) == 1
    assert f"row {number}, {pairs[number].id} and {pairs[number].other_id}: the dist" in capsys.readouterr().out


def test_images_are_decoded_once_and_listed_pairs_are_measured_with_all_others(cifar_release, tmp_path, monkeypatch):
    """The distance of details is counted: as often as the search has pairs, whether these are listed or not."""
    root = linked_copy(cifar_release, tmp_path / "release")
    counts = collections.Counter()

    def counting(module, name):
        counted = getattr(module, name)

        def call(*arguments):
            counts[name] += name != "load" or bool(arguments[0].tile)  # a loaded image has no tiles left
            return counted(*arguments)

        monkeypatch.setattr(module, name, call)

    counting(ImageFile.ImageFile, "load")
    counting(distances, "_detail_distance")

    def counts_of(code):
        counts.clear()
        assert verify([str(root), "--workers", "1", "--splits", "cifar/test,cifar-train/train"]) == code
        return dict(counts)

    pairs, configs = read_pairs(Layout(root).duplicates), manifest_of(root)["configs"]
    listed = counts_of(0)
    read = configs["cifar"]["splits"]["test"], configs["cifar-train"]["splits"]["train"]
    assert listed["load"] == sum(map(rows_in, read))
    assert any(pair.distance > 0 and pair.splits == ("cifar-train/train", "cifar/test") for pair in pairs)
    replace_pairs(root, [pair for pair in pairs if not pair.distance])
    assert counts_of(1) == listed
