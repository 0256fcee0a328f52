"""Sources in object storage, over HTTP: what is found there, and its images, are those of the same local copy."""

import numpy as np
import pyarrow as pa
import pytest

from builders.errors import BuildError
from builders.sources.base import IN_PLACE
from builders.sources.image_folder import find_images
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from builders.sources.sizes import estimated_bytes, file_sizes, sampled_sizes
from builders.sources.unpack import UNPACKERS
from builders.storage.byte_ranges import Reader
from builders.storage.paths import as_path
from taxonomy import tables
from tests.builders import broad_layouts, cifar_layouts, facets_layouts, layouts
from tests.builders.trees import write_shards
from tests.sentences import stops

_READ = 16
"""Images of a source that are compared, evenly spread."""

# One for each way to the bytes: class folders, loose files with a list beside them, a JSON of annotations, a database,
# nested folders, pickles and MATLAB files, tars (in tars, compressed, with a pickle inside) and Parquet files. A
# release is built of the first four of `LONG` in tests/builders/pipeline/test_object_sources.py.
LAYOUTS = (
    ("cifar100", None),
    ("coco2017", None),
    ("dtd", None),
    ("openimage_o", None),
    ("partial_broad", None),
    ("lsun", cifar_layouts.lsun_exported),
    ("svhn", cifar_layouts.svhn_parquet),
)
LONG = (
    ("lsun", None),
    ("svhn", None),
    ("cifar100", cifar_layouts.cifar100_archive),
    ("imagenet", layouts.imagenet_archives),
    ("food101", None),
    ("inaturalist", None),
    ("lsun_fix", None),
    ("places365", None),
    ("svhn_full", None),
    ("caltech256", layouts.caltech256_archive),
    ("food101", layouts.food101_archive),
    ("imagenet", layouts.imagenet_parquet),
    ("imagenet_o", broad_layouts.imagenet_o_archive),
    ("sun397", facets_layouts.sun397_archive),
)


