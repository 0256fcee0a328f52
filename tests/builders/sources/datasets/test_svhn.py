import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io

from builders.errors import BuildError
from builders.sources.formats import matlab
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from builders.sources.unpack import UNPACKERS
from tests.builders.trees import contents, opened, refusal, write_parquet
from tests.fuzz.harness import run_cases

PIXELS = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 6), dtype=np.uint8)
LABELS = np.array([[1], [10], [9], [10], [5], [1]], dtype=np.uint8)


def write(root, compressed=True, **variables):
    path = root / "test_32x32.mat"
    values = {"X": PIXELS, "y": LABELS} | variables
    scipy.io.savemat(
        path, {name: value for name, value in values.items() if value is not None}, do_compression=compressed
    )
    return path


def test_pixels_ids_and_classes_are_those_of_scipy(demo):
    images = contents(opened("svhn", demo["svhn"]))
    for partition, count in (("train", 100), ("test", 200)):
        mat = scipy.io.loadmat(demo["svhn"] / f"{partition}_32x32.mat")
        for place in range(count):
            digit = str(mat["y"][place, 0] % 10)
            assert images.pop((partition, digit, f"{partition}/{place:05d}")) == mat["X"][..., place].tobytes()
    assert images == {}


def test_the_index_does_not_decompress_the_images(tmp_path):
    """With compressed images overwritten, the labels behind them still come out; only unpacking fails."""
    images = np.random.default_rng(1).integers(0, 256, (32, 32, 3, 200), dtype=np.uint8)  # noise does not compress
    path = write(tmp_path, X=images, y=np.ones((200, 1), np.uint8))
    data = bytearray(path.read_bytes())
    data[300_000:400_000] = bytes(100_000)
    path.write_bytes(data)
    assert open_source(SOURCES["svhn"], tmp_path, ("test",)).table.num_rows == 200
    with pytest.raises(BuildError, match="cannot be read as a MATLAB 5 file"):
        list(UNPACKERS["mat"](path, np.arange(200)))


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"X": None}, "(found: y (uint8 6 x 1))"),
        ({"y": None}, "(found: X (uint8 32 x 32 x 3 x 6))"),
        ({"X": None, "y": None, "digitStruct": np.zeros(3)}, "(found: digitStruct (double 1 x 3))"),
        ({"X": PIXELS.astype(float)}, "(found: X (double 32 x 32 x 3 x 6)"),
        ({"X": PIXELS[:28, :28]}, "(found: X (uint8 28 x 28 x 3 x 6)"),
        ({"X": PIXELS[..., 0]}, "(found: X (uint8 32 x 32 x 3)"),
        ({"X": np.moveaxis(PIXELS, 3, 0)}, "(found: X (uint8 6 x 32 x 32 x 3)"),
        ({"X": PIXELS[..., :5]}, "has no 5 x 1 integers y, one for each image in X, but uint8 6 x 1"),
        ({"y": LABELS.T}, "has no 6 x 1 integers y, one for each image in X, but uint8 1 x 6"),
        ({"y": LABELS + 0.5}, "but float64 6 x 1"),
        ({"y": LABELS * 0}, "has the label 0 in y"),
        ({"y": LABELS + 1}, "has the label 11 in y"),
        ({"y": {"a": 1}}, "that is not an array of numbers"),
    ],
)
def test_other_variables(tmp_path, variables, words):
    path = write(tmp_path, **variables)
    message = refusal("svhn", tmp_path, "test")
    assert words in message
    assert str(path) in message


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("cut", [0, 130, 10_000, -30])
def test_a_file_cut_short(tmp_path, compressed, cut):
    path = write(tmp_path, compressed)
    path.write_bytes(path.read_bytes()[:cut])
    message = refusal("svhn", tmp_path, "test")
    assert "or is truncated" in message or "cannot be read as a MATLAB 5 file" in message


def test_full_numbers_are_another_format(tmp_path):
    # MATLAB 7.3: a text of 116 bytes, 8 of offset, version 2.0 and the byte order, then HDF5 from byte 512.
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM"
    (tmp_path / "test_32x32.mat").write_bytes(head + bytes(384) + b"\x89HDF\r\n\x1a\n")
    assert "is a MATLAB 7.3 file (HDF5), as the full numbers of format 1" in refusal("svhn", tmp_path, "test")


@pytest.mark.parametrize(
    ("rows", "names", "words"),
    [
        ([(None, 10, b"")], "0123456789", "the label 10 is not from 0 to 9 (row 0 of"),
        ([(None, 0, b"")], "1234567890", "('1' is number 0)"),
        ([(None, 0, b"")], "012345678", "(None is number 9)"),
    ],
)
def test_mirror(tmp_path, rows, names, words):
    write_parquet(tmp_path / "test-00000-of-00001.parquet", rows, names)
    assert words in refusal("svhn", tmp_path, "test")


def test_the_mirrors_full_numbers(tmp_path):
    """Their folder has the same file names; their column of digits is no label."""
    table = pa.table({"image": [{"bytes": b"", "path": None}], "digits": [[{"bbox": [1, 2, 3, 4], "label": 1}]]})
    pq.write_table(table, tmp_path / "test-00000-of-00001.parquet")
    assert "and label (numbers) (found: image, digits)" in refusal("svhn", tmp_path, "test")


def test_counts_by_digit_are_the_published_ones():
    test = SOURCES["svhn"].expected()["test"].per_class
    # The owner's page has 26,032 in all; the counts by digit from several public repositories (1 first, 0 last).
    assert [test[digit] for digit in "1234567890"] == [5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595, 1744]


@pytest.mark.parametrize("compressed", [False, True])
def test_values_of_every_kind_are_those_of_scipy(compressed):
    random = np.random.default_rng(3)
    kinds = [np.dtype(code) for code in ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")]
    values = {f"a_{kind.name}": random.integers(0, 100, (4, 3, 2)).astype(kind) for kind in kinds}
    values |= {"small": np.array([[7]], np.uint8), "empty": np.zeros((0, 3))}
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, values, do_compression=compressed)
    read_values = {name: matlab.read_variable(buffer, name) for name in values}
    expected = scipy.io.loadmat(io.BytesIO(buffer.getvalue()))
    assert [variable[:2] for variable in matlab.list_variables(buffer)] == [
        (name, kind) for name, _, kind in scipy.io.whosmat(io.BytesIO(buffer.getvalue()))
    ]
    for name, value in read_values.items():
        assert np.array_equal(expected[name], value), name
        assert value.dtype == expected[name].dtype
    assert matlab.read_variable(buffer, "none") is None


def test_hostile_files_are_refused_in_time_and_memory():
    """In a child with limits: scipy's reader took gigabytes for some of these and died of others."""
    outcomes = run_cases("tests.fuzz.targets.arrays:svhn")
    assert {name: outcome for name, outcome in outcomes.items() if outcome.kind != "refused"} == {}
    words = {
        "of HDF5": "HDF5",
        "of bytes said to be four gigabytes": "it is cut short, or a length in it is wrong",
        "of many cells": "(found: synsets (cell 32,768 x 32,768))",
        "of a name of control characters": r"(found: \x1b[2J\n (uint8 1 x 1))",
        "of a bomb in y": "has an element of 629,145,656 bytes",
    }
    for name, reason in words.items():
        assert reason in outcomes[name].message, (name, outcomes[name].message)
