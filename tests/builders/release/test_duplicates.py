"""The table of duplicates as a file: its order, its columns in `datasets`, and how comparisons are written down."""

import io
import itertools
import threading
from types import SimpleNamespace

import datasets
import msgspec
import pytest

from builders.card.metadata import front_matter
from builders.errors import BuildError
from builders.release.duplicates import (
    Pair,
    PairedRow,
    compared_entries,
    comparison,
    counted,
    groups,
    is_known_and_unknown,
    listed_comparisons,
    pair_of,
    pairs_summary,
    read_pairs,
    schema,
    write_pairs,
)
from builders.storage.files import write_text
from tests import manifests
from tests.manifests import as_json, entry_of, typed

COLUMNS = ["id", "other_id", "split", "other_split", "role", "other_role", "class_id", "other_class_id", "distance"]

TEST = PairedRow("c/test", "a/2", "in_distribution", "cat")
NEAR = PairedRow("c/near_ood", "a/9", "near_ood", "lynx")
TRAIN = PairedRow("c-train/train", "a/7", "in_distribution", "dog")


def test_a_table_of_many_groups_is_read_though_it_compresses_well(tmp_path):
    """All pairs of 300 rows that show one picture take less than a byte each."""
    ids = [f"a/n01440764/n01440764_{number:05}.JPEG" for number in range(300)]
    rows = [PairedRow("c/test", row_id, "near_ood", "lynx") for row_id in ids]
    pairs = sorted(pair_of(*sides, 0.0) for sides in itertools.combinations(rows, 2))
    write_pairs(tmp_path / "pairs.parquet", pairs)
    assert (tmp_path / "pairs.parquet").stat().st_size < len(pairs)
    assert read_pairs(tmp_path / "pairs.parquet") == pairs


def test_a_pair_stands_once_whichever_row_is_named_first():
    expected = Pair("a/9", "a/2", "c/near_ood", "c/test", "near_ood", "in_distribution", "lynx", "cat", 0.25)
    assert pair_of(TEST, NEAR, 0.25) == pair_of(NEAR, TEST, 0.25) == expected
    # "-" sorts before "/", so the training split comes first.
    assert pair_of(TEST, TRAIN, 0.0).splits == ("c-train/train", "c/test")


def test_rows_are_sorted_and_the_least_distance_of_a_pair_stays(tmp_path):
    pairs = [pair_of(TEST, NEAR, 0.3), pair_of(TEST, TRAIN, 0.0), pair_of(NEAR, TEST, 0.1), pair_of(NEAR, TRAIN, 0.2)]
    for number, order in enumerate(itertools.permutations(pairs)):
        write_pairs(tmp_path / f"{number}.parquet", order)
        assert (tmp_path / f"{number}.parquet").read_bytes() == (tmp_path / "0.parquet").read_bytes()
    table = read_pairs(tmp_path / "0.parquet")
    assert [(*pair.splits, pair.distance) for pair in table] == [
        ("c-train/train", "c/near_ood", 0.2),
        ("c-train/train", "c/test", 0.0),
        ("c/near_ood", "c/test", 0.1),
    ]


def release_with(root, pairs):
    """A folder with a card that lists the table and nothing else."""
    path = root / "duplicates" / "pairs.parquet"
    write_pairs(path, pairs)
    entry = entry_of(root, "duplicates/pairs.parquet") | {"rows": len(pairs), "compared": [], "counts": []}
    import yaml

    front = front_matter(typed(manifests.manifest({}, duplicates=entry)))
    write_text(root / "README.md", f"---\n{yaml.safe_dump(front)}---\n")
    return root


def test_datasets_reads_the_table_plain_and_streaming(tmp_path):
    root = release_with(tmp_path, [pair_of(TEST, NEAR, 0.5)])
    plain = datasets.load_dataset(str(root), "duplicates", split="pairs", cache_dir=str(tmp_path / "cache"))
    streamed = datasets.load_dataset(str(root), "duplicates", split="pairs", streaming=True)
    assert plain.column_names == COLUMNS
    assert plain.features == streamed.features == datasets.Features.from_arrow_schema(schema())
    assert {str(feature) for feature in plain.features.values()} == {"Value('string')", "Value('float64')"}
    assert list(plain) == list(streamed) == [pair_of(TEST, NEAR, 0.5)._asdict()]


