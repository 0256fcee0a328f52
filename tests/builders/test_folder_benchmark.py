"""A release of somebody's own folders: which images are drawn, what it says, and what is refused."""

import csv
import functools
import re
import shutil

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders import folder_benchmark
from builders.card import card
from builders.cli.executor_flags import WORKER_IMPORTS
from builders.commands import audit as audit
from builders.commands import folder
from builders.executors import local
from builders.registry import BENCHMARKS
from builders.sources.image_folder import find_images
from hf_scripts import materialize, verify
from tests.builders.conftest import files_of
from tests.manifests import manifest_of, rows_in
from tests.sentences import assert_sentence

CLASSES, PER_CLASS = ("ant", "bee", "cat"), 12
HELD_OUT = PER_CLASS // 5  # a fifth of the smallest class, for each of validation and test


def draw(path, seed, size=(48, 40)):
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("folders")
    for number, name in enumerate(CLASSES):
        for image in range(PER_CLASS + number):
            draw(root / "known" / name / f"{image:02d}.jpg", 100 * number + image)
    for image in range(6):
        draw(root / "near" / ("wasp" if image % 2 else "Bee_") / f"{image}.png", 1000 + image)
        draw(root / "far" / f"{image}.jpg", 2000 + image)
        draw(root / "external" / f"{image}.webp", 3000 + image)
    # Two unknowns show what training images show: one in its very bytes, one in other bytes and another size.
    shutil.copy(root / "known/ant/00.jpg", root / "far/copy.jpg")
    for image in range(PER_CLASS):
        Image.open(root / f"known/bee/{image:02d}.jpg").resize((96, 80)).save(root / f"near/wasp/like{image:02d}.png")
    return root


def arguments(folders, out, *flags):
    return [
        f"--in-distribution={folders / 'known'}",
        f"--unknown=near={folders / 'near'}",
        f"--unknown=far:flat={folders / 'far'}",
        f"--unknown=external={folders / 'external'}",
        f"--out={out}",
        "--workers=1",
        "--quiet",
        *flags,
    ]


@pytest.fixture(scope="module")
def release(folders, tmp_path_factory):
    out = tmp_path_factory.mktemp("release") / "release"
    assert folder_benchmark.main(arguments(folders, out)) == 0
    return out


@functools.cache
def rows(release, config):
    return {name: list(split) for name, split in datasets.load_dataset(str(release), config).items()}


def test_it_verifies_and_loads(release, capsys):
    assert verify.main([str(release), "--workers", "1"]) == 0, capsys.readouterr()
    splits = rows(release, "folder-index")
    assert {name: len(of_split) for name, of_split in splits.items()} == {
        "validation": HELD_OUT * len(CLASSES),
        "test": HELD_OUT * len(CLASSES),
        "near_ood": 6 + PER_CLASS,
        "far_ood_flat": 7,
        "external_validation": 6,
    }
    assert {row["class_id"] for row in splits["far_ood_flat"]} == {"far_ood_flat"}
    assert {row["label"] for row in splits["near_ood"]} == {-1}


def test_workers_import_modules_while_the_folders_are_read(folders, tmp_path, monkeypatch):
    order, find = [], folder.find_images
    monkeypatch.setattr(local, "begin", lambda preload: order.append(preload))
    monkeypatch.setattr(folder, "find_images", lambda *given, **flags: order.append("read") or find(*given, **flags))
    assert folder_benchmark.main(arguments(folders, tmp_path / "out", "--workers", "2")) == 0
    assert order[0] == WORKER_IMPORTS and order.count("read") == len(order) - 1
    order.clear()
    assert folder_benchmark.main(arguments(folders, tmp_path / "out", "--dry-run", "--workers", "2")) == 0
    assert set(order) == {"read"}


def test_unknown_classes_with_the_name_of_a_known_one_overlap(release):
    splits = rows(release, "folder-index")
    # The folder of near images has bees, and so have the known ones.
    assert {(row["class_id"], row["id_overlap"]) for row in splits["near_ood"]} == {("Bee_", "bee"), ("wasp", None)}
    assert {row["id_overlap"] for row in [*splits["test"], *splits["far_ood_flat"]]} == {None}
    assert manifest_of(release)["configs"]["folder"]["splits"]["near_ood"]["overlaps"] == 3


