"""Audits and the page of a release whose indexes and shards are damaged: each ends with one sentence."""

import pyarrow as pa
import pytest

from builders.commands.audit import main as audit
from builders.commands.report import main as report
from builders.release.schema import ROLES
from tests.hf_scripts.samples import SPLITS, change_files, make_release, with_column, with_twice

TEST = "bench/test"

COMMANDS = {
    "sheet": lambda root: audit(["sheet", str(root), "--splits", "bench", "--out", str(root.with_name("sheet.png"))]),
    "report": lambda root: report([str(root), "--out", str(root.with_name("page.html"))]),
    "smoothness": lambda root: audit(["smoothness", str(root), "--splits", "bench"]),
    "artifacts": lambda root: audit(["artifacts", str(root), "--splits", "bench", "--dry-run", "--workers", "1"]),
    "duplicates": lambda root: audit(["duplicates", str(root), "--dry-run", "--workers", "1"]),
}


def absent(name):
    return lambda table: with_column(table, name, [None] * len(table))


def role(code):
    return lambda table: with_column(table, "role", [code] * len(table))


def no_text(table):
    """A table whose last class name is not UTF-8."""
    encoded = pa.array([*[b"a"] * (len(table) - 1), b"\xff"])
    return table.set_column(table.schema.get_field_index("class_name"), "class_name", encoded.view(pa.string()))


CASES = {
    "two-image-columns": ("data", lambda table: with_twice(table, "image"), [*COMMANDS], "columns named image"),
    "no-images": ("data", absent("image"), [*COMMANDS], "does not decode (cannot identify image file)"),
    "two-role-columns": ("index", lambda table: with_twice(table, "role"), [*COMMANDS], "columns named role"),
    "no-role": ("index", absent("role"), [*COMMANDS], "rows without a value in the column role"),
    "an-unknown-role": ("index", role(len(ROLES)), [*COMMANDS], "has roles that no release has"),
    "no-known-role": ("index", role(1), ["smoothness", "artifacts"], "has no rows of the role in_distribution"),
    "no-id": ("index", absent("id"), ["sheet", "duplicates"], "rows without a value in the column id"),
    "no-class-name": ("index", absent("class_name"), ["sheet", "report"], "without a value in the column class_name"),
    "a-class-name-of-no-text": ("index", no_text, ["sheet", "report"], "Invalid UTF8"),
}


@pytest.mark.parametrize(("file", "change", "commands", "said"), CASES.values(), ids=CASES)
def test_a_damaged_file_is_named_in_one_sentence(file, change, commands, said, tmp_path, capsys):
    root = make_release(tmp_path / "release", SPLITS)
    change_files(root, TEST, change, [file])
    for name in commands:
        assert COMMANDS[name](root) == 2, name
        printed, error = capsys.readouterr()
        (sentence,) = [line for line in error.splitlines() if line.startswith("error: ")]
        assert said in sentence and TEST in sentence and "hf_scripts.verify" in sentence, name
        assert printed == "" and "Traceback" not in error, name


def test_an_index_that_the_manifest_does_not_list(tmp_path, capsys):
    """With other names of classes, which the digest of the rows does not cover."""
    root = make_release(tmp_path / "release", SPLITS)
    listed = (root / "manifest.json").read_bytes()
    change_files(root, TEST, lambda table: with_column(table, "class_name", ["other"] * len(table)), ["index"])
    (root / "manifest.json").write_bytes(listed)
    for name in ("sheet", "report", "smoothness", "artifacts", "duplicates"):
        assert COMMANDS[name](root) == 2, name
        assert "its SHA-256 is not the one that manifest.json lists" in capsys.readouterr().err, name


def test_a_sound_release_passes_them_all(tmp_path, capsys):
    root = make_release(tmp_path / "release", SPLITS)
    assert [run(root) for run in COMMANDS.values()] == [0] * len(COMMANDS)
