"""Runs that are stopped, repeated, refused or only counted."""

import functools
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_scripts import export
from hf_scripts.exports import targets
from hf_scripts.exports.state import export_lock
from tests.builders.conftest import files_of
from tests.builders.generate import toy
from tests.hf_scripts import samples
from tests.hf_scripts.exporting import (
    FORMATS,
    PLACES,
    SMALL_SHARDS,
    TEST,
    copy,
    release,
    replace_rows,
    run,
    splits_of,
    stamps,
    table_of,
    written,
)
from tests.killing import watched_at_renames
from tests.manifests import entry_of, manifest_of, rows_in, write_json
from tests.power import Disk
from tests.sentences import assert_sentence

__all__ = ["copy", "release"]

ROOT = Path(__file__).parents[2]
TWO = ["--splits", f"{PLACES},{TEST}"]


def flags_of(chosen_format):
    return [*TWO, *(SMALL_SHARDS if chosen_format == "webdataset" else [])]


@pytest.fixture(scope="module")
def undisturbed(release, tmp_path_factory):
    """Two splits exported in each format without a disturbance: the files by format. Read only."""
    files = {}
    for chosen_format in FORMATS:
        out = tmp_path_factory.mktemp("undisturbed") / "out"
        assert run(release, chosen_format, out, *flags_of(chosen_format)) == 0
        files[chosen_format] = written(out)
    return files


def refused(capsys, release, chosen_format, out, *flags):
    """The one sentence of a run that ends with exit code 2 and prints nothing else."""
    assert run(release, chosen_format, out, *flags) == 2
    printed, sentence = capsys.readouterr()
    assert printed == ""
    assert sentence.startswith("error: ") and sentence.count("\n") == 1
    return sentence


# Stopped and repeated


LISTS = [f"imglists/{PLACES}.jsonl", f"imglists/{PLACES}.txt"]
TARS = [f"{PLACES}-{number:05d}.tar" for number in range(10)]


# Everything that an export makes visible, it renames into place: its record, then each file of the first split (492
# images, or 10 tars), the split's lists, the record, then the same again for the second split, and at last the README.
POINTS = [
    ("openood", 1, 0, []),
    ("openood", 494, 492, []),
    ("openood", 495, 492, LISTS[:1]),
    ("openood", 496, 492, LISTS),
    ("openood", 700, 492 + 202, LISTS),
    ("imagefolder", 300, 298, []),
    ("imagefolder", 495, 492, [f"{PLACES}/metadata.jsonl"]),
    ("webdataset", 4, 0, TARS[:2]),
    ("webdataset", 17, 0, [*TARS, *(f"{TEST}-{number:05d}.tar" for number in range(3))]),
]


@pytest.fixture(scope="module")
def watched(release, tmp_path_factory):
    """Makes an export of a format, with the folder's states at the format's points."""

    @functools.cache
    def of_format(chosen_format):
        out = tmp_path_factory.mktemp("watched") / "out"
        points = [point for name, point, *_ in POINTS if name == chosen_format]
        return watched_at_renames(points, out, lambda: run(release, chosen_format, out, *flags_of(chosen_format)))

    return of_format


QUICK = {("openood", 495), ("openood", 700), ("imagefolder", 300), ("webdataset", 17)}
"""Amid the images or lists of the first split and amid the second split; in every format."""


