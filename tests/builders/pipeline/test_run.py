import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest

from builders.errors import BuildError
from builders.imagenet_benchmark import BENCHMARK
from builders.pipeline import shards
from builders.pipeline.from_sources import prepare
from builders.release import images
from builders.release.schema import ROLES
from builders.release.tables import read_excluded
from builders.sources.unpack import UNPACKERS
from hf_scripts import verify
from tests.builders.conftest import assert_same_files, build_demo, complete, digests, files_of
from tests.builders.layouts import imagenet_archives, imagenet_parquet
from tests.builders.planning import planning_request
from tests.builders.trees import link, linked, replaced
from tests.killing import killed_at_rename, tree, watched_at_renames
from tests.manifests import rows_in
from tests.power import Disk
from tests.sentences import stops
from unknown_detection.durable import unflushed

SPLITS = tuple(BENCHMARK.parts)
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def manifest(release):
    return json.loads((release / "manifest.json").read_text())


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where `datasets` keeps what it converts: a config whole, whichever split is asked for."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("key", SPLITS)
def test_every_split_loads_plain_and_streaming_with_the_same_rows(key, release, manifest, cache):
    config, split = key.split("/")
    entry = manifest["configs"][config]["splits"][split]
    plain = datasets.load_dataset(str(release), config, split=split, cache_dir=cache)
    streamed = datasets.load_dataset(str(release), config, split=split, streaming=True)
    index = datasets.load_dataset(str(release), f"{config}-index", split=split, cache_dir=cache)
    assert plain.num_rows == index.num_rows == rows_in(entry)
    assert [row["id"] for row in streamed.remove_columns("image")] == plain["id"][:] == index["id"][:]
    for row in plain:
        assert row["image"].width > 0
        assert ROLES[row["role"]] == entry["parts"][0]["role"]
    assert plain.features["label"].names == BENCHMARK.configs[0].labels.drawn(0)
    assert set(plain.features) - {"image"} == set(index.features)


def test_loading_the_evaluation_config_opens_no_training_file(release, tmp_path):
    script = (
        "import sys, datasets\n"
        "sys.addaudithook(lambda event, args: print(args[0]) if event == 'open' else None)\n"
        "datasets.load_dataset(sys.argv[1], 'imagenet', split='near_ood', cache_dir=sys.argv[2])\n"
    )
    command = [sys.executable, "-c", script, str(release), str(tmp_path)]
    opened = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert any("/imagenet/" in path and path.endswith(".parquet") for path in opened)  # the hook sees what is opened
    assert not [path for path in opened if "imagenet-train" in path or "imagenet-external" in path]


def test_no_public_file_names_a_folder_of_this_machine(release, demo):
    for path, data in files_of(release).items():
        for folder in (str(release), str(demo["imagenet"].parent), str(Path.home())):
            assert folder.encode() not in data, (path, folder)
    for path in sorted((release / "index").rglob("*.parquet")):
        for column in pq.read_table(path).to_pydict().values():
            assert not any(isinstance(value, str) and value.startswith(str(release.parent)) for value in column)


def test_images_with_broken_exif_are_mended_and_say_so(release):
    rows = pq.read_table(release / "index" / "imagenet" / "test.parquet").to_pylist()
    mended = sorted(row["source_id"] for row in rows if row["stored"] != "source")
    # The two of the demo's troubles whose EXIF block makes datasets raise (tests/builders/demo/test_write.py shows
    # that).
    assert mended == ["val/ILSVRC2012_val_00000005.JPEG", "val/ILSVRC2012_val_00000006.JPEG"]


def test_a_second_run_changes_nothing_and_writes_no_shard(demo, release, tmp_path, monkeypatch):
    out = linked(release, tmp_path / "out")
    before = files_of(out)
    monkeypatch.setattr(shards.ShardTask, "run", lambda *_: pytest.fail("a finished shard was written again"))
    build_demo(demo, out)
    assert files_of(out) == before


BUILD = (
    "import sys\nfrom pathlib import Path\nfrom tests.builders.conftest import build_demo\n"
    "roots = {path.name: path for path in sorted(Path(sys.argv[2]).iterdir()) if path.is_dir()}\n"
)
"""The beginning of a process that builds the sources in its second argument into its first."""

