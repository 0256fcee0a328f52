"""Sealed images by a toy: built, verified and loaded, and materialized from their residuals, without the device."""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import shutil
import struct

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.generate import sealed as sealing
from builders.generate.contract import SourceImage
from builders.generate.sealed import Original, unseal
from builders.pipeline import read_plan
from builders.release.digests import rows_digest
from hf_scripts import card, materialize, verify
from tests.builders.conftest import files_of
from tests.builders.generate import toy
from tests.killing import watched_at_renames
from tests.manifests import entry_of, manifest_of, save_manifest
from tests.parquet_footers import ROWS, claim, with_claims
from tests.sentences import assert_sentence

SHARDS = 3
FILE = "sealed/toy-attacked/nudged-00001-of-00003.parquet"
SPLITS = ("nudged", "nudged_other")
DATA = [f"data/toy-attacked/{split}-0000{number}-of-00003.parquet" for split in SPLITS for number in range(SHARDS)]


@contextlib.contextmanager
def with_device(folder):
    """The toy's device and small shards: 10 images of 224 x 224 x 3 bytes are 1.5 MB."""
    with toy.with_device(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_plan, "SHARD_BYTES", 600_000)
        yield


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    return toy.write_photographs(tmp_path_factory.mktemp("photographs"))


@pytest.fixture(scope="module")
def release(photographs, tmp_path_factory):
    """An undisturbed release of a declared split and one of somebody's own; read only."""
    root = tmp_path_factory.mktemp("sealed")
    with with_device(root / "device"):
        toy.build_toy(photographs, root / "release", benchmark=toy.sealed_benchmark(more=True))
    return root / "release"


@pytest.fixture
def published(release, tmp_path, monkeypatch):
    """The release without pixels; the tools build its benchmark, without the split of somebody's own."""
    monkeypatch.setattr("builders.registry.BENCHMARKS", {"toy": toy.sealed_benchmark()})
    monkeypatch.setattr("builders.executors.base._worker_values", {})
    monkeypatch.setattr("builders.generate.batches._BATCH_BYTES", toy.BATCH)
    monkeypatch.setattr(read_plan, "SHARD_BYTES", 600_000)
    assert toy.DEVICE not in os.environ
    return shutil.copytree(release, tmp_path / "published", ignore=shutil.ignore_patterns("data", ".state"))


def materialized(published, photographs, out, *, workers=1):
    flags = ["--splits=toy-attacked", f"--caltech256={photographs}", f"--out={out}", f"--workers={workers}", "--quiet"]
    return materialize.main([str(published), *flags])


