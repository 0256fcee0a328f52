"""Parquet files of Hub mirrors that are not what `datasets` writes: variants are read, the rest is refused."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from builders.errors import BuildError
from builders.sources.opening import open_source
from builders.sources.readers import parquet
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders.sources.readers import thrift
from tests.builders.trees import contents, refusal
from tests.sentences import assert_sentence, stops

NAME = "train-00000-of-00001.parquet"
CLASSES = list(tables.food101())
FEATURES = {"info": {"features": {"label": {"names": CLASSES, "_type": "ClassLabel"}}}}


def images(of_bytes=pa.binary(), of_path=pa.string(), values=((b"one", "1.jpg"), (b"two", "2.jpg"))):  # noqa: B008
    """A column of images, its fields of the given types."""
    content, paths = (list(column) for column in zip(*values, strict=True))
    fields = [pa.array(content, of_bytes), pa.array(paths, pa.string()).cast(of_path)]
    return pa.StructArray.from_arrays(fields, names=["bytes", "path"])


def write(root, image=None, label=(0, 1), metadata=FEATURES, **options):
    """Write a mirror's only file; metadata as bytes are written as they are."""
    written = metadata if isinstance(metadata, bytes) else json.dumps(metadata)
    columns = {"image": images() if image is None else image, "label": pa.array(label)}
    table = pa.table(columns).replace_schema_metadata({"huggingface": written})
    pq.write_table(table, root / NAME, **options)
    return root / NAME


@pytest.mark.parametrize(
    "of_path",
    [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.string()],
    ids=str,
)
@pytest.mark.parametrize("of_bytes", [pa.large_binary(), pa.binary_view(), pa.binary()], ids=str)
def test_faithful_variants_are_read_as_the_same_images(tmp_path, of_path, of_bytes):
    write(tmp_path, images(of_bytes, of_path), pa.array([0, 100], pa.uint64()))
    read_images = contents(open_source(SOURCES["food101"], tmp_path, ("images",)))
    assert read_images == {
        ("images", "apple_pie", "apple_pie/1.jpg"): b"one",
        ("images", "waffles", "waffles/2.jpg"): b"two",
    }


def test_a_column_of_file_names_may_be_of_any_type_of_text(tmp_path):
    names = pa.array(["banded_0002.jpg", "zigzagged_0001.jpg"], pa.string_view())
    image = images(values=[(b"x", None), (b"y", None)])
    pq.write_table(pa.table({"image": image, "filename": names}), tmp_path / NAME)
    table = open_source(SOURCES["dtd"], tmp_path, ("images",)).table
    assert table["source_id"].to_pylist() == ["banded/banded_0002.jpg", "zigzagged/zigzagged_0001.jpg"]


LACKS = "lacks the columns image (bytes, path) and label (numbers)"


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (pa.array([{"bytes": b"", "path": 1}]), f"{LACKS} (found: image (struct<bytes: binary, path: int64>), label)"),
        (pa.array([{"bytes": "x", "path": "1.jpg"}]), f"{LACKS} (found: image (struct<bytes: string, path: string>)"),
        (pa.array([b"x"]), f"{LACKS} (found: image (binary), label)"),
        (
            pa.StructArray.from_arrays([pa.array([b"x"]), *[pa.array(["1.jpg"])] * 2], ["bytes", "path", "path"]),
            "cannot be read as Parquet",
        ),
        (images(values=[(b"", "1.jpg\n\x1b[2J")]), "the file name apple_pie/1.jpg\\n\\x1b[2J is not like"),
        (images(values=[(b"", "a" * 5000)]), "it has a file name of 5,000 bytes"),
        (pa.array([{"bytes": b"", "path": None}]), "holds images without file names"),
    ],
)
def test_images_of_other_types_are_refused(tmp_path, image, words):
    path = write(tmp_path, image, [0])
    assert words.format(path=path) in refusal("food101", tmp_path)