@pytest.mark.parametrize(
    ("chosen_format", "point", "images", "lists"),
    [given if given[:2] in QUICK else pytest.param(*given, marks=pytest.mark.slow) for given in POINTS],
)
def test_a_killed_export_goes_on_to_the_same_files_and_keeps_those_it_has(
    chosen_format, point, images, lists, release, undisturbed, watched
):
    out = watched(chosen_format).as_killed(point)
    visible = [name for name in written(out) if not name.endswith(".tmp")]
    assert sorted(name for name in visible if not name.endswith((".jpg", ".png"))) == sorted(lists)
    assert len(visible) == images + len(lists)
    assert len([name for name in written(out) if name.endswith(".tmp")]) <= 3
    # An image under its own name is whole; the lists and tars of a split that is not done are written anew.
    finished = {path: stamp for path, stamp in stamps(out).items() if path.suffix in {".jpg", ".png"}}
    assert run(release, chosen_format, out, *flags_of(chosen_format)) == 0
    assert written(out) == undisturbed[chosen_format]
    assert finished.items() <= stamps(out).items()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A release of ten images."""
    root = tmp_path_factory.mktemp("small")
    toy.build_toy(toy.write_photographs(root / "photographs"), root / "release", splits=("toy-plain",))
    return root / "release"


def recover(chosen_format, small, root, cut, finished):
    """Repeat an export after a power cut; what its record says to be finished is whole."""
    cut.put(root)
    record = root / "out" / ".export" / "export.json"
    if record.exists() and all("listed" in split for split in json.loads(record.read_text())["splits"].values()):
        files = written(root / "out")
        assert all(files.get(name) == data for name, data in finished.items() if name != "README.txt"), cut.after
    assert run(small, chosen_format, root / "out", "--no-sync") == 0
    assert written(root / "out") == finished, cut.after


@pytest.mark.parametrize("chosen_format", FORMATS)
@pytest.mark.parametrize("tried", ["some", pytest.param("every", marks=pytest.mark.slow)])
def test_an_export_goes_on_to_the_same_files_after_a_power_cut(chosen_format, tried, small, tmp_path, monkeypatch):
    monkeypatch.setattr(targets, "_FLUSHED_TOGETHER", 4)
    with (disk := Disk(tmp_path)).watching():
        assert run(small, chosen_format, tmp_path / "out") == 0
    finished = written(tmp_path / "out")
    for cut in disk.cuts[:: len(disk.cuts) // 3 if tried == "some" else 1]:
        recover(chosen_format, small, tmp_path, cut, finished)


@pytest.mark.parametrize("chosen_format", FORMATS)
def test_splits_exported_one_after_another_make_the_export_of_all(chosen_format, release, undisturbed, tmp_path):
    small = SMALL_SHARDS if chosen_format == "webdataset" else []
    for key in (TEST, PLACES):
        assert run(release, chosen_format, tmp_path / "out", "--splits", key, *small) == 0
    assert written(tmp_path / "out") == undisturbed[chosen_format]


@pytest.mark.parametrize(
    ("chosen_format", "lists"),
    list(zip(FORMATS, (f"imglists/{TEST}.txt", f"{TEST}/metadata.jsonl", f"{TEST}-00002.tar"), strict=True)),
)
def test_what_was_lost_or_cut_is_written_again(chosen_format, lists, release, undisturbed, tmp_path):
    out = tmp_path / "out"
    assert run(release, chosen_format, out, *flags_of(chosen_format)) == 0
    (out / lists).unlink()
    images = sorted(path for path in out.rglob("*.jpg") if "test" in path.parts)
    for path in images[:1]:
        path.write_bytes(path.read_bytes()[:-1])
    for path in images[1:2]:
        path.unlink()
    (out / "README.txt").unlink()
    assert run(release, chosen_format, out, *flags_of(chosen_format)) == 0
    assert written(out) == undisturbed[chosen_format]


def test_two_exports_of_one_folder_do_not_mix(release, tmp_path, capsys):
    with export_lock(tmp_path / "out"):
        sentence = refused(capsys, release, "openood", tmp_path / "out", "--splits", TEST)
    assert_sentence(sentence)
    assert run(release, "openood", tmp_path / "out", "--splits", TEST) == 0


# Counted


@pytest.mark.parametrize("chosen_format", FORMATS)
def test_a_dry_run_says_what_is_written_and_a_second_run_changes_nothing(chosen_format, release, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(release, chosen_format, out, *flags_of(chosen_format), "--dry-run") == 0
    dry, err = capsys.readouterr()
    assert run(release, chosen_format, out, *flags_of(chosen_format), "--dry-run", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [document[key] for key in ("command", "format", "out")] == ["export", chosen_format, str(out)]
    for split in document["splits"]:
        (line,) = (line.split(maxsplit=4) for line in dry.splitlines() if line.startswith(f"{split['split']} "))
        assert line[1:4] == [f"{split[key]:,}" for key in ("rows", "files", "bytes")] and line[4] == split["state"]
    assert {key: sum(split[key] for split in document["splits"]) for key in ("rows", "files", "bytes")} == {
        key: document[key] for key in ("rows", "files", "bytes")
    }
    assert err == ""
    assert not out.exists()
    assert run(release, chosen_format, out, *flags_of(chosen_format)) == 0
    done = capsys.readouterr().out
    table = [line for line in done.splitlines() if line.startswith("imagenet/")]
    planned = [line for line in dry.splitlines() if line.startswith("imagenet/")]
    assert [line.replace("to be written", "written") for line in planned] == table
    assert [line.split()[0] for line in table] == [PLACES, TEST]
    for line in table:
        key, rows, files, size, state = line.split()
        names = [name for name in written(out) if name.startswith(PREFIXES[chosen_format](key))]
        assert state == "written"
        assert int(rows.replace(",", "")) == rows_in(splits_of(release)[key])
        assert int(files.replace(",", "")) == len(names)
        assert int(size.replace(",", "")) == sum((out / name).stat().st_size for name in names)
    before = stamps(out)
    assert run(release, chosen_format, out, *flags_of(chosen_format), "--dry-run") == 0
    assert [line.split(maxsplit=4)[4] for line in capsys.readouterr().out.splitlines()[1:3]] == ["already there"] * 2
    assert run(release, chosen_format, out, *flags_of(chosen_format)) == 0
    assert capsys.readouterr().out == done.replace("  written", "  already there")
    assert stamps(out) == before


PREFIXES = {
    "openood": lambda key: (f"images/{key}/", f"imglists/{key}."),
    "imagefolder": lambda key: (f"{key}/",),
    "webdataset": lambda key: (f"{key}-",),
}


# The README


def test_an_export_says_where_it_is_from_and_under_which_licences(release, undisturbed):
    text = undisturbed["openood"]["README.txt"].decode()
    manifest = manifest_of(release)
    for key in (TEST, PLACES):
        entry = splits_of(release)[key]
        assert f"{key}: {rows_in(entry):,} rows, digest {entry['digest']}\n" in text
        source = manifest["sources"][entry["parts"][0]["source"]]
        assert f"{source['title']}, {source['edition']}\nLicence: {source['licence']['name']} (" in text
        assert f"May be published as: {source['licence']['publish']}\n" in text
    assert manifest["sources"]["caltech256"]["title"] not in text
    assert manifest["benchmarks"]["imagenet"]["title"] in text
    assert "Built from demo sources" in text
    assert str(release) not in text


# Refused


def test_a_folder_with_other_files_is_left_alone(release, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    for flags in ([], ["--dry-run"]):
        sentence = refused(capsys, release, "openood", out, *flags)
        assert_sentence(sentence, out, "--out")
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]
    assert "thesis.txt is a file, not a folder" in refused(capsys, release, "openood", out / "thesis.txt")


def test_an_empty_folder_and_one_of_a_run_stopped_at_once_are_taken(release, tmp_path):
    (tmp_path / "out" / ".export").mkdir(parents=True)
    assert run(release, "openood", tmp_path / "out", "--splits", TEST) == 0


def test_exports_of_other_choices_do_not_mix(release, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(release, "webdataset", out, "--splits", TEST, *SMALL_SHARDS) == 0
    capsys.readouterr()
    before = stamps(out)
    sentence = refused(capsys, release, "openood", out)
    assert_sentence(sentence, out, "--out")
    sentence = refused(capsys, release, "webdataset", out, "--splits", PLACES)
    assert_sentence(sentence, out, "200000", "512000000")
    assert stamps(out) == before


@pytest.fixture
def made(tmp_path):
    """A release of two splits of a few rows."""
    return samples.make_release(tmp_path / "made", {"bench/test": range(3), "bench/near_ood": range(3)})


def test_rows_of_two_releases_do_not_mix(made, tmp_path, capsys):
    other = samples.make_release(tmp_path / "other", {"bench/test": range(3), "bench/near_ood": range(4)})
    smaller = samples.make_release(tmp_path / "smaller", {"bench/test": range(3)})
    out, key = tmp_path / "out", "bench/near_ood"
    assert run(made, "openood", out) == 0
    capsys.readouterr()
    before = stamps(out)
    digest, other_digest = (splits_of(root)[key]["digest"][:12] for root in (made, other))
    for root, rows in ((other, f"digest {other_digest}"), (smaller, "no such split")):
        sentence = refused(capsys, root, "openood", out, "--splits", "bench/test")
        assert_sentence(sentence, out, key, digest, root, rows)
    assert stamps(out) == before


def test_a_split_without_pixels_is_named(made, tmp_path, capsys):
    manifest = manifest_of(made)
    manifest["configs"]["bench"]["splits"]["near_ood"]["data"] = []
    write_json(made, manifest)
    sentence = refused(capsys, made, "imagefolder", tmp_path / "out")
    assert_sentence(sentence, made, "bench/near_ood", "--index-only")
    assert not (tmp_path / "out").exists()
    assert run(made, "imagefolder", tmp_path / "out", "--splits", "bench/test") == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--splits", "imagenet-index"], "imagenet-train"),
        (["--splits", "imagenet/tset"], "or splits such as imagenet/external_validation"),
        (["--shard-bytes", "99999"], "--shard-bytes does not apply to --format openood, only to webdataset"),
    ],
)
def test_choices_that_make_no_sense(flags, words, release, tmp_path, capsys):
    assert_sentence(refused(capsys, release, "openood", tmp_path / "out", *flags), words)
    assert not (tmp_path / "out").exists()


def test_an_export_into_the_release_is_refused(copy, capsys):
    before = files_of(copy)
    for out in (copy, copy / "data" / "export", copy.parent / "x" / ".." / "copy" / "y"):
        assert f"{out} lies inside the release {copy}" in refused(capsys, copy, "openood", out)
    assert files_of(copy) == before


def change_splits(root, change):
    manifest = manifest_of(root)
    change(manifest["configs"]["imagenet"]["splits"])
    write_json(root, manifest)


def damaged_shard(root, key, change):
    path = root / splits_of(root)[key]["data"][0]["path"]
    table = change(pq.read_table(path))
    path.unlink()
    pq.write_table(table, path, row_group_size=50)


def listed_again(root, key):
    """Have the manifest list the shard of a split as it is now."""
    config, name = key.split("/")
    manifest = manifest_of(root)
    entry = manifest["configs"][config]["splits"][name]
    entry["data"] = [entry_of(root, entry["data"][0]["path"])]
    write_json(root, manifest)


def with_image(table, row, change):
    images = table["image"].to_pylist()
    images[row]["bytes"] = change(images[row]["bytes"])
    return samples.with_column(table, "image", images)


def test_rows_that_are_not_those_of_the_manifest(copy, tmp_path, capsys):
    damaged_shard(copy, TEST, lambda table: table.slice(1))
    for flags in (["--dry-run"], []):
        sentence = refused(capsys, copy, "imagefolder", tmp_path / "out", "--splits", TEST, *flags)
        digest = splits_of(copy)[TEST]["digest"][:12]
        assert_sentence(sentence, TEST, digest, "hf_scripts.verify", copy)
    assert not list(tmp_path.rglob("*.jpg"))


def moved(table):
    """Rows of which the first is in the class of the second: no digest of rows or images covers classes."""
    classes = table["class_id"].to_pylist()
    return samples.with_column(table, "class_id", [classes[1], *classes[1:]])


@pytest.mark.parametrize("of_index", [False, True], ids=["shard", "index"])
def test_classes_that_are_not_those_of_the_manifest(copy, tmp_path, capsys, of_index):
    """An image was in another class's folder."""
    if of_index:
        path = copy / splits_of(copy)[TEST]["index"]["path"]
        table = moved(pq.read_table(path))
        path.unlink()
        pq.write_table(table, path)
    else:
        damaged_shard(copy, TEST, moved)
    sentence = refused(capsys, copy, "imagefolder", tmp_path / "out", "--splits", TEST)
    assert_sentence(sentence, TEST if of_index else f"data/{TEST}", "hf_scripts.verify", copy)
    assert not list(tmp_path.rglob("*.jpg"))


