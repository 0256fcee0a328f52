"""Publishing and reading by Xet, as the installed client does by itself; the other tests have it use LFS."""

import signal
import time

import datasets
import pytest

from hf_scripts import verify
from tests.hf_scripts.samples import REPO, SPLITS, contents, linked_copy, make_release
from tests.hf_scripts.test_push_process import ended, start
from tests.hub.client import in_process
from tests.sentences import assert_sentence

pytest.importorskip("hf_xet", reason="huggingface_hub has it where there is a build of it for the machine")

SHARD = "data/bench/test-00000-of-00001.parquet"


@pytest.fixture
def api(hub, tmp_path, monkeypatch):
    with in_process(hub, tmp_path, xet=True) as client:
        yield client
        monkeypatch.undo()  # as in `tests.hub.fixtures`


def test_what_is_published_is_what_is_read(push, hub, release, more):
    for folder, tag in (("release", "v1.0.0"), ("more", "v1.1.0")):
        assert push(folder, tag=tag).code == 0
        assert verify.main([REPO, "--revision", tag, "--workers", "1"]) == 0
        rows = datasets.load_dataset(REPO, "bench", split="test", revision=tag)
        assert rows["id"] == [f"source/test/{number}.png" for number in range(4)]
    assert len(hub.xet) == 8
    assert hub.asked("xet_read_token")
    assert not any(hub.asked(route) for route in ("lfs_batch", "lfs_put", "cdn"))
    assert hub.read(REPO, SHARD) == (release / SHARD).read_bytes()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_no_lost_connection(push, hub, release, naps, status):
    """Of a token that only reads, for one. Xet's library raises Python's ConnectionError for both."""
    hub.fail("xet_write_token", status=status)
    assert_sentence(push("release").error, "upload", f"the Hub answered {status}")
    assert (naps, hub.files(REPO)) == ([], {})
    assert push("release").code == 0


@pytest.mark.parametrize("part", [4, 100])
def test_a_file_that_is_changed_while_it_is_sent(push, hub, sample, tmp_path, monkeypatch, part):
    """After it was verified. The SHA-256 under which Xet takes it is that of the manifest."""
    for module in ("builders.hub.pull_request", "hf_scripts.publish.commit"):
        monkeypatch.setattr(f"{module}.PART", part)
    shard = linked_copy(sample, tmp_path / "changed") / SHARD
    data = shard.read_bytes()

    def change():
        shard.unlink()
        shard.write_bytes(data[:500] + b"?" + data[501:])

    hub.faults.add("race", "xet_write_token", callback=change)
    assert_sentence(push("changed").error, SHARD)
    assert (hub.files(REPO), hub.tags(REPO)) == ({}, {})
    assert f"damaged: {SHARD}" in push("changed").error
    shard.write_bytes(data)
    assert push("changed").code == 0
    assert hub.read(REPO, SHARD, "v1.0.0") == data


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_publisher_that_is_ended(push, hub, tmp_path, number):
    """While files are sent; the next run publishes what an undisturbed one would."""
    folder = make_release(tmp_path / "many", SPLITS, shards=4)
    hub.slow("xet_write_token", 3600, skip=1)
    process = start(hub, folder, tmp_path / "home", xet=True)
    while len(hub.asked("xet_write_token")) < 2 and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    code, _, err = ended(process)
    if number == signal.SIGINT:
        assert (code, err) == (130, "stopped; run the same command again, and it resumes.\n")
    assert (hub.tags(REPO), hub.files(REPO)) == ({}, {})
    assert push("many", "--private").code == 0
    assert push("many", "--private", repo="org/undisturbed").code == 0
    undisturbed = contents(hub, repo="org/undisturbed")
    assert {path for path, data in contents(hub).items() if data != undisturbed[path]} <= {
        "README.md",
        "croissant.json",
        "manifest.json",
    }