def test_a_file_name_that_is_not_utf8(tmp_path):
    invalid = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\6\0\0\0"), pa.py_buffer(b"\xff1.jpg"))
    path = write(tmp_path, pa.StructArray.from_arrays([pa.array([b""]), invalid], ["bytes", "path"]), [0])
    assert f"{path} cannot be read as Parquet (a file name in image.path is not UTF-8)" in refusal("food101", tmp_path)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (pa.array([2**63], pa.uint64()), "cannot be read as Parquet (Integer value 9223372036854775808"),
        ([-1], "the label -1 has no name (row 0 of"),
        ([101], "the label 101 has no name (row 0 of"),
        (pa.array([None], pa.int64()), "the label None has no name (row 0 of"),
        (["apple_pie"], LACKS),
    ],
)
def test_labels_that_number_no_class(tmp_path, label, words):
    write(tmp_path, images(values=[(b"", "1.jpg")]), label)
    assert words in refusal("food101", tmp_path)


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"info": ' * 100_000,
        b'{"info": %s}' % (b"9" * 5000),
        b"3",
        [FEATURES],
        {"info": {"features": [1]}},
        {"info": {"features": {"label": "ClassLabel"}}},
        {"info": {"features": {"label": {"names": 101}}}},
        {"info": {"features": {"label": {"names": {"0": "apple_pie"}}}}},
        {"info": {"features": {"label": {"names": ["apple_pie", 1]}}}},
        b'{"info": {"features": {"label": {"names": ["\\ud800"]}}}}',
    ],
    ids=lambda value: str(value)[:20],
)
def test_metadata_of_any_shape(tmp_path, metadata):
    path = write(tmp_path, metadata=metadata)
    assert f"the metadata `huggingface` of {path} " in refusal("food101", tmp_path)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"info": None},
        {"info": []},
        {"info": {"features": None}},
        {"info": {"features": {}}},
        {"info": {"features": {"label": {"names": []}}}},
    ],
    ids=str,
)
def test_metadata_without_names_of_labels(tmp_path, metadata):
    write(tmp_path, metadata=metadata)
    assert "has label numbers without names" in refusal("food101", tmp_path)


def test_a_name_of_a_label_is_shown_on_one_short_line(tmp_path):
    write(tmp_path, metadata={"info": {"features": {"label": {"names": ["\x1b[2J\n" + "a" * 10_000]}}}})
    message = refusal("food101", tmp_path)
    assert_sentence(message, "\\x1b[2J\\naaa")
    assert len(message) < 1000


@pytest.mark.parametrize("repeated", ["image", "label"])
def test_columns_named_twice(tmp_path, repeated):
    columns = {"image": images(), "label": pa.array([0, 1])}
    table = pa.Table.from_arrays([*columns.values(), columns[repeated]], names=[*columns, repeated])
    pq.write_table(table, tmp_path / NAME)
    words = f"{tmp_path / NAME} cannot be read as Parquet (it has several columns named {repeated})"
    assert words in refusal("food101", tmp_path)


def test_a_file_without_row_groups_has_no_images(tmp_path):
    path = write(tmp_path, images().slice(0, 0), pa.array([], pa.int64()))
    assert pq.read_metadata(path).num_row_groups <= 1
    pq.ParquetWriter(path, pq.read_schema(path)).close()
    assert pq.read_metadata(path).num_row_groups == 0
    assert len(parquet.read_shard("A mirror", path).names) == 0
    assert "the partition images (101,000 images) is not in" in refusal("food101", tmp_path)


class _Kms(pe.KmsClient):
    def wrap_key(self, key, name):
        return key.hex()

    def unwrap_key(self, key, name):
        return bytes.fromhex(key)


@pytest.mark.parametrize("plaintext", [False, True], ids=["footer too", "columns"])
def test_encrypted_files(tmp_path, plaintext):
    path = write(tmp_path)
    table = pq.read_table(path)
    columns = ["image.bytes", "image.path", "label"]
    configuration = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": columns}, plaintext_footer=plaintext)
    factory = pe.CryptoFactory(lambda _: _Kms())
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), configuration)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    assert f"{path} cannot be read as Parquet (C" in refusal("food101", tmp_path)


