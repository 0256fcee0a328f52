"""A whole release passes, and what is no release is refused; the rest of `verify` is tested with its parts."""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builders import imagenet_benchmark
from builders.errors import BuildError
from builders.pipeline.state import locked
from builders.release.layout import Layout
from builders.release.manifest import read_manifest
from builders.storage.locks import is_held
from hf_scripts import verify
from tests.hf_scripts.samples import make_release
from tests.hf_scripts.tampering import NEAR_SHARD, built, check, rewrite, whole, with_cells
from tests.manifests import manifest_of, write_json

ROOT = Path(__file__).parents[2]

__all__ = ["built", "check", "whole"]


# A whole release


def test_a_whole_release_passes(whole, check):
    code, lines = check(decode=True)
    assert code == 0
    manifest = manifest_of(whole)
    rows = 0
    for name, config in manifest["configs"].items():
        for split, entry in config["splits"].items():
            line = next(line for line in lines if line.split()[:1] == [f"{name}/{split}"])
            assert line.split()[1:3] == [f"{entry['rows']:,}", entry["digest"][:12]]
            rows += entry["rows"]
    assert lines[-1].startswith(f"{whole} is whole: 9 splits, {rows:,} rows, 23 files, ")
    assert "decoded" not in lines[-1]
    assert any(line.startswith("note: imagenet/far_ood_caltech45 not complete: Caltech-256, images") for line in lines)
    assert "note: imagenet is limited to 1 images of each class" in lines
    assert any(line.startswith("note: imagenet/test has 200 rows; complete sources give 10,000") for line in lines)


def test_quick_says_what_it_leaves_out(check):
    code, lines = check()
    assert code == 0
    assert lines[-1].endswith("images were not decoded, nor digests over pixels computed (--quick)")


def test_an_index_without_pixels_passes(demo, tmp_path, capsys):
    out = tmp_path / "index-only"
    flags = ["--splits", "imagenet/far_ood_food32", "--index-only", "--allow-partial", "--quiet", "--out", str(out)]
    assert imagenet_benchmark.main(["--food101", str(demo["food101"]), *flags]) == 0
    capsys.readouterr()
    assert verify.main([str(out), "--workers", "1"]) == 0
    assert "note: imagenet/far_ood_food32 has only an index here, no images" in capsys.readouterr().out


def test_workers_find_what_one_process_finds(whole, check):
    rewrite(whole, "imagenet/test", lambda t: with_cells(t, 3, label=777))
    (whole / NEAR_SHARD).unlink()
    alone = check()
    assert alone[0] == 1
    assert check("--workers", "2") == alone


def test_workers_print_nothing_of_their_own(whole):
    command = [sys.executable, "-W", "always::RuntimeWarning", "-m", "hf_scripts.verify", str(whole), "--workers", "2"]
    done = subprocess.run([*command, "--quick"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_help_ends_with_a_command_that_runs(capsys):
    assert verify.main(["--help"]) == 0
    assert capsys.readouterr().out.strip().endswith("Example: python -m hf_scripts.verify build/unknown-detection")


# No release to check


def test_a_folder_that_is_not_there_is_a_user_error(tmp_path, capsys):
    assert verify.main([str(tmp_path / "nowhere")]) == 2
    assert "nowhere is not a release: it has no manifest.json" in capsys.readouterr().err


def test_a_manifest_of_an_unknown_format_is_a_user_error(whole, capsys):
    write_json(whole, manifest_of(whole) | {"format": 99})
    assert verify.main([str(whole)]) == 2
    assert "its format is 99, and this version reads 1" in capsys.readouterr().err


def test_workers_below_one_are_a_user_error(whole, capsys):
    assert verify.main([str(whole), "--workers", "0"]) == 2
    assert "--workers" in capsys.readouterr().err


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
    assert err == f"error: A build is writing to {building}. Wait until it ends, and run the same command again.\n"
    # Access times change with every reading, of anybody.
    assert {path: path.stat().st_mtime_ns for path in before} == {p: s.st_mtime_ns for p, s in before.items()}
    assert sorted(building.rglob("*")) == list(before)


def test_a_build_that_begins_while_problems_are_found(tmp_path):
    root = make_release(tmp_path / "release", {"bench/test": range(2)})
    manifest = read_manifest(root)
    (root / "excluded/bench.csv").unlink()
    with contextlib.ExitStack() as held:

        def begin(_):
            if not is_held(Layout(root).lock):
                held.enter_context(locked(Layout(root)))

        with pytest.raises(BuildError, match=r"A build is writing to .*release\. Wait until it ends"):
            verify.verify(root, manifest, decode=False, workers=1, advance=begin)


def test_a_release_with_the_lock_of_a_finished_build_is_verified_without_a_trace(building, tmp_path, capsys):
    root = tmp_path / "finished"
    shutil.copytree(building, root)
    assert (root / ".state/lock").is_file()
    before = {path: path.stat() for path in sorted(root.rglob("*"))}
    assert verify.main([str(root), "--workers", "1"]) == 0
    assert sorted(root.rglob("*")) == list(before)
    assert all(path.stat().st_mtime_ns == status.st_mtime_ns for path, status in before.items())