def test_a_build_says_that_unknown_classes_overlap_known_ones(release, folders, capsys):
    """Built again, of which nothing is left to do: half of the near images, by their name."""
    assert folder_benchmark.main(arguments(folders, release)) == 0
    lines = capsys.readouterr().out.splitlines()
    said = [line for line in lines if "overlap" in line]
    assert len(said) == 1 and said[0].startswith(
        "folder/near_ood: 3 of 18 rows are of classes that overlap known ones"
    )


@pytest.fixture(scope="module")
def of_wnids(tmp_path_factory):
    """A release whose known classes are named by wnids, and the unknown ones by words."""
    root = tmp_path_factory.mktemp("wnids")
    known = ("n02099601", "n02123045", "n01641577", "n03417042")  # golden retriever, tabby, bullfrog, garbage truck
    for seed, name in enumerate((*known, "dog", "cat", "frog", "truck", "seal", "zxq_7")):
        for image in range(5 if name in known else 1):
            draw(root / ("known" if name in known else "near") / name / f"{image}.png", 10 * seed + image)
    flags = [f"--in-distribution={root / 'known'}", f"--unknown=near={root / 'near'}", "--workers=1", "--quiet"]
    assert folder_benchmark.main([*flags, "--splits=folder/test,folder/near_ood", f"--out={root / 'release'}"]) == 0
    return root / "release"


def test_names_and_wnids_are_compared_by_wordnet(of_wnids, capsys):
    overlaps = {row["class_id"]: row["id_overlap"] for row in rows(of_wnids, "folder-index")["near_ood"]}
    expected = {"dog": "n02099601", "cat": "n02123045", "frog": "n01641577", "truck": "n03417042"}
    assert overlaps == {**expected, "seal": None, "zxq_7": None}
    assert manifest_of(of_wnids)["configs"]["folder"]["splits"]["near_ood"]["overlaps"] == 4
    assert verify.main([str(of_wnids), "--workers", "1"]) == 0, capsys.readouterr()


def test_what_wordnet_cannot_tell_is_in_the_card_and_the_audit(of_wnids, capsys):
    """And no table that these classes are not in."""
    card = (of_wnids / "README.md").read_text()
    assert "1 of 6 classes are no nouns of WordNet 3.0 and were compared by name alone: zxq_7." in card
    assert "taken in the first one: cat (8), dog (7), frog (3), seal (9), truck (2)." in card
    assert "- `folder/test`: nothing; every class has one synset." in card
    assert "overlaps.csv" not in card
    assert audit.main(["overlap", str(of_wnids), "--dry-run"]) == 0
    assert "compared by name alone: zxq_7." in capsys.readouterr().out


def test_training_validation_and_test_share_no_image_and_are_all(release):
    splits = rows(release, "folder-index") | rows(release, "folder-train-index")
    ids = [row["id"] for split in splits.values() for row in split if row["role"] == 0]
    assert len(ids) == len(set(ids)) == sum(PER_CLASS + number for number in range(len(CLASSES)))
    for name in ("validation", "test"):
        held_out = [row["class_id"] for row in splits[name]]
        assert {of: held_out.count(of) for of in CLASSES} == dict.fromkeys(CLASSES, HELD_OUT)


def test_pictures_that_are_there_twice_are_listed(release):
    pairs = list(datasets.load_dataset(str(release), "duplicates", split="pairs"))
    copies = [pair for pair in pairs if "folder-far-ood-flat/copy.jpg" in (pair["id"], pair["other_id"])]
    assert copies
    assert {pair["distance"] for pair in copies} == {0.0}
    scaled = {f"bee/{image:02d}.jpg": f"wasp/like{image:02d}.png" for image in range(PER_CLASS)}
    listed = {frozenset((pair["id"], pair["other_id"])) for pair in pairs}
    for original, copy in scaled.items():
        pair = frozenset((f"folder-in-distribution/{original}", f"folder-near-ood/{copy}"))
        assert pair in listed, original  # known images of each split are compared, also those of validation and test


def test_what_is_left_out_says_for_which_split_it_was_drawn(release):
    with (release / "excluded/folder-train.csv").open() as opened:
        lines = {(row["class_id"], row["rule"], row["evidence"], int(row["images"])) for row in csv.DictReader(opened)}
    evidence = "drawn for folder/test or folder/validation"
    assert lines == {(name, "in-other-split", evidence, 2 * HELD_OUT) for name in CLASSES}


