"""Releases in object storage: built, resumed, checked, materialized and described, over HTTP, with faults."""

import json
import logging.handlers
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from builders import cifar_benchmark
from builders.cifar_benchmark import BENCHMARK
from builders.commands.audit import main as audit
from builders.commands.report import main as report
from builders.storage.paths import as_path
from hf_scripts import card, export, materialize, push, verify
from tests.builders.conftest import build_demo, files_of
from tests.builders.executors.ray_cluster import needs_ray, start_cluster
from tests.conftest import made_once
from tests.sentences import assert_sentence
from tests.store.fixtures import forget_clients
from tests.store.proxy import CUT, NO_ANSWER
from tests.store.server import KEY, SECRET

ROOT = Path(__file__).parents[3]
SPLITS = ("cifar/test", "cifar/far_ood_svhn", "cifar-train/train")
"""Generated from arrays, from a container that is unpacked, and training images that the others are compared with."""

SVHN = SPLITS[1:2]
"""What the ways of reading and writing are tried on that do not depend on how images are made."""

SHARD = "data/cifar/far_ood_svhn-00000-of-00001.parquet"

FLAGS = ("--workers", "1", "--quiet", "--allow-partial")
MAIN = "import sys; from builders.cifar_benchmark import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def expected(demo, tmp_path_factory):
    """The files of the same release built into a folder of this machine."""
    root = made_once(
        tmp_path_factory, "objects-local", lambda folder: build_demo(demo, folder, benchmark=BENCHMARK, splits=SPLITS)
    )
    return files_of(root)


@pytest.fixture(scope="module")
def expected_svhn(demo, tmp_path_factory):
    """The same of the one split."""
    root = tmp_path_factory.mktemp("svhn") / "release"
    build_demo(demo, root, benchmark=BENCHMARK, splits=SVHN)
    return files_of(root)


