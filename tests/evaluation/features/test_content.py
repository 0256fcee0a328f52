"""What is evaluated is what the folder holds, and only if it is what the digests say: caches, damage, exchanged rows.

Expected features come from an extraction of an undisturbed release, and from models that are run on its pictures.
"""

import hashlib
import io
import re
import shutil
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import ExifTags, Image

import unknown_detection as ud
from tests.builders.conftest import files_of
from tests.evaluation import small_models
from tests.evaluation.extra import torch
from tests.evaluation.refusals import refusal, refused
from tests.evaluation.samples import CONFIG, fitted, picture
from tests.evaluation.written_release import made_row, write_release
from tests.sentences import assert_sentence
from unknown_detection.evaluation.images import SplitImages
from unknown_detection.evaluation.releases import load

pytestmark = pytest.mark.usefixtures("one_thread")

ROW = "source/test/3.png"
SHARD = f"data/{CONFIG}/test-00000-of-00001.parquet"


@pytest.fixture
def run(command, weights, tmp_path):
    """Run a command on a release."""
    given = {"model": f"{small_models.__file__}:with_dropout", "weights": weights, "device": "cpu"}
    return lambda name, folder, out, *flags: command(name, *flags, release=folder, out=tmp_path / out, **given)


@pytest.fixture
def extract(run):
    """Extract the features of a split."""
    return lambda folder, out, *flags: run("extract", folder, out, "--splits", f"{CONFIG}/test", *flags)


def copy_of(release, folder):
    return Path(shutil.copytree(release, folder / "rel"))


def with_images(root, change):
    """Rewrite the shard of the test split with other images, and nothing beside it."""
    table = pq.read_table(root / SHARD)
    images = table["image"].to_pylist()
    change(images)
    column = table.schema.get_field_index("image")
    table = table.set_column(column, table.schema.field(column), pa.array(images, table.schema.field(column).type))
    pq.write_table(table, root / SHARD, write_page_index=True, compression="none")


def with_another(images):
    images[3]["bytes"] = picture("near_ood/3.png")


def test_two_folders_of_one_name_and_card_and_one_is_damaged(release, extract, tmp_path):
    """The cache of `datasets` is keyed by the folder's last name and the card: both had the images of the first."""
    damaged, whole = (copy_of(release, tmp_path / name) for name in ("damaged", "whole"))
    assert extract(release, "expected")[0] == 0
    with_images(damaged, with_another)
    digests = [hashlib.sha256(picture(name)).hexdigest()[:12] for name in ("near_ood/3.png", "test/3.png")]
    message = refused(extract(damaged, "first"))
    assert_sentence(
        message,
        ROW,
        f"{CONFIG}/test",
        damaged,
        "its digest is {}, but the index lists {}. Run `python -m hf_scripts.verify`".format(*digests),
    )
    assert extract(whole, "second")[0] == 0
    assert files_of(tmp_path / "second") == files_of(tmp_path / "expected")
    # Repaired in place.
    shutil.copy(release / SHARD, damaged / SHARD)
    assert extract(damaged, "first")[0] == 0
    assert files_of(tmp_path / "first") == files_of(tmp_path / "expected")


@pytest.mark.parametrize("data", [b"no picture", b"", None], ids=["text", "empty", "null"])
def test_what_is_no_image_is_another_one_too(release, extract, tmp_path, data):
    """In workers as without; no block with the image is kept."""
    damaged = copy_of(release, tmp_path)
    with_images(damaged, lambda images: images[3].update(bytes=data))
    for workers in (0, 2):
        message = refused(extract(damaged, "out", "--workers", workers, "--batch-size", 8))
        assert_sentence(message, ROW, f"{CONFIG}/test", damaged)
    assert not list((tmp_path / "out" / "features").rglob("*.arrow"))


def test_a_second_pass_over_the_images_compares_them_again(release, extract, run, tmp_path):
    """Of ODIN, dropout and crops: the shard was exchanged after the features were extracted."""
    damaged = copy_of(release, tmp_path)
    assert extract(damaged, "features")[0] == 0
    with_images(damaged, with_another)
    for name in ("odin", "mc_dropout", "cadet"):
        flags = ("--features", tmp_path / "features", "--detectors", name, "--no-search")
        message = refused(run("score", damaged, "scores.parquet", *flags))
        assert_sentence(message, ROW, f"{CONFIG}/test", damaged)
    assert not (tmp_path / "scores.parquet").exists()


def test_a_digest_of_pixels_is_of_pixels(digits, tmp_path):
    """A PNG may be encoded in another way; one whose pixels differ, and one turned by EXIF, are refused."""
    release = load(str(digits))
    row = release.images("digits", "test")[0]
    assert row["stored"] == "pixels"
    pixels = np.asarray(row["image"])

    def opened(pixels, **options):
        encoded = io.BytesIO()
        Image.fromarray(pixels).save(encoded, "PNG", **options)
        path = tmp_path / "shard.parquet"
        pq.write_table(pa.table({"image": [{"bytes": encoded.getvalue()}]}), path)
        return SplitImages(release.rows("digits", "test").slice(0, 1), [path], "digits/test", "it")

    assert np.array_equal(np.asarray(opened(pixels, compress_level=0).image(0)), pixels)
    turned = Image.Exif()
    turned[ExifTags.Base.Orientation] = 3
    for images in (opened(pixels ^ 1), opened(pixels, exif=turned)):
        assert f"The image of row {row['id']} of digits/test in it is another one" in refusal(images.image, 0)


def test_a_release_on_the_hub_that_was_never_verified(release, extract, hub, api, only_loopback, tmp_path):
    """An index other than the manifest lists, and a shard whose images its index does not list."""
    files = files_of(release)
    index = f"index/{CONFIG}/test.parquet"
    hub.create("org/small")
    hub.commit("org/small", files | {index: files[f"index/{CONFIG}/near_ood.parquet"]})
    assert f"{index} of org/small at commit" in refused(extract("org/small", "out"))
    damaged = copy_of(release, tmp_path)
    with_images(damaged, with_another)
    hub.commit("org/small", files_of(damaged))
    message = refused(extract("org/small", "out"))
    assert re.search(rf"The image of row {ROW} of {CONFIG}/test in org/small at commit \w+ is another one", message)
    hub.commit("org/small", {SHARD: None})
    assert re.search(
        rf"org/small at commit \w+ has no {SHARD}, although its manifest", refused(extract("org/small", "out"))
    )


def test_nothing_is_left_in_the_cache_of_datasets(release, extract, monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    assert extract(release, "out")[0] == 0
    assert not (tmp_path / "cache").exists()


def test_an_id_of_two_images_is_refused(tmp_path):
    """Else the features of the one that is read first would be taken for the other's."""

    def eighth(image):
        return torch.from_numpy(np.array(image.resize((8, 8)), np.float32) / 255 - 0.5).permute(2, 0, 1)

    def rows(shade):
        with io.BytesIO() as file:
            Image.new("RGB", (8, 8), (shade, 0, 0)).save(file, "PNG")
            image = {"bytes": file.getvalue(), "path": "a.png"}
        return [made_row("source/a.png", "in_distribution", 0, image=image)]

    labels = ("a", "b", "c", "d")
    release = write_release(tmp_path / "release", {"one/test": rows(0), "two/test": rows(9)}, labels)
    options = {"preprocessing": eighth, "device": "cpu", "workers": 0, "cache": tmp_path / "out"}
    ud.extract(fitted(small_models.cnn), release, "one/test", **options)
    message = refusal(ud.extract, fitted(small_models.cnn), release, "two/test", **options)
    assert_sentence(message, "source/a.png")
