"""The CIFAR-scale benchmark: the paper's counts (Kim et al., table 2), its draws, and builds of the demo sources."""

import csv
import shutil
from collections import Counter
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest

from builders.cifar_benchmark import BENCHMARK, main
from builders.errors import BuildError
from builders.generate.exact.noise import gaussian_noise
from builders.generate.exact.resize import FIXED_RESIZE, LSUN_FIX_RESIZE, fixed_resize, lsun_fix
from builders.plan.candidates import Draws
from builders.plan.planner import plan
from builders.release import images
from builders.sources.datasets.lsun_fix import LSUN_FIX
from taxonomy import tables
from tests.builders.cifar_layouts import lsun_entries
from tests.builders.conftest import assert_same_files, build_demo, digests, files_of
from tests.builders.indexes import whole_index, whole_indexes
from tests.builders.layouts import LAYOUTS
from tests.killing import watched_at_renames
from tests.manifests import manifest_of
from tests.sentences import stops

SPLITS = tuple(BENCHMARK.parts)
ARRAYS = ("cifar/test", "cifar/near_ood", "cifar/far_ood_svhn", "cifar-train/train")


@pytest.fixture(scope="module")
def planned():
    """The plan from complete sources."""
    return {split.key: split for split in plan(Draws(BENCHMARK, 0), whole_indexes(BENCHMARK), splits=SPLITS)}


def test_complete_sources_give_the_papers_counts(planned):
    """Kim et al., table 2; tests/stated_figures.csv has its figures."""
    assert planned.keys() == set(SPLITS)
    for key, split in planned.items():
        count = BENCHMARK.count(key)
        assert split.table.num_rows == count.rows == count.paper, key
        assert split.table.num_rows + sum(e.images for e in split.excluded) == split.available, key


def test_quotas_are_the_papers(planned):
    of_class = {key: Counter(planned[key].table["class_id"].to_pylist()) for key in planned}
    assert set(of_class["cifar/validation"].values()) == {50}
    assert set(of_class["cifar-train/train"].values()) == {450}
    assert set(of_class["cifar-external/train"].values()) == {500}
    assert len(of_class["cifar-external/train"]) == len(of_class["cifar/external_validation"]) == 158
    assert len(of_class["cifar/far_ood_dtd"]) == 47
    # 4,000 of 26,032 by largest remainders: each digit has its share to within one image.
    sizes = (5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595, 1744)
    for digit, size in zip("1234567890", sizes, strict=True):
        assert abs(of_class["cifar/far_ood_svhn"][digit] - 4000 * size / 26032) < 1


def test_external_images_are_in_one_split_only(planned):
    ids = [set(planned[key].table["id"].to_pylist()) for key in ("cifar/external_validation", "cifar-external/train")]
    assert not ids[0] & ids[1]


def test_two_classes_of_each_superclass_are_known_and_three_are_near(planned):
    coarse = {item.fine: item.coarse for item in tables.cifar100()}
    known = set(planned["cifar/test"].table["class_id"].to_pylist())
    near = set(planned["cifar/near_ood"].table["class_id"].to_pylist())
    assert Counter(coarse[name] for name in known) == dict.fromkeys(set(coarse.values()), 2)
    assert Counter(coarse[name] for name in near) == dict.fromkeys(set(coarse.values()), 3)
    assert not known & near
    for key in ("cifar/validation", "cifar-train/train"):
        assert set(planned[key].table["class_id"].to_pylist()) == known
    assert Draws(BENCHMARK, 0).label_names(BENCHMARK.config_of("cifar/far_ood_dtd")) == tuple(sorted(known))


