import hashlib
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.demo.images import encode_image
from builders.errors import BuildError
from builders.pipeline import shards
from builders.pipeline.read_plan import shard_starts
from builders.pipeline.shards import ROW_GROUP_BYTES, ShardTask, record_of
from builders.release.remarks import ImageRemarks
from builders.release.schema import EXPECTED, MADE, PLACES, PLAN, arrow_schema, plain_schema
from builders.storage.byte_ranges import Reader
from builders.storage.kept_tables import read_kept
from tests.sentences import stops


def jpeg(number, size=0):
    """A JPEG of about `size` bytes: the rest is comment segments."""
    data = encode_image(Image.new("RGB", (8, 8), (number % 256, number // 256, 0)), "JPEG")
    comment = b"\xff\xfe\xff\xff" + bytes(65533)
    return data[:2] + comment * (size // len(comment)) + data[2:]


def task(tmp_path, files, **changes):
    """A shard of the given {name: bytes}, in that order, with its plan."""
    root = tmp_path / "source"
    root.mkdir(exist_ok=True)
    for name, data in files.items():
        (root / name).write_bytes(data)
    names, sizes = list(files), [len(data) for data in files.values()]
    rows = [
        {
            "label": 0,
            "role": 0,
            "class_id": "c",
            "class_name": "C",
            "source": "s",
            "source_id": name,
            "id": f"s/{name}",
        }
        | {"root": "s", "file": name, "offset": 0, "size": size, "form": "encoded"}
        | dict.fromkeys([*EXPECTED, *MADE], "")
        for name, size in zip(names, sizes, strict=True)
    ]
    plan = pa.Table.from_pylist(rows, plain_schema({**PLAN, **EXPECTED, **PLACES, **MADE}))
    with pa.ipc.new_file(str(tmp_path / "plan.arrow"), plan.schema) as writer:
        writer.write_table(plan)
    return planned(tmp_path, stop=len(names), size=sum(sizes), roots={"s": str(root)}, **changes)


def planned(tmp_path, **changes):
    """A shard of a plan that is written elsewhere, or that nothing reads."""
    values = {
        "plan": tmp_path / "plan.arrow",
        "start": 0,
        "stop": 0,
        "size": 0,
        "roots": {},
        "data": tmp_path / "out" / "data.parquet",
        "record": tmp_path / "out" / "record.parquet",
        "schema": arrow_schema(["c"]),
        "decode": False,
        "drop_unreadable": False,
    }
    return ShardTask(**(values | changes))


def silent(images, size):
    pass


def test_bytes_pass_through_and_digests_are_theirs(tmp_path):
    files = {f"{i}.jpg": jpeg(i) for i in range(5)}
    shard = task(tmp_path, files)
    record = shard.run(silent).record
    rows = pq.read_table(shard.data).to_pylist()
    assert {row["image"]["path"]: row["image"]["bytes"] for row in rows} == files
    assert [row["content_sha256"] for row in rows] == [hashlib.sha256(data).hexdigest() for data in files.values()]
    assert record.rows == 5
    assert record.sha256 == hashlib.sha256(shard.data.read_bytes()).hexdigest()
    assert record.bytes == shard.data.stat().st_size
    assert record_of(read_kept(shard.record)) == record


def test_row_groups_are_bounded_by_real_bytes(tmp_path):
    # 2 KB and 50 MB images mixed: an image larger than a group gets one of its own, and one larger than the mean ends
    # its group.
    sizes = [2000, 50_000_000, 2000, 2000, 20_000_000, 20_000_000, 2000]
    shard = task(tmp_path, {f"{i}.jpg": jpeg(i, size) for i, size in enumerate(sizes)})
    shard.run(silent)
    metadata = pq.ParquetFile(shard.data).metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [1, 1, 3, 1, 1]
    for group in groups:
        assert group.column(0).total_uncompressed_size <= ROW_GROUP_BYTES or group.num_rows == 1
        assert group.column(0).total_uncompressed_size <= 100_000_000
        assert group.column(0).compression == "UNCOMPRESSED"
        assert group.column(2).has_offset_index


def test_a_cut_image_stops_the_shard_and_leaves_no_file(tmp_path):
    shard = task(tmp_path, {"a.jpg": jpeg(1), "b.jpg": jpeg(2)[:-40]})
    with pytest.raises(BuildError, match=r"b\.jpg cannot be used .*\. Replace it .* --allow-partial"):
        shard.run(silent)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_cut_image_is_dropped_and_recorded_where_that_is_allowed(tmp_path):
    files = {"a.jpg": jpeg(1), "b.jpg": jpeg(2)[:-40], "c.jpg": jpeg(3)}
    shard = task(tmp_path, files, drop_unreadable=True)
    record = shard.run(silent).record
    rows = pq.read_table(shard.data).to_pylist()
    assert [(row["id"], row["image"]["bytes"]) for row in rows] == [
        ("s/a.jpg", files["a.jpg"]),
        ("s/c.jpg", files["c.jpg"]),
    ]
    assert [image for image, _ in record.dropped] == ["s/b.jpg"]


def test_a_file_that_shrank_or_vanished_is_named(tmp_path):
    shard = task(tmp_path, {"a.jpg": jpeg(1)})
    path = tmp_path / "source" / "a.jpg"
    path.write_bytes(b"short")
    with stops(BuildError, "a.jpg"):
        shard.run(silent)
    path.unlink()
    with stops(BuildError, "a.jpg"):
        shard.run(silent)


def test_index_only_writes_the_rows_and_no_pixels(tmp_path):
    files = {"a.jpg": jpeg(1)}
    shard = task(tmp_path, files, data=None)
    record = shard.run(silent).record
    rows = pq.read_table(shard.record)
    assert rows["content_sha256"].to_pylist() == [hashlib.sha256(files["a.jpg"]).hexdigest()]
    assert (record.bytes, record.sha256) == (0, "")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["record.parquet"]


def test_progress_adds_up(tmp_path):
    files = {f"{i:03d}.jpg": jpeg(i) for i in range(150)}
    steps = []
    task(tmp_path, files).run(lambda images, size: steps.append((images, size)))
    assert sum(images for images, _ in steps) == 150
    assert sum(size for _, size in steps) == sum(map(len, files.values()))


def test_shards_of_mixed_sizes_stay_near_the_setting():
    sizes = [2000, 50_000_000] * 40 + [2000] * 5000
    starts = shard_starts(np.array(sizes), 512 * 1024 * 1024)
    cut = [sum(sizes[a:b]) for a, b in itertools.pairwise(starts)]
    assert sum(cut) == sum(sizes)
    assert len(cut) == 4  # 2.01 GB in shards of 0.537 GB
    assert max(cut) <= 1.1 * 512 * 1024 * 1024


def test_nothing_is_one_empty_shard():
    assert shard_starts(np.array([], dtype=int), 100) == (0, 0)


# Row groups of generated images

SIZES = [3, 5, 0, 4, 4, 0, 7, 2]
PACKS = ["one", "one", "one", "one", "two", "two", "two", "one"]


def plan_of(tmp_path, **columns):
    """Eight images in two packs, two of which could not be generated; the last is apart from the rest of its pack."""
    contents = [bytes([65 + number]) * size for number, size in enumerate(SIZES)]
    (tmp_path / "one").write_bytes(contents[0] + contents[1] + contents[3] + b"gap" + contents[7])
    (tmp_path / "two").write_bytes(contents[4] + contents[6])
    return rows_of(contents, PACKS, [0, 3, 8, 8, 0, 4, 4, 15], **columns), contents


def rows_of(contents, files, offsets, **columns):
    """The rows of images at some places; those without content could not be generated."""
    names = [str(number) for number in range(len(contents))]
    values = {
        "id": [f"s/{name}" for name in names],
        "source": ["s"] * len(contents),
        "source_id": names,
        "expected_sha256": [""] * len(contents),
        "root": ["staging"] * len(contents),
        "file": files,
        "offset": offsets,
        "size": list(map(len, contents)),
        "content_sha256": [hashlib.sha256(content).hexdigest() if content else "" for content in contents],
        "unreadable": ["cut" if not content else "" for content in contents],
    }
    return pa.table(values | columns)


def generated(tmp_path, rows):
    """The groups of generated images as (rows of the plan, bytes of each, digests), what is left out, and progress."""
    steps, groups, dropped = [], [], []
    whole = planned(tmp_path, stored="pixels", roots={"staging": str(tmp_path)})
    with Reader() as reader:
        for group in whole.groups(rows, reader, lambda *counts: steps.append(counts), dropped, ImageRemarks()):
            data = bytes(group.data[: group.filled])
            parts = [data[start:stop] for start, stop in itertools.pairwise(group.offsets)]
            assert group.digests == [hashlib.sha256(part).hexdigest() for part in parts]
            assert set(group.stored) == {"pixels"}
            groups.append((group.numbers, parts))
    return groups, dropped, steps


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (100, [[0, 1, 3, 4, 6, 7]]),
        (8, [[0, 1], [3, 4], [6], [7]]),  # 3 + 5, 4 + 4, 7, 2: as many as come to at most 8 bytes
        (1, [[0], [1], [3], [4], [6], [7]]),
    ],
)
def test_groups_are_cut_by_bytes_and_leave_out_what_failed(tmp_path, monkeypatch, limit, expected):
    monkeypatch.setattr(shards, "ROW_GROUP_BYTES", limit)
    rows, contents = plan_of(tmp_path)
    groups, dropped, steps = generated(tmp_path, rows)
    assert groups == [(numbers, [contents[number] for number in numbers]) for numbers in expected]
    assert dropped == [("s/2", "cut"), ("s/5", "cut")]
    assert np.array_equal(np.sum(steps, axis=0), [8, sum(SIZES)])


def test_groups_end_at_the_same_images_after_one_is_withdrawn(tmp_path, monkeypatch):
    for name, value in (("ROW_GROUP_BYTES", 3200), ("_LEAST_BYTES", 800), ("_MEAN_BYTES", 800)):
        monkeypatch.setattr(shards, name, value)
    drawn = np.random.default_rng(0)
    contents = [drawn.bytes(int(size)) for size in drawn.integers(20, 61, 2000)]
    offsets = np.cumsum([0, *map(len, contents)])[:-1].tolist()
    (tmp_path / "pack").write_bytes(b"".join(contents))
    rows = rows_of(contents, ["pack"] * len(contents), offsets)

    def groups_of(rows):
        groups, _, _ = generated(tmp_path, rows)
        assert all(sum(map(len, parts)) <= 3200 for _, parts in groups)
        return [tuple(rows["id"].take(pa.array(numbers)).to_pylist()) for numbers, _ in groups]

    groups = groups_of(rows)
    # 80,000 bytes in groups of 800 and, on average, 800 more, of which the limit takes e^-3.
    assert 80_000 / 1_700 < len(groups) < 80_000 / 1_450
    for withdrawn in (0, 3, 777, 1999):
        fewer = groups_of(pa.concat_tables([rows.slice(0, withdrawn), rows.slice(withdrawn + 1)]))
        assert len(set(fewer) - set(groups)) <= 3, withdrawn


def test_nothing_left_is_no_group(tmp_path):
    rows, _ = plan_of(tmp_path, unreadable=["cut"] * 8, size=[0] * 8)
    groups, dropped, _ = generated(tmp_path, rows)
    assert groups == []
    assert len(dropped) == 8


def test_another_image_than_the_published_one_is_refused(tmp_path):
    rows, _ = plan_of(tmp_path)
    expected = rows["content_sha256"].to_pylist()
    generated(tmp_path, plan_of(tmp_path, expected_sha256=expected)[0])
    expected[6] = "0" * 64
    sentence = r"The image s/6 is not the published one: its content_sha256 is .*, not 0{64} \(.*two"
    with pytest.raises(BuildError, match=sentence):
        generated(tmp_path, plan_of(tmp_path, expected_sha256=expected)[0])


def test_a_pack_that_was_cut_is_refused(tmp_path):
    rows, _ = plan_of(tmp_path)
    (tmp_path / "two").write_bytes(b"EEEEGGG")
    with stops(BuildError):
        generated(tmp_path, rows)
