"""Publishing tables of duplicates: what was built apart meets in the repository, and pairs of both sides stay."""

import json

import pytest

from builders.release.duplicates import PairedRow as Place
from builders.release.duplicates import compared_entries, comparison, listed_comparisons, pair_of, read_pairs
from hf_scripts.verify import main as verify
from tests.hf_scripts.pair_tables import add_table
from tests.hf_scripts.samples import REPO, make_release, png, write_revision
from tests.manifests import manifest_of, save_manifest, typed

TEST, NEAR, FAR, TRAIN = "bench/test", "bench/near_ood", "bench/far_ood", "bench-train/train"

SAME = {"far_ood/2.png": "train/100.png", "near_ood/1.png": "test/0.png", "far_ood/0.png": "test/0.png"}


def picture(name):
    return png(SAME.get(name, name))


@pytest.fixture
def first(tmp_path):
    """A release of three splits, with its table: test/0 is near_ood/1."""
    splits = {TEST: range(3), NEAR: range(3), TRAIN: range(100, 102)}
    root = make_release(tmp_path / "one", splits, picture=picture)
    assert len(add_table(root)) == 1
    return root


@pytest.fixture
def second(tmp_path):
    """A release of a further split, with its table, which is empty: what it repeats is in the other release."""
    root = make_release(tmp_path / "other", {FAR: range(4)}, picture=picture)
    assert add_table(root) == []
    return root


@pytest.fixture
def published(hub, tmp_path, capsys):
    """The table of a revision and its manifest; the revision must be a whole release."""

    def read(revision="main"):
        root = write_revision(hub, tmp_path / f"at-{revision}", revision)
        assert verify([str(root), "--check", "fast", "--workers", "1"]) == 0, capsys.readouterr().out
        capsys.readouterr()
        pairs = read_pairs(root / "duplicates" / "pairs.parquet")
        return pairs, json.loads((root / "manifest.json").read_text(encoding="utf-8"))

    return read


def named(pairs):
    return [(pair.id.removeprefix("source/"), pair.other_id.removeprefix("source/")) for pair in pairs]


def test_pairs_between_splits_that_were_built_apart_are_found(push, published, first, second):
    assert push("one").code == 0
    assert named(published("v1.0.0")[0]) == [("near_ood/1.png", "test/0.png")]
    assert push("other", tag="v1.1.0").code == 0
    pairs, manifest = published("v1.1.0")
    # Three of a kind make three pairs, and the training image one more.
    assert named(pairs) == [
        ("train/100.png", "far_ood/2.png"),
        ("far_ood/0.png", "near_ood/1.png"),
        ("far_ood/0.png", "test/0.png"),
        ("near_ood/1.png", "test/0.png"),
    ]
    every = sorted([TEST, NEAR, FAR, TRAIN])
    assert manifest["duplicates"]["compared"] == [{"by": "bytes", "splits": every, "with": every}]
    assert any("nothing was changed" in line for line in push("other", tag="v1.1.0").out)


def test_chosen_configs_take_only_their_pairs(push, published, first):
    assert push("one", "--splits", "bench-train").code == 0
    pairs, manifest = published()
    assert (pairs, manifest["duplicates"]["rows"]) == ([], 0)
    assert manifest["duplicates"]["compared"] == [{"by": "bytes", "splits": [TRAIN], "with": [TRAIN]}]
    assert push("one", tag="v1.1.0").code == 0
    assert named(published("v1.1.0")[0]) == [("near_ood/1.png", "test/0.png")]


def near(pair, keys):
    """Add a near-duplicate to a table, and that the two splits were compared for such."""
    every = {comparison("bytes", first, second) for first in keys for second in keys}
    compared = compared_entries(every | {comparison("similarity-2", *pair.splits)})
    return {"change": lambda pairs: sorted([*pairs, pair], key=lambda p: p.place), "compared": compared}


def place(key, number, role, class_id):
    return Place(key, f"source/{key.split('/')[1]}/{number}.png", role, class_id)


def test_near_duplicates_of_both_sides_stay(push, published, tmp_path):
    train = place(TRAIN, 100, "in_distribution", "n01")
    first = pair_of(train, place(TEST, 1, "in_distribution", "n02"), 0.0625)
    second = pair_of(place(NEAR, 0, "near_ood", "unknown"), place(FAR, 3, "far_ood", "unknown"), 0.03125)
    a = make_release(tmp_path / "a", {TEST: range(3), TRAIN: range(100, 102)}, picture=picture)
    add_table(a, **near(first, (TEST, TRAIN)))
    b = make_release(tmp_path / "b", {NEAR: range(3), FAR: range(4)}, picture=picture)
    add_table(b, **near(second, (NEAR, FAR)))
    # The distances are made up, which only decoding would tell.
    assert push("a", "--check", "fast").code == push("b", "--check", "fast", tag="v1.1.0").code == 0
    pairs, manifest = published("v1.1.0")
    assert [pair for pair in pairs if pair.distance] == sorted([first, second], key=lambda pair: pair.place)
    similar = {c for c in listed_comparisons(typed(manifest).duplicates.compared) if c.by == "similarity-2"}
    assert similar == {comparison("similarity-2", *pair.splits) for pair in (first, second)}
    # A split with other rows takes its pairs with it.
    c = make_release(tmp_path / "c", {TEST: range(2)}, picture=picture)
    add_table(c)
    assert push("c", tag="v2.0.0").code == 0
    assert [pair for pair in published("v2.0.0")[0] if pair.distance] == [second]


def test_the_first_table_is_a_minor_change(push, hub, first):
    bare = manifest_of(first)
    table = bare.pop("duplicates")
    save_manifest(first, bare)
    content = (first / "duplicates" / "pairs.parquet").read_bytes()
    (first / "duplicates" / "pairs.parquet").unlink()
    assert push("one").code == 0
    (first / "duplicates" / "pairs.parquet").write_bytes(content)
    save_manifest(first, bare | {"duplicates": table})
    assert "duplicates is new, which is a minor change" in push("one", tag="v1.0.1").error
    assert push("one", tag="v1.1.0").code == 0
    assert "- `duplicates` is new" in hub.read(REPO, "CHANGELOG.md").decode()
