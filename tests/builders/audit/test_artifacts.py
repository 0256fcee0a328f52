"""`audit artifacts` on releases with planted artifacts; scikit-learn has the AUROC, Pillow and NumPy the numbers."""

import csv
import hashlib
import io
import math
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.audit.artifacts import known_test
from builders.commands.audit import main
from builders.demo.images import encode_image
from builders.errors import BuildError
from builders.release.manifest import read_manifest
from hf_scripts import card, verify
from tests.hf_scripts.samples import make_release

SPLITS = {"bench/test": range(40), "bench/near_ood": range(30), "bench/far_ood": range(25)}


def pixels(name, width, height, least=0):
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).integers(least, 256, (height, width, 3), dtype=np.uint8)


def picture(name):
    """JPEGs of quality 75; far ones are PNGs, bright, and wider; three near ones of four are of quality 90."""
    split, _, number = name.removesuffix(".png").partition("/")
    number = int(number)
    far = split == "far_ood"
    array = pixels(name, 12 + number % 7 + 9 * far, 10 + number % 3, 120 * far)
    quality = 90 if split == "near_ood" and number % 4 else 75
    image = Image.fromarray(array)
    return encode_image(image, "PNG") if far else encode_image(image, "JPEG", quality=quality)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return make_release(tmp_path_factory.mktemp("artifacts") / "release", SPLITS, picture=picture, shards=2)


@pytest.fixture(scope="module")
def table(release):
    """The table's rows by split and number, of an audit with two workers."""
    assert main(["artifacts", str(release), "--splits", "bench", "--workers", "2"]) == 0
    with (release / "audit/bench/artifacts.csv").open(encoding="utf-8", newline="") as opened:
        return {(row["split"], row["number"]): row for row in csv.DictReader(opened)}


def images(release, split):
    for path in sorted((release / "data/bench").glob(f"{split}-*")):
        for image in pq.read_table(path, columns=["image"])["image"].to_pylist():
            yield image["bytes"]


@pytest.fixture
def roc_auc_score():
    """scikit-learn's, which takes long to import."""
    from sklearn.metrics import roc_auc_score

    return roc_auc_score


MEASURES = {
    "width": lambda data: Image.open(io.BytesIO(data)).width,
    "height": lambda data: Image.open(io.BytesIO(data)).height,
    "aspect": lambda data: Image.open(io.BytesIO(data)).width / Image.open(io.BytesIO(data)).height,
    "bytes_per_pixel": lambda data: len(data) / math.prod(Image.open(io.BytesIO(data)).size),
    "mean_green": lambda data: float(np.asarray(Image.open(io.BytesIO(data)))[..., 1].mean()),
    "variance_blue": lambda data: float(np.asarray(Image.open(io.BytesIO(data)))[..., 2].var()),
}


@pytest.mark.parametrize("split", ["near_ood", "far_ood"])
@pytest.mark.parametrize("number", MEASURES)
def test_aurocs_are_those_of_scikit_learn(release, table, split, number, roc_auc_score):
    known = [MEASURES[number](data) for data in images(release, "test")]
    unknown = [MEASURES[number](data) for data in images(release, split)]
    area = roc_auc_score([0] * len(known) + [1] * len(unknown), known + unknown)  # widths have many ties
    row = table[f"bench/{split}", number]
    assert float(row["auroc"]) == pytest.approx(max(area, 1 - area), abs=5e-5)
    assert row["direction"] == ("higher" if area > 0.5 else "lower")
    assert row["flagged"] == ("yes" if max(area, 1 - area) > 0.9 else "no")
    assert (row["images"], row["known_images"]) == (str(len(unknown)), str(len(known)))


def test_the_quality_of_jpegs_is_compared_where_both_sides_have_some(table):
    # 40 known of 75; of 30 near ones 22 of 90 (those not divisible by 4) and 8 of 75, which are ties.
    row = table["bench/near_ood", "jpeg_quality"]
    assert float(row["auroc"]) == pytest.approx((22 + 8 / 2) / 30, abs=5e-5)
    assert row["direction"] == "higher"
    none = table["bench/far_ood", "jpeg_quality"]
    assert (none["auroc"], none["direction"], none["flagged"], none["images"]) == ("", "", "no", "0")
    assert table["bench/far_ood", "jpeg"] | {"role": ""} == {
        "split": "bench/far_ood",
        "role": "",
        "number": "jpeg",
        "auroc": "1.0000",
        "direction": "lower",
        "flagged": "yes",
        "images": "25",
        "known_images": "40",
    }
    assert (table["bench/near_ood", "jpeg"]["auroc"], table["bench/near_ood", "jpeg"]["direction"]) == ("0.5000", "")


