"""Damages one thing in a copy of a whole release, for tests that expect `verify` to say so in one sentence."""

import hashlib
import os

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders import imagenet_benchmark
from builders.release.digests import rows_digest
from builders.release.schema import Column
from builders.release.tables import write_index
from hf_scripts import verify
from tests.conftest import made_once
from tests.hf_scripts.samples import linked_copy
from tests.manifests import entry_of, manifest_of, save_manifest

TEST_SHARD = "data/imagenet/test-00000-of-00001.parquet"
NEAR_SHARD = "data/imagenet/near_ood-00000-of-00001.parquet"


@pytest.fixture(scope="session")
def built(demo, tmp_path_factory):
    """A release of ImageNet's own splits, small. Read only: tests work on copies whose files are links to these."""
    splits = ("imagenet/validation", "imagenet/test", "imagenet/near_ood", "imagenet-train/train")
    flags = ["--splits", ",".join(splits), "--allow-partial", "--limit-per-class", "1", "--quiet", "--workers", "1"]

    def make(out):
        assert imagenet_benchmark.main(["--imagenet", str(demo["imagenet"]), *flags, "--out", str(out)]) == 0

    return made_once(tmp_path_factory, "tampered-release", make)


@pytest.fixture
def copy(built, tmp_path):
    """A copy to damage: a file in it may be replaced, never written into, since it is a link."""
    return linked_copy(built, tmp_path / "release")


@pytest.fixture
def check(copy, capsys):
    """Verify the copy; returns exit code and lines. By default without decoding."""

    def run(*flags, decode=False):
        code = verify.main([str(copy), "--workers", "1", *([] if decode else ["--check", "fast"]), *flags])
        out, err = capsys.readouterr()
        assert err == ""
        return code, out.splitlines()

    return run


def replace_by(kind, path):
    """A FIFO, a folder or a device in place of a file; a FIFO without a writer would keep whoever opens it waiting."""
    path.unlink()
    {"fifo": os.mkfifo, "folder": os.mkdir, "device": lambda path: path.symlink_to("/dev/zero")}[kind](path)


def list_exclusions(root):
    """The digest of the table of exclusions that is there, in the manifest."""
    manifest = manifest_of(root)
    manifest["configs"]["imagenet"]["excluded"] = entry_of(root, "excluded/imagenet.csv")
    save_manifest(root, manifest)


def without_notes(lines):
    """The lines on problems: without the notes and the last line."""
    assert "is not whole" in lines[-1]
    return [line for line in lines[:-1] if not line.startswith("note: ")]


@pytest.fixture
def problems(check):
    """Verify the copy, which is damaged; returns the lines on its problems."""

    def run(**options):
        code, lines = check(**options)
        assert code == 1
        return without_notes(lines)

    return run


def replace(path, data):
    path.unlink()
    path.write_bytes(data)


def write_shard(path, table, **how):
    path.unlink()
    pq.write_table(table, path, **{"write_page_index": True, "row_group_size": 100, **how})


def rewrite(root, key, change, *, index=True, **how):
    """Change a split's rows, then put right all that follows from them, so that only the rows can tell."""
    config, split = key.split("/")
    manifest = manifest_of(root)
    entry = manifest["configs"][config]["splits"][split]
    shards = [file["path"] for file in entry["data"]]
    before = [pq.read_table(root / shard) for shard in shards]
    table = change(pa.concat_tables(before))
    first = 0
    for shard, rows in zip(shards, before, strict=True):
        last = table.num_rows if shard == shards[-1] else first + rows.num_rows
        write_shard(root / shard, table.slice(first, last - first), **how)
        first = last
    entry["data"] = [entry_of(root, shard) for shard in shards]
    if index:
        listed = manifest["configs"][config]
        columns = msgspec.convert(listed["columns"], list[Column])
        demo = manifest["benchmarks"][listed["benchmark"]]["demo"]
        write_index(root / entry["index"]["path"], table, listed["label_names"], columns, demo=demo)
        entry["index"] = entry_of(root, entry["index"]["path"])
        entry["digest"] = rows_digest(table)
    save_manifest(root, manifest)


def with_cells(table, row, **cells):
    rows = table.to_pylist()
    rows[row].update(cells)
    return pa.Table.from_pylist(rows, schema=table.schema)


def with_image(table, row, data, **cells):
    """Another image in a row, with its right digest."""
    image = {"bytes": data, "path": table["image"][row]["path"].as_py()}
    digest = hashlib.sha256(data).hexdigest()
    return with_cells(table, row, image=image, **{"content_sha256": digest, **cells})


def image_of(root, path, row):
    return pq.read_table(root / path)["image"][row]["bytes"].as_py()