@pytest.mark.parametrize(
    ("key", "convert"),
    [*LAYOUTS, *(pytest.param(*one, marks=pytest.mark.slow) for one in LONG)],
    ids=[f"{key}-{how.__name__ if how else 'official'}" for key, how in (*LAYOUTS, *LONG)],
)
def test_a_source_in_a_store_is_that_of_the_local_copy(key, convert, demo, laid_out, store, proxy):
    local = demo[key] if convert is None else laid_out(key, convert)
    root = store.upload(local)
    source, partitions = SOURCES[key], tuple(SOURCES[key].expected())
    expected, index = (open_source(source, place, partitions) for place in (local, as_path(root)))
    assert index.table.equals(expected.table)
    assert index.partitions == expected.partitions
    rows = np.arange(0, index.table.num_rows, max(1, index.table.num_rows // _READ))
    assert images(index, rows) == images(expected, rows)


def images(index, rows):
    """The bytes of some images, as a build reads them."""
    how = index.table["how"].take(rows).to_pylist()
    files, offsets = (index.table[name].take(rows).to_pylist() for name in ("file", "offset"))
    sizes = index.table["size"].take(rows).to_numpy().copy()
    names = index.table["file"].take(rows).combine_chunks()
    unknown = np.array([place for place, kind in enumerate(how) if kind == "file" and sizes[place] < 0], np.int64)
    sizes[unknown] = file_sizes(index, names.take(pa.array(unknown)))
    in_place = [place for place, kind in enumerate(how) if kind in IN_PLACE]
    reads = [(str(index.root / files[place]), offsets[place], int(sizes[place])) for place in in_place]
    with Reader() as reader:
        reader.expect(reads)
        contents = [reader.read(*read) for read in reads]
    packed = sorted({(how[place], files[place]) for place in range(len(how)) if place not in in_place})
    for kind, file in packed:
        inside = sorted(offsets[place] for place in range(len(how)) if files[place] == file)
        batches = UNPACKERS[kind](index.root / file, np.array(inside))
        contents += [bytes(image) for batch in batches for image in batch]
    return contents


def test_a_plan_of_class_folders_asks_for_no_image(demo, store, proxy):
    """A request a folder, and 64 to see by their sizes whether images were resized (`builders.sources.sizes`)."""
    root = as_path(store.upload(demo["food101"]))
    index = open_source(SOURCES["food101"], root, ("images",))
    listed = proxy.kinds()
    assert listed["ListObjectsV2"] < 110  # 101 class folders
    assert not [request.path for request in proxy.requests if request.path.endswith(".jpg")]
    proxy.requests.clear()
    assert len(list(sampled_sizes(root, index.partitions[0]))) == 64
    assert proxy.kinds() == {"GetObject": 64}
    proxy.requests.clear()
    rows = np.arange(index.table.num_rows)
    local = open_source(SOURCES["food101"], demo["food101"], ("images",))
    assert estimated_bytes(index, rows) == estimated_bytes(local, rows)
    assert "GetObject" not in proxy.kinds()


def test_the_parquet_files_of_a_mirror_are_indexed_without_their_images(tmp_path, store, proxy):
    wnids = [row.wnid for row in tables.imagenet1k()]
    draw = np.random.default_rng(0)
    rows = [(f"{wnids[0]}_{number}_{wnids[0]}.JPEG", 0, draw.bytes(100_000)) for number in range(200)]
    write_shards(tmp_path / "data", "train", rows, wnids)
    index = open_source(SOURCES["imagenet"], as_path(store.upload(tmp_path)), ("train",))
    assert index.table.num_rows == 200
    assert sum(request.received for request in proxy.requests) < 200 * 100_000 / 2


@pytest.mark.parametrize("key", ["dtd", "lsun", "svhn"])
def test_filesystems_that_are_not_asynchronous_are_read_too(key, demo):
    pytest.importorskip("upath")
    source, partitions = SOURCES[key], tuple(SOURCES[key].expected())
    local, index = (open_source(source, place, partitions) for place in (demo[key], as_path(f"local://{demo[key]}")))
    assert index.table.equals(local.table)
    rows = np.arange(min(40, index.table.num_rows))
    assert images(index, rows) == images(local, rows)


def test_a_folder_of_ones_own_is_found_by_listings(demo, tmp_path, store, proxy):
    for number, name in enumerate(("train/cat/deep/er/1.png", "train/dog/2.JPG", "val/cat/3.png", "val/dog/note.txt")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * number)
    (tmp_path / "val/dog/4.png").write_bytes(b"4")
    local, remote = find_images(tmp_path), find_images(as_path(store.upload(tmp_path)))
    assert remote.files == local.files
    assert remote.strays == local.strays
    assert set(proxy.kinds()) == {"ListObjectsV2"}


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("no-bucket-of-anybody/imagenet", "there is no such bucket"),
        ("{bucket}/imagenet", r"ImageNet.*: there is no folder s3://.*/imagenet\. Give the right one with --imagenet"),
        ("{bucket}", r"is not in s3://[^/]*/?, which holds text\.txt"),
    ],
)
def test_a_wrong_address_is_told_in_a_sentence(store, place, sentence):
    bucket = store.bucket()
    store.client.pipe_file(f"{bucket}/text.txt", b"1")
    with pytest.raises(BuildError, match=sentence):
        open_source(SOURCES["imagenet"], as_path(f"s3://{place.format(bucket=bucket)}"), ("train",))


def test_a_damaged_archive_is_told_with_its_address(store, tmp_path):
    (tmp_path / "ILSVRC2012_img_val.tar").write_bytes(b"x" * 700)
    root = store.upload(tmp_path)
    with stops(BuildError, f"{root}/ILSVRC2012_img_val.tar"):
        open_source(SOURCES["imagenet"], as_path(root), ("val",))