def test_the_card_names_what_separates_and_the_release_stays_whole(release, table, capsys):
    audit = read_manifest(release).audits["bench/artifacts"]
    assert "`far_ood` by jpeg (1.000, lower)" in audit.summary and "near_ood" not in audit.summary
    assert audit.summary in (release / "README.md").read_text(encoding="utf-8")
    assert card.main([str(release), "--check"]) == 0
    assert verify.main([str(release), "--workers", "1"]) == 0
    with Image.open(release / "audit/bench/artifacts.png") as chart:
        assert chart.format == "PNG"


def test_workers_change_nothing_and_a_sample_takes_the_first_rows(release, table, tmp_path, roc_auc_score):
    before = (release / "audit/bench/artifacts.csv").read_bytes()
    assert main(["artifacts", str(release), "--splits", "bench", "--workers", "1"]) == 0
    assert (release / "audit/bench/artifacts.csv").read_bytes() == before
    other = make_release(tmp_path / "release", SPLITS, picture=picture, shards=3)
    assert main(["artifacts", str(other), "--splits", "bench", "--sample", "7", "--workers", "1"]) == 0
    with (other / "audit/bench/artifacts.csv").open(encoding="utf-8", newline="") as opened:
        row = next(
            row for row in csv.DictReader(opened) if row["number"] == "width" and row["split"] == "bench/far_ood"
        )
    known, unknown = ([MEASURES["width"](d) for d in [*images(other, split)][:7]] for split in ("test", "far_ood"))
    area = roc_auc_score([0] * 7 + [1] * 7, known + unknown)
    assert float(row["auroc"]) == pytest.approx(max(area, 1 - area), abs=5e-5)
    assert (row["images"], row["known_images"]) == ("7", "7")


def test_a_config_without_known_images_is_compared_with_those_of_its_benchmark(tmp_path, capsys):
    splits = {"bench/test": range(5), "bench/near_ood": range(5), "bench-more/far_ood": range(5)}
    root = make_release(tmp_path / "release", splits, picture=picture)
    assert main(["artifacts", str(root), "--splits", "bench-more", "--workers", "1"]) == 0
    printed = capsys.readouterr().out
    assert "the known rows of `bench/test`" in printed and "near_ood" not in printed
    assert set(read_manifest(root).audits["bench-more/artifacts"].splits) == {"bench/test", "bench-more/far_ood"}
    assert verify.main([str(root), "--workers", "1"]) == 0


@pytest.mark.parametrize(
    ("splits", "said"),
    [
        ({"a/near_ood": range(1)}, "a has no in-distribution split `test` (no config of its benchmark has one)"),
        ({"a/near_ood": [1], "b/test": [2], "c/test": [3]}, "(configs with one: b, c)"),
    ],
)
def test_known_images_that_are_not_there_or_not_clear(tmp_path, splits, said):
    manifest = read_manifest(make_release(tmp_path / "release", splits))
    with pytest.raises(BuildError) as caught:
        known_test(manifest, "a")
    assert said in str(caught.value)


def test_an_image_that_does_not_decode_gets_one_sentence(tmp_path, capsys):
    def cut(name):
        return picture(name)[:-40] if name == "near_ood/3.png" else picture(name)

    root = make_release(tmp_path / "release", {"bench/test": range(5), "bench/near_ood": range(5)}, picture=cut)
    before = (root / "manifest.json").read_bytes()
    assert main(["artifacts", str(root), "--splits", "bench", "--workers", "2"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    place = r"\(row 3 of row group 0 in \S*near_ood-00000-of-00001\.parquet\)"
    assert re.match(rf"error: The image source/near_ood/3\.png {place} does not decode \(", error)
    assert (root / "manifest.json").read_bytes() == before and not (root / "audit").exists()
