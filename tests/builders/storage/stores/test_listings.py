import os

import pytest

from builders.errors import BuildError
from builders.storage import folders
from builders.storage.folders import cached_listings, files_below, folders_in, names_in, names_in_each, sizes_of
from builders.storage.paths import as_path
from builders.storage.stores import listings
from tests.sentences import stops


@pytest.fixture
def root(store):
    """A folder of a bucket with a few files, a folder marker as consoles write it, and other folders beside it."""
    bucket = store.bucket()
    store.put(bucket, {"copy/b/2.jpg": b"22", "copy/b/1.jpg": b"1", "copy/a.txt": b"abc", "copy/b/c/3.jpg": b"333"})
    store.put(bucket, {"copy/": b"", "copy/empty/": b"", "copy 2/other.jpg": b"", "top.txt": b""})
    return as_path(f"s3://{bucket}/copy")


def test_a_look_answers_from_one_listing_of_each_folder(root, proxy):
    with cached_listings(root):
        assert root.is_dir()
        assert not root.is_file()
        assert names_in(root) == ["a.txt", "b", "empty"]
        assert folders_in(root) == ["b", "empty"]
        assert [path.name for path in root.iterdir()] == ["a.txt", "b", "empty"]
        assert [path.name for path in (root / "b").glob("*.jpg")] == ["1.jpg", "2.jpg"]
        assert (root / "a.txt").is_file()
        assert (root / "a.txt").stat().st_size == 3
        assert (root / "b/c").is_dir()
        assert not any((root / "b" / str(number)).exists() for number in range(50))
        assert not (root / "no/such/folder").is_dir()
        assert not list((root / "no").glob("*"))
        assert names_in(root / "empty") == []
        with pytest.raises(FileNotFoundError):
            (root / "b/4.jpg").stat()
        with pytest.raises(NotADirectoryError):
            names_in(root / "a.txt")
        with pytest.raises(FileNotFoundError):
            names_in(root / "no")
    assert proxy.kinds() == {"ListObjectsV2": 3}  # of the folder, b and empty


def test_what_lies_outside_of_the_given_folder_is_not_looked_at(root, proxy):
    with cached_listings(root):
        assert not (root.parent / "top.txt").exists()
        assert not (root.parent / "copy 2").is_dir()
        with pytest.raises(FileNotFoundError):
            names_in(root.parent)
    assert proxy.kinds() == {}
    assert (root.parent / "top.txt").is_file()


def test_no_listing_outlives_its_look(root, store):
    with cached_listings(root) as cache, cached_listings(root) as inner:
        assert inner is cache
        assert not (root / "new.txt").exists()
        store.put(root.path.partition("/")[0], {"copy/new.txt": b"new"})
        assert not (root / "new.txt").exists()
    assert (root / "new.txt").is_file()
    with cached_listings(root):
        assert (root / "new.txt").is_file()
    assert listings.CACHE.get() is None


def test_listings_are_given_back_beyond_a_number_of_names(root, monkeypatch, proxy):
    monkeypatch.setattr(listings, "_MOST_FOLDERS", 2)
    with cached_listings(root):
        for _ in range(3):
            assert (root / "b/c/3.jpg").is_file()
            assert (root / "empty").is_dir()
    assert proxy.kinds()["ListObjectsV2"] > 3


def test_names_are_sorted_whatever_the_order_of_the_pages(root, monkeypatch):
    """S3 sorts names; other stores of its kind (directory buckets of S3 Express) and fsspec's filesystems do not."""
    fs = type(root.fs)
    listed = fs.ls
    monkeypatch.setattr(fs, "ls", lambda self, *args, **how: listed(self, *args, **how)[::-1])
    assert names_in(root) == ["a.txt", "b", "empty"]
    assert list(names_in_each([root / "b", root])) == [["1.jpg", "2.jpg", "c"], ["a.txt", "b", "empty"]]
    assert list(files_below(root)) == ["a.txt", "b/1.jpg", "b/2.jpg", "b/c/3.jpg"]


def test_sizes_come_from_listings_but_those_of_a_few_files(root, store, proxy):
    names = [f"many/{number:04}.jpg" for number in range(1_100)]
    store.put(root.path.partition("/")[0], {f"copy/{name}": b"x" * (place % 7) for place, name in enumerate(names)})
    files = [*reversed(names), "b/2.jpg", "a.txt"]
    assert list(sizes_of(root, files)) == [*reversed([place % 7 for place in range(1_100)]), 2, 3]
    assert proxy.kinds() == {"ListObjectsV2": 2, "HeadObject": 2}
    with pytest.raises(FileNotFoundError) as caught:
        list(sizes_of(root, ["a.txt", "b/4.jpg"]))
    assert caught.value.filename == f"{root}/b/4.jpg"
    with stops(BuildError, "b/c"):
        list(sizes_of(root, ["b/c"]))


def test_a_name_that_is_a_file_and_a_folder_is_a_folder(root, store):
    store.put(root.path.partition("/")[0], {"copy/b": b"also a file"})
    assert listings.list_folder(root) == {"a.txt": 3, "b": listings.FOLDER, "empty": listings.FOLDER}


def test_folders_are_listed_ahead_in_their_order(root):
    folders = [root, root / "b", root / "b/c"]
    assert list(names_in_each(folders)) == [["a.txt", "b", "empty"], ["1.jpg", "2.jpg", "c"], ["3.jpg"]]
    for folder, error in ((root / "no", FileNotFoundError), (root / "a.txt", NotADirectoryError)):
        with pytest.raises(error):
            list(names_in_each([root, folder]))


def test_a_store_that_refuses_is_no_empty_folder(root, proxy):
    proxy.fault = lambda request: 403
    with stops(BuildError), cached_listings(root):
        root.is_dir()
    proxy.fault = lambda request: 403 if request.kind == "ListObjectsV2" else None
    with stops(BuildError):
        list(names_in_each([root, root / "b"]))


def test_a_folder_of_this_machine_is_listed_once_in_a_look_too(tmp_path, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "1.jpg").touch()
    listed = []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: listed.append(folder) or listdir(folder))
    with cached_listings(tmp_path), cached_listings(tmp_path):
        names_in(tmp_path / "a").clear()  # the caller's own
        assert [names_in(tmp_path / "a") for _ in range(3)] == [["1.jpg", "b"]] * 3
        assert [folders_in(tmp_path / "a") for _ in range(3)] == [["b"]] * 3
        with pytest.raises(FileNotFoundError):
            names_in(tmp_path / "none")
    assert len(listed) == 2
    assert names_in(tmp_path / "a") == ["1.jpg", "b"]
    assert len(listed) == 3, "no listing outlives its look"
    monkeypatch.setattr(folders, "_MOST_NAMES", 1)
    with cached_listings(tmp_path):
        assert [names_in(tmp_path / "a") for _ in range(2)] == [["1.jpg", "b"]] * 2
    assert len(listed) == 5
