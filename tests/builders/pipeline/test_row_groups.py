"""Row groups of generated images; copied images are tested with the shards (`test_shards`)."""

import hashlib
import itertools

import numpy as np
import pyarrow as pa
import pytest

from builders.errors import BuildError
from builders.pipeline import row_groups
from builders.pipeline.row_groups import GroupImages
from builders.storage.byte_ranges import Reader

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
        "source_id": names,
        "root": ["staging"] * len(contents),
        "file": files,
        "offset": offsets,
        "size": list(map(len, contents)),
        "content_sha256": [hashlib.sha256(content).hexdigest() if content else "" for content in contents],
        "unreadable": ["cut" if not content else "" for content in contents],
    }
    return pa.table(values | columns)


def generated(tmp_path, rows):
    steps = []
    images = GroupImages(rows, {"staging": str(tmp_path)}, lambda *counts: steps.append(counts))
    with Reader() as reader:
        groups = list(images.generated(reader))
    return images, groups, steps


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (100, [[0, 1, 3, 4, 6, 7]]),
        (8, [[0, 1], [3, 4], [6], [7]]),  # 3 + 5, 4 + 4, 7, 2: as many as come to at most 8 bytes
        (1, [[0], [1], [3], [4], [6], [7]]),
    ],
)
def test_groups_are_cut_by_bytes_and_leave_out_what_failed(tmp_path, monkeypatch, limit, expected):
    monkeypatch.setattr(row_groups, "ROW_GROUP_BYTES", limit)
    rows, contents = plan_of(tmp_path)
    images, groups, steps = generated(tmp_path, rows)
    assert [group.numbers.to_pylist() for group in groups] == expected
    for group in groups:
        ends = group.offsets.to_pylist()
        data = group.data.to_pybytes()
        parts = [data[start:stop] for start, stop in itertools.pairwise(ends)]
        assert parts == [contents[number] for number in group.numbers.to_pylist()]
        assert list(group.digests) == [hashlib.sha256(part).hexdigest() for part in parts]
        assert set(group.stored) == {"pixels"}
    assert images.dropped == [("s/2", "cut"), ("s/5", "cut")]
    assert np.array_equal(np.sum(steps, axis=0), [8, sum(SIZES)])


def test_groups_end_at_the_same_images_after_one_is_withdrawn(tmp_path, monkeypatch):
    for name, value in (("ROW_GROUP_BYTES", 3200), ("_LEAST_BYTES", 800), ("_MEAN_BYTES", 800)):
        monkeypatch.setattr(row_groups, name, value)
    drawn = np.random.default_rng(0)
    contents = [drawn.bytes(int(size)) for size in drawn.integers(20, 61, 2000)]
    offsets = np.cumsum([0, *map(len, contents)])[:-1].tolist()
    (tmp_path / "pack").write_bytes(b"".join(contents))
    rows = rows_of(contents, ["pack"] * len(contents), offsets)

    def groups_of(rows):
        _, groups, _ = generated(tmp_path, rows)
        assert all(group.offsets[-1].as_py() <= 3200 for group in groups)
        return [tuple(rows["id"].take(group.numbers).to_pylist()) for group in groups]

    groups = groups_of(rows)
    # 80,000 bytes in groups of 800 and, on average, 800 more, of which the limit takes e^-3.
    assert 80_000 / 1_700 < len(groups) < 80_000 / 1_450
    for withdrawn in (0, 3, 777, 1999):
        fewer = groups_of(pa.concat_tables([rows.slice(0, withdrawn), rows.slice(withdrawn + 1)]))
        assert len(set(fewer) - set(groups)) <= 3, withdrawn


def test_what_lies_end_to_end_is_read_at_once(tmp_path):
    rows, _ = plan_of(tmp_path)
    _, _, steps = generated(tmp_path, rows)
    assert steps == [(2, 0), (3, 12), (2, 11), (1, 2)]


def test_nothing_left_is_no_group(tmp_path):
    rows, _ = plan_of(tmp_path, unreadable=["cut"] * 8, size=[0] * 8)
    images, groups, _ = generated(tmp_path, rows)
    assert groups == []
    assert len(images.dropped) == 8


def test_another_image_than_the_published_one_is_refused(tmp_path):
    rows, _ = plan_of(tmp_path)
    expected = rows["content_sha256"].to_pylist()
    generated(tmp_path, rows.append_column("expected_sha256", pa.array(expected)))
    expected[6] = "0" * 64
    sentence = r"The image s/6 is not the published one: its content_sha256 is .*, not 0{64} \(.*two"
    with pytest.raises(BuildError, match=sentence):
        generated(tmp_path, rows.append_column("expected_sha256", pa.array(expected)))


def test_a_pack_that_was_cut_is_refused(tmp_path):
    rows, _ = plan_of(tmp_path)
    (tmp_path / "two").write_bytes(b"EEEEGGG")
    with pytest.raises(BuildError, match=r"two changed during the build: expected 11 bytes, found 7\."):
        generated(tmp_path, rows)
