"""Generating a batch: its pack, its record, and refusals when a batch is generated again."""

import dataclasses
import hashlib
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.demo.images import encode_image
from builders.errors import BuildError
from builders.generate.batches import cut_batches, generated_table
from builders.generate.contract import AS_GREY_PNG, AS_PNG, Generated, Generator
from builders.generate.exact.noise import GAUSSIAN_NOISE, gaussian_noise
from builders.generate.exact.resize import FIXED_RESIZE, fixed_resize
from builders.generate.task import BatchTask
from builders.release.images import pixel_sha256
from builders.release.schema import Column


def encoded(pixels, form="PNG"):
    return encode_image(Image.fromarray(pixels), form)


def write_plan(tmp_path, sizes, forms, *, ids=None, files=None, offsets=None):
    """Write a plan of images, by default end to end in one file and numbered."""
    count = len(sizes)
    ids = [str(number) for number in (range(count) if ids is None else ids)]
    rows = pa.table(
        {
            "id": [f"s/{name}" for name in ids],
            "source": ["s"] * count,
            "source_id": ids,
            "class_id": ["c"] * count,
            "class_name": ["a class"] * count,
            "root": ["s"] * count,
            "file": ["file"] * count if files is None else files,
            "offset": pa.array(np.cumsum(sizes) - sizes if offsets is None else offsets, pa.int64()),
            "size": pa.array(sizes, pa.int64()),
            "form": list(forms),
        }
    )
    with pa.ipc.new_file(str(tmp_path / "plan.arrow"), rows.schema) as writer:
        writer.write_table(rows)
    return rows


def plan_of(tmp_path, contents, forms):
    (tmp_path / "file").write_bytes(b"".join(contents))
    return write_plan(tmp_path, [len(content) for content in contents], forms)


def make(tmp_path, rows, generator, *, drop=False):
    batches = cut_batches(rows, generator, "x", tmp_path)
    progress = []
    for batch in batches:
        task = BatchTask(tmp_path / "plan.arrow", batch, {"s": str(tmp_path)}, generator, drop)
        task.run(lambda images, size: progress.append((images, size)))
    return batches, progress


def generate(tmp_path, rows, generator, **options):
    """Generate a plan's images; returns its table, and the images and bytes that were counted."""
    batches, progress = make(tmp_path, rows, generator, **options)
    table = generated_table(rows.select(["id", "source_id"]), batches, "staging", generator.columns)
    return table, np.sum(progress, axis=0).tolist()


def read_pixels(table, folder):
    """The images of a table, as Pillow decodes what its places say."""
    packs = [(folder / row["file"]).read_bytes()[row["offset"] :][: row["size"]] for row in table.to_pylist()]
    return np.stack([np.asarray(Image.open(io.BytesIO(data))) for data in packs])


