"""Publishing and reading by Xet, as the installed client does it by itself; elsewhere the tests have it use LFS."""

import signal
import time

import datasets
import pytest

from hf_scripts import verify
from tests.hf_scripts.samples import REPO, SPLITS, contents, make_release
from tests.hf_scripts.test_push_process import ended, pushed, start
from tests.hub.client import in_process
from tests.hub.server import Hub

SHARD = "data/bench/test-00000-of-00001.parquet"


@pytest.fixture
def api(hub, tmp_path):
    with in_process(hub, tmp_path, xet=True) as client:
        yield client


def test_what_is_published_is_what_is_read(push, hub, release, more, capsys):
    for folder, tag in (("release", "v1.0.0"), ("more", "v1.1.0")):
        assert push(folder, tag=tag).code == 0
        assert verify.main([REPO, "--revision", tag, "--workers", "1"]) == 0
        rows = datasets.load_dataset(REPO, "bench", split="test", revision=tag)
        assert rows["id"] == [f"source/test/{number}.png" for number in range(4)]
    assert len(hub.xet) == len(hub.uploads()) == 8
    assert hub.asked("xet_read_token") and not hub.asked("cdn") and not hub.asked("lfs_put")
    assert hub.read(REPO, SHARD) == (release / SHARD).read_bytes()