def test_another_seed_draws_other_classes():
    labels = BENCHMARK.configs[0].labels
    assert labels.drawn(0) != labels.drawn(1)
    assert len(labels.drawn(1)) == 40


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where `datasets` keeps what it converts: a config whole, whichever split is asked for."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("key", [key for key in SPLITS if key != "cifar/far_ood_gaussian"])
def test_every_split_loads_plain_and_streaming(cifar_release, key, cache):
    config, split = key.split("/")
    plain = datasets.load_dataset(str(cifar_release), config, split=split, cache_dir=cache)
    streamed = datasets.load_dataset(str(cifar_release), config, split=split, streaming=True)
    index = datasets.load_dataset(str(cifar_release), f"{config}-index", split=split, cache_dir=cache)
    assert plain["id"][:] == index["id"][:] == [row["id"] for row in streamed.remove_columns("image")]
    for row in plain.select(range(min(50, plain.num_rows))):
        assert (row["image"].mode, row["image"].size) == ("RGB", (32, 32))
        assert images.pixel_sha256(row["image"]) == row["content_sha256"]
        assert row["stored"] == "pixels"


def test_any_noise_image_is_regenerated_from_its_row(cifar_release):
    rows = datasets.load_dataset(str(cifar_release), "cifar", split="far_ood_gaussian", streaming=True)
    for row in rows.take(20):
        assert images.pixel_sha256(gaussian_noise(row["id"])) == row["content_sha256"]


def test_resized_rows_are_the_fixed_resize_of_their_source(cifar_release, demo):
    rows = datasets.load_dataset(str(cifar_release), "cifar", split="far_ood_dtd", streaming=True)
    for row in rows.take(20):
        source = images.decode((demo["dtd"] / "images" / row["source_id"]).read_bytes())
        assert images.pixel_sha256(fixed_resize(source)) == row["content_sha256"]
        assert row["id"] == f"dtd/{row['source_id']}#{FIXED_RESIZE.name}"


def pixels_of(root, split="far_ood_lsun_fix"):
    """Digests over the pixels of a split's images by their ids."""
    rows = datasets.load_dataset(str(root), "cifar", split=split, streaming=True)
    return {row["id"]: images.pixel_sha256(row["image"]) for row in rows}


def resized_scenes(demo, resize, name):
    """The same of LSUN's images, resized here."""
    return {
        f"lsun/test/{key}.webp#{name}": images.pixel_sha256(resize(images.decode(value)))
        for key, value in lsun_entries(demo["lsun"])
    }


def test_lsun_fix_follows_its_published_procedure(cifar_release, demo):
    assert pixels_of(cifar_release) == resized_scenes(demo, lsun_fix, LSUN_FIX_RESIZE.name)


LSUN = "cifar/far_ood_lsun_fix"
UNCHANGED = {
    *("cifar/validation", "cifar/far_ood_dtd", "cifar/far_ood_gaussian", "cifar/far_ood_svhn"),
    "cifar/external_validation",
}
DIGESTS = Path(__file__).parents[2].parent / "shared" / "reference" / "demo_digests.csv"


@pytest.mark.skipif(not DIGESTS.is_file(), reason="the digests of an earlier build are not here")
def test_the_demo_has_the_digests_of_an_earlier_build(cifar_release):
    """But for LSUN-FIX, whose images are cropped since, and sources into which duplicates were planted since."""
    with DIGESTS.open(encoding="utf-8", newline="") as file:
        known = {row["split"]: row["digest"] for row in csv.DictReader(file)}
    built = {key: digest[:12] for key, digest in digests(manifest_of(cifar_release)).items()}
    assert {key for key in SPLITS if built[key] == known[key]} == UNCHANGED


def folders(demo):
    """Flags for the sources that the benchmark always needs."""
    return [f"--{source.key}={demo[source.key]}" for source in BENCHMARK.sources() if source.on_disk]


def test_the_published_images_of_lsun_fix_are_taken_as_they_are(demo, tmp_path, capsys):
    """From the flag of LSUN as from their own; the version says which images these are."""
    expected = {
        f"lsun_fix/{path.name}": images.pixel_sha256(images.decode(path.read_bytes()))
        for path in (demo["lsun_fix"] / "LSUN_fix").glob("*.png")
    }
    assert len(expected) == 120
    for number, flag in enumerate(("lsun", "published-lsun-fix")):
        out = tmp_path / str(number)
        assert main([f"--{flag}={demo['lsun_fix']}", "--splits", LSUN, "--out", str(out)]) == 0
        error = capsys.readouterr().err
        assert ("holds LSUN-FIX, not LSUN: read as with --published-lsun-fix" in error) == (number == 0)
        assert "LSUN-FIX: 120 images (images as CSI's images in" in error
        assert pixels_of(out) == expected
        manifest = manifest_of(out)
        assert manifest["benchmarks"]["cifar"]["version"] == "3.0.0+published-lsun-fix"
    rows = pq.read_table(out / "index" / "cifar" / "far_ood_lsun_fix.parquet")
    assert Counter(rows["class_id"].to_pylist()) == dict.fromkeys(LSUN_FIX.classes(), 12)