KILLED = """
from tests.builders.conftest import build_demo
build_demo(sources(sys.argv[3]), Path(sys.argv[2]))
"""

# Everything that a build makes visible, it renames into place: the run's state, 9 plans, 9 times a data file and its
# record, then 9 indexes, 3 lists of exclusions, the duplicates, a picture of samples, the licences, the Croissant
# metadata, the card and the manifest, 46 in all. The points are inside each of these stretches, among them the one
# between a data file and its record.
RENAMES = 46
POINTS = (4, 11, 31, 44)
MORE_POINTS = (10, 12, 20, 27, 38, 42)


@pytest.fixture(scope="module")
def watched(demo, tmp_path_factory):
    """A build in a process of its own, with the folder's states at the points."""
    out = tmp_path_factory.mktemp("watched") / "out"
    return watched_at_renames(POINTS + MORE_POINTS, out, KILLED, out, demo["imagenet"].parent)


@pytest.mark.parametrize("point", [*POINTS, *(pytest.param(point, marks=pytest.mark.slow) for point in MORE_POINTS)])
def test_a_killed_build_goes_on_to_the_same_bytes(point, demo, release, watched):
    out = watched.as_killed(point)
    # A shard is finished when its record is there too; one between its two renames is due again.
    recorded = [
        path.relative_to(out / ".state" / "parts") for path in (out / ".state" / "parts").rglob("[!.]*.parquet")
    ]
    finished = {out / "data" / path: (out / "data" / path).stat().st_mtime_ns for path in recorded}
    build_demo(demo, out)
    assert files_of(out) == files_of(release)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished


def test_a_real_kill_leaves_what_was_copied(demo, watched, tmp_path):
    killed_at_rename(20, KILLED, tmp_path / "out", demo["imagenet"].parent)
    assert tree(tmp_path / "out") == tree(watched.as_killed(20))


def test_the_kill_points_cover_a_whole_build(watched):
    assert watched.renames == RENAMES


# A release, and then a split that is added to it, so that cuts also find files that are replaced.
ADDED = ("imagenet/test", "imagenet/far_ood_places82")


@pytest.fixture(scope="module")
def cuttable(demo, tmp_path_factory):
    """Two builds into one folder: the folder above, its states after power cuts, its files after each build."""
    root = tmp_path_factory.mktemp("cuttable")
    built = []
    with (disk := Disk(root)).watching():
        for key in ADDED:
            build_demo(demo, root / "out", splits=(key,))
            built.append(files_of(root / "out"))
    return root, disk.cuts, built


def recover(demo, cuttable, cut):
    """Repeat both builds after a power cut, once `verify` has looked at what it left; returns its exit code."""
    root, _, built = cuttable
    cut.put(root)
    code, files = None, files_of(root / "out") if (root / "out").exists() else {}
    if "manifest.json" in files:
        code = verify.main([str(root / "out"), "--check", "fast", "--workers", "1"])
        finished = next(release for release in built if release["manifest.json"] == files["manifest.json"])
        has_all = all(files.get(path) == data for path, data in finished.items())
        assert has_all if code == 0 else files != finished, cut.after
    with unflushed():
        for key in ADDED:
            build_demo(demo, root / "out", splits=(key,))
    assert files_of(root / "out") == built[-1], cut.after
    return code


def test_a_build_goes_on_to_the_same_bytes_after_a_power_cut(demo, cuttable):
    cuts = cuttable[1]
    # The first release's manifest is there and the second build has begun to replace its files, of which some may be
    # named already; and one of the first build with a shard that has no record.
    replacing = [cut for cut in cuts if "fsync out/excluded/" in cut.after][-1]
    half = next(cut for cut in cuts if any("data/" in path and "/." not in path for path in cut.files))
    assert recover(demo, cuttable, replacing) == 1
    assert recover(demo, cuttable, half) is None
    assert recover(demo, cuttable, cuts[-1]) == 0


@pytest.mark.slow
def test_a_build_goes_on_to_the_same_bytes_after_every_power_cut(demo, cuttable):
    codes = [recover(demo, cuttable, cut) for cut in cuttable[1]]
    assert {None, 0, 1} == set(codes)