def test_a_table_without_rows_can_be_streamed(tmp_path):
    streamed = datasets.load_dataset(str(release_with(tmp_path, [])), "duplicates", split="pairs", streaming=True)
    assert list(streamed) == []
    assert list(streamed.features) == COLUMNS
    # `datasets` cannot load a split of zero rows otherwise. When it can, the card's way around it can go.
    with pytest.raises(ValueError, match="corresponds to no data"):
        datasets.load_dataset(str(tmp_path), "duplicates", split="pairs", cache_dir=str(tmp_path / "cache"))


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more", None])
def test_another_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "pairs.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BuildError, match=r"pairs\.parquet cannot be read as Parquet"):
        read_pairs(path)


def listed(**configs):
    """A manifest with the benchmarks and splits of configs."""
    benchmarks = {"one": manifests.benchmark(), "two": manifests.benchmark(roles_by_config=True)}
    described = {
        name: manifests.config({split: manifests.split() for split in splits}, benchmark=benchmark)
        for name, (benchmark, splits) in configs.items()
    }
    return typed(manifests.manifest(described, benchmarks=benchmarks))


def test_a_benchmarks_splits_are_compared_and_a_configs_where_roles_differ_by_config():
    manifest = listed(a=("one", ["y", "x"]), b=("one", ["z"]), f=("two", ["v", "t"]), g=("two", ["v"]))
    assert groups(manifest) == [("a/x", "a/y", "b/z"), ("f/t", "f/v"), ("g/v",)]
    configs = {**manifest.configs, "g": msgspec.structs.replace(manifest.configs["g"], group="f")}
    assert groups(msgspec.structs.replace(manifest, configs=configs))[1:] == [("f/t", "f/v", "g/v")]


def test_comparisons_are_folded_and_unfolded():
    keys = ("a/x", "a/y", "b/z")
    by_bytes = {comparison("bytes", key, other_key) for key in keys for other_key in keys}
    assert len(by_bytes) == 6
    near = {comparison("similarity-2", key, "b/z") for key in keys[:2]}
    assert as_json(compared_entries(by_bytes | near)) == [
        {"by": "bytes", "splits": list(keys), "with": list(keys)},
        {"by": "similarity-2", "splits": ["a/x", "a/y"], "with": ["b/z"]},
    ]
    for comparisons in (by_bytes, near, by_bytes | near, set()):
        assert set(listed_comparisons(compared_entries(comparisons))) == comparisons


def test_pairs_are_counted_by_splits_roles_and_classes():
    alike = TRAIN._replace(split="c/test", id="a/8", class_id="cat")
    pairs = [*(pair_of(TEST, row, 0.0) for row in (NEAR, TRAIN, alike)), pair_of(alike, TRAIN, 0.1)]
    assert as_json(counted(pairs)) == [
        {"split": "c-train/train", "other_split": "c/test", "pairs": 2, "two_roles": 0, "two_classes": 2},
        {"split": "c/near_ood", "other_split": "c/test", "pairs": 1, "two_roles": 1, "two_classes": 1},
        {"split": "c/test", "other_split": "c/test", "pairs": 1, "two_roles": 0, "two_classes": 0},
    ]
    assert [is_known_and_unknown(pair) for pair in pairs] == [True, False, False, False]
    known = {name: manifests.split(role="in_distribution") for name in ("test", "train")}
    configs = {"c": manifests.config({"test": known["test"]}), "c-train": manifests.config({"train": known["train"]})}
    release = typed(manifests.manifest(configs))
    assert pairs_summary(pairs, release) == (
        "4 pairs of duplicates in 3 pairings of splits, 2 of them between c-train/train and c/test (1 near, 3 under "
        "two classes, 1 in two roles, 1 known and unknown, 2 with an in-distribution training image)"
    )


def test_the_table_is_read_in_one_thread(cifar_release, monkeypatch):
    """A thread of Arrow's that still holds Python's file while the process ends would end it by std::terminate."""
    threads = set()

    class Watched(io.BytesIO):
        def readinto(self, buffer):
            threads.add(threading.get_ident())
            return super().readinto(buffer)

        def read(self, *size):
            threads.add(threading.get_ident())
            return super().read(*size)

    monkeypatch.setattr("builders.release.duplicates.io", SimpleNamespace(BytesIO=Watched))
    assert read_pairs(cifar_release / "duplicates" / "pairs.parquet")
    assert threads == {threading.get_ident()}
