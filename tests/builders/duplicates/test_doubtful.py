"""Images that the search for near-duplicates does not suit: what builds, cards, checks and reports say of them."""

import csv
import json
import re
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from PIL import Image
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import load_sample_images

from benchmarks.duplicates.near import patches
from builders import folder_benchmark
from builders.duplicates.distance import scaled
from builders.duplicates.search import find_pairs
from builders.duplicates.table import complete, read_earlier
from builders.release.duplicates import LEAST_ROWS, are_too_many, connected_groups, read_pairs
from builders.release.entries import NEAR_DISTANCE
from builders.release.manifest import read_manifest
from hf_scripts.verify import main as verify
from tests.builders.duplicates import drawn
from tests.builders.trees import linked
from tests.evaluation.report.as_text import figures_of, page_of
from tests.hf_scripts.pair_tables import replace_pairs
from tests.manifests import manifest_of
from tests.sentences import assert_sentence
from unknown_detection.evaluation.__main__ import main as evaluate

EQUAL = 30
"""Equal pictures, of as many rows of each of the three classes."""


def rows_in_near_pairs(images, count):
    """The rows of the first images that are in a pair with another image."""
    pixels = np.stack([scaled(image) for image in images])
    pairs = find_pairs(pixels[:count], pixels, advance=lambda _: None)
    return len(np.unique(pairs.queries[pairs.queries != pairs.references]))


@pytest.mark.parametrize(
    "kind", [drawn.digits, drawn.icons, drawn.textures, pytest.param(drawn.scans, marks=pytest.mark.slow)]
)
def test_images_of_few_shapes_have_more_near_pairs_than_duplicates_explain(kind):
    near = rows_in_near_pairs(kind(160, np.random.default_rng(0)), 30)
    assert near >= 0.4 * 30 and are_too_many(near, 30)


def test_drawings_that_differ_and_photographs_have_none():
    assert rows_in_near_pairs(drawn.drawings(160, np.random.default_rng(0)), 160) == 0
    pixels, squares = patches(Image.fromarray(load_sample_images().images[0]))
    tiles = [Image.fromarray(image) for image in pixels[squares[:, 2] == 64]]
    assert not are_too_many(rows_in_near_pairs(tiles, len(tiles)), len(tiles))


@pytest.mark.parametrize(
    ("near", "rows", "too_many"),
    [
        # Rows of CIFAR-100's and CIFAR-10's test sets in near pairs (docs/benchmarks/duplicates.md), and the digits of
        # the public report: all but 33 of 210.
        (607, 10_000, False),
        (530, 10_000, False),
        (177, 210, True),
        (LEAST_ROWS - 1, LEAST_ROWS, False),
        (LEAST_ROWS, LEAST_ROWS, True),
        (10, 100, False),
        (11, 100, True),
    ],
)
def test_what_is_too_much(near, rows, too_many):
    assert are_too_many(near, rows) == too_many


