import pytest

from builders.storage.files import replace_unless_changed, write_text
from builders.storage.paths import as_path
from builders.storage.stores.errors import ChangedMeanwhileError
from tests.sentences import stops
from tests.store.fixtures import forget_clients
from tests.store.proxy import NO_ANSWER


@pytest.fixture(params=["s3", "local"])
def path(request, store, tmp_path):
    """A file that is not there, in S3, and in a filesystem of fsspec that has no conditions."""
    return as_path(f"s3://{store.bucket()}/a/b" if request.param == "s3" else f"local://{tmp_path}/a/b")


def replace(path, data, was, meanwhile=lambda: None):
    """Replace a file whose content was read, and do something between that and the write."""

    def is_read(content):
        assert content == was
        meanwhile()
        return True

    replace_unless_changed(path, data, is_read)


def test_what_nobody_changed_is_replaced(path):
    replace(path, b"1", None)
    replace(path, b"22", b"1")
    assert path.read_bytes() == b"22"


def test_a_change_of_somebody_else_is_kept(path):
    with stops(ChangedMeanwhileError, "/a/b"):
        replace(path, b"mine", None, lambda: write_text(path, "theirs"))
    assert path.read_bytes() == b"theirs"
    with pytest.raises(ChangedMeanwhileError):
        replace_unless_changed(path, b"mine", lambda content: content is None)
    with pytest.raises(ChangedMeanwhileError):
        replace(path, b"mine", b"theirs", lambda: write_text(path, "theirs, too"))
    with pytest.raises(ChangedMeanwhileError):
        replace(path, b"mine", b"theirs, too", path.unlink)
    assert not path.exists()


def test_a_large_file_is_replaced_as_carefully(store, proxy):
    forget_clients()
    path, data = as_path(f"s3://{store.bucket()}/a"), bytes(101 << 20)  # which s3fs would send in parts
    replace(path, b"", None)
    with pytest.raises(ChangedMeanwhileError):
        replace(path, data, b"", lambda: write_text(path, "theirs"))
    assert path.read_bytes() == b"theirs"
    replace(path, data, b"theirs")
    assert path.stat().st_size == len(data)
    assert "UploadPart" not in proxy.kinds()


def test_a_write_whose_answer_was_lost_is_no_change_of_somebody_else(store, proxy):
    forget_clients()
    path = as_path(f"s3://{store.bucket()}/a")
    remaining = [NO_ANSWER]
    proxy.fault = lambda request: remaining.pop() if remaining and request.kind == "PutObject" else None
    replace(path, b"mine", None)
    assert path.read_bytes() == b"mine"
    assert proxy.kinds()["PutObject"] == 2  # the second was refused, since the first had come through