def test_without_flushing_a_power_cut_leaves_a_manifest_of_files_that_are_not_there(demo, tmp_path):
    with (disk := Disk(tmp_path)).watching(), unflushed():
        build_demo(demo, tmp_path / "out", splits=ADDED[:1])
    finished = files_of(tmp_path / "out")
    states = [{path.removeprefix("out/"): data for path, data in cut.files.items()} for cut in disk.cuts]
    named = [files for files in states if files.get("manifest.json") == finished["manifest.json"]]
    assert any(files.get(path) != data for files in named for path, data in finished.items())


def test_killing_a_build_with_workers_leaves_no_process_behind(demo, release, tmp_path):
    out = tmp_path / "out"
    path = tmp_path / "run.py"  # which the workers import
    path.write_text(f"{BUILD}if __name__ == '__main__':\n    build_demo(roots, Path(sys.argv[1]), workers=2)\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, path, out, demo["imagenet"].parent], cwd=ROOT, env=environment)
    deadline = time.monotonic() + 60
    while not list(out.glob("data/*/*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    while any(Path(f"/proc/{child}/stat").exists() for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{child}/stat").exists() for child in children)
    build_demo(demo, out)
    assert files_of(out) == files_of(release)


IMAGENET_SPLITS = tuple(key for key, split in BENCHMARK.parts.items() if split.source.key == "imagenet")


def test_archives_give_the_digests_of_the_folders(laid_out, manifest, tmp_path):
    built = build_demo({"imagenet": laid_out("imagenet", imagenet_archives)}, tmp_path / "out", splits=IMAGENET_SPLITS)
    assert len(IMAGENET_SPLITS) == 6 and digests(built).items() <= digests(manifest).items()


def test_a_mirror_gives_them_too_and_each_of_its_files_is_unpacked_once_and_never_again(
    laid_out, manifest, tmp_path, monkeypatch
):
    mirror, unpacked, unpack = laid_out("imagenet", imagenet_parquet), [], UNPACKERS["parquet"]
    monkeypatch.setitem(UNPACKERS, "parquet", lambda file, rows: unpacked.append(file) or unpack(file, rows))

    def build():
        return build_demo({"imagenet": mirror}, tmp_path, splits=IMAGENET_SPLITS)

    assert digests(build()).items() <= digests(manifest).items()
    # Six splits draw from the mirror, and each of its files holds images of all of them that share its partition.
    assert sorted(unpacked) == sorted((mirror / "data").glob("*.parquet"))
    assert not list(tmp_path.rglob("*.pack"))
    before = files_of(tmp_path)
    build()
    assert len(unpacked) == len(set(unpacked))
    (tmp_path / "data" / "imagenet" / "near_ood-00000-of-00001.parquet").unlink()
    build()
    assert files_of(tmp_path) == before
    assert {path.name.split("-")[0] for path in unpacked[len(set(unpacked)) :]} == {"validation"}


def test_splits_built_one_after_another_make_the_release_of_all(demo, release, tmp_path):
    out = tmp_path / "out"
    for keys in (SPLITS[3:], SPLITS[:2], SPLITS[2:3]):
        build_demo(demo, out, splits=keys)
    assert files_of(out) == files_of(release)


def test_an_index_has_the_digests_of_the_pixels_and_four_workers_fill_it_later(demo, release, manifest, tmp_path):
    """The bytes are those that one worker wrote."""
    out = tmp_path / "out"
    index = build_demo(demo, out, index_only=True)
    assert digests(index) == digests(manifest)
    assert not (out / "data").exists()
    expected = {f"{config.name}-index" for config in BENCHMARK.configs} | {"duplicates"}
    assert set(datasets.get_dataset_config_names(str(out))) == expected
    build_demo(demo, out, workers=4)
    assert files_of(out) == files_of(release)
    build_demo(demo, out, index_only=True)
    assert files_of(out) == files_of(release)


VERSION = {"benchmark": dataclasses.replace(BENCHMARK, version="2.0.0")}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"seed": 5}, r"The release in .* was built with the seed 0, and this run has 5\."),
        (VERSION, r"The release in .* was built with the version 1.1.0, and this run has 2.0.0\."),
        ({"demo": False}, r"The release in .* was built with the demo sources on, and this run has off\."),
        ({"limit_per_class": 1}, r"The release in .* with the limit per class none, and this run has 1\."),
        ({"allow_partial": False}, r"expected 1,300 images of n01443537 \(goldfish\), found 4"),
    ],
)
def test_other_choices_do_not_mix_with_a_release(changes, sentence, demo, release):
    before = files_of(release)
    with pytest.raises(BuildError, match=sentence):
        build_demo(demo, release, **changes)
    assert files_of(release) == before