def test_complete_published_images_give_400_of_each_scene():
    read = BENCHMARK.with_variants(["published-lsun-fix"])
    (split,) = plan(Draws(read, 0), {"lsun_fix": whole_index(LSUN_FIX, ("images",))}, splits=(LSUN,))
    assert Counter(split.table["class_id"].to_pylist()) == dict.fromkeys(LSUN_FIX.classes(), 400)


def test_lsun_goes_before_the_published_images_in_one_folder(demo, tmp_path, capsys):
    for key in ("lsun", "lsun_fix"):
        (tmp_path / "both" / key).parent.mkdir(exist_ok=True)
        shutil.copytree(demo[key], tmp_path / "both", dirs_exist_ok=True)
    assert main([f"--lsun={tmp_path / 'both'}", "--splits", LSUN, "--dry-run"]) == 0
    assert "LSUN: 120 images (test as database test_lmdb)" in capsys.readouterr().err


NEEDED = {
    "cifar100": ARRAYS[:2],
    "svhn": ARRAYS[2:3],
    "lsun": ("cifar/far_ood_lsun_fix",),
    "dtd": ("cifar/far_ood_dtd",),
}


def test_other_layouts_of_all_sources_give_the_same_rows(cifar_release, demo, laid_out, tmp_path):
    """One of each; that all have the same ids, classes and bytes is tested in `sources/test_layouts.py`."""
    roots = demo | {key: laid_out(key, LAYOUTS[key][-1]) for key in NEEDED}
    splits = tuple(split for splits in NEEDED.values() for split in splits)
    built = digests(build_demo(roots, tmp_path / "out", benchmark=BENCHMARK, splits=splits))
    expected = digests(manifest_of(cifar_release))
    assert built == {key: expected[key] for key in splits}


def test_runs_for_some_splits_with_two_workers_make_the_release_of_all(cifar_release, demo, tmp_path):
    for keys in (("cifar-external/train",), ("cifar/test", "cifar/far_ood_dtd")):
        build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=keys, workers=2)
    assert_same_files(tmp_path, cifar_release, 6, lambda name: name.startswith(("data/", "index/")))


def test_a_killed_build_goes_on_to_the_same_bytes(cifar_release, demo, tmp_path):
    """In the middle of its images, and at its end; `test_toy_release.py` has more points of generated images."""
    points, splits = (5, 20), ("cifar/test", "cifar/far_ood_svhn", "cifar/far_ood_dtd")
    out = tmp_path / "out"

    def build():
        build_demo(demo, out, benchmark=BENCHMARK, splits=splits)

    watched = watched_at_renames(points, out, build)
    for point in points:
        watched.as_killed(point)
        build()
        assert_same_files(out, cifar_release, 2 * len(splits), lambda name: name.startswith(("data/", "index/")))
        assert not list(out.rglob("*.pack"))


def test_a_second_run_makes_no_image_again_and_a_lost_shard_from_its_packs_alone(demo, tmp_path, monkeypatch):
    splits = ("cifar/test", "cifar/far_ood_dtd")
    build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=splits)
    before = files_of(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("builders.generate.task.BatchTask.run", lambda *_: pytest.fail("an image was made again"))
        build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=splits)
    assert files_of(tmp_path) == before
    (tmp_path / "data" / "cifar" / "far_ood_dtd-00000-of-00001.parquet").unlink()
    build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=splits)
    assert files_of(tmp_path) == before


