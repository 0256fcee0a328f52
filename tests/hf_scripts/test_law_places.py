"""Where a release lies: paths that `load_dataset` expands, and copies of folders of one name in its cache."""

import json
import shutil

import datasets
import pytest

from builders import imagenet_benchmark
from builders.release.loading import misread
from builders.storage.paths import as_path
from hf_scripts import materialize, verify
from tests.builders.conftest import files_of
from tests.hf_scripts.law import code_of, verdict
from tests.hf_scripts.law_fixtures import quiet, tiny
from tests.hf_scripts.reading_mutations import NEIGHBOURS, ODD, reverse_rows
from tests.hf_scripts.samples import linked_copy
from tests.sentences import assert_sentence

__all__ = ["quiet", "tiny"]

RELATIVE = ["~", "~x", "data:x", "file:x", "local:x", "csv", "parquet", "imagefolder", "x.py"]
"""Names by which `load_dataset` takes a relative path for a home folder, an address, a format or a script."""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of `datasets`, which is what a user's process would have."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def said(path, capsys):
    """The lines of `verify` on a folder that is not whole for its path alone."""
    assert verify.main([str(path), "--workers", "1", "--check", "fast"]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("note: ")]
    assert lines[1:] == [f"{path} is not whole: 1 problem"]
    return lines[0]


# Paths


def test_a_folder_whose_name_is_a_pattern_that_its_neighbour_matches(tiny, tmp_path, cache, capsys):
    """fsspec's `glob` matches `rel[1]` with `rel1`; the rows of the neighbour come in its order."""
    linked_copy(tiny, tmp_path / "rel[1]")
    reverse_rows(linked_copy(tiny, tmp_path / "rel1"))
    loaded = datasets.load_dataset(str(tmp_path / "rel[1]"), "bench", split="far_ood", cache_dir=str(cache))
    assert loaded["id"][0] == "source/far_ood/1.png"  # the last one of its first shard
    assert said(tmp_path / "rel[1]", capsys) == (
        f"{tmp_path}/rel[1]: load_dataset does not read this folder: it takes [ in {tmp_path}/rel[1] for part of a "
        "pattern; move it"
    )


@pytest.mark.parametrize("inside", [False, True])
def test_paths_that_are_expanded_are_a_problem(tiny, tmp_path, capsys, inside):
    for name in NEIGHBOURS:
        root = linked_copy(tiny, tmp_path / name / "release" if inside else tmp_path / name)
        assert said(root, capsys).startswith(f"{root}: load_dataset does not read this folder: it takes ")
        # A link to it leads there, too.
        (tmp_path / "link").symlink_to(root)
        assert "load_dataset does not read" in said(tmp_path / "link", capsys)
        (tmp_path / "link").unlink()