def test_no_path_and_no_paper_is_published(release, folders):
    for path in [release / "README.md", release / "manifest.json", *release.glob("excluded/*.csv")]:
        assert str(folders) not in path.read_text()
    card = (release / "README.md").read_text()
    assert "somebody's own folders" in card
    assert "Citation" not in card and "materialize" not in card
    assert all(not benchmark["citation"] for benchmark in manifest_of(release)["benchmarks"].values())


def test_another_place_seed_and_run(release, folders, tmp_path):
    moved = shutil.copytree(folders, tmp_path / "moved")
    assert folder_benchmark.main(arguments(moved, tmp_path / "again")) == 0
    assert files_of(tmp_path / "again") == files_of(release)
    assert folder_benchmark.main(arguments(moved, tmp_path / "other", "--seed=1", "--splits=folder/test")) == 0
    splits = [manifest_of(out)["configs"]["folder"]["splits"]["test"] for out in (release, tmp_path / "other")]
    assert rows_in(splits[0]) == rows_in(splits[1])
    assert splits[0]["digest"] != splits[1]["digest"]


@pytest.mark.parametrize("splits", [("folder", "folder-train"), ("folder-train", "folder")])
def test_a_folder_that_grew_is_not_drawn_from_again_for_the_rest_of_its_splits(folders, tmp_path, capsys, splits):
    """Or some of its new training images would be those of its old validation split."""
    grown = tmp_path / "known"
    shutil.copytree(folders / "known", grown)
    flags = [f"--unknown=near={folders / 'near'}", f"--out={tmp_path / 'out'}", "--workers=1", "--quiet"]
    assert folder_benchmark.main([f"--in-distribution={grown}", *flags, f"--splits={splits[0]}"]) == 0
    for name in CLASSES:
        for image in range(20):
            shutil.copy(grown / name / "00.jpg", grown / name / f"more{image:02d}.jpg")
    before = files_of(tmp_path / "out")
    assert folder_benchmark.main([f"--in-distribution={grown}", *flags, f"--splits={splits[1]}"]) == 2
    assert re.search("folder/(validation|test) now draws other images", capsys.readouterr().err)
    assert files_of(tmp_path / "out") == before


def test_a_second_run_says_what_it_takes_from_the_first(folders, tmp_path, capsys):
    """Shards, of which no image is read again, and pixels, where the second run asks for none."""
    flags = [*arguments(folders, tmp_path / "out", "--splits=folder/test,folder/near_ood")]
    flags.remove("--quiet")
    assert folder_benchmark.main([*flags, "--index-only", "--dry-run"]) == 0
    assert "the release would have rows without pixels" in capsys.readouterr().out
    assert folder_benchmark.main(flags) == 0
    assert "earlier run" not in capsys.readouterr().err
    before = files_of(tmp_path / "out")
    assert folder_benchmark.main([*flags, "--index-only"]) == 0
    error = capsys.readouterr().err
    assert "2 shards of an earlier run are used\n" in error
    assert f"--index-only: folder/test, folder/near_ood had pixels in {tmp_path / 'out'}, which stay there" in error
    assert files_of(tmp_path / "out") == before


def test_an_index_without_pixels_knows_the_same_duplicates(folders, release, tmp_path):
    """As the release with pixels, whichever of its splits a second run adds; a broken image is in neither."""
    pairs = pq.read_table(release / "duplicates/pairs.parquet")
    assert {0.0} < {*pairs["distance"].to_pylist()}
    whole = tmp_path / "whole"
    assert folder_benchmark.main(arguments(folders, whole, "--index-only")) == 0
    assert folder_benchmark.main(arguments(folders, tmp_path / "two", "--index-only", "--splits=folder-train")) == 0
    assert folder_benchmark.main(arguments(folders, tmp_path / "two", "--index-only", "--splits=folder")) == 0
    for out in (whole, tmp_path / "two"):
        assert pq.read_table(out / "duplicates/pairs.parquet").equals(pairs)
        assert verify.main([str(out), "--workers", "1"]) == 0
    copy = shutil.copytree(folders, tmp_path / "copy")
    (copy / "near/wasp/5.png").write_bytes((copy / "near/wasp/5.png").read_bytes()[:200])
    tables = []
    for name, flag in (("pixels", "--with-images"), ("index", "--index-only")):
        assert folder_benchmark.main(arguments(copy, tmp_path / name, flag, "--allow-partial")) == 0
        assert manifest_of(tmp_path / name)["configs"]["folder"]["splits"]["near_ood"]["shortfalls"]
        tables.append(pq.read_table(tmp_path / name / "duplicates/pairs.parquet"))
    assert tables[0].equals(tables[1]) and tables[0].num_rows


