import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from tests.builders.facets_layouts import svhn_full_archives
from tests.builders.trees import contents, opened, refusal, write_tar


def test_sizes_in_an_archive_are_known_before_it_is_unpacked(demo, tmp_path):
    index = opened("svhn_full", svhn_full_archives(demo["svhn_full"], tmp_path))
    sizes = dict(zip(index.table["source_id"].to_pylist(), index.table["size"].to_pylist(), strict=True))
    assert sizes == {name: (demo["svhn_full"] / name).stat().st_size for name in sizes}


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_an_archive_with_more_in_it(tmp_path, ending):
    files = {
        "./test/2.png": b"2",
        "test/1.png": b"1",
        "test/notes.txt": b"",
        "1.png": b"",
        "test/digitStruct.mat": b"",
    }
    write_tar(tmp_path / f"test.{ending}", files)
    index = open_source(SOURCES["svhn_full"], tmp_path, ("test",))
    assert contents(index) == {("test", "number", "test/2.png"): b"2", ("test", "number", "test/1.png"): b"1"}
    assert [stray.path for stray in index.partitions[0].strays] == [
        f"test.{ending}:1.png",
        f"test.{ending}:test/notes.txt",
    ]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"train/1.png": b""}, "has no images like test/<number>.png. Give a copy"),
        ({"test/1.jpg": b""}, "has no images like test/<number>.png. Give a copy"),
    ],
)
def test_an_archive_of_another_dataset(tmp_path, files, words):
    write_tar(tmp_path / "test.tar.gz", files)
    assert words in refusal("svhn_full", tmp_path, "test")


def write(path, names, **columns):
    rows = [{"bytes": b"", "path": name} for name in names]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"image": rows} | columns), path)


DIGITS = [{"bbox": [[1, 2, 3, 4]], "label": [7]}] * 2


@pytest.mark.parametrize(
    ("names", "columns", "words"),
    [
        (["1.png", "2.png"], {"label": [1, 2]}, "lacks the columns image (bytes, path) and digits"),
        (["1.png", None], {"digits": DIGITS}, "image.path has no file name (row 1 of"),
        (["1.png", "house.png"], {"digits": DIGITS}, "the file name house.png is not like <number>.png (row 1 of"),
    ],
)
def test_mirror(tmp_path, names, columns, words):
    write(tmp_path / "data" / "test-00000-of-00001.parquet", names, **columns)
    assert words in refusal("svhn_full", tmp_path, "test")


def test_names_in_the_mirror_may_keep_their_folder(tmp_path):
    write(tmp_path / "test-00000-of-00001.parquet", ["test/2.png", "1.png"], digits=DIGITS)
    index = open_source(SOURCES["svhn_full"], tmp_path, ("test",))
    assert index.table["source_id"].to_pylist() == ["test/2.png", "test/1.png"]