def test_relative_paths_that_are_no_paths_to_load_dataset_are_a_problem(tiny, tmp_path, cache, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in RELATIVE:
        root = linked_copy(tiny, tmp_path / name)
        with pytest.raises((datasets.exceptions.DatasetsError, OSError, RuntimeError, ValueError)):
            loaded = datasets.load_dataset(name, "bench", split="test", cache_dir=str(cache))
            raise ValueError(f"{len(loaded)} rows of all splits") if len(loaded) > 4 else AssertionError(name)
        assert said(name, capsys).startswith(f"{name}: load_dataset does not read this folder: it takes ")
        if name != "x.py":
            assert code_of(root, "--check", "fast") == 0  # by its whole path it is read


def test_other_odd_names_are_none(tiny, tmp_path, cache):
    for name in ODD:
        root = linked_copy(tiny, tmp_path / name)
        assert misread(root) == ""
        assert loaded_rows(root, cache, streaming=True) == [*"01234"], name
    assert misread(tmp_path / "under_one" / "__x__" / ".hidden") == ""


def test_a_name_that_is_not_text(tmp_path):
    assert misread(tmp_path / "a\udcffb") == "its path is not UTF-8 text"


def test_addresses_are_not_expanded():
    assert misread(as_path("s3://bucket/rel[1]")) == ""


@pytest.mark.parametrize("name", [*NEIGHBOURS, *RELATIVE])
def test_no_build_goes_there(tiny, tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    commands = {
        "--out": [
            lambda: imagenet_benchmark.main(["--demo", "--out", name]),
            lambda: imagenet_benchmark.main(["--demo", "--dry-run", "--out", name]),
            lambda: materialize.main([str(tiny), "--out", name]),
        ],
        "--keep": [lambda: verify.main(["org/name", "--revision", "main", "--keep", name])],
    }
    for flag, runs in commands.items():
        for run in runs:
            assert run() == 2
            error = capsys.readouterr().err.splitlines()[-1]
            assert_sentence(error, "load_dataset", name, flag)
    assert list(tmp_path.iterdir()) == []


# Copies in the cache


def loaded_rows(root, cache, **how):
    loaded = datasets.load_dataset(str(root), "bench", split="far_ood", cache_dir=str(cache), **how)
    return [row["id"].rpartition("/")[2][0] for row in loaded]


def test_what_load_dataset_returns_after_a_repair_and_of_two_folders_of_one_name(tiny, tmp_path, cache):
    """As SECURITY.md says: the copy of a folder of this name and card, unless it is told not to; a stream never."""
    root = linked_copy(tiny, tmp_path / "one/rel")
    whole = files_of(root)
    reverse_rows(root)
    assert loaded_rows(root, cache) == [*"10432"]  # each shard in reverse
    for path, data in whole.items():  # the repair
        (root / path).unlink()
        (root / path).write_bytes(data)
    other = linked_copy(tiny, tmp_path / "two/rel")
    for place in (root, other):
        assert loaded_rows(place, cache) == [*"10432"]
        assert loaded_rows(place, cache, streaming=True) == [*"01234"]
        code, last = verdict(place)
        assert code == 0
        assert last == (
            f"load_dataset has copies of a folder of this name in {cache}/rel, and returns them unchecked where the "
            'card is equal; remove them, or pass download_mode="force_redownload"'
        )
    assert loaded_rows(root, cache, download_mode="force_redownload") == [*"01234"]
    assert loaded_rows(other, cache) == [*"01234"]


@pytest.mark.parametrize(
    ("loaded", "asked"), [("rel", "Rel"), ("MyRel", "my_rel"), ("myRel", "MyREL"), ("REL", "rel")]
)
def test_names_that_the_cache_takes_for_one(tiny, tmp_path, cache, loaded, asked):
    reverse_rows(linked_copy(tiny, tmp_path / "one" / loaded))
    loaded_rows(tmp_path / "one" / loaded, cache)
    asked = linked_copy(tiny, tmp_path / "two" / asked)
    served = loaded_rows(asked, tmp_path / "empty") == loaded_rows(asked, cache)
    assert ("load_dataset has copies" in verdict(asked, "--check", "fast")[1]) is not served


def test_the_line_on_copies_stands_where_there_are_some_and_the_release_is_whole(tiny, tmp_path, cache, capsys):
    root = linked_copy(tiny, tmp_path / "rel")
    assert " is whole: " in verdict(root, "--check", "fast")[1]
    (cache / "rel").mkdir(parents=True)  # of a run that made none
    assert " is whole: " in verdict(root, "--check", "fast")[1]
    loaded_rows(root, cache)
    shutil.copytree(root, tmp_path / "other")
    assert " is whole: " in verdict(tmp_path / "other", "--check", "fast")[1]
    assert "load_dataset has copies" in verdict(root, "--check", "fast")[1]
    assert verify.main([str(root), "--json", "--workers", "1", "--check", "fast"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert [note.partition(" in ")[0] for note in notes][-1] == "load_dataset has copies of a folder of this name"
    (root / "data/bench/test-00000-of-00002.parquet").unlink()
    assert " is not whole: " in verdict(root, "--check", "fast")[1]
