"""A whole release passes, and what is no release is refused; the rest of `verify` is tested with its parts."""

import contextlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builders import imagenet_benchmark
from builders.pipeline.state import locked
from builders.release.layout import Layout
from hf_scripts import verify
from hf_scripts.checks import run
from hf_scripts.checks.problems import Problems
from tests.hf_scripts.samples import make_release
from tests.hf_scripts.tampering import NEAR_SHARD, built, check, copy, rewrite, with_cells
from tests.manifests import manifest_of, rows_in, write_json
from tests.sentences import assert_sentence

ROOT = Path(__file__).parents[2]

__all__ = ["built", "check", "copy"]


# A whole release


def test_a_whole_release_passes(copy, check):
    code, lines = check(decode=True)
    assert code == 0
    manifest = manifest_of(copy)
    rows = 0
    for name, config in manifest["configs"].items():
        for split, entry in config["splits"].items():
            line = next(line for line in lines if line.split()[:1] == [f"{name}/{split}"])
            assert line.split()[1:3] == [f"{rows_in(entry):,}", entry["digest"][:12]]
            rows += rows_in(entry)
    assert lines[-1].startswith(f"{copy} is whole: 4 splits, {rows:,} rows, 11 files, ")
    assert "decoded" not in lines[-1]
    short = next(line for line in lines if line.startswith("note: sources are short in "))
    assert " not complete: ImageNet-1k (ILSVRC2012), train" in short
    assert "note: imagenet is limited to 1 image of each class" in lines
    fewer = [split for config in manifest["configs"].values() for split in config["splits"].values()]
    fewer = sum(part["rows"] != part["expected"] for split in fewer for part in split["parts"])
    assert any(line.startswith(f"note: {fewer} splits have other numbers of rows than complete") for line in lines)
    assert sum(line.startswith("note: ") for line in lines) < 8


def test_quick_says_what_it_leaves_out(check):
    code, lines = check()
    assert code == 0
    assert lines[-1].endswith("images were not decoded, nor digests over pixels computed (--check fast)")


def test_json_says_what_the_text_says(copy, check):
    code, lines = check()
    (copy / NEAR_SHARD).unlink()
    code_of_damaged, damaged = check()
    code_of_json, printed = check("--json")
    document = json.loads("\n".join(printed))
    assert (code, code_of_damaged, code_of_json) == (0, 1, 1)
    assert [document[key] for key in ("schema", "command", "release", "whole", "check")] == [
        *(1, "verify", str(copy), False, "fast")
    ]
    messages = [message for problem in document["problems"] for message in problem["messages"]]
    assert [*messages, *(f"note: {note}" for note in document["notes"])] == damaged[:-1]
    assert f"{sum(problem['count'] for problem in document['problems'])} problem" in damaged[-1]
    for split in document["splits"]:
        (line,) = (line.split() for line in lines if line.startswith(f"{split['split']} "))
        numbers = [f"{split[key]:,}" for key in ("rows", "files", "bytes")]
        assert line[1:] == [numbers[0], split["digest"][:12], *numbers[1:]]


def test_images_of_other_splits_are_not_read(copy, check, capsys):
    (copy / NEAR_SHARD).unlink()
    assert check()[0] == check("--splits", "imagenet-train,imagenet/near_ood")[0] == 1
    code, lines = check("--splits", "imagenet-train,imagenet/test")
    assert code == 0
    tabled = [line.split()[0] for line in lines[1 : lines.index("")]]
    assert tabled == ["imagenet/test", "imagenet-train/train"]
    assert ": 2 splits, " in lines[-1] and lines[-1].endswith("; images of 2 other splits were not read (--splits)")
    # What is small is checked for all splits: a pair of duplicates is found in the indexes.
    rewrite(copy, "imagenet/validation", lambda table: with_cells(table, 3, label=777))
    assert check("--splits", "imagenet/test")[0] == 1
    assert verify.main([str(copy), "--splits", "imagenet/tset"]) == 2
    assert_sentence(capsys.readouterr().err, copy, "imagenet/tset", "imagenet/test")


def test_an_index_without_pixels_passes(demo, tmp_path, capsys):
    out = tmp_path / "index-only"
    flags = ["--splits", "imagenet/far_ood_food32", "--index-only", "--allow-partial", "--quiet", "--out", str(out)]
    assert imagenet_benchmark.main(["--food101", str(demo["food101"]), *flags]) == 0
    capsys.readouterr()
    assert verify.main([str(out), "--workers", "1"]) == 0
    assert "note: imagenet/far_ood_food32 has only an index here, no images" in capsys.readouterr().out


def test_workers_find_what_one_process_finds(copy, check):
    rewrite(copy, "imagenet/test", lambda t: with_cells(t, 3, label=777))
    (copy / NEAR_SHARD).unlink()
    alone = check()
    assert alone[0] == 1
    assert check("--workers", "2") == alone


def test_workers_print_nothing_of_their_own(copy):
    command = [sys.executable, "-W", "always::RuntimeWarning", "-m", "hf_scripts.verify", str(copy), "--workers", "2"]
    done = subprocess.run([*command, "--check", "fast"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""


# No release to check


def test_another_format_and_no_workers(copy, capsys):
    write_json(copy, manifest_of(copy) | {"format": 99})
    for flags, message in (([], "its format is 99, and this version reads 1"), (["--workers", "0"], "--workers")):
        assert verify.main([str(copy), *flags]) == 2
        assert message in capsys.readouterr().err


# A build in progress


@pytest.fixture
def building(tmp_path):
    """A folder into which a build is writing, by its lock; what it has there so far."""
    root = make_release(tmp_path / "release", {"bench/test": range(2)})
    with locked(Layout(root)):
        yield root


@pytest.mark.parametrize("lacking", [[], ["README.md", "data/bench/test-00000-of-00001.parquet"], ["manifest.json"]])
def test_a_folder_that_a_build_is_writing_to_is_left_alone(building, capsys, lacking):
    for name in lacking:
        (building / name).unlink()
    before = {path: path.stat() for path in sorted(building.rglob("*"))}
    assert verify.main([str(building), "--workers", "1"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert_sentence(err, building)
    # Access times change with every reading, of anybody.
    assert {path: path.stat().st_mtime_ns for path in before} == {p: s.st_mtime_ns for p, s in before.items()}
    assert sorted(building.rglob("*")) == list(before)


def test_a_build_that_begins_while_problems_are_found(tmp_path, monkeypatch, capsys):
    root = make_release(tmp_path / "release", {"bench/test": range(2)})
    (root / "excluded/bench.csv").unlink()
    with contextlib.ExitStack() as held:
        monkeypatch.setattr(run, "check_card", lambda *_: held.enter_context(locked(Layout(root))) or Problems())
        assert verify.main([str(root), "--workers", "1"]) == 2
    assert re.match(r"error: A build is writing to .*release\. Wait until it ends", capsys.readouterr().err)


def test_a_release_with_the_lock_of_a_finished_build_is_verified_without_a_trace(building, tmp_path, capsys):
    root = tmp_path / "finished"
    shutil.copytree(building, root)
    assert (root / ".state/lock").is_file()
    before = {path: path.stat() for path in sorted(root.rglob("*"))}
    assert verify.main([str(root), "--workers", "1"]) == 0
    assert sorted(root.rglob("*")) == list(before)
    assert all(path.stat().st_mtime_ns == status.st_mtime_ns for path, status in before.items())