def test_two_benchmarks_share_a_folder(cifar_release, demo, tmp_path):
    build_demo(demo, tmp_path, splits=("imagenet/near_ood",))
    manifest = build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=("cifar/test",))
    assert sorted(manifest["configs"]) == ["cifar", "imagenet"]
    assert datasets.load_dataset(str(tmp_path), "imagenet", split="near_ood").num_rows == 400


def copy_of(root, known, near):
    """Class folders as the authors' archive has them, without images."""
    for folder, names in (("test/cifar40", known), ("test/cifar60", near)):
        for name in names:
            (root / "cifar-bench" / folder / "labels" / name).mkdir(parents=True)
    return root


def other_draw():
    """The two classes of each superclass that come last by name, as another draw might have them."""
    members = {}
    for item in tables.cifar100():
        members.setdefault(item.coarse, []).append(item.fine)
    known = sorted(name for names in members.values() for name in sorted(names)[-2:])
    return known, sorted({item.fine for item in tables.cifar100()} - set(known))


def test_adopted_folders_say_which_classes_are_known(demo, tmp_path):
    known, near = other_draw()
    copy = copy_of(tmp_path / "copy", known, near)
    splits = ("cifar/near_ood", "cifar-train/train", "cifar-external/train")
    manifest = build_demo(demo, tmp_path / "out", benchmark=BENCHMARK, splits=splits, adopt=copy)
    for config in ("cifar", "cifar-train", "cifar-external"):
        assert manifest["configs"][config]["label_names"] == known
    rows = pq.read_table(tmp_path / "out" / "index" / "cifar" / "near_ood.parquet")
    assert set(rows["class_id"].to_pylist()) == set(near)
    train = pq.read_table(tmp_path / "out" / "index" / "cifar-train" / "train.parquet")
    assert set(train["class_id"].to_pylist()) == set(known)


def test_a_list_of_the_near_classes_alone_says_it_too(demo, tmp_path):
    known, near = other_draw()
    lists = tmp_path / "lists.csv"
    lists.write_text("split,class\n" + "".join(f"cifar60,{name}\n" for name in near), encoding="utf-8")
    manifest = build_demo(demo, tmp_path / "out", benchmark=BENCHMARK, splits=("cifar/far_ood_dtd",), adopt=lists)
    assert manifest["configs"]["cifar"]["label_names"] == known


def test_a_copy_whose_sets_share_a_class_is_refused(demo, tmp_path):
    known, near = other_draw()
    copy = copy_of(tmp_path / "copy", known, [*near, known[0]])
    sentence = rf"^test/cifar40 and test/cifar60 of .* must share no class, but {known[0]} is"
    with pytest.raises(BuildError, match=sentence):
        build_demo(demo, tmp_path / "out", benchmark=BENCHMARK, splits=("cifar/test",), adopt=copy)


def test_a_folder_built_with_other_known_classes_is_refused(demo, tmp_path):
    build_demo(demo, tmp_path / "out", benchmark=BENCHMARK, splits=("cifar/far_ood_dtd",))
    copy = copy_of(tmp_path / "copy", *other_draw())
    with stops(BuildError):
        build_demo(demo, tmp_path / "out", benchmark=BENCHMARK, splits=("cifar-train/train",), adopt=copy)


def test_rows_without_pixels_have_the_same_digests(cifar_release, demo, tmp_path):
    splits = ("cifar/test", "cifar/far_ood_dtd")
    manifest = build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=splits, index_only=True)
    expected = digests(manifest_of(cifar_release))
    assert digests(manifest) == {key: expected[key] for key in splits}
    assert not (tmp_path / "data").exists()


def test_noise_needs_no_folder(tmp_path, capsys):
    flags = ["--limit-per-class", "20", "--workers", "1"]
    assert main(["--out", str(tmp_path / "out"), "--splits", "cifar/far_ood_gaussian", *flags]) == 0
    assert "no two rows that were compared show one picture" in capsys.readouterr().err
    assert main(["--out", str(tmp_path / "out"), "--splits", "cifar/far_ood_gaussian,cifar-train", *flags]) == 2
    error = capsys.readouterr().err
    assert "--cifar100 DIR" in error
    assert "--noise" not in error