def test_a_rerun_has_the_images_that_the_folders_have_now(folders, tmp_path):
    """Other pictures under the same names, of the same size in bytes, in place or in another folder."""
    for number, name in enumerate(("first", "second")):
        for image in range(2):
            pixels = np.full((40, 40, 3), 40 * number + image, np.uint8)
            (tmp_path / name).mkdir(exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / name / f"{image}.bmp")

    def build(unknown, out):
        flags = [f"--unknown=near={unknown}", "--unknown", f"far={folders / 'far'}", "--workers=1", "--quiet"]
        assert folder_benchmark.main([f"--in-distribution={folders / 'known'}", *flags, f"--out={out}"]) == 0
        splits = manifest_of(out)["configs"]["folder"]["splits"]
        return splits["near_ood"]["digest"], (out / splits["far_ood"]["data"][0]["path"]).stat().st_mtime_ns

    before, shard = build(tmp_path / "first", tmp_path / "release")
    after, same_shard = build(tmp_path / "second", tmp_path / "release")
    fresh, _ = build(tmp_path / "second", tmp_path / "fresh")
    assert before != after == fresh
    assert shard == same_shard, "shards of unchanged folders stay"
    assert verify.main([str(tmp_path / "release"), "--workers", "1"]) == 0


def test_two_names_whose_ids_would_be_of_different_images_are_refused(folders, tmp_path, capsys):
    known, out = [f"--in-distribution={folders / 'known'}", "--workers=1", "--quiet"], f"--out={tmp_path / 'release'}"
    assert folder_benchmark.main([*known, "--name=a-near-ood", f"--unknown=near={folders / 'near'}", out]) == 0
    capsys.readouterr()
    flags = [f"--unknown=near:in_distribution={folders / 'far'}", out]
    assert folder_benchmark.main([*known, "--name=a", *flags]) == 2
    assert_sentence(capsys.readouterr().err)


def test_partitions_beside_folders_of_another_name_are_no_classes(folders, tmp_path, capsys):
    for name in ("train", "dev"):
        shutil.copytree(folders / "known", tmp_path / "images" / name)
    flags = [f"--unknown=near={folders / 'near'}", f"--out={tmp_path / 'release'}"]
    assert folder_benchmark.main([f"--in-distribution={tmp_path / 'images'}", *flags]) == 2
    assert "has the partitions train, and beside them dev. Move the other folders away" in capsys.readouterr().err
    assert folder_benchmark.main([f"--in-distribution={folders / 'known'}", *flags, "--dry-run"]) == 0
    assert "3 classes: ant, bee, cat" in capsys.readouterr().err


def test_an_image_that_is_left_out_for_its_name_is_said_also_with_quiet(folders, tmp_path, capsys):
    shutil.copytree(folders / "far", tmp_path / "far")
    (tmp_path / "far" / "0.jpg").rename(tmp_path / "far" / "\x1b0.jpg")
    flags = [f"--in-distribution={folders / 'known'}", f"--unknown=far={tmp_path / 'far'}", "--workers=1", "--quiet"]
    assert folder_benchmark.main([*flags, f"--out={tmp_path / 'release'}"]) == 0
    assert_sentence(capsys.readouterr().err)


def test_all_images_of_unknowns_that_are_divided_are_taken(folders, tmp_path):
    """Before, those of the first partition alone were, and no line said so."""
    for partition, images in (("test", 2), ("train", 3)):
        for image in range(images):
            draw(tmp_path / "wasps" / partition / "wasp" / f"{image}.png", 5000 + 10 * images + image)
    flags = [
        f"--in-distribution={folders / 'known'}",
        f"--unknown=near={tmp_path / 'wasps'}",
        "--workers=1",
        "--quiet",
    ]
    assert folder_benchmark.main([*flags, f"--out={tmp_path / 'release'}"]) == 0
    near = pq.read_table(tmp_path / "release/index/folder/near_ood.parquet")
    assert {name.partition("/")[0] for name in near["source_id"].to_pylist()} == {"test", "train"}
    assert (len(near), set(near["class_id"].to_pylist())) == (5, {"wasp"})