def test_a_release_without_its_state_still_refuses_other_choices(demo, release, tmp_path):
    out = linked(release, tmp_path / "out")
    shutil.rmtree(out / ".state")
    with stops(BuildError):
        build_demo(demo, out, seed=5)
    build_demo(demo, out)
    assert files_of(out) == files_of(release)


def own_validation_images(demo, root):
    """ImageNet whose validation images are links of the test's own; the training images are everybody's."""
    linked(demo["imagenet"] / "val", root / "val")
    link(demo["imagenet"] / "train", root / "train")
    return root


def test_sources_that_changed_do_not_mix_with_a_release(demo, tmp_path):
    imagenet = own_validation_images(demo, tmp_path / "imagenet")
    roots = demo | {"imagenet": imagenet}
    build_demo(roots, tmp_path / "out", splits=SPLITS[1:2])
    next(iter(sorted((imagenet / "val" / "n01443537").iterdir()))).unlink()
    with stops(BuildError, "imagenet/test"):
        build_demo(roots, tmp_path / "out", splits=SPLITS[1:2])


def test_two_runs_on_one_folder_do_not_mix(demo, tmp_path):
    out = tmp_path / "out"
    holder = (
        "import sys, time\nfrom pathlib import Path\nfrom builders.release.layout import Layout\n"
        "from builders.pipeline.state import locked\n"
        "with locked(Layout(Path(sys.argv[1]))):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", holder, out], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with stops(BuildError):
            build_demo(demo, out)
        process.kill()
    build_demo(demo, out, splits=SPLITS[1:2])


@pytest.fixture
def damaged(demo, release, tmp_path):
    """Sources with one cut image in near_ood: the roots, the image's path and its whole bytes."""
    imagenet = own_validation_images(demo, tmp_path / "imagenet")
    row = pq.read_table(release / "index/imagenet/near_ood.parquet").to_pylist()[7]
    path = imagenet / "val" / row["class_id"] / row["source_id"].removeprefix("val/")
    sound = replaced(path, lambda data: data[:-30])
    return demo | {"imagenet": imagenet}, path, sound


def test_a_cut_image_stops_the_build_and_the_rerun_uses_what_was_finished(damaged, release, tmp_path):
    roots, path, sound = damaged
    out, benchmark = tmp_path / "out", complete(BENCHMARK, roots)
    strict = {"benchmark": benchmark, "allow_partial": False, "splits": SPLITS[:3]}
    with pytest.raises(BuildError, match=rf"^{path} cannot be used \(.*\)\. Replace it with a good copy"):
        build_demo(roots, out, **strict)
    finished = {p: p.stat().st_mtime_ns for p in sorted((out / "data").rglob("*.parquet"))}
    assert not (out / "manifest.json").exists() and not list(out.rglob("*.tmp"))
    path.write_bytes(sound)
    build_demo(roots, out, **strict)
    assert {p: p.stat().st_mtime_ns for p in finished} == finished
    near = Path("data/imagenet/near_ood-00000-of-00001.parquet")
    assert (out / near).read_bytes() == (release / near).read_bytes()


def test_a_cut_image_is_left_out_with_its_reason_where_that_is_allowed(damaged, tmp_path):
    roots, path, _ = damaged
    built = build_demo(roots, tmp_path / "out", splits=SPLITS[2:3])
    entry = built["configs"]["imagenet"]["splits"]["near_ood"]
    assert rows_in(entry) == 399
    (line,) = [e for e in read_excluded(tmp_path / "out/excluded/imagenet.csv") if e.rule == "unreadable"]
    assert (line.image, line.images) == (f"val/{path.name}", 1)
    assert any(f"val/{path.name} left out as unreadable" in text for text in entry["shortfalls"])


