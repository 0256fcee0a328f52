"""A build that is run again with another copy of a source takes that copy's images, and no others."""

import gzip
import hashlib
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from builders.openood_benchmark import main
from tests.builders.trees import linked

SPLIT = "openood-cifar10/mnist"
INTERRUPTED = 130


def run(copy, out):
    return main([f"--mnist={copy}", f"--splits={SPLIT}", f"--out={out}", "--workers=1", "--quiet"])


def build(copy, out):
    assert run(copy, out) == 0
    return pq.read_table(out / "index" / f"{SPLIT}.parquet")["content_sha256"].to_pylist()


@pytest.fixture(scope="module")
def other(demo, tmp_path_factory):
    """A copy of MNIST with the labels of the demo's and inverted pixels."""
    root = tmp_path_factory.mktemp("other") / "mnist"
    shutil.copytree(demo["mnist"], root)
    for path in root.glob("*-images-idx3-ubyte.gz"):
        data = gzip.decompress(path.read_bytes())
        path.unlink()
        path.write_bytes(gzip.compress(data[:16] + bytes(255 - np.frombuffer(data[16:], np.uint8))))
    return root


def test_a_rerun_with_another_copy_takes_its_images(demo, other, tmp_path):
    """Its rows were those of the first copy: nothing in names, labels and sizes tells the two apart."""
    out = tmp_path / "out"
    first, undisturbed = build(demo["mnist"], out), build(other, tmp_path / "undisturbed")
    assert not {*first} & {*undisturbed}
    assert build(other, out) == undisturbed


def test_what_was_unpacked_of_another_copy_is_not_used(demo, other, tmp_path, monkeypatch):
    """A kill after the packs, of which the first copy's had the names that the second's would have."""
    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr("builders.pipeline.shard_work.ShardWork.generate", interrupted)
        assert run(demo["mnist"], out) == INTERRUPTED
    assert list((out / ".state" / "staging").glob("mnist-*.pack"))
    assert build(other, out) == build(other, tmp_path / "undisturbed")


def interrupted(*_):
    raise KeyboardInterrupt


def test_the_same_copy_elsewhere_writes_nothing_again(demo, tmp_path):
    out = tmp_path / "out"
    build(demo["mnist"], out)
    (shard,) = (out / "data").rglob("*.parquet")
    before = shard.stat().st_mtime_ns, hashlib.sha256(shard.read_bytes()).digest()
    build(linked(demo["mnist"], tmp_path / "moved" / "mnist"), out)
    assert (shard.stat().st_mtime_ns, hashlib.sha256(shard.read_bytes()).digest()) == before