def test_given_partitions_are_taken_as_they_are(folders, tmp_path):
    for partition, images in {"train": range(6), "val": range(6, 9), "test": range(9, 12)}.items():
        for name in CLASSES:
            for image in images:
                place = tmp_path / "known" / partition / name
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(folders / "known" / name / f"{image:02d}.jpg", place)

    def counts():
        benchmark = folder_benchmark.declare("own", 0, find_images(tmp_path / "known"), [])
        return {key: benchmark.count(key).rows for key in benchmark.splits}

    assert counts() == {"own/validation": 9, "own/test": 9, "own-train/train": 18}
    shutil.rmtree(tmp_path / "known/val")
    # A fifth of the smallest class of six is one image of each class.
    assert counts() == {"own/validation": 3, "own/test": 9, "own-train/train": 15}
    (tmp_path / "known/test").rename(tmp_path / "known/validation")
    assert counts() == {"own/validation": 3, "own/test": 9, "own-train/train": 15}
    shutil.rmtree(tmp_path / "known/train")
    assert counts() == {"own/test": 9}


def test_materialize_says_that_it_cannot(release, tmp_path, capsys):
    assert materialize.main([str(release), "--splits=folder", f"--out={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    assert_sentence(error, "builders.folder_benchmark")
    assert not (tmp_path / "out").exists()


def test_names_of_declared_benchmarks_are_told_by_their_first_words():
    """Without importing them, which takes a quarter of a second."""
    names = [name for declared in BENCHMARKS.values() for name in (declared.name, *(c.name for c in declared.configs))]
    assert {name.partition("-")[0] for name in names} == folder.FIRST_WORDS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--name": "cifar"}, ("--name cifar", "imagenet, cifar, facets, broad")),
        ({"--name": "Mine!"}, ("--name Mine!", "lower-case")),
        ({"--name": "facets-t1"}, ("--name facets-t1", "facets has one of that name")),
        ({"--name": "openood-imagenet200"}, ("openood has one of that name",)),
        ({"--name": "mos"}, ("openood has one of that name",)),
        ({"--name": "duplicates"}, ("every release has one for the table of duplicates of that name",)),
        ({"--name": "mine-index"}, ("every release has one for an index of that name",)),
        ({"--name": "mine-sealed"}, ("every release has one for sealed residuals of that name",)),
        ({"--name": "m" * 85}, ("would have 101 characters, and it may have 100",)),
        ({"--seed": f"{2**63}"}, ("--seed 9223372036854775808", "64 bits")),
        ({"--seed": f"-{2**63 + 1}"}, ("--seed -9223372036854775809", "64 bits")),
        ({"--unknown": "middle=x"}, ("middle=x", "near=DIR, far=DIR or external=DIR")),
        ({"--unknown": "near=absent"}, ("no folder absent", "Give a folder")),
        ({"--unknown": "external:mine=folders"}, ("names all external images", "as external=DIR")),
        ({"--in-distribution": "absent"}, ("no folder absent",)),
    ],
)
def test_flags_that_cannot_be_used(folders, tmp_path, capsys, monkeypatch, change, words):
    monkeypatch.chdir(tmp_path)
    change = {flag: value.replace("=folders", f"={folders / 'external'}") for flag, value in change.items()}
    flags = {"--in-distribution": folders / "known", "--unknown": f"near={folders / 'near'}", **change}
    argv = [text for flag, value in flags.items() for text in (flag, str(value))]
    assert folder_benchmark.main([*argv, "--out", "out", "--quiet"]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert not list(tmp_path.iterdir())


def test_folders_that_cannot_be_divided(folders, tmp_path, capsys):
    def refused(*flags):
        argv = [f"--unknown=near={folders / 'near'}", f"--out={tmp_path / 'out'}", "--quiet", *flags]
        assert folder_benchmark.main(argv) == 2
        assert not (tmp_path / "out").exists()
        return capsys.readouterr().err

    for image in range(4):
        draw(tmp_path / "few" / "ant" / f"{image}.jpg", image)
    assert "few has 4 images, and at least 5" in refused(f"--in-distribution={tmp_path / 'few'}")
    draw(tmp_path / "fewer" / "ant" / "0.jpg", 0)
    assert "fewer has 1 image, and at least 5" in refused(f"--in-distribution={tmp_path / 'fewer'}")
    (tmp_path / "trained").mkdir()
    shutil.copytree(tmp_path / "few", tmp_path / "trained/train")
    assert "only training images" in refused(f"--in-distribution={tmp_path / 'trained'}")
    draw(tmp_path / "trained/test/bee/0.jpg", 9)
    assert "no training image of bee" in refused(f"--in-distribution={tmp_path / 'trained'}")
    twice = f"--unknown=near={folders / 'far'}"
    assert "two folders for near_ood" in refused(f"--in-distribution={folders / 'known'}", twice)
    known = f"--unknown=external={folders / 'known'}"
    assert "which is --in-distribution, too" in refused(f"--in-distribution={folders / 'known'}", known)


def test_images_of_two_roles_are_refused_by_their_folders(folders, tmp_path, capsys):
    """A class given as unknown would be evaluated as such, and a folder within another one twice."""
    known, near = folders / "known", folders / "near"
    for first, second, third in ((known, known / "ant", near), (known, folders, near), (known, near, near / "wasp")):
        flags = [f"--in-distribution={first}", f"--unknown=near={second}", f"--unknown=far={third}", "--quiet"]
        assert folder_benchmark.main([*flags, f"--out={tmp_path / 'out'}"]) == 2
        assert_sentence(capsys.readouterr().err.replace(str(folders), "FOLDERS"), "--unknown", "two roles")
    flags = [f"--in-distribution={known}", f"--unknown=near={near}", f"--unknown=far={near}", "--quiet"]
    assert folder_benchmark.main([*flags, f"--out={tmp_path / 'out'}"]) == 2
    assert "which is --unknown, too" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_files_that_are_not_taken_for_images_are_counted(folders, tmp_path, capsys):
    shutil.copytree(folders / "far", tmp_path / "far")
    for name in ("a.heic", "b.heic", ".hidden"):
        (tmp_path / "far" / name).write_bytes(b"")
    flags = arguments(folders, tmp_path / "out", f"--unknown=far:deep={tmp_path / 'far'}", "--dry-run")
    assert folder_benchmark.main([flag for flag in flags if flag != "--quiet"]) == 0
    sentence = f"{tmp_path / 'far'}: 2 files are not taken for images: 2 .heic, such as a.heic"
    assert sentence in capsys.readouterr().err.splitlines()


def test_a_release_and_its_sources_do_not_lie_in_one_another(folders, tmp_path, capsys, monkeypatch):
    """A release in a folder of classes would be one of them in the next run."""
    known = shutil.copytree(folders / "known", tmp_path / "mine/known")
    flags = [f"--unknown=near={folders / 'near'}", "--workers=1", "--quiet"]
    before = files_of(tmp_path)
    for out in (known, known / "ant/release"):
        assert folder_benchmark.main([*flags, f"--in-distribution={known}", f"--out={out}"]) == 2
    monkeypatch.chdir(known)
    assert folder_benchmark.main([*flags, "--in-distribution=.", "--out=build/release"]) == 2
    assert_sentence(capsys.readouterr().err, "build/release")
    (tmp_path / ".state").mkdir()  # as of a release
    assert folder_benchmark.main([*flags, f"--in-distribution={known}", f"--out={tmp_path}"]) == 2
    assert_sentence(capsys.readouterr().err, known, tmp_path)
    assert files_of(tmp_path) == before


def test_images_of_16_bits_are_named_and_can_be_left_out(folders, tmp_path, capsys):
    shutil.copytree(folders / "far", tmp_path / "far")
    Image.fromarray(np.full((40, 48), 30_000, np.uint16)).save(tmp_path / "far/x-ray.png")
    flags = arguments(
        folders, tmp_path / "out", f"--unknown=far:deep={tmp_path / 'far'}", "--splits=folder/far_ood_deep"
    )
    assert folder_benchmark.main(flags) == 2
    sentence = r"far/x-ray\.png \(it has values of more than 8 bits, mode I;16; save it with 8 bits\)\n.*"
    assert re.search(sentence + "or leave them out with --allow-partial", capsys.readouterr().err)
    assert folder_benchmark.main([*flags, "--allow-partial"]) == 0
    split = manifest_of(tmp_path / "out")["configs"]["folder"]["splits"]["far_ood_deep"]
    assert (rows_in(split), split["parts"][0]["excluded_by_rule"]) == (7, {"unreadable": 1})
    assert "values of more than 8 bits" in (tmp_path / "out/excluded/folder.csv").read_text()


def test_a_benchmark_of_its_own_name_shares_a_release(release, folders, tmp_path):
    out = shutil.copytree(release, tmp_path / "release")
    assert folder_benchmark.main(arguments(folders, out, "--name=second", "--splits=second/test")) == 0
    manifest = manifest_of(out)
    assert sorted(manifest["benchmarks"]) == ["folder", "second"]
    assert {key for key in manifest["sources"] if key.startswith("second-")} == {"second-in-distribution"}


@pytest.mark.parametrize("names", [("own", "own-train"), ("own-train", "own")])
def test_a_benchmark_whose_config_is_another_ones_does_not_share_a_release(folders, tmp_path, capsys, names):
    """`own-train` is the config of the training images of `own`."""
    first, second = (arguments(folders, tmp_path, f"--name={name}", "--splits=own-train") for name in names)
    assert folder_benchmark.main(first) == 0
    before = files_of(tmp_path)
    assert folder_benchmark.main(second) == 2
    sentence = f"own-train in {tmp_path} is a config of the benchmark {names[0]}, not of {names[1]}."
    assert sentence in capsys.readouterr().err
    assert files_of(tmp_path) == before


def test_all_broken_images_are_named_at_once_and_the_command_goes_on_when_they_are_mended(
    folders, release, tmp_path, capsys
):
    copy = shutil.copytree(folders, tmp_path / "mine")
    broken = [copy / name for name in ("far/0.jpg", "known/ant/03.jpg", "known/bee/01.jpg", "near/wasp/1.png")]
    for path in broken:
        path.write_bytes(path.read_bytes()[:-40])
    assert folder_benchmark.main(arguments(copy, tmp_path / "out")) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    head, *listed, last = printed.err.splitlines()
    assert head == "error: 4 images cannot be used:"
    assert sorted(line.split(" (")[0].strip() for line in listed) == [str(path) for path in sorted(broken)]
    assert last == "Replace or remove them, or leave them out with --allow-partial."
    assert not (tmp_path / "out").exists()
    for path in broken:
        shutil.copy(folders / path.relative_to(copy), path)
    assert folder_benchmark.main(arguments(copy, tmp_path / "out")) == 0
    assert files_of(tmp_path / "out") == files_of(release)


def test_a_folder_whose_images_are_all_left_out_is_an_error_with_the_reason(folders, tmp_path, capsys):
    copy = shutil.copytree(folders, tmp_path / "mine")
    for path in (copy / "far").iterdir():
        path.write_bytes(b"")
    assert folder_benchmark.main(arguments(copy, tmp_path / "out", "--allow-partial")) == 2
    sentence = "far_ood_flat would have no rows: all 7 of its images were left out, 7 of them because: the file is "
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out" / "manifest.json").exists()
    # Its advice, to leave the split out, gives a release that is whole.
    flags = arguments(copy, tmp_path / "out", "--allow-partial", "--splits=folder/test,folder/validation")
    assert folder_benchmark.main(flags) == 0
    assert verify.main([str(tmp_path / "out"), "--workers=1", "--check=fast"]) == 0
    assert " files of folder-train/train, folder/external_validation" in capsys.readouterr().out


def test_a_build_that_was_stopped_at_its_end_can_be_one_of_fewer_splits_or_go_on(
    folders, release, tmp_path, capsys, monkeypatch
):
    def stopped(*_):
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(card, "write_manifest", stopped)
        assert folder_benchmark.main(arguments(folders, out)) == 130
    assert folder_benchmark.main(arguments(folders, out, "--splits=folder/test,folder/near_ood")) == 0
    assert verify.main([str(out), "--workers=1", "--check=fast"]) == 0
    assert "of folder-train, folder-train/train, folder/external_validation and 2 more, " in capsys.readouterr().out
    assert set(datasets.get_dataset_config_names(str(out))) == {"folder", "folder-index", "duplicates"}
    assert set(datasets.get_dataset_split_names(str(out), "folder")) == {"test", "near_ood"}
    shutil.copy(out / "data/folder/test-00000-of-00001.parquet", out / "data/folder/mine-00000-of-00001.parquet")
    assert verify.main([str(out), "--workers=1", "--check=fast"]) == 1
    assert "data/folder/mine-00000-of-00001.parquet: manifest.json does not list" in capsys.readouterr().out
    (out / "data/folder/mine-00000-of-00001.parquet").unlink()
    assert folder_benchmark.main(arguments(folders, out)) == 0
    assert files_of(out) == files_of(release)