def test_a_shard_that_was_not_decoded_is_written_again_when_all_is_decoded(demo, tmp_path, monkeypatch):
    """As of tools that took an image, as they once took one with a table that no decoder takes."""
    imagenet = own_validation_images(demo, tmp_path / "imagenet")
    roots, benchmark = demo | {"imagenet": imagenet}, complete(BENCHMARK, demo)
    path = sorted((imagenet / "val" / "n02099601").iterdir())[0]
    replaced(path, lambda data: data.replace(data[data.index(b"\xff\xc4") + 5 :][:16], b"\xff" * 16, 1))
    strict = {"benchmark": benchmark, "allow_partial": False, "splits": SPLITS[1:2]}
    with monkeypatch.context() as patched:
        patched.setattr(images, "_is_sound", lambda _: True)
        build_demo(roots, tmp_path / "out", **strict)
    for decode in (True, False):
        with pytest.raises(BuildError, match=f"^{path} cannot be used"):
            build_demo(roots, tmp_path / ("out" if decode else "fast"), decode=decode, **strict)


def test_a_short_and_a_missing_class_are_refused_with_their_counts(demo, tmp_path):
    imagenet = own_validation_images(demo, tmp_path / "imagenet")
    sentence = rf"expected 50 images of n01443537 \(goldfish\), found 2 and 199 more classes differ, in {imagenet}"
    with pytest.raises(BuildError, match=sentence):
        build_demo({"imagenet": imagenet}, tmp_path / "out", allow_partial=False, splits=SPLITS[1:2])
    assert not (tmp_path / "out").exists()
    shutil.rmtree(imagenet / "val" / "n02099601")
    with stops(BuildError, "n02099601"):
        build_demo({"imagenet": imagenet}, tmp_path / "out", allow_partial=False, splits=SPLITS[1:2])


def test_a_split_without_rows_is_refused_also_where_less_is_allowed(demo, tmp_path):
    """Apple pie is not among the 32 dishes of the benchmark."""
    food = tmp_path / "food"
    linked(demo["food101"] / "images" / "apple_pie", food / "images" / "apple_pie")
    with stops(BuildError, "imagenet/far_ood_food32", "Food-101"):
        build_demo({"food101": food}, tmp_path / "out", splits=("imagenet/far_ood_food32",))
    assert not (tmp_path / "out").exists()


def test_the_least_limit_leaves_every_split_rows(demo, tmp_path):
    planned = planning_request(BENCHMARK, tmp_path, roots=demo, splits=SPLITS, limit_per_class=1)
    assert all(len(split.rows) for split in prepare(*planned).planned)


def test_a_full_disk_is_refused_before_anything_is_written(demo, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9 - 1000, 1000))
    with pytest.raises(BuildError, match=r"The build needs [0-9,]+ bytes, and the disk of .* has 1,000 left\."):
        build_demo(demo, tmp_path / "out")
    assert not (tmp_path / "out" / "data").exists()


def test_a_write_that_the_disk_refuses_ends_in_one_sentence_and_can_go_on(demo, release, tmp_path):
    out = tmp_path / "out"
    # The kernel's limit on the size of a file stands in for a disk that fills up while shards are written.
    script = (
        "import resource, signal\nfrom builders.errors import BuildError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))\n"
        f"{BUILD}try:\n    build_demo(roots, Path(sys.argv[1]), splits=sys.argv[3:])\n"
        "except BuildError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", script, out, demo["imagenet"].parent, *SPLITS[1:3]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    shard = re.search(r"Cannot write the release: (.*/data/imagenet.*\.parquet): file too large\. Fix", done.stdout)
    assert shard is not None and shard[1].startswith(str(out)), done.stdout
    assert "Fix this and run the same command again." in done.stdout
    assert not list(out.rglob("*.tmp"))
    build_demo(demo, out, splits=SPLITS[1:3])
    assert_same_files(release, out, 4, re.compile(r"(data|index)/imagenet/(test|near_ood)\b").match)


@pytest.mark.skipif(not Path("/sys").is_dir(), reason="/sys is a folder where nobody, not even root, may write")
def test_a_folder_without_permission_ends_in_one_sentence(demo):
    sentence = r"Cannot write the release: /sys/\S+: (operation not permitted|permission denied|read-only file)"
    with pytest.raises(BuildError, match=sentence):
        build_demo(demo, Path("/sys/unknown-detection"), splits=SPLITS[1:2])
