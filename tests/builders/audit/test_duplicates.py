"""`audit duplicates` on the demo, whose pairs its declarations name, and on releases with planted copies."""

import csv

import pytest
from msgspec.structs import replace
from PIL import Image

from builders.audit import duplicates
from builders.commands.audit import main
from builders.demo.images import encode_image
from builders.release.manifest import read_manifest
from hf_scripts import verify
from tests.builders import demo_pairs
from tests.builders.conftest import files_of
from tests.builders.photographs import pieces
from tests.builders.planning import QUIET
from tests.hf_scripts.samples import make_release
from tests.sentences import assert_sentence


def pairs_of(path):
    """The pairs of a table by kind, each as a sorted pair of (split, id)."""
    pairs = {"exact": set(), "near": set()}
    with path.open(encoding="utf-8", newline="") as opened:
        for row in csv.DictReader(opened):
            sides = ((row["split"], row["id"]), (row["other_split"], row["other_id"]))
            assert sides == tuple(sorted(sides)) and sides not in pairs[row["kind"]]
            pairs[row["kind"]].add(sides)
    return pairs


def test_the_demo_has_the_pairs_that_it_declares(cifar_release, tmp_path):
    before = files_of(cifar_release)
    out = tmp_path / "new" / "pairs.csv"
    assert main(["duplicates", str(cifar_release), "--out", str(out), "--workers", "2"]) == 0
    rows = demo_pairs.rows_of(cifar_release)
    near = demo_pairs.expected_near_pairs(rows)
    trained = {
        pair for pair in near if any(split == "cifar-train/train" for split, _ in pair)
    }  # what is compared with
    assert pairs_of(out) == {"exact": demo_pairs.expected_pairs(rows), "near": trained}
    assert files_of(cifar_release) == before


PHOTOGRAPHS = pieces(40, 96, seed=3)
MIRRORED, BRIGHTER, SAME = "near_ood/3.png", "near_ood/5.png", "test/2.png"
"""Images that are made of training images 101, 104 and 107."""


def picture(name):
    """A photograph of 96 x 96 pixels each, but for the copies."""
    split, _, number = name.removesuffix(".png").partition("/")
    if name == MIRRORED:
        return encode_image(PHOTOGRAPHS[1].transpose(Image.Transpose.FLIP_LEFT_RIGHT), "JPEG", quality=90)
    if name == BRIGHTER:
        return encode_image(PHOTOGRAPHS[4].point(lambda level: min(255, level + 12)), "JPEG", quality=75)
    if name == SAME:
        return picture("train/107.png")
    first = {"train": -100, "test": 12, "near_ood": 20}[split]
    return encode_image(PHOTOGRAPHS[int(number) + first], "JPEG", quality=90)


SPLITS = {"bench-train/train": range(100, 112), "bench/test": range(8), "bench/near_ood": range(8)}

