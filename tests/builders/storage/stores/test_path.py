import pickle
from pathlib import Path

import pytest

from builders.errors import BuildError
from builders.storage.files import atomic_path, read_regular, require_regular, require_room, write_text
from builders.storage.folders import files_below
from builders.storage.object_path import ObjectPath
from builders.storage.paths import as_path, inside
from tests.sentences import stops
from tests.store.fixtures import forget_clients


@pytest.fixture
def root(store):
    return as_path(f"s3://{store.bucket()}/some/release")


@pytest.fixture(params=["s3", "gs"])
def place(request):
    """A folder in each kind of store, and the store."""
    store = request.getfixturevalue("store" if request.param == "s3" else "google")
    return as_path(f"{request.param}://{store.bucket()}/some/release"), store


def files(place):
    root, store = place
    return store.files(str(root).partition("://")[2])


def test_paths_are_put_together_and_taken_apart_as_those_of_this_machine(root):
    path = root / "data/cifar10/test-00000-of-00001.parquet"
    assert isinstance(path, ObjectPath)
    assert as_path(str(path)) == path
    assert str(path) == f"{root}/data/cifar10/test-00000-of-00001.parquet"
    assert (path.name, path.suffix, path.stem) == ("test-00000-of-00001.parquet", ".parquet", "test-00000-of-00001")
    assert path.parent.parent.parent == root
    assert path.relative_to(root).as_posix() == "data/cifar10/test-00000-of-00001.parquet"
    assert path.with_suffix(".npy").name == "test-00000-of-00001.npy"
    assert path.with_name("x").parent == path.parent
    assert pickle.loads(pickle.dumps(path)) == path
    assert hash(pickle.loads(pickle.dumps(path))) == hash(path)
    assert sorted([root / "b", root / "a"]) == [root / "a", root / "b"]
    assert not hasattr(path, "__fspath__")
    assert Path("/a") / path == path.expanduser() == path  # an address is absolute


def test_a_file_is_written_whole_and_read_back(place):
    root, _ = place
    path = root / "data/x.txt"
    assert not path.exists()
    assert not path.is_file()
    for read in (type(path).read_bytes, read_regular):
        with pytest.raises(FileNotFoundError):
            read(path)
    with stops(BuildError):
        require_regular(path)
    write_text(path, "ä\n")
    assert path.read_text(encoding="utf-8") == "ä\n"
    assert path.stat().st_size == 3
    assert (path.is_file(), path.is_dir()) == (True, False)
    assert ((root / "data").is_file(), (root / "data").is_dir()) == (False, True)
    require_regular(path)
    assert read_regular(path) == "ä\n".encode()
    with pytest.raises(OSError, match="more than 2 bytes"):
        read_regular(path, 2)
    with path.open("rb") as opened:
        opened.seek(1)
        assert opened.read() == "ä\n".encode()[1:]
    path.unlink()
    path.unlink(missing_ok=True)
    assert files(place) == {}


def test_nothing_is_written_where_the_block_fails(place, monkeypatch, tmp_path):
    root, _ = place
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(ZeroDivisionError), atomic_path(root / "x") as temporary:
        temporary.write_bytes(b"half")
        1 / 0  # noqa: B018
    assert files(place) == {}
    assert list(tmp_path.iterdir()) == []


def test_listings_are_sorted(place):
    root, _ = place
    for name in ("b/2", "a", "b/10", "b/c/1"):
        write_text(root / name, name)
    assert [path.name for path in root.iterdir()] == ["a", "b"]
    assert list(files_below(root)) == ["a", "b/10", "b/2", "b/c/1"]
    assert [path.name for path in (root / "b").glob("?")] == ["2", "c"]
    assert [(path.name, size) for path, size in (root / "b").files()] == [("10", 4), ("2", 3), ("1", 5)]
    assert list((root / "nothing").iterdir()) == []
    assert (root / "nothing").files() == []


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # aiohttp's, of what gcsfs sends
def test_a_large_file_in_googles_storage(google):
    """Which gcsfs sends in parts of its own; ranges are read as from S3."""
    path, data = as_path(f"gs://{google.bucket()}/large"), bytes(range(256)) * (160 << 10)
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)
    assert path.read_bytes() == data
    assert path.read_end(300) == data[-300:]
    with path.open_ranges() as opened:
        opened.seek(20 << 20)
        assert opened.read(300) == data[20 << 20 :][:300]


def test_a_large_file_is_sent_in_parts_and_read_by_ranges(root, proxy):
    forget_clients()
    path, data = as_path(f"{root}/large"), bytes(range(256)) * (160 << 10)
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)
    sent = proxy.kinds()
    assert (sent["CreateMultipartUpload"], sent["UploadPart"], sent["CompleteMultipartUpload"]) == (1, 3, 1)
    proxy.requests.clear()
    with path.open_ranges() as opened:
        opened.seek(20 << 20)
        assert opened.read(300) == data[20 << 20 :][:300]
        assert opened.read(3) == data[(20 << 20) + 300 :][:3]  # which was read ahead
    assert proxy.kinds() == {"HeadObject": 1, "GetObject": 1}
    assert proxy.requests[-1].received == 300 + (1 << 20)


def test_a_failed_upload_is_given_up(root, proxy, store):
    forget_clients()
    path = as_path(f"{root}/large")
    proxy.fault = lambda request: 403 if request.kind == "UploadPart" else None
    with stops(BuildError), atomic_path(path) as temporary:
        temporary.write_bytes(bytes(40 << 20))
    assert proxy.kinds()["AbortMultipartUpload"] == 1
    assert store.uploads(str(root).split("/")[2]) == []
    assert store.files(str(root).removeprefix("s3://")) == {}


def test_files_for_a_store_need_the_room_of_the_largest_here(root, tmp_path, monkeypatch):
    """Each is written into the folder for temporary files, sent and removed; on this machine all of them stay."""
    monkeypatch.setattr("builders.storage.files.free_bytes", lambda _: 10)
    require_room(root, [10, 9])
    require_room(root, [])
    with pytest.raises(BuildError, match=r"needs 11 bytes, and .* has 10 left\. .*: set TMPDIR to a folder"):
        require_room(root, [3, 11])
    require_room(tmp_path, [6, 4])
    with pytest.raises(BuildError, match=r"needs 11 bytes, and .* has 10 left\. Free some"):
        require_room(tmp_path, [6, 5])


def test_a_path_that_leads_out_is_refused(root):
    for path in ("../x", "a/../../x", "/x", "a//b", ".", "", "a/\x1b"):
        with stops(BuildError):
            inside(root, path)
    assert inside(root, "data/a.parquet") == root / "data/a.parquet"
