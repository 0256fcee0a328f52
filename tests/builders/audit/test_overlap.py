"""`audit overlap` on releases whose unknown rows name known classes."""

import csv
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.audit import overlap
from builders.commands.audit import main
from builders.release.layout import Layout
from builders.release.manifest import read_manifest
from builders.release.schema import ID_OVERLAP
from builders.release.tables import write_index
from hf_scripts import card
from tests.hf_scripts.samples import LABELS, make_release
from tests.manifests import as_json, entry_of, manifest_of, save_manifest
from tests.sentences import assert_sentence

SPLITS = {"bench/test": range(4), "bench/near_ood": range(6), "bench/far_ood": range(3)}


def with_column(root, values):
    """Add the column to the indexes; splits that are not named have no value in it."""
    manifest, column = manifest_of(root), ID_OVERLAP
    manifest["configs"]["bench"]["columns"] = [as_json(column)]
    for key, numbers in SPLITS.items():
        split = key.partition("/")[2]
        path, cells = Layout(root).index(f"bench/{split}"), values.get(split, [None] * len(numbers))
        rows = pq.read_table(path).append_column(column.name, pa.array(cells, column.arrow))
        write_index(path, rows, LABELS, [column])
        manifest["configs"]["bench"]["splits"][split]["index"] = entry_of(root, path)
    save_manifest(root, manifest)


@pytest.fixture
def release(tmp_path):
    return make_release(tmp_path / "release", SPLITS)


def test_rows_are_counted_by_split_and_known_class(release, capsys):
    values = ["n01", None, "n02", "n01", "", None]
    with_column(release, {"near_ood": values})
    assert main(["overlap", str(release)]) == 0
    printed = capsys.readouterr().out
    lines = {line.split()[0]: line.split() for line in printed.splitlines()}
    assert lines["bench/near_ood"] == ["bench/near_ood", "6", "3", "n01,", "n02"]
    assert lines["bench/far_ood"] == ["bench/far_ood", "3", "0", "none"]
    assert "bench/test" not in lines  # it has known rows alone
    with (release / "audit/overlap.csv").open(encoding="utf-8", newline="") as table:
        rows = list(csv.reader(table))
    assert rows[0] == ["split", "known_class", "unknown_class", "unknown_class_name", "rows", "rows_of_split"]
    assert rows[1:] == [
        ["bench/near_ood", "n01", "unknown", "a class", "2", "6"],
        ["bench/near_ood", "n02", "unknown", "a class", "1", "6"],
    ]
    audit = read_manifest(release).audits["overlap"]
    assert "3 of 6 rows of `bench/near_ood` (n01 2, n02 1)" in audit.summary
    assert set(audit.splits) == {"bench/near_ood", "bench/far_ood"}
    assert audit.summary in (release / "README.md").read_text(encoding="utf-8")
    assert card.main([str(release), "--check"]) == 0


def test_no_overlap_at_all_is_an_answer(release, capsys):
    with_column(release, {})
    assert main(["overlap", str(release)]) == 0
    assert "no row of the 2 splits" in capsys.readouterr().out


def test_a_release_without_the_column_gets_one_sentence(release, capsys):
    before = manifest_of(release)
    assert main(["overlap", str(release)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert_sentence(error, release, "id_overlap")
    assert manifest_of(release) == before and not (release / "audit").exists()


def test_a_damaged_index_gets_one_sentence(release, capsys):
    with_column(release, {})
    path = Layout(release).index("bench/near_ood")
    path.write_bytes(b"PAR1 nothing PAR1")
    assert main(["overlap", str(release)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"Cannot read {path}" in error


def test_a_summary_names_synsets_and_counts_other_splits_only_where_there_are_some():
    # By hand: tench is the first of ImageNet's 1,000 classes, n01440764.
    fish = overlap.SplitOverlap("c/near", 5, Counter({("n01440764", "", ""): 2}))
    none = overlap.SplitOverlap("c/far", 5, Counter())
    summary = "2 of 5 rows of `c/near` (tench (n01440764) 2)"
    for splits, ending in (([fish], "."), ([fish, none], "; none in 1 other split with that column.")):
        assert overlap._summary(splits).endswith(f"{summary}{ending}")
