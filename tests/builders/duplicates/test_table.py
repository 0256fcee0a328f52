"""Planted copies in builds: the table lists them, in whatever order the splits are built, and the release verifies."""

import shutil

import pytest

from builders.release.duplicates import read_pairs
from hf_scripts.verify import main as verify
from tests.builders.conftest import build_demo, files_of
from tests.builders.planted import SPLITS, Planting, with_comment
from tests.builders.trees import linked
from tests.manifests import manifest_of

TEST, NEAR, VALIDATION, EXTERNAL, TRAIN = (
    "imagenet/test",
    "imagenet/near_ood",
    "imagenet/validation",
    "imagenet/external_validation",
    "imagenet-train/train",
)


@pytest.fixture(scope="module")
def planted(demo, release, tmp_path_factory):
    """Sources, the pairs of equal bytes in them, and those of equal pixels and other bytes."""
    planting = Planting(demo["imagenet"], release, tmp_path_factory.mktemp("planted") / "imagenet")
    equal = [
        planting.copy((TRAIN, 0), (NEAR, 0)),  # a known training image among the unknowns
        planting.copy((TRAIN, 1), (TEST, 0)),
        planting.copy((TEST, 1), (NEAR, 1)),  # a known and an unknown role
        planting.copy((NEAR, 2), (NEAR, 3)),  # within one split
        planting.copy((VALIDATION, 0), (EXTERNAL, 0)),
    ]
    # Three of a kind: two copies make three pairs.
    copies = [planting.copy((TEST, 5), (TEST, 6)), planting.copy((TEST, 5), (TRAIN, 7))]
    equal += [*copies, planting.copy((TEST, 6), (TRAIN, 7))]
    pixels = [planting.copy((TRAIN, 3), (NEAR, 8), with_comment)]
    return demo | {"imagenet": planting.folder}, equal, pixels


@pytest.fixture(scope="module")
def own(release):
    """The pairs that the demo has of its own."""
    pairs = read_pairs(release / "duplicates" / "pairs.parquet")
    return [pair for pair in pairs if set(pair.splits) <= set(SPLITS)]


@pytest.fixture(scope="module")
def complete_release(planted, tmp_path_factory):
    """A release of all planted splits, built in one run."""
    root = tmp_path_factory.mktemp("complete_release") / "release"
    build_demo(planted[0], root, splits=SPLITS)
    return root


def in_order(pairs):
    return sorted(pairs, key=lambda pair: (pair.split, pair.id, pair.other_split, pair.other_id))


def test_every_planted_pair_is_listed_and_no_other(planted, own, complete_release):
    _, equal, _ = planted
    assert read_pairs(complete_release / "duplicates" / "pairs.parquet") == in_order([*equal, *own])
    entry = manifest_of(complete_release)["duplicates"]
    assert entry["rows"] == len(equal) + len(own) == 8 + len(own)
    assert entry["compared"] == [{"by": "bytes", "splits": sorted(SPLITS), "with": sorted(SPLITS)}]


def test_the_release_verifies_and_the_pairs_are_notes(complete_release, planted, own, capsys):
    assert verify([str(complete_release), "--check", "fast", "--workers", "1"]) == 0
    (note,) = [line for line in capsys.readouterr().out.splitlines() if "of duplicates" in line]
    counts = manifest_of(complete_release)["duplicates"]["counts"]
    pairs = len(planted[1]) + len(own)
    assert note.startswith(f"note: {pairs} pairs of duplicates in {len(counts)} pairings of splits, ")
    # Of these splits the demo has no pairs of its own.
    assert {
        ("imagenet-train/train", "imagenet/test", 3, 3, 0),
        ("imagenet/external_validation", "imagenet/validation", 1, 1, 1),
        ("imagenet/near_ood", "imagenet/near_ood", 1, 1, 0),
        ("imagenet/test", "imagenet/test", 1, 1, 0),
    } <= {tuple(c[name] for name in ("split", "other_split", "pairs", "two_classes", "two_roles")) for c in counts}


def test_the_card_counts_the_pairs_by_splits(complete_release):
    text = (complete_release / "README.md").read_text(encoding="utf-8")
    for count in manifest_of(complete_release)["duplicates"]["counts"]:
        split, other_split = (f"`{count[name]}`" for name in ("split", "other_split"))
        splits = split if split == other_split else f"{split} and {other_split}"
        assert f"| {splits} | {count['pairs']} | {count['two_roles']} | {count['two_classes']} |" in text


@pytest.mark.parametrize("order", [(4, 0, 3, 1, 2), pytest.param((1, 2, 4, 3, 0), marks=pytest.mark.slow)])
def test_the_order_of_runs_does_not_show(planted, complete_release, tmp_path, order):
    sources, equal, _ = planted
    built = []
    for number in order:
        built.append(SPLITS[number])
        build_demo(sources, tmp_path, splits=(SPLITS[number],))
        listed = read_pairs(tmp_path / "duplicates" / "pairs.parquet")
        assert [pair for pair in listed if pair in equal] == in_order(p for p in equal if set(p.splits) <= set(built))
    assert files_of(tmp_path) == files_of(complete_release)


def test_decoding_finds_equal_pixels_of_other_bytes(planted, own, complete_release, tmp_path, capsys):
    sources, equal, pixels = planted
    build_demo(sources, tmp_path, splits=SPLITS[2:3], decode=True)
    build_demo(sources, tmp_path, splits=SPLITS, decode=True)
    # A run that does not decode keeps what is known of what was.
    build_demo(sources, tmp_path, splits=SPLITS[:1])
    listed = read_pairs(tmp_path / "duplicates" / "pairs.parquet")
    assert set(listed) >= {*equal, *pixels, *own}
    assert [pair for pair in listed if pair in pixels] == pixels
    keys = {"splits": sorted(SPLITS), "with": sorted(SPLITS)}
    assert manifest_of(tmp_path)["duplicates"]["compared"] == [{"by": "bytes"} | keys, {"by": "pixels"} | keys]
    data = {name: content for name, content in files_of(tmp_path).items() if name.startswith(("data/", "index/"))}
    assert data.items() <= files_of(complete_release).items()
    assert verify([str(tmp_path), "--workers", "1"]) == 0
    # Without the state of the runs the table of the folder is carried on.
    shutil.rmtree(tmp_path / ".state" / "parts")
    build_demo(sources, tmp_path, splits=SPLITS[:1])
    assert read_pairs(tmp_path / "duplicates" / "pairs.parquet") == listed


def test_a_table_that_a_killed_run_left_is_made_again(planted, complete_release, tmp_path):
    out = linked(complete_release, tmp_path / "out")
    table = out / "duplicates" / "pairs.parquet"
    table.unlink()
    table.write_bytes(b"half")
    build_demo(planted[0], out, splits=SPLITS[:1])
    assert files_of(out) == files_of(complete_release)