def test_groups_are_those_of_scipy():
    random = np.random.default_rng(0)
    edges = random.integers(0, 200, (120, 2))
    _, labels = connected_components(coo_array((np.ones(120), edges.T), (200, 200)), directed=False)
    expected = {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels[edges])}
    assert {frozenset(group) for group in connected_groups(edges.tolist())} == expected


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Digits of three known classes and of another, drawings, and one picture in all three known classes."""
    root, random = tmp_path_factory.mktemp("digits"), np.random.default_rng(0)
    images = {f"known/{name}": drawn.digits(50, random, [digit]) for digit, name in enumerate(("zero", "one", "two"))}
    images |= {"near": drawn.digits(30, random, [5]), "far": drawn.drawings(30, random)}
    for name, of_folder in images.items():
        (root / name).mkdir(parents=True)
        for number, image in enumerate(of_folder):
            image.save(root / name / f"{number:02d}.png")
    for name in ("zero", "one", "two"):
        for number in range(EQUAL // 3):
            shutil.copy(root / "near/00.png", root / "known" / name / f"same{number:02d}.png")
    return root


def arguments(folders, out, *flags):
    words = [f"--in-distribution={folders / 'known'}", f"--unknown=near={folders / 'near'}"]
    return [*words, f"--unknown=far={folders / 'far'}", f"--out={out}", "--workers=1", "--quiet", *flags]


@pytest.fixture(scope="module")
def built(folders, tmp_path_factory):
    """The release of the digits, and what the build said, with --quiet."""
    out = tmp_path_factory.mktemp("built") / "release"
    with pytest.MonkeyPatch.context() as patch:
        said = []
        patch.setattr("click.echo", lambda text="", **options: said.append(text))
        assert folder_benchmark.main(arguments(folders, out)) == 0
    return out, "\n".join(said)


def pairs_of(release):
    return read_pairs(release / "duplicates" / "pairs.parquet")


def rows_of(release, key):
    return pq.read_table(release / "index" / f"{key}.parquet").to_pylist()


def ids_in_pairs(release, key, *, near):
    sides = [side for pair in pairs_of(release) if (pair.distance > 0) == near for side in pair.sides]
    return {side.id for side in sides if side.split == key}


SPLITS = ("folder/validation", "folder/test", "folder/near_ood", "folder/far_ood", "folder-train/train")


def test_the_manifest_counts_rows_in_near_pairs_where_they_are_too_many(built):
    release, _ = built
    near = {key: len(ids_in_pairs(release, key, near=True)) for key in SPLITS}
    doubtful = {key: count for key, count in near.items() if count > len(rows_of(release, key)) / 10}
    assert manifest_of(release)["duplicates"]["doubtful"] == doubtful
    assert {"folder/test", "folder/validation"} <= doubtful.keys()
    assert "folder/far_ood" not in doubtful


def test_build_card_and_verify_say_so(built, capsys):
    release, said = built
    count, rows = manifest_of(release)["duplicates"]["doubtful"]["folder/test"], len(rows_of(release, "folder/test"))
    sentence = f"{count} of {rows} rows of folder/test"
    tail = "are in near pairs, which are too many to be duplicates"
    assert re.search(f"{sentence}.* {tail}.*unknown-detection audit pairs {release}; .*--near-distance", said)
    card = (release / "README.md").read_text()
    assert re.search(f"{sentence}.* {tail}", card)
    assert 'pairs = pairs.filter(lambda pair: pair["distance"] == 0)' in card
    assert verify([str(release), "--workers", "1"]) == 0
    assert re.search(f"note: .*{sentence}.* {tail}", capsys.readouterr().out)


def test_equal_pictures_under_several_classes_are_said_at_the_build(built):
    """Hand count: in which rows of each split the picture is, and under which classes."""
    release, said = built
    (line,) = [line for line in said.splitlines() if line.startswith("equal pictures of several classes in ")]
    assert re.search(r", such as .* of one, .* of two, .* of zero$", line)
    counted = 0
    for key in SPLITS:
        same = [row for row in rows_of(release, key) if "/same" in row["source_id"]]
        if len({row["class_id"] for row in same}) > 1:
            assert f"{len(same)} rows of {key} (1 picture)" in line
            counted += len(same)
    assert counted > EQUAL / 2


def test_the_report_leaves_out_equal_pictures_alone_there(built, tmp_path):
    release, _ = built
    random = np.random.default_rng(0)
    keys = ("folder/test", "folder/near_ood", "folder/far_ood")
    with (tmp_path / "scores.csv").open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(("id", "score", "prediction"))
        for key in keys:
            writer.writerows((row["id"], random.random(), 0) for row in rows_of(release, key))
    words = ["report", "--scores", str(tmp_path / "scores.csv"), "--release", str(release), "--splits", ",".join(keys)]
    assert evaluate([*words, "--no-plots", "--quiet", "--out", str(tmp_path / "report")]) == 0
    figures = figures_of(tmp_path / "report")
    chosen = figures[(figures["metric"] == "auroc") & (figures["unknown"] == "near_ood")]
    left_out = {line["rows"]: line["left_out"] for line in chosen.to_dict("records")}
    equal = sum(len(ids_in_pairs(release, key, near=False)) for key in keys[:2])
    assert left_out["without_duplicates"] == equal > 0
    assert re.search("rows of folder/test.* are in near pairs, which are too many", page_of(tmp_path / "report"))


def test_a_smaller_distance_is_recorded_and_verify_uses_it(built, folders, tmp_path, capsys):
    """In the same folder, whose shards stay as they are; and the pairs are those of the default below the distance."""
    release, _ = built
    out = linked(release, tmp_path / "release")
    everything, distance = pairs_of(release), 0.05
    assert folder_benchmark.main(arguments(folders, out, f"--near-distance={distance}")) == 0
    assert manifest_of(out)["benchmarks"]["folder"]["near_distance"] == distance
    nearer = [pair for pair in everything if pair.distance <= distance]
    assert pairs_of(out) == nearer and len(nearer) < len(everything)
    assert verify([str(out), "--check", "decode", "--workers", "1"]) == 0, capsys.readouterr()
    # What the default lists is a problem here, and so is a pair too few.
    replace_pairs(out, everything)
    assert verify([str(out), "--check", "fast", "--workers", "1"]) == 1
    assert "no comparison of the two splits gives distance" in capsys.readouterr().out
    furthest = max(nearer, key=lambda pair: pair.distance)
    replace_pairs(out, [pair for pair in nearer if pair != furthest])
    assert verify([str(out), "--check", "decode", "--workers", "1"]) == 1
    assert f"lacks the pair {furthest.id} of {furthest.split}" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--near-distance=0", "--no-near-duplicates"])
def test_no_distance_lists_equal_pictures_alone(built, folders, flag, tmp_path, capsys):
    release, _ = built
    out = linked(release, tmp_path / "release")
    assert folder_benchmark.main(arguments(folders, out, flag)) == 0
    assert "near pairs" not in capsys.readouterr().err
    assert pairs_of(out) == [pair for pair in pairs_of(release) if not pair.distance]
    listed = manifest_of(out)["duplicates"]
    assert {entry["by"] for entry in listed["compared"]} == {"bytes"}
    assert "doubtful" not in listed
    assert verify([str(out), "--workers", "1"]) == 0, capsys.readouterr()
    said = "ear-duplicates of folder were not searched for, equal pictures alone"
    assert said in capsys.readouterr().out
    assert said in (out / "README.md").read_text(encoding="utf-8")
    # A run that searches again finds what the first one did, in the same folder.
    assert folder_benchmark.main(arguments(folders, out)) == 0
    assert pairs_of(out) == pairs_of(release)
    assert json.loads((out / "manifest.json").read_text()) == json.loads((release / "manifest.json").read_text())


@pytest.mark.parametrize("trusting", [True, False])
def test_a_table_up_to_another_distance_lends_its_equal_pairs_alone(built, trusting):
    """As where a release replaces a published one of the same rows."""
    release, _ = built
    published = read_manifest(release)
    benchmark = replace(published.benchmarks["folder"], near_distance=0.05)
    entries, earlier = published.by_key(), read_earlier(published, release / "duplicates" / "pairs.parquet")
    table = complete(
        replace(published, benchmarks={"folder": benchmark}),
        lambda key: release / entries[key].index.path,
        [earlier],
        trusting=trusting,
    )
    assert {found.by for found in table.comparisons} == {"bytes"}
    assert set(table.pairs) == {pair for pair in pairs_of(release) if not pair.distance}


@pytest.mark.parametrize("distance", ["-0.01", "0.0961", "nan", "inf"])
def test_a_distance_that_no_search_has_is_refused(folders, tmp_path, capsys, distance):
    assert folder_benchmark.main(arguments(folders, tmp_path / "out", f"--near-distance={distance}")) == 2
    assert_sentence(capsys.readouterr().err, "--near-distance", distance, NEAR_DISTANCE)
    assert not (tmp_path / "out").exists()


def test_a_row_of_a_few_pairs_is_no_doubt(folders, tmp_path, capsys):
    """Copies in other sizes are near, and few: the line on doubts stays away."""
    known, random = tmp_path / "known", np.random.default_rng(0)
    for number, image in enumerate(drawn.drawings(60, random)):
        folder = known / ("b" if number % 2 else "a")
        folder.mkdir(parents=True, exist_ok=True)
        image.save(folder / f"{number}.png")
    shutil.copytree(folders / "far", tmp_path / "far")
    Image.open(known / "a/0.png").resize((64, 64)).save(tmp_path / "far/scaled.png")
    words = [f"--in-distribution={known}", f"--unknown=far={tmp_path / 'far'}", f"--out={tmp_path / 'out'}"]
    assert folder_benchmark.main([*words, "--workers=1", "--quiet"]) == 0
    assert [pair.distance > 0 for pair in pairs_of(tmp_path / "out")] == [True]
    assert "doubtful" not in manifest_of(tmp_path / "out")["duplicates"]
    assert "too many" not in capsys.readouterr().err