def rows_of(release, kind, split):
    paths = sorted((release / kind / "toy-attacked").glob(f"{split}-0*.parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def prepared_by_hand(path):
    """224 x 224 pixels from the centre of 256 x 256: the photographs are square."""
    return np.asarray(Image.open(path).resize((256, 256), Image.BILINEAR).crop((16, 16, 240, 240)))


@pytest.mark.parametrize("split", SPLITS)
def test_residuals_digests_and_pixels_belong_together(release, photographs, split):
    rows, sealed = rows_of(release, "data", split), rows_of(release, "sealed", split)
    assert len(rows) == 10
    assert len(list((release / "sealed" / "toy-attacked").glob(f"{split}-*"))) == SHARDS
    for row, residual in zip(rows, sealed, strict=True):
        assert row["id"] == residual["id"]
        path = photographs / "256_ObjectCategories" / row["source_id"]
        prepared = prepared_by_hand(path)
        assert row["prepared_sha256"] == hashlib.sha256(b"RGB 224 224\n" + prepared.tobytes()).hexdigest()
        pixels = unseal(residual["sealed"], Original(row["id"], path.read_bytes(), prepared))
        assert np.array_equal(pixels, np.asarray(Image.open(io.BytesIO(row["image"]["bytes"]))))
        assert row["content_sha256"] == hashlib.sha256(b"RGB 224 224\n" + pixels.tobytes()).hexdigest()


def test_the_manifest_and_the_card_say_so(release):
    config = manifest_of(release)["configs"]["toy-attacked"]
    assert config["columns"][-1]["name"] == "prepared_sha256"
    split = config["splits"]["nudged"]
    assert split["generator"]["sealed"] == {"size": 224, "resize": 256, "interpolation": "bilinear"}
    assert [file["path"] for file in split["sealed"]] == [path.replace("data/", "sealed/") for path in DATA[:3]]
    text = " ".join((release / "README.md").read_text(encoding="utf-8").split())
    assert text.count("`toy-attacked-sealed` has the same images as *sealed residuals*") == 1
    assert "the shorter side resized to 256 pixels with a bilinear filter, the centre of 224 x 224 cropped" in text


def test_residuals_load_as_a_config(release):
    loaded = datasets.load_dataset(str(release), "toy-attacked-sealed", split="nudged", streaming=True)
    assert list(loaded) == rows_of(release, "sealed", "nudged")


def test_it_verifies_and_so_does_its_card(release, published, capsys):
    for folder in (release, published):
        # Without pixels, as `push --index-only` publishes it.
        manifest = manifest_of(folder)
        if folder == published:
            for split in manifest["configs"]["toy-attacked"]["splits"].values():
                split["data"], split["samples"] = [], None
            save_manifest(folder, manifest)
            shutil.rmtree(folder / "samples")
        assert verify.main([str(folder), "--workers", "1"]) == 0, capsys.readouterr()
        assert card.main([str(folder), "--check"]) == 0


def test_an_index_alone_has_its_residuals(release, photographs, tmp_path):
    with with_device(tmp_path / "device"):
        out = tmp_path / "out"
        toy.build_toy(photographs, out, benchmark=toy.sealed_benchmark(more=True), index_only=True)
    index, expected = files_of(out), files_of(release)
    assert {name for name in expected if not name.startswith(("data/", "samples/"))} == set(index)
    assert all(data == expected[name] for name, data in index.items() if name.startswith(("sealed/", "index/")))


def test_lost_residuals_are_made_again(release, photographs, tmp_path):
    out = shutil.copytree(release, tmp_path / "out")
    (out / FILE).unlink()
    with with_device(tmp_path / "device"):
        toy.build_toy(photographs, out, benchmark=toy.sealed_benchmark(more=True))
        # One shard's images are of two batches of five.
        assert len(toy.logged(tmp_path / "device", "image")) == 10
    assert files_of(out) == files_of(release)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_bytes_come_out_without_the_device(release, published, photographs, tmp_path, workers):
    out = tmp_path / "out"
    # Two workers know the modules of the release's own process only.
    assert materialized(published, photographs, out, workers=workers) == 0
    assert files_of(out) == files_of(release)
    # A finished run changes nothing, and reads no residual again.
    before = {path: path.stat().st_mtime_ns for path in (out / "data").rglob("*.parquet")}
    assert materialized(published, photographs, out) == 0
    assert before == {path: path.stat().st_mtime_ns for path in (out / "data").rglob("*.parquet")}
    # What was opened can be published as it is, and opened again.
    assert verify.main([str(out), "--workers", "1"]) == 0


@pytest.mark.slow
def test_a_killed_opening_resumes(release, published, photographs, tmp_path):
    points = range(1, 42, 8)
    out = tmp_path / "out"
    watched = watched_at_renames(points, out, lambda: materialized(published, photographs, out))
    assert 0 <= watched.renames - points[-1] < points.step, "kills reach the end"
    for point in points:
        watched.as_killed(point)
        assert materialized(published, photographs, out) == 0
        assert files_of(out) == files_of(release), point


def test_a_killed_sealing_resumes(release, photographs, tmp_path):
    points = range(1, 42, 16)
    out = tmp_path / "out"

    def seal():
        toy.build_toy(photographs, out, benchmark=toy.sealed_benchmark(more=True))

    with with_device(tmp_path / "device"):
        watched = watched_at_renames(points, out, seal)
        assert 0 <= watched.renames - points[-1] < points.step, "kills reach the end"
        for point in points:
            watched.as_killed(point)
            seal()
            assert files_of(out) == files_of(release), point


def test_without_the_source_one_sentence_asks_for_it(published, tmp_path, capsys):
    assert materialize.main([str(published), "--splits=toy-attacked", "--out", str(tmp_path / "out"), "--quiet"]) == 2
    assert "--caltech256" in capsys.readouterr().err


def refused(published, photographs, out, capsys):
    """The one sentence, and its next step, of a run that ends with exit code 2."""
    capsys.readouterr()
    assert materialized(published, photographs, out) == 2
    message = capsys.readouterr().err.strip()
    assert "\n" not in message and "Traceback" not in message
    return message


WRONG = 7
"""The row of `nudged` whose original is another: one of the second batch of five."""


def with_another_original(release, photographs, place, data=None):
    """A copy of the photographs with another file in place of an original; returns it and the row's id."""
    root = shutil.copytree(photographs, place)
    row = rows_of(release, "data", "nudged")[WRONG]
    path = root / "256_ObjectCategories" / row["source_id"]
    # The same pixels in another file, as a tool that optimizes JPEGs writes it.
    path.write_bytes(data or path.read_bytes() + bytes(8))
    return root, row["id"]


def test_another_original_is_named_and_what_was_finished_stays(release, published, photographs, tmp_path, capsys):
    out = tmp_path / "out"
    root, row = with_another_original(release, photographs, tmp_path / "copy")
    # A split that was finished before.
    manifest = manifest_of(published)
    nudged = manifest["configs"]["toy-attacked"]["splits"].pop("nudged")
    save_manifest(published, manifest)
    assert materialized(published, root, out) == 0
    manifest["configs"]["toy-attacked"]["splits"] = {"nudged": nudged} | manifest["configs"]["toy-attacked"]["splits"]
    save_manifest(published, manifest)
    before = files_of(out)
    assert {name for name in before if name.startswith("data/")} == set(DATA[3:])
    assert f"original of {row} is not the one that its residual was sealed with" in refused(
        published, root, out, capsys
    )
    after = files_of(out)
    assert {name: after[name] for name in before} == before
    # The right file, and the batch that was opened is not opened again.
    opened, open_row = [], sealing.open_row
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "open_row", lambda *row, **is_: opened.append(row[1].row_id) or open_row(*row, **is_))
        assert materialized(published, photographs, out) == 0
    assert files_of(out) == files_of(release)
    assert row in opened
    assert len(opened) == 5


def test_another_decoder_is_named_with_its_digest(release, published, photographs, tmp_path, capsys, monkeypatch):
    def other(image, preparation):
        pixels = prepared(image, preparation).copy()
        pixels[0, 0, 0] ^= 1
        return pixels

    prepared = sealing.prepare_original
    monkeypatch.setattr(sealing, "prepare_original", other)
    message = refused(published, photographs, tmp_path / "out", capsys)
    row = rows_of(release, "data", "nudged")[0]
    assert_sentence(message, row["id"])
    assert row["prepared_sha256"] in message
    assert not (tmp_path / "out" / "data").exists()


def replaced(published, change):
    """Change the rows of a file of residuals, as somebody who publishes in bad faith."""
    pq.write_table(change(pq.read_table(published / FILE)), published / FILE, write_page_index=True)
    list_again(published)


def list_again(published):
    manifest = manifest_of(published)
    manifest["configs"]["toy-attacked"]["splits"]["nudged"]["sealed"][1] = entry_of(published, FILE)
    save_manifest(published, manifest)


def with_cells(change):
    def changed(table):
        cells = [change(number, cell) for number, cell in enumerate(table["sealed"].to_pylist())]
        return table.set_column(1, "sealed", pa.array(cells, pa.binary()))

    return changed


def with_field(place, value):
    """Another value in the header of the second residual."""
    return with_cells(lambda number, cell: cell[:place] + value + cell[place + len(value) :] if number == 1 else cell)


HUGE = struct.pack("<I", 0xFFFFFFFF)
TAMPERED = {
    "no value": (with_cells(lambda number, cell: None if number else cell), "a cell has no value"),
    "empty": (with_cells(lambda number, cell: b"" if number else cell), "is not sealed as these tools seal"),
    "cut": (with_cells(lambda number, cell: cell[:-9] if number else cell), "is not whole: it has"),
    "flipped": (with_cells(lambda number, cell: cell[:-9] + b"damage..." if number else cell), "is damaged"),
    "version": (with_field(4, b"\xff"), "is sealed in version 255 of the format"),
    "height": (with_field(5, HUGE), "is of 224 x 4,294,967,295 pixels, and its split has images of 224 x 224"),
    "key check": (with_field(17, bytes(8)), "is not the one that its residual was sealed with"),
    "order": (lambda table: table.take([1, 0, *range(2, table.num_rows)]), "its rows are not those of the split's"),
    "too few": (lambda table: table.slice(1), "its rows are not those of the split's index"),
    "columns": (lambda table: table.rename_columns(["id", "residual"]), "its columns are not id and sealed"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_residuals_get_one_sentence(published, photographs, tmp_path, capsys, name):
    change, sentence = TAMPERED[name]
    replaced(published, change)
    assert sentence in refused(published, photographs, tmp_path / "out", capsys)
    assert not (tmp_path / "out" / "data").exists()
    # Of the residuals, `verify` finds without an original all but what the key is needed for; the pixels are missing.
    assert verify.main([str(published), "--workers", "1"]) == 1
    assert (FILE in capsys.readouterr().out) is (name not in ("flipped", "key check"))


def test_other_metadata_of_a_file_of_residuals(published, capsys):
    """From which `datasets` would take the features of the config."""
    features = {name: {"dtype": "large_string", "_type": "Value"} for name in ("id", "sealed")}
    described = json.dumps({"info": {"features": features}})
    replaced(published, lambda t: t.replace_schema_metadata({**t.schema.metadata, "huggingface": described}))
    assert verify.main([str(published), "--workers", "1", "--check", "fast"]) == 1
    assert f"{FILE}: the schema's metadata is not that of a release (in huggingface)" in capsys.readouterr().out


def test_residuals_whose_footer_claims_another_number(published, photographs, tmp_path, capsys):
    data = (published / FILE).read_bytes()
    (published / FILE).write_bytes(with_claims(data, {ROWS: claim(data, ROWS) + 1}))
    list_again(published)
    assert "its footer claims" in refused(published, photographs, tmp_path / "out", capsys)
    assert verify.main([str(published), "--workers", "1", "--check", "fast"]) == 1
    assert f"{FILE}: cannot be read as Parquet: its footer claims" in capsys.readouterr().out


def test_files_that_are_none_of_residuals_get_one_sentence(published, photographs, tmp_path, capsys):
    good = (published / FILE).read_bytes()
    for number, data in enumerate((b"no Parquet", b"", good[: len(good) // 2], good[:4] + good[60:])):
        (published / FILE).write_bytes(data)
        message = refused(published, photographs, tmp_path / f"other-{number}", capsys)
        assert f"{FILE} in the published release is not of shard 1 of toy-attacked/nudged, or not as" in message
        list_again(published)
        message = refused(published, photographs, tmp_path / f"listed-{number}", capsys)
        assert f"Cannot read the sealed residuals {tmp_path / f'listed-{number}' / FILE}" in message
    (published / FILE).unlink()
    message = refused(published, photographs, tmp_path / "none", capsys)
    assert f"The published file {FILE} is not in {published}" in message


def test_a_row_with_another_digest_is_named(release, published, photographs, tmp_path, capsys):
    path = published / "index/toy-attacked/nudged.parquet"
    table = pq.read_table(path)
    digests = pa.array(["0" * 64, *table["content_sha256"].to_pylist()[1:]])
    changed = table.set_column(table.column_names.index("content_sha256"), "content_sha256", digests)
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)
    manifest = manifest_of(published)
    listed = manifest["configs"]["toy-attacked"]["splits"]["nudged"]
    listed["index"], listed["digest"] = entry_of(published, path), rows_digest(changed)
    save_manifest(published, manifest)
    message = refused(published, photographs, tmp_path / "out", capsys)
    row = rows_of(release, "data", "nudged")[0]["id"]
    assert_sentence(message, row)


def test_tools_that_generate_otherwise_refuse(published, photographs, tmp_path, capsys):
    manifest = manifest_of(published)
    splits = manifest["configs"]["toy-attacked"]["splits"]
    for split, change, sentence in (
        ("nudged", {"version": 2}, "with version 1 instead of 2. Use the tools that published it."),
        ("nudged", {"name": "pushed-224"}, "with name nudged-224 instead of pushed-224. Use the tools"),
        ("nudged_other", {"version": 2}, "with version 1 instead of 2. Use the tools that published it."),
        ("nudged_other", {"name": "A name"}, "The release names a generator that cannot be one: 'A name'"),
    ):
        before = splits[split]["generator"]
        splits[split]["generator"] = before | change
        save_manifest(published, manifest)
        splits[split]["generator"] = before
        assert sentence in refused(published, photographs, tmp_path / "out", capsys)
    # A split that is nothing like the declared ones.
    splits["nudged_other"]["parts"][0]["role"] = "corruption"
    save_manifest(published, manifest)
    assert "toy-attacked/nudged_other in" in refused(published, photographs, tmp_path / "out", capsys)


def test_what_opens_has_the_identity_of_what_generated_and_needs_nothing():
    own = dataclasses.replace(toy.NUDGED, requires=("torch",), needs="--weights FILE")
    generator = sealing.residual_opener(own, toy.NUDGED.entry())
    assert generator.identity() == toy.NUDGED.identity()
    assert (generator.sealed, generator.requires, generator.needs, generator.resources.gpus) == (None, (), "", 0)
    with pytest.raises(ValueError, match="x has no sealed residual"):
        generator.start(generator)([SourceImage("x", "", "", None, b"")])