@pytest.fixture(scope="module")
def stored(store_server, demo, expected):
    """A release that was built into a store, and is only read: its address, and the lines of the store's log."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in store_server.environment().items():
            patch.setenv(name, value)
        forget_clients()
        address = f"s3://{store_server.bucket()}/some/release"
        log, root = logging.handlers.BufferingHandler(10**6), logging.getLogger()
        patch.setattr(root, "handlers", [*root.handlers, log])
        level = root.level
        root.setLevel(logging.INFO)  # at which botocore says where it found credentials
        try:
            build_demo(demo, as_path(address), benchmark=BENCHMARK, splits=SPLITS, workers=2)
        finally:
            root.setLevel(level)
    forget_clients()
    return address, [record.getMessage() for record in log.buffer]


def published(store, address):
    """The objects of a release but for its state, by name."""
    objects = store.files(address.partition("://")[2])
    return {name: data for name, data in objects.items() if not name.startswith(".state/")}


def flags_of(demo, *keys):
    return [f"--{key}={demo[key]}" for key in keys]


def built(demo, address, *more, splits=SPLITS):
    """Build splits by the command line; returns its exit code."""
    sources = flags_of(demo, "cifar100", "svhn")
    return cifar_benchmark.main([*sources, "--out", address, "--splits", ",".join(splits), *FLAGS, *more])


def test_every_object_has_the_bytes_of_the_local_file_or_is_state_and_none_has_secrets(stored, store, expected):
    address, lines = stored
    assert published(store, address) == expected
    assert store.uploads(address.split("/")[2]) == []
    objects = store.files(address.removeprefix("s3://"))
    for name, data in objects.items():
        for secret in (KEY, SECRET, address.split("/")[2], store.url):
            assert secret.encode() not in data, f"{name} has {secret}"
    assert lines
    assert not [line for line in lines if SECRET in line or KEY in line]
    # What another machine resumes from.
    assert objects.keys() >= {".state/cifar.json", *(f".state/parts/{key}-00000-of-00001.parquet" for key in SPLITS)}
    assert not [name for name in objects if name.endswith((".pack", ".sealed.parquet", ".lock", ".tmp", "/lock"))]


def test_the_same_command_again_writes_the_same_and_reads_no_image(stored, store, demo, expected, proxy, capsys):
    address, _ = stored
    forget_clients()
    assert built(demo, address) == 0
    assert f"built {address}" in capsys.readouterr().out
    assert published(store, address) == expected
    written = [request.path for request in proxy.requests if request.method == "PUT"]
    assert not [path for path in written if "/data/" in path or "/parts/" in path]


def test_a_store_that_fails_is_no_damage_of_the_release(stored, proxy, capsys):
    """The soak found the table of duplicates called damaged; it is read for its digest, and then for its rows."""
    address, _ = stored
    reads = []

    def fails_at_the_second_read(request):
        if request.kind == "GetObject" and request.path.endswith("/pairs.parquet"):
            reads.append(request)
        return 503 if len(reads) > 1 and request is reads[-1] else None

    proxy.fault = fails_at_the_second_read
    assert verify.main([address, "--workers", "1", "--check", "fast"]) == 2
    proxy.fault = None
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "pairs.parquet" in captured.err and "run the same command again" in captured.err


def test_verify_reads_a_release_where_it_lies(stored, store, capsys, tmp_path):
    address, _ = stored
    assert verify.main([address, "--workers", "2"]) == 0
    assert f"{address} is whole: 3 splits, 520 rows, 9 files" in capsys.readouterr().out
    copy, client = store.copy(address), store.client
    data = client.cat_file(f"{copy[5:]}/data/cifar/test-00000-of-00001.parquet")
    client.pipe_file(f"{copy[5:]}/data/cifar/test-00000-of-00001.parquet", data[:-2000] + b"x" + data[-1999:])
    client.rm_file(f"{copy[5:]}/excluded/cifar.csv")
    strays = ("data/stray.parquet", ".huggingface.yaml", "more/x.parquet", "data/cifar/.x")
    for name in strays:
        client.pipe_file(f"{copy[5:]}/{name}", b"x")
    assert verify.main([copy, "--workers", "1", "--check", "fast"]) == 1
    printed = capsys.readouterr().out
    assert "data/cifar/test-00000-of-00001.parquet: has the SHA-256" in printed
    assert "excluded/cifar.csv: the file is missing" in printed
    for name in strays:
        assert f"{name}: manifest.json does not list this file" in printed


def test_a_published_index_is_materialized_from_one_store_into_another(stored, store, demo, expected, tmp_path):
    address, _ = stored
    flags = [address, *flags_of(demo, "svhn"), "--splits", *SVHN, "--workers", "1", "--quiet"]
    out = f"s3://{store.bucket()}"  # a whole bucket
    assert materialize.main([*flags, "--out", out]) == 0
    assert materialize.main([*flags, "--out", str(tmp_path / "out")]) == 0
    objects = published(store, out)
    assert objects == files_of(tmp_path / "out")
    assert objects[SHARD] == expected[SHARD]


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # aiohttp's, of what gcsfs sends
def test_googles_storage_holds_the_same(google, demo, expected_svhn, tmp_path, capsys):
    """Built, built again, verified and materialized from there."""
    address = f"gs://{google.bucket()}/release"
    for _ in range(2):
        assert built(demo, address, splits=SVHN) == 0
    assert published(google, address) == expected_svhn
    assert verify.main([address, "--workers", "1"]) == 0
    assert f"{address} is whole: 1 split, 200 rows, 4 files" in capsys.readouterr().out
    flags = [address, *flags_of(demo, "svhn"), "--splits", *SVHN, "--workers", "1", "--quiet"]
    assert materialize.main([*flags, "--out", str(tmp_path / "out")]) == 0
    assert files_of(tmp_path / "out")[SHARD] == expected_svhn[SHARD]


def test_reports_cards_audits_and_exports_read_it(stored, store, tmp_path, capsys):
    address, _ = stored
    assert card.main([address, "--check"]) == 0
    assert report([address, "--out", str(tmp_path / "page.html")]) == 0
    assert "cifar/test" in (tmp_path / "page.html").read_text(encoding="utf-8")
    flags = ["--format", "imagefolder", "--out", str(tmp_path / "images"), "--splits", "cifar/far_ood_svhn", "--quiet"]
    assert export.main([address, *flags]) == 0
    assert len(list((tmp_path / "images").rglob("*.png"))) == 200
    copy = store.copy(address)
    capsys.readouterr()
    assert audit(["duplicates", copy, "--exact", "--workers", "1"]) == 0
    assert audit(["sheet", copy, "--splits", "cifar/test"]) == 0
    assert verify.main([copy, "--workers", "1", "--check", "fast"]) == 0
    assert json.loads(published(store, copy)["manifest.json"])["audits"].keys() == {"duplicates", "cifar/sheet"}


def test_what_takes_a_folder_says_so(stored, tmp_path, capsys):
    address, _ = stored
    for command, flags in (
        (push.main, [address, "--repo", "org/name", "--tag", "v1.0.0"]),
        (export.main, [str(tmp_path), "--format", "imagefolder", "--out", "s3://bucket/x"]),
        (report, [str(tmp_path), "--out", "s3://bucket/x"]),
        (report, [address]),
    ):
        assert command(flags) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
    assert not (Path.cwd() / "s3:").exists()


def test_no_image_is_unpacked_for_a_store_where_no_pack_has_room(store, demo, monkeypatch, capsys):
    address = f"s3://{store.bucket()}/release"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9 - 1000, 1000))
    assert built(demo, address) == 2
    assert_sentence(capsys.readouterr().err, "1,000", "TMPDIR")
    assert not [name for name in store.files(address.removeprefix("s3://")) if name.endswith(".pack")]


@pytest.mark.slow
def test_a_killed_build_is_resumed_by_another_process(store, demo, expected, proxy, tmp_path):
    """SIGKILL at the first upload of a second shard, and again when the card is sent."""
    address = f"s3://{store.bucket()}/release"
    sources = flags_of(demo, "cifar100", "svhn")
    command = [sys.executable, "-c", MAIN, *sources, "--out", address, "--splits", ",".join(SPLITS), *FLAGS]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "UNKNOWN_DETECTION_NO_SYNC": "1"}
    running = []

    def kill_at(path, nth):
        seen = []

        def fault(request):
            if request.method == "PUT" and path in request.path:
                seen.append(request.path)
                if len(set(seen)) == nth:
                    os.killpg(running[-1].pid, signal.SIGKILL)
                    return NO_ANSWER
            return None

        return fault

    for path, nth in (("/release/data/", 2), ("/release/README.md", 1)):
        proxy.fault = kill_at(path, nth)
        options = {"cwd": ROOT, "env": environment, "start_new_session": True, "stderr": subprocess.DEVNULL}
        running.append(subprocess.Popen(command, **options))
        assert running[-1].wait(120) == -signal.SIGKILL
        assert "manifest.json" not in published(store, address)
        for name, data in published(store, address).items():
            assert data == expected[name], f"{name} is not whole"
    proxy.fault = None
    proxy.requests.clear()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert published(store, address) == expected
    assert not [r for r in proxy.requests if r.method == "PUT" and "/data/" in r.path]  # which were all finished
    assert not list(tmp_path.glob("unknown-detection-upload-*"))  # what killed processes left was swept


class _Held:
    """Holds the first request that writes each of some files until the test lets it go on."""

    def __init__(self, *names):
        self.due = {name: (threading.Event(), threading.Event()) for name in names}

    def __call__(self, request):
        for name, (arrived, go) in self.due.items():
            if request.method == "PUT" and request.path.endswith(name) and not arrived.is_set():
                arrived.set()
                assert go.wait(200)

    def meanwhile(self, name, work):
        arrived, go = self.due[name]
        assert arrived.wait(200)
        work()
        go.set()


def test_builds_of_different_splits_at_the_same_time_lose_nothing(store, demo, expected, proxy, monkeypatch):
    """One run is held before it writes what others write, too, and others write it meanwhile, past the proxy."""
    address = f"s3://{store.bucket()}/release"
    forget_clients()
    shared = (".state/cifar.json", "excluded/cifar.csv", "manifest.json")
    held = proxy.fault = _Held(*shared)
    sources = flags_of(demo, "cifar100", "svhn")
    command = [sys.executable, "-c", MAIN, *sources, "--out", address, "--splits", SPLITS[0], *FLAGS]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as first:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        forget_clients()

        def exclude():
            line = b"split,source,partition,class_id,class_name,image,images,rule,evidence\n" + (
                b"cifar/far_ood_svhn,svhn,test,,,theirs,1,unreadable,written by another run\n"
            )
            store.client.pipe_file(f"{address[5:]}/excluded/cifar.csv", line)

        def build(split):
            assert built(demo, address, splits=[split]) == 0

        held.meanwhile(shared[0], lambda: build(SPLITS[2]))
        held.meanwhile(shared[1], exclude)
        held.meanwhile(shared[2], lambda: build(SPLITS[1]))
        _, error = first.communicate(timeout=200)
    assert first.returncode == 0, error
    assert published(store, address) == expected
    refused = {name for name in shared for r in proxy.requests if r.path.endswith(name) and r.status == 412}
    assert refused == set(shared)


def test_a_store_that_is_busy_and_cuts_connections_is_asked_again(store, demo, expected_svhn, proxy):
    address = f"s3://{store.bucket()}/release"
    forget_clients()
    faults = [503, CUT, NO_ANSWER]
    count = iter(range(10**9))

    def fault(request):
        number = next(count)
        return faults[number // 10 % 3] if number % 10 == 9 else None

    proxy.fault = fault
    assert built(demo, address, splits=SVHN) == 0
    assert published(store, address) == expected_svhn
    assert len([r for r in proxy.requests if r.status == 503]) > 1


def test_what_a_store_refuses_is_a_sentence_in_the_first_seconds(store, demo, proxy, capsys, monkeypatch):
    forget_clients()
    bucket = store.bucket()
    capsys.readouterr()

    def said(address, *more):
        assert built(demo, address, *more) == 2
        lines = capsys.readouterr().err.splitlines()
        assert lines[-1].startswith("error: ")
        assert len(lines) == 1  # before anything was planned
        assert SECRET not in lines[-1]
        return lines[-1]

    assert "there is no such bucket" in said("s3://no-such-bucket-anywhere/x")
    client = store.client
    client.pipe_file(f"{bucket}/mine/notes.txt", b"x")
    assert "has files that are not a release's" in said(f"s3://{bucket}/mine")
    proxy.fault = lambda request: 403
    assert "the store refused these credentials (403)" in said(f"s3://{bucket}/x")
    proxy.fault = lambda request: 503
    assert said(f"s3://{bucket}/x").endswith("and run the same command again; it resumes.")
    proxy.fault = None
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    forget_clients()
    assert "no credentials were found" in said(f"s3://{bucket}/x")
    assert client.find(bucket) == [f"{bucket}/mine/notes.txt"]


@pytest.mark.slow
def test_a_refusal_in_the_middle_loses_nothing(store, demo, expected, proxy, capsys):
    """Credentials that may read, and write all but the manifest."""
    address = f"s3://{store.bucket()}/release"
    forget_clients()
    denied = lambda request: 403 if request.method == "PUT" and request.path.endswith("manifest.json") else None  # noqa: E731
    proxy.fault = denied
    assert built(demo, address) == 2
    assert "the store refused these credentials (AccessDenied)" in capsys.readouterr().err
    assert "manifest.json" not in published(store, address)
    proxy.fault = None
    assert built(demo, address) == 0
    assert published(store, address) == expected


@needs_ray
def test_nodes_of_a_cluster_need_no_shared_folder_for_the_release(store, demo, expected):
    from builders.executors.ray import RayExecutor

    address = f"s3://{store.bucket()}/release"
    with start_cluster(store.environment(), num_cpus=2) as cluster:
        executor = RayExecutor(cluster.address)
        build_demo(demo, as_path(address), benchmark=BENCHMARK, splits=SPLITS, executor=executor)
    assert published(store, address) == expected


def test_any_filesystem_of_fsspec_does(demo, expected_svhn, tmp_path):
    """fsspec's own filesystem of this machine, which knows neither buckets, nor conditions, nor uploads in parts."""
    pytest.importorskip("upath")
    address = f"local://{tmp_path}/release"
    assert built(demo, address, splits=SVHN) == 0
    assert files_of(tmp_path / "release") == expected_svhn
    assert verify.main([address, "--workers", "1", "--check", "fast"]) == 0
    shutil.rmtree(tmp_path / "release" / "data")
    assert built(demo, address, splits=SVHN) == 0
    assert files_of(tmp_path / "release") == expected_svhn
