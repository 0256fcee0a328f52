"""Files that a rerun reads of an earlier run, changed on the disk: it ends with the same release, or says so."""

import random
import shutil

import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.commands import audit, report
from builders.errors import BuildError
from builders.folder_benchmark import main
from builders.release.tables import Exclusion, read_excluded, write_excluded

_SPLITS = ("folder/far_ood", "folder/test", "folder-train/train")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A release of own images, and the command line that built it."""
    root = tmp_path_factory.mktemp("built")
    for kind, folder in enumerate(("known/ant", "known/bee", "far")):
        (root / folder).mkdir(parents=True)
        for number in range(8):
            colours = random.Random(f"{kind} {number}").randbytes(16 * 16 * 3)
            Image.frombytes("RGB", (16, 16), colours).save(root / folder / f"{number}.png")
    flags = ["--in-distribution", str(root / "known"), "--unknown", f"far={root / 'far'}", "--workers", "1", "--quiet"]
    assert main([*flags, "--out", str(root / "release")]) == 0
    return root / "release", flags


@pytest.fixture
def again(built, tmp_path):
    """A copy of the release, a function that gives the same command again, and one that tells whether all is equal."""
    release, flags = built
    copy = shutil.copytree(release, tmp_path / "release")

    def files(root):
        found = {path.relative_to(root): path for path in root.rglob("*") if path.is_file()}
        return {name: path.read_bytes() for name, path in found.items() if name.parts[0] != ".state"}

    return copy, lambda: main([*flags, "--out", str(copy)]), lambda: files(copy) == files(release)


def test_a_record_with_a_flipped_bit_of_other_rows_or_of_none_is_written_again(again):
    """Each was a traceback, or a changed index with a new digest in the manifest (as a flipped bit in a name)."""
    release, run, is_equal = again
    good = {key: release / f".state/parts/{key}-00000-of-00001.parquet" for key in _SPLITS}
    data = good["folder/far_ood"].read_bytes()
    changed = bytearray(data)
    changed[data.index(b"PAR1", 4) - 100] ^= 1
    rows = pq.read_table(good["folder/test"])
    for key, write in {
        "folder/far_ood": lambda path: path.write_bytes(changed),
        "folder/test": lambda path: pq.write_table(rows.take([1, 0, *range(2, len(rows))]), path),
        "folder-train/train": lambda path: shutil.copy(good["folder/test"], path),
    }.items():
        write(good[key])
    assert run() == 0
    assert is_equal()


def test_lines_of_another_config_in_a_table_of_exclusions_do_not_stay(again):
    """They came into the table, which the manifest then listed."""
    release, run, is_equal = again
    shutil.copy(release / "excluded/folder.csv", release / "excluded/folder-train.csv")
    assert run() == 0
    assert is_equal()


def test_lines_of_parts_that_stay_have_the_counts_of_the_manifest(tmp_path):
    path = tmp_path / "x.csv"
    lines = [Exclusion(f"x/{part}", "s", "all", "c", "", name, 1, "r", "e") for part in "ab" for name in "12"]
    write_excluded(path, lines, ["x/a", "x/b"])
    write_excluded(path, lines[2:], ["x/b"], {"x/a": {"r": 2}, "x/b": None})
    assert read_excluded(path) == lines
    with pytest.raises(BuildError, match="has other exclusions of x/a than"):
        write_excluded(path, lines[2:], ["x/b"], {"x/a": {"r": 3}, "x/b": None})


def test_a_page_of_a_release_refuses_a_changed_table_of_exclusions(again, tmp_path, capsys):
    """A flipped bit in a reason stood on the page."""
    release, _, _ = again
    path = release / "excluded/folder.csv"
    path.write_bytes(path.read_bytes().replace(b"images", b"imagos", 1))
    assert report.main([str(release), "--out", str(tmp_path / "page.html")]) == 2
    assert "excluded/folder.csv: its SHA-256 is not the one that manifest.json lists" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_an_audit_refuses_images_that_are_not_those_of_the_index(again, capsys):
    """A shard of an earlier build, whole in itself, gave other duplicates."""
    release, _, _ = again
    shard = release / "data/folder/far_ood-00000-of-00001.parquet"
    rows = pq.read_table(shard)
    pq.write_table(rows.take([1, 0, *range(2, len(rows))]), shard)
    assert audit.main(["duplicates", str(release), "--workers", "1", "--dry-run"]) == 2
    assert "is not the one that its index lists" in capsys.readouterr().err