def test_arrays_and_files_become_the_pngs_that_the_generator_makes(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    large = np.random.default_rng(1).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    contents = [pixels[0].tobytes(), encoded(pixels[1]), encoded(large, "WEBP")]
    rows = plan_of(tmp_path, contents, ["rgb32", "encoded", "encoded"])
    generated, counted = generate(tmp_path, rows, FIXED_RESIZE)
    expected = [fixed_resize(Image.fromarray(p)) for p in pixels]
    expected.append(fixed_resize(Image.open(io.BytesIO(contents[2]))))
    assert generated["content_sha256"].to_pylist() == [pixel_sha256(image) for image in expected]
    assert np.array_equal(read_pixels(generated, tmp_path), np.stack([np.asarray(image) for image in expected]))
    assert np.array_equal(read_pixels(generated, tmp_path)[:2], pixels)
    assert counted == [3, sum(map(len, contents))]
    for row in generated.to_pylist():
        data = (tmp_path / row["file"]).read_bytes()[row["offset"] : row["offset"] + row["size"]]
        assert data.startswith(b"\x89PNG")


def test_many_arrays_of_several_containers_in_any_order(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (200, 32, 32, 3), dtype=np.uint8)
    (tmp_path / "rows").write_bytes(pixels[:90].tobytes())
    (tmp_path / "others").write_bytes(b"before" + pixels[90:].tobytes())
    order = np.random.default_rng(1).permutation(200)
    rows = write_plan(
        tmp_path,
        [3072] * 200,
        ["rgb32"] * 200,
        ids=order,
        files=["rows" if i < 90 else "others" for i in order],
        offsets=[i * 3072 if i < 90 else 6 + (i - 90) * 3072 for i in order],
    )
    generated, counted = generate(tmp_path, rows, AS_PNG)
    assert np.array_equal(read_pixels(generated, tmp_path), pixels[order])
    assert counted == [200, 200 * 3072]


def test_grey_arrays_and_files_become_grey_pngs_of_their_size(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
    rows = plan_of(tmp_path, [image.tobytes() for image in pixels], ["grey28"] * 3)
    arrays, counted = generate(tmp_path, rows, AS_GREY_PNG)
    assert np.array_equal(read_pixels(arrays, tmp_path), pixels) and counted == [3, 3 * 784]
    files = plan_of(tmp_path, [encoded(image) for image in pixels], ["encoded"] * 3)
    from_files, _ = generate(tmp_path, files, AS_GREY_PNG)
    assert arrays["content_sha256"].to_pylist() == from_files["content_sha256"].to_pylist()
    assert arrays["content_sha256"].to_pylist() == [pixel_sha256(Image.fromarray(image)) for image in pixels]


def test_a_coloured_file_in_a_mirror_of_grey_images_is_refused(tmp_path):
    rows = plan_of(tmp_path, [encoded(np.zeros((28, 28, 3), np.uint8))], ["encoded"])
    with pytest.raises(BuildError, match=r"it has the mode RGB instead of grey \(L\)"):
        generate(tmp_path, rows, AS_GREY_PNG)


def test_noise_needs_no_file(tmp_path):
    rows = plan_of(tmp_path, [b"", b""], ["none", "none"])
    (tmp_path / "file").unlink()
    generated, _ = generate(tmp_path, rows, GAUSSIAN_NOISE)
    assert generated["content_sha256"].to_pylist() == [pixel_sha256(gaussian_noise(f"s/{i}")) for i in range(2)]


def test_what_cannot_be_decoded_is_refused_or_recorded(tmp_path):
    whole = encoded(np.zeros((8, 8, 3), np.uint8))
    other = encoded(np.full((8, 8, 3), 200, np.uint8))
    rows = plan_of(tmp_path, [whole, whole[:40], b"no image", other], ["encoded"] * 4)
    with pytest.raises(BuildError, match=r"file \(1\) cannot be used \(.*\)\. Replace it"):
        make(tmp_path, rows, FIXED_RESIZE)
    assert not list(tmp_path.glob("*.pack"))
    record, _ = generate(tmp_path, rows, FIXED_RESIZE, drop=True)
    assert [bool(reason) for reason in record["unreadable"].to_pylist()] == [False, True, True, False]
    assert record["size"].to_pylist()[1:3] == [0, 0]
    assert record["content_sha256"].to_pylist()[1:3] == ["", ""]
    assert np.array_equal(read_pixels(record.take([0, 3]), tmp_path)[:, 0, 0, 0], [0, 200])


def test_the_record_comes_after_the_pack(tmp_path, monkeypatch):
    rows = plan_of(tmp_path, [encoded(np.zeros((8, 8, 3), np.uint8))], ["encoded"])
    monkeypatch.setattr(pq, "write_table", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        make(tmp_path, rows, FIXED_RESIZE)
    (batch,) = cut_batches(rows, FIXED_RESIZE, "x", tmp_path)
    assert batch.pack.exists()
    assert not batch.record.exists()


def start_shades(generator):
    """Images that are as wide as their source is, and one pixel higher; the source's first pixel is a column."""

    def make(images):
        assert 1 <= len(images) <= generator.together
        CALLS.append(len(images))
        return [shade(image) for image in images]

    return make


CALLS = []


def shade(image):
    pixels = np.asarray(image.rgb)
    if pixels.max() == 0:
        return Generated(None, reason="it is black")
    taller = np.concatenate([pixels, pixels[:1]])
    return Generated(taller, {"first": int(pixels[0, 0, 0]), "half": pixels[0, 0, 0] / 2})


SHADES = Generator(
    "shades",
    1,
    "one row more",
    (8, 9),
    start_shades,
    columns=(Column("first", "int64", "the first sample"), Column("half", "float64", "half of it")),
    together=3,
)


def squares(*values, side=8):
    return [encoded(np.full((side, side, 3), value, np.uint8)) for value in values]


def test_images_of_any_size_with_columns_are_generated_some_at_a_time(tmp_path):
    contents = [*squares(10, 20), *squares(30, 40, side=11), b"no image", *squares(50, 60)]
    rows = plan_of(tmp_path, contents, ["encoded"] * 7)
    CALLS.clear()
    generated, counted = generate(tmp_path, rows, SHADES, drop=True)
    # One of the second three does not decode, so it is not given.
    assert CALLS == [3, 2, 1]
    assert generated["first"].to_pylist() == [10, 20, 30, 40, None, 50, 60]
    assert generated["half"].to_pylist() == [5.0, 10.0, 15.0, 20.0, None, 25.0, 30.0]
    assert counted[0] == 7
    for row, value, side in zip(
        generated.to_pylist(), [10, 20, 30, 40, 0, 50, 60], [8, 8, 11, 11, 0, 8, 8], strict=True
    ):
        data = (tmp_path / row["file"]).read_bytes()[row["offset"] : row["offset"] + row["size"]]
        if side:
            image = Image.open(io.BytesIO(data))
            assert np.array_equal(np.asarray(image), np.full((side + 1, side, 3), value))
            assert row["content_sha256"] == pixel_sha256(image)
    assert generated["unreadable"].to_pylist()[4].startswith("cannot identify image file")


def test_a_record_names_every_input(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    file = encoded(pixels[0])
    for forms, contents in (
        (["rgb32", "rgb32"], [pixels[0].tobytes(), pixels[1].tobytes()]),
        (["rgb32", "encoded"], [pixels[0].tobytes(), file]),
    ):
        rows = plan_of(tmp_path, contents, forms)
        of_arrays = [pixel_sha256(Image.fromarray(image)) for image in pixels]
        expected = of_arrays if forms[1] == "rgb32" else [of_arrays[0], hashlib.sha256(file).hexdigest()]
        for generator in (AS_PNG, FIXED_RESIZE):
            (batch,), _ = make(tmp_path, rows, generator)
            assert pq.read_table(batch.record)["input_sha256"].to_pylist() == expected
            batch.record.unlink()


def test_an_array_source_has_images_of_one_size(tmp_path):
    rows = plan_of(tmp_path, squares(10), ["encoded"])
    with pytest.raises(BuildError, match=r"No image can be generated from 0 in .*file: it has 8 x 8 pixels instead"):
        make(tmp_path, rows, AS_PNG)
    assert generate(tmp_path, rows, AS_PNG, drop=True)[0]["unreadable"].to_pylist() == [
        "it has 8 x 8 pixels instead of 32 x 32"
    ]


def test_a_generators_reason_is_refused_or_recorded(tmp_path):
    rows = plan_of(tmp_path, squares(10, 0), ["encoded"] * 2)
    with pytest.raises(BuildError, match=r"^No image .* from 1 in .*file: it is black\. .* --allow-partial\.$"):
        make(tmp_path, rows, SHADES)
    assert generate(tmp_path, rows, SHADES, drop=True)[0]["unreadable"].to_pylist() == ["", "it is black"]


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ([], "zip"),
        ([Generated(np.zeros((2, 2, 3), np.uint8), {"first": 1})], "are not those of the columns"),
    ],
)
def test_a_generator_that_breaks_the_contract_is_noticed(tmp_path, returned, sentence, monkeypatch):
    monkeypatch.setattr(f"{__name__}.RETURNED", returned)
    rows = plan_of(tmp_path, squares(10), ["encoded"])
    with pytest.raises(ValueError, match=sentence):
        make(tmp_path, rows, dataclasses.replace(SHADES, start=start_returning))


RETURNED = []


def start_returning(_):
    return lambda _: RETURNED


@pytest.mark.parametrize("form", ["encoded", "rgb32"])
def test_a_batch_is_not_generated_again_from_another_image(tmp_path, form):
    """Its record and what follows from it would keep the old image's digest."""
    pixels = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    contents = [encoded(image, "BMP") if form == "encoded" else image.tobytes() for image in pixels]
    rows = plan_of(tmp_path, contents, [form] * 2)
    for generator in (AS_PNG, FIXED_RESIZE):
        (batch,), _ = make(tmp_path, rows, generator)
        pack, record = batch.pack.read_bytes(), batch.record.read_bytes()
        batch.pack.unlink()
        make(tmp_path, rows, generator)
        assert (batch.pack.read_bytes(), batch.record.read_bytes()) == (pack, record)
        batch.pack.unlink()
        (tmp_path / "file").write_bytes(contents[0] + contents[0])
        with pytest.raises(BuildError, match=r"^The source image 1 in .*file changed since .* another --out\.$"):
            make(tmp_path, rows, generator)
        assert not batch.pack.exists()
        assert batch.record.read_bytes() == record
        (tmp_path / "file").write_bytes(b"".join(contents))


def start_unsteady(_):
    return lambda images: [Generated(np.full((2, 2, 3), next(UNSTEADY), np.uint8)) for _ in images]


UNSTEADY = iter([])


def test_a_batch_whose_images_come_out_differently_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.UNSTEADY", iter([1, 2, 1, 3]))
    rows = plan_of(tmp_path, squares(10, 20), ["encoded"] * 2)
    unsteady = Generator("unsteady", 1, "", (2, 2), start_unsteady)
    (batch,), _ = make(tmp_path, rows, unsteady)
    batch.pack.unlink()
    with pytest.raises(BuildError, match=r"^The image s/1 differs .* \(content_sha256\)"):
        make(tmp_path, rows, unsteady)
    assert not batch.pack.exists()