TRAIN, NEAR = "bench-train/train", "bench/near_ood"
EXACT = {((TRAIN, "source/train/107.png"), ("bench/test", f"source/{SAME}"))}
CLOSE = {
    ((TRAIN, "source/train/101.png"), (NEAR, f"source/{MIRRORED}")),
    ((TRAIN, "source/train/104.png"), (NEAR, f"source/{BRIGHTER}")),
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A release with one exact copy and two near ones of training images, with the audit recorded."""
    root = make_release(tmp_path_factory.mktemp("planted") / "release", SPLITS, picture=picture, shards=2)
    assert main(["duplicates", str(root), "--workers", "2"]) == 0
    return root


def test_copies_of_training_images_are_found_whatever_their_size(planted):
    pairs = pairs_of(planted / "audit/duplicates.csv")
    assert pairs["exact"] == EXACT
    assert pairs["near"] >= CLOSE
    assert not any(pair in pairs["near"] for pair in EXACT)


def test_the_card_has_the_numbers_of_the_table_and_the_release_stays_whole(planted, capsys):
    pairs = pairs_of(planted / "audit/duplicates.csv")
    summary = read_manifest(planted).audits["duplicates"].summary
    assert f"equal content among 3 splits, and {len(pairs['near'])} pairs of nearly equal images" in summary
    known_and_unknown = sum(pair[1][0] == NEAR for pair in pairs["near"])
    assert f"between `{TRAIN}` and 2 other splits; {known_and_unknown} of a known and an unknown row." in summary
    assert verify.main([str(planted), "--workers", "1"]) == 0


def test_exact_alone_reads_no_image_and_says_so(planted, capsys):
    before = files_of(planted)
    assert main(["duplicates", str(planted), "--exact", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "1 pair with equal content" in printed and "Near-duplicates were not searched for." in printed
    assert "would write audit/duplicates.csv" in printed
    assert files_of(planted) == before


def test_two_releases_are_compared_with_each_other(planted, tmp_path, capsys):
    # The other one's rows have ids of their own, and two of its images are training images of `planted`.
    def renamed(name):
        number = name.partition("/")[2]
        return picture({"50.png": "train/103.png", "51.png": MIRRORED}.get(number, name))

    other = make_release(
        tmp_path / "other", {"bench/near_ood": [50, 51]}, picture=renamed, version="1.0.0", edition="another"
    )
    before = [files_of(root) for root in (planted, other)]
    out = tmp_path / "pairs.csv"
    assert main(["duplicates", str(planted), "--against", str(other), "--out", str(out), "--workers", "1"]) == 0
    pairs = pairs_of(out)
    theirs = [("against:bench/near_ood", f"source/near_ood/{number}.png") for number in (50, 51)]
    assert pairs["exact"] == {(theirs[0], (TRAIN, "source/train/103.png")), (theirs[1], (NEAR, f"source/{MIRRORED}"))}
    assert (theirs[1], (TRAIN, "source/train/101.png")) in pairs["near"]
    assert all(pair[0][0].startswith("against:") != pair[1][0].startswith("against:") for pair in pairs["near"])
    assert [files_of(root) for root in (planted, other)] == before


def test_the_same_rows_in_two_releases_are_no_pairs(planted, tmp_path, capsys):
    assert main(["duplicates", str(planted), "--against", str(planted), "--exact"]) == 0
    # Only the copy under another id, from both sides.
    assert "2 pairs with equal content among 6 splits" in capsys.readouterr().out


def test_splits_without_images_are_named(tmp_path, capsys):
    root = make_release(tmp_path / "release", {"bench-train/train": range(3), "bench/test": range(4, 6)})
    manifest = read_manifest(root)
    parts = duplicates.release_splits(root, manifest)
    assert duplicates.searches(manifest) == [("bench-train/train", "bench/test")]
    parts["bench/test"] = duplicates.ReleaseSplit(root, replace(parts["bench/test"].entry, data=()))
    near = duplicates.find_near(duplicates.Duplicates(parts, ()), duplicates.searches(manifest), tmp_path, None, QUIET)
    assert near.searched == () and near.without_images == ("bench/test",)
    assert "Not searched, since there are no images here: `bench/test`." in duplicates.duplicates_summary(near)


def test_training_splits_are_searched_once_and_never_with_themselves(tmp_path):
    splits = {"a-train/train": [1], "b-train/train": [2], "a/test": [3]}
    manifest = read_manifest(make_release(tmp_path / "release", splits))
    assert duplicates.searches(manifest) == [
        ("a-train/train", "a/test"),
        ("a-train/train", "b-train/train"),
        ("b-train/train", "a/test"),
    ]
    other = read_manifest(make_release(tmp_path / "other", {"c-train/train": [1], "c/test": [2]}))
    assert set(duplicates.searches(manifest, other)) == {
        ("a-train/train", "against:c-train/train"),
        ("a-train/train", "against:c/test"),
        ("b-train/train", "against:c-train/train"),
        ("b-train/train", "against:c/test"),
        ("against:c-train/train", "a/test"),
    }


@pytest.mark.parametrize("against", [[], ["--against", "{}/none"]])
def test_what_is_no_release_gets_one_sentence(planted, tmp_path, capsys, against):
    flags = [flag.format(tmp_path) for flag in against]
    assert main(["duplicates", str(planted if against else tmp_path), *flags]) == 2
    error = capsys.readouterr().err
    wrong = "none does not exist" if against else "manifest.json"
    assert error.count("\n") == 1
    assert_sentence(error, wrong)
    assert list(tmp_path.iterdir()) == []
