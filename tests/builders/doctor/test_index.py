"""Indexes: what they hold, how large they are, and what is refused."""

import hashlib

import pyarrow.parquet as pq
import pytest

from builders.commands.doctor import main
from builders.doctor.index import reference
from builders.errors import BuildError
from tests.builders.trees import linked, replaced


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_an_index_has_the_digest_of_each_file_and_no_pixel(demo, tmp_path):
    path = tmp_path / "dtd.parquet"
    main([str(demo["dtd"]), "--write-index", str(path), "--workers", "1"])
    rows = pq.read_table(path).to_pylist()
    assert {row["source_id"]: row["sha256"] for row in rows} == {
        f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).digest()
        for file in (demo["dtd"] / "images").rglob("*.jpg")
    }
    assert set(rows[0]) == {"partition", "class_id", "source_id", "sha256", "width", "height", "channels", "bytes"}
    assert {row["source_id"]: row["bytes"] for row in rows} == {
        f"{file.parent.name}/{file.name}": file.stat().st_size for file in (demo["dtd"] / "images").rglob("*.jpg")
    }


def test_two_runs_write_equal_bytes(demo, tmp_path):
    for name in ("a", "b"):
        main([str(demo["dtd"]), "--write-index", str(tmp_path / f"{name}.parquet"), "--workers", "1"])
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_no_index_is_written_of_a_damaged_copy(demo, tmp_path, capsys):
    root = linked(demo["dtd"], tmp_path / "copy")
    replaced(next(iter(sorted(root.rglob("*.jpg")))), lambda data: data[:100])
    path = tmp_path / "dtd.parquet"
    assert main([str(root), "--write-index", str(path), "--workers", "1"]) == 2
    assert "No index was written" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize("change", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"PAR1"])
def test_a_damaged_index_is_refused_in_one_sentence(demo, tmp_path, change):
    path = tmp_path / "dtd.parquet"
    main([str(demo["dtd"]), "--write-index", str(path), "--workers", "1"])
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(BuildError) as caught:
        reference(str(path), None, print)
    assert "\n" not in str(caught.value)
