import base64
import io

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from builders.errors import BuildError
from builders.release.manifest import read_manifest
from builders.report.pictures import (
    BUDGET,
    FIRST,
    may_be_published,
    pictured_sources,
    read_split_rows,
    thumbnails,
)
from tests.sentences import stops


def read(root, manifest, shown="all"):
    sources = pictured_sources(manifest, shown)
    return [read_split_rows(root, key, split, sources) for key, _, split in manifest.splits()]


def decoded(thumbnail):
    return Image.open(io.BytesIO(base64.b64decode(thumbnail.uri.partition(",")[2])))


def size(groups):
    return sum(len(picture.uri) for group in groups.values() for picture in group)


def test_every_role_of_every_split_is_shown_within_the_budget(imagenet_release, manifest):
    rows = read(imagenet_release, manifest)
    groups = thumbnails(imagenet_release, manifest, rows)
    assert {key: len(group) for key, group in groups.items()} == {
        (key, role): FIRST for key, _, split in manifest.splits() for role in split.roles
    }
    assert size(groups) <= BUDGET
    first = groups["imagenet/test", "in_distribution"][0]
    assert decoded(first).size == (first.width, first.height)

    # The picture is the one of the first row: of a smooth image the thumbnail has the mean colour.
    shard = imagenet_release / manifest.by_key()["imagenet/test"].data[0].path
    row = pq.read_table(shard).slice(0, 1).to_pylist()[0]
    original = np.asarray(Image.open(io.BytesIO(row["image"]["bytes"])).convert("RGB"), float)
    assert first.name == row["class_name"]
    assert np.abs(np.asarray(decoded(first), float).mean((0, 1)) - original.mean((0, 1))).max() < 4


def test_a_small_budget_is_shared_fairly_and_never_exceeded(imagenet_release, manifest):
    rows = read(imagenet_release, manifest)
    for budget in (100_000, 20_000, 1_000):
        groups = thumbnails(imagenet_release, manifest, rows, budget)
        counts = {len(group) for group in groups.values()}
        assert size(groups) <= budget
        assert max(counts) - min(counts) <= 1


def test_only_sources_that_are_declared_open_may_be_passed_on(imagenet_release, manifest):
    # What the sources' modules say of their owners' terms; the manifest may say what it likes.
    lying = msgspec.structs.replace(
        manifest,
        sources={
            key: msgspec.structs.replace(source, licence=msgspec.structs.replace(source.licence, publish="open"))
            for key, source in manifest.sources.items()
        },
    )
    assert pictured_sources(lying, "publishable") == {"caltech256"}
    assert pictured_sources(lying, "all") == set(manifest.sources)
    assert pictured_sources(lying, "none") == set()
    assert may_be_published("noise")
    assert not may_be_published("a source that nobody declared")
    groups = thumbnails(imagenet_release, lying, read(imagenet_release, lying, "publishable"))
    assert {key for key, _ in groups} == {"imagenet/far_ood_caltech45"}


def test_small_images_keep_their_pixels(small):
    manifest = read_manifest(small)
    pictures = thumbnails(small, manifest, read(small, manifest))["bench/test", "in_distribution"]
    shard = pq.read_table(small / manifest.by_key()["bench/test"].data[0].path)["image"].to_pylist()
    assert [decoded(picture).tobytes() for picture in pictures] == [
        Image.open(io.BytesIO(row["bytes"])).tobytes() for row in shard
    ]
    assert all(picture.exact for picture in pictures)


def test_an_image_that_does_not_decode_is_named(small):
    manifest = read_manifest(small)
    path = small / manifest.by_key()["bench/test"].data[0].path
    table = pq.read_table(path)
    images = pa.array([{"bytes": b"GIF89a", "path": ""}] * 4, table.schema.field("image").type)
    pq.write_table(table.set_column(0, table.schema.field("image"), images), path)
    with stops(BuildError) as refused:
        thumbnails(small, manifest, read(small, manifest))
    assert str(path) in str(refused.value)