def test_a_shard_that_is_replaced_after_its_check_is_refused_before_an_image_is_written(
    copy, tmp_path, capsys, monkeypatch
):
    check = export.check_identity

    def checked_and_replaced(*arguments):
        check(*arguments)
        damaged_shard(copy, TEST, moved)

    monkeypatch.setattr(export, "check_identity", checked_and_replaced)
    sentence = refused(capsys, copy, "imagefolder", tmp_path / "out", "--splits", TEST)
    assert_sentence(sentence, f"data/{TEST}", "SHA-256", "hf_scripts.verify", copy)
    assert not list(tmp_path.rglob("*.jpg"))


def changed_at_its_first_row(root, change, monkeypatch):
    """Change the shard of `TEST` as soon as a row of it was read."""
    read, path = export.read_image_rows, root / splits_of(root)[TEST]["data"][0]["path"]

    def reading(release, key, split):
        rows = read(release, key, split)
        yield next(rows)
        if key == TEST:
            change(path)
        yield from rows

    monkeypatch.setattr(export, "read_image_rows", reading)


def test_a_shard_that_is_replaced_while_it_is_read_is_read_to_its_end(copy, undisturbed, tmp_path, monkeypatch):
    def replace(path):
        path.unlink()
        path.write_bytes(b"another")

    changed_at_its_first_row(copy, replace, monkeypatch)
    assert run(copy, "imagefolder", tmp_path / "out", *TWO) == 0
    assert written(tmp_path / "out") == undisturbed["imagefolder"]