ROWS, GROUPS = 3, 4  # fields of FileMetaData
COUNT = 3  # field of RowGroup


@pytest.mark.parametrize("rows", [-1, 3, 2**30, 2**62])
@pytest.mark.parametrize("places", [("all",), ("group",), ("all", "group")], ids=" and ".join)
def test_absurd_row_counts_are_refused_before_memory_is_reserved_for_them(tmp_path, rows, places):
    path = write(tmp_path)
    data = path.read_bytes()
    footer = thrift.footer(data)
    assert footer[ROWS] == (thrift.I64, 2)
    if "all" in places:
        footer[ROWS] = (thrift.I64, rows)
    if "group" in places:
        footer[GROUPS][1][1][0][COUNT] = (thrift.I64, rows)
    path.write_bytes(thrift.with_footer(data, footer))
    assert f"{path} cannot be read as Parquet (" in refusal("food101", tmp_path)


def test_one_long_name_that_a_short_file_repeats_is_not_spread_out(tmp_path):
    """20,000 times 200 kB: 4 GB as an array, a page of 200 kB as a dictionary of one value."""
    count = 20_000
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array(["a" * 200_000]))
    image = images(values=[(b"%d" % number, "1.jpg") for number in range(count)])
    table = pa.table({"image": image, "filename": names})
    pq.write_table(table, tmp_path / NAME, compression="zstd")
    assert (tmp_path / NAME).stat().st_size < 10**6
    before = pa.default_memory_pool().max_memory()
    assert "it has a file name of 200,000 bytes" in refusal("dtd", tmp_path)
    assert pa.default_memory_pool().max_memory() - before < 2**29


@pytest.mark.timeout(20)
def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / NAME)
    assert f"{tmp_path / NAME} is a named pipe" in refusal("food101", tmp_path)


def test_images_of_some_rows_come_in_order_whatever_the_row_groups(tmp_path):
    values = [(b"image %d" % number, f"{number}.jpg") for number in range(300)]
    path = write(tmp_path, images(values=values), [0] * 300, row_group_size=130)
    rows = np.array([0, 63, 64, 129, 130, 131, 299])
    unpacked = [bytes(image) for batch in parquet.unpack_parquet(path, rows) for image in batch]
    assert unpacked == [b"image %d" % row for row in rows]
    with stops(BuildError, "300"):
        list(parquet.unpack_parquet(path, np.array([5, 300])))


def test_an_image_without_bytes(tmp_path):
    path = write(tmp_path, images(values=[(b"", "1.jpg"), (None, "2.jpg")]))
    with stops(BuildError):
        list(parquet.unpack_parquet(path, np.array([0, 1])))


def read_all(path):
    """All that a build reads of a file."""
    shard = parquet.read_shard("A mirror", path)
    repr(shard.names.to_pylist() + shard.labels.to_pylist() + list(shard.label_names or ()))
    return [bytes(image) for batch in parquet.unpack_parquet(path, np.arange(len(shard.names))) for image in batch]


def test_a_page_whose_checksum_does_not_fit(tmp_path):
    path = write(tmp_path, write_page_checksum=True, write_statistics=False, use_dictionary=False)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"two", b"tow", 1))
    with pytest.raises(BuildError, match="CRC checksum verification failed"):
        read_all(path)


def test_every_error_of_pyarrow_gives_one_sentence(tmp_path):
    path = write(tmp_path)
    for kind in (pa.ArrowInvalid, pa.ArrowMemoryError, pa.ArrowNotImplementedError, OSError):
        sentence = r"cannot be read as Parquet \(first\)\. Download it again\.$"
        with pytest.raises(BuildError, match=sentence), parquet.open_mirror("A mirror", path):
            raise kind("first\nsecond")
