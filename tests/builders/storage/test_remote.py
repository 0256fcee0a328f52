import pytest

from builders.storage.files import write_text
from builders.storage.paths import as_path
from builders.storage.remote import ABSENT, current_version, replace
from builders.storage.stores.errors import ChangedMeanwhileError
from tests.store.fixtures import forget_clients
from tests.store.proxy import NO_ANSWER


@pytest.fixture(params=["s3", "local"])
def path(request, store, tmp_path):
    """A file that is not there, in S3, and in a filesystem of fsspec that has no conditions."""
    return as_path(f"s3://{store.bucket()}/a/b" if request.param == "s3" else f"local://{tmp_path}/a/b")


def test_what_nobody_changed_is_replaced(path):
    assert current_version(path) == ABSENT
    replace(path, b"1", ABSENT)
    first = current_version(path)
    replace(path, b"22", first)
    assert path.read_bytes() == b"22"
    assert current_version(path) != first


def test_a_change_of_somebody_else_is_kept(path):
    before = current_version(path)
    write_text(path, "theirs")
    with pytest.raises(ChangedMeanwhileError, match=r"Another run changed .*/a/b at the same time"):
        replace(path, b"mine", before)
    assert path.read_bytes() == b"theirs"
    before = current_version(path)
    write_text(path, "theirs, too")
    with pytest.raises(ChangedMeanwhileError):
        replace(path, b"mine", before)
    before = current_version(path)
    path.unlink()
    with pytest.raises(ChangedMeanwhileError):
        replace(path, b"mine", before)
    assert not path.exists()


def test_a_large_file_is_replaced_as_carefully(store, proxy):
    forget_clients()
    path, data = as_path(f"s3://{store.bucket()}/a"), bytes(101 << 20)  # which s3fs would send in parts
    replace(path, data, ABSENT)
    before = current_version(path)
    write_text(path, "theirs")
    with pytest.raises(ChangedMeanwhileError):
        replace(path, data, before)
    assert path.read_bytes() == b"theirs"
    assert "UploadPart" not in proxy.kinds()


def test_a_write_whose_answer_was_lost_is_no_change_of_somebody_else(store, proxy):
    forget_clients()
    path = as_path(f"s3://{store.bucket()}/a")
    remaining = [NO_ANSWER]
    proxy.fault = lambda request: remaining.pop() if remaining and request.kind == "PutObject" else None
    replace(path, b"mine", ABSENT)
    assert path.read_bytes() == b"mine"
    assert proxy.kinds()["PutObject"] == 2  # the second was refused, since the first had come through
