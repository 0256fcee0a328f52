"""Strips: they cover a plan, cost about the same, are found again by a rerun, and hold what the transform makes."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from builders.errors import BuildError
from builders.generate.batches import MakeTask, known_of, made_table, read_pixels, strips
from builders.generate.noise import GAUSSIAN_NOISE, gaussian_noise
from builders.generate.resize import FIXED_RESIZE, fixed_resize
from builders.generate.transform import AS_PNG
from builders.release.images import pixel_sha256

MEGABYTE = 1024 * 1024


def table(sizes, prefix="image"):
    return pa.table({"id": [f"{prefix}/{i}" for i in range(len(sizes))], "size": pa.array(sizes, pa.int64())})


@given(st.lists(st.integers(0, 40 * MEGABYTE), max_size=200))
def test_strips_cover_the_plan_in_order_and_cost_at_most_one_image_too_much(tmp_path_factory, sizes):
    found = strips(table(sizes), AS_PNG, "x", tmp_path_factory.getbasetemp())
    assert [row for strip in found for row in range(strip.start, strip.stop)] == list(range(len(sizes)))
    for strip in found:
        costs = [size + 32 * 1024 for size in sizes[strip.start : strip.stop]]
        # 64 MB of bytes, with 32 kB counted for each image; the image at a border may go to either side.
        assert sum(costs) <= 64 * MEGABYTE + 2 * max(costs)


def test_tiny_images_are_cut_too(tmp_path):
    found = strips(table([3072] * 18_000), AS_PNG, "x", tmp_path)
    assert len(found) == -(-18_000 * (3072 + 32 * 1024) // (64 * MEGABYTE)) == 10


def test_a_pack_is_named_after_its_images_and_what_is_done_to_them(tmp_path):
    def names(sizes, transform=AS_PNG, prefix="image"):
        return [strip.pack.name for strip in strips(table(sizes, prefix), transform, "x", tmp_path)]

    first = names([1, 2, 3])
    assert names([1, 2, 3]) == first
    assert len({*first, *names([1, 2, 4]), *names([1, 2, 3], FIXED_RESIZE), *names([1, 2, 3], prefix="other")}) == 4


def encoded(pixels, form="PNG"):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, form)
    return buffer.getvalue()


def plan_of(tmp_path, contents, forms):
    """A plan of images that stand end to end in one file."""
    (tmp_path / "file").write_bytes(b"".join(contents))
    sizes = [len(content) for content in contents]
    rows = pa.table(
        {
            "id": [f"s/{i}" for i in range(len(contents))],
            "source": ["s"] * len(contents),
            "source_id": [str(i) for i in range(len(contents))],
            "root": ["s"] * len(contents),
            "file": ["file"] * len(contents),
            "offset": pa.array(np.cumsum(sizes) - sizes, pa.int64()),
            "size": pa.array(sizes, pa.int64()),
            "form": list(forms),
        }
    )
    with pa.ipc.new_file(str(tmp_path / "plan.arrow"), rows.schema) as writer:
        writer.write_table(rows)
    return rows


def make(tmp_path, rows, transform, *, drop=False):
    found = strips(rows, transform, "x", tmp_path)
    done = []
    for strip in found:
        task = MakeTask(tmp_path / "plan.arrow", strip, {"s": str(tmp_path)}, transform.name, drop)
        task.run(lambda images, size: done.append((images, size)))
    return found, done


def test_arrays_and_files_become_the_pngs_that_the_transform_makes(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    large = np.random.default_rng(1).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    contents = [pixels[0].tobytes(), encoded(pixels[1]), encoded(large, "WEBP")]
    rows = plan_of(tmp_path, contents, ["rgb32", "encoded", "encoded"])
    found, done = make(tmp_path, rows, FIXED_RESIZE)
    made = made_table(rows.select(["id", "source_id"]), found, "staging")
    expected = [fixed_resize(Image.fromarray(p)) for p in pixels]
    expected.append(fixed_resize(Image.open(io.BytesIO(contents[2]))))
    assert made["content_sha256"].to_pylist() == [pixel_sha256(image) for image in expected]
    assert np.array_equal(read_pixels(made, tmp_path), np.stack([np.asarray(image) for image in expected]))
    assert np.array_equal(read_pixels(made, tmp_path)[:2], pixels)
    assert np.array_equal(np.sum(done, axis=0), [3, sum(map(len, contents))])
    for row in made.to_pylist():
        data = (tmp_path / row["file"]).read_bytes()[row["offset"] : row["offset"] + row["size"]]
        assert data.startswith(b"\x89PNG")


def test_arrays_that_are_kept_as_they_are(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    contents = [pixels[0].tobytes(), pixels[1].transpose(2, 0, 1).tobytes(), encoded(pixels[2])]
    rows = plan_of(tmp_path, contents, ["rgb32", "planar32", "encoded"])
    found, done = make(tmp_path, rows, AS_PNG)
    made = made_table(rows.select(["id", "source_id"]), found, "staging")
    assert made["content_sha256"].to_pylist() == [pixel_sha256(Image.fromarray(image)) for image in pixels]
    assert np.array_equal(read_pixels(made, tmp_path), pixels)
    assert np.array_equal(np.sum(done, axis=0), [3, sum(map(len, contents))])


def test_many_arrays_of_several_containers_in_any_order(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (200, 32, 32, 3), dtype=np.uint8)
    (tmp_path / "rows").write_bytes(pixels[:90].tobytes())
    (tmp_path / "planes").write_bytes(b"before" + pixels[90:].transpose(0, 3, 1, 2).tobytes())
    order = np.random.default_rng(1).permutation(200)
    rows = pa.table(
        {
            "id": [f"s/{i}" for i in order],
            "source": ["s"] * 200,
            "source_id": [str(i) for i in order],
            "root": ["s"] * 200,
            "file": ["rows" if i < 90 else "planes" for i in order],
            "offset": [i * 3072 if i < 90 else 6 + (i - 90) * 3072 for i in order],
            "size": [3072] * 200,
            "form": ["rgb32" if i < 90 else "planar32" for i in order],
        }
    )
    with pa.ipc.new_file(str(tmp_path / "plan.arrow"), rows.schema) as writer:
        writer.write_table(rows)
    found, done = make(tmp_path, rows, AS_PNG)
    made = made_table(rows.select(["id", "source_id"]), found, "staging")
    assert np.array_equal(read_pixels(made, tmp_path), pixels[order])
    assert np.array_equal(np.sum(done, axis=0), [200, 200 * 3072])


def test_noise_needs_no_file(tmp_path):
    rows = plan_of(tmp_path, [b"", b""], ["none", "none"])
    (tmp_path / "file").unlink()
    found, _ = make(tmp_path, rows, GAUSSIAN_NOISE)
    assert known_of(found)["content_sha256"].to_pylist() == [pixel_sha256(gaussian_noise(f"s/{i}")) for i in range(2)]


def test_what_cannot_be_decoded_is_refused_or_recorded(tmp_path):
    whole = encoded(np.zeros((8, 8, 3), np.uint8))
    other = encoded(np.full((8, 8, 3), 200, np.uint8))
    rows = plan_of(tmp_path, [whole, whole[:40], b"no image", other], ["encoded"] * 4)
    with pytest.raises(BuildError, match=r"file \(1\) is not a whole image \(.*\)\. Replace it"):
        make(tmp_path, rows, FIXED_RESIZE)
    assert not list(tmp_path.glob("*.pack"))
    found, _ = make(tmp_path, rows, FIXED_RESIZE, drop=True)
    known = known_of(found)
    assert [bool(reason) for reason in known["unreadable"].to_pylist()] == [False, True, True, False]
    assert known["size"].to_pylist()[1:3] == [0, 0]
    assert known["content_sha256"].to_pylist()[1:3] == ["", ""]
    assert np.array_equal(read_pixels(known.take([0, 3]), tmp_path)[:, 0, 0, 0], [0, 200])


def test_the_record_comes_after_the_pack(tmp_path, monkeypatch):
    rows = plan_of(tmp_path, [encoded(np.zeros((8, 8, 3), np.uint8))], ["encoded"])
    monkeypatch.setattr(pq, "write_table", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        make(tmp_path, rows, FIXED_RESIZE)
    (strip,) = strips(rows, FIXED_RESIZE, "x", tmp_path)
    assert strip.pack.exists()
    assert not strip.record.exists()