def test_a_shard_that_is_written_to_while_it_is_read_is_refused(copy, tmp_path, capsys, monkeypatch):
    damaged_shard(copy, TEST, lambda table: table)  # a file of its own, which is no link
    listed_again(copy, TEST)
    changed_at_its_first_row(copy, lambda path: path.write_bytes(path.read_bytes()), monkeypatch)
    sentence = refused(capsys, copy, "imagefolder", tmp_path / "out", "--splits", TEST)
    assert_sentence(sentence, f"data/{TEST}", "written to while it was read")
    assert not (tmp_path / "out" / TEST / "metadata.jsonl").exists()


@pytest.mark.parametrize("chosen_format", FORMATS)
def test_a_damaged_image_stops_the_export_which_goes_on_when_it_is_mended(
    chosen_format, release, copy, undisturbed, tmp_path, capsys
):
    out = tmp_path / "out"
    damaged_shard(copy, TEST, lambda table: with_image(table, 200, lambda data: data[:-1] + b"?"))
    listed_again(copy, TEST)
    sentence = refused(capsys, copy, chosen_format, out, *flags_of(chosen_format))
    row, digest = (table_of(copy, TEST)[name][200].as_py() for name in ("id", "content_sha256"))
    assert_sentence(sentence, row, "content_sha256", digest[:12])
    half = {path: stamp for path, stamp in stamps(out).items() if path.suffix in {".jpg", ".png", ".tar"}}
    assert len([path for path in half if "test" in path.as_posix().removeprefix(str(out))]) > 1
    assert not list(out.rglob("*.tmp"))
    assert not (out / "README.txt").exists()
    assert run(release, chosen_format, out, *flags_of(chosen_format)) == 0
    assert written(out) == undisturbed[chosen_format]
    assert chosen_format == "webdataset" or half.items() <= stamps(out).items()


def test_an_image_of_a_format_that_no_folder_holds(copy, tmp_path, capsys):
    data = b"%PDF-1.7 and so on"

    def change(table):
        digests = table["content_sha256"].to_pylist()
        digests[3] = hashlib.sha256(data).hexdigest()
        return with_image(samples.with_column(table, "content_sha256", digests), 3, lambda _: data)

    replace_rows(copy, TEST, change(table_of(copy, TEST)))
    sentence = refused(capsys, copy, "openood", tmp_path / "out", "--splits", TEST)
    assert_sentence(sentence, "BMP", "TIFF", "255044462d312e37")


@pytest.mark.parametrize("damage", ["cut", "gone", "page"])
def test_a_shard_that_cannot_be_read(damage, copy, tmp_path, capsys):
    path = copy / splits_of(copy)[TEST]["data"][0]["path"]
    data = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(data[:-10])
    elif damage == "page":
        # The first page's header, behind the file's four signature bytes.
        path.write_bytes(data[:4] + b"\xff" * 64 + data[68:])
    sentence = refused(capsys, copy, "openood", tmp_path / "out", "--splits", TEST)
    assert f"Cannot read {path}: " in sentence


def test_a_disk_that_refuses_ends_in_one_sentence_and_the_export_can_go_on(release, undisturbed, tmp_path):
    out = tmp_path / "out"
    # The kernel's limit on the size of a file stands in for a disk that fills up: a list is longer than an image.
    script = (
        "import resource, signal, sys\nfrom hf_scripts import export\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))\n"
        "sys.exit(export.main(sys.argv[1:]))\n"
    )
    command = [str(release), "--format", "imagefolder", "--out", str(out), "--quiet", *TWO]
    done = subprocess.run([sys.executable, "-c", script, *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert_sentence(done.stderr, out)
    assert not list(out.rglob("*.tmp"))
    assert run(release, "imagefolder", out, *TWO) == 0
    assert written(out) == undisturbed["imagefolder"]


def test_a_record_that_cannot_be_read(release, tmp_path, capsys):
    record = tmp_path / "out" / ".export" / "export.json"
    record.parent.mkdir(parents=True)
    record.write_text("{")
    assert "is not the record of an export: " in refused(capsys, release, "openood", tmp_path / "out")


# Shards with other columns or cells than the manifest says


def with_time(table):
    return table.append_column("taken", pa.array([0] * len(table), pa.timestamp("s")))


def without_class(table):
    return samples.with_column(table, "class_id", [*table["class_id"].to_pylist()[:-1], None])


@pytest.mark.parametrize("chosen_format", FORMATS)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_time, "has other columns than manifest.json says, or of other types: taken"),
        (without_class, "has rows without a value in the column class_id"),
        (lambda table: samples.with_column(table, "id", [None] * len(table)), "without a value in the column id"),
        (lambda table: samples.with_twice(table, "image"), "it has several columns named image"),
    ],
    ids=["a-column-more", "no-class-id", "no-id", "two-image-columns"],
)
def test_shards_that_contradict_the_manifest_are_refused_before_an_image_is_written(
    chosen_format, change, reason, tmp_path, capsys
):
    root = samples.make_release(tmp_path / "release", {"bench/test": range(3)})
    samples.change_files(root, "bench/test", change, ["data"])
    sentence = refused(capsys, root, chosen_format, tmp_path / "out")
    assert reason in sentence and "data/bench/test-00000-of-00001.parquet" in sentence
    assert written(tmp_path / "out") == {}
