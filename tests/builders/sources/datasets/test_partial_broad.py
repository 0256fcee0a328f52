"""PartialBROAD: what a row says of its original, and what breaks a copy."""

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.demo.containers import ORIGINALS, originals
from builders.sources.datasets.partial_broad import ADVERSARIAL, SYNTHETIC, expected
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from tests.builders.trees import opened, refusal
from tests.sentences import assert_sentence

NAME = "ILSVRC2012_val_00000293_n01440764.JPEG"


def write(root, rows, partition="adversarial_pgd_vit", name="{}-00000-of-00001.parquet"):
    """Write (label, original_filename, original_hash) rows as the Hub has them."""
    image = {"bytes": b"-", "path": None}
    table = pa.table(
        {
            "image": [image] * len(rows),
            "label": [label for label, _, _ in rows],
            "original_filename": [name for _, name, _ in rows],
            "original_hash": [known for *_, known in rows],
        },
        schema=pa.schema(
            [
                ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
                ("label", pa.int64()),
                ("original_filename", pa.string()),
                ("original_hash", pa.string()),
            ]
        ),
    )
    path = root / "data" / name.format(partition)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def test_sizes_are_the_published_ones():
    # SPEC of the dataset: 4 x 5,000 ciphers and 2 x 25,000 images, 25 a class.
    assert [expected()[name].total for name in (*ADVERSARIAL, *SYNTHETIC)] == [5_000] * 4 + [25_000] * 2
    assert set(expected()["synthetic_gan"].per_class.values()) == {25}


def test_the_demo_names_files_of_the_demos_imagenet_with_their_hashes(demo):
    table = opened("partial_broad", demo["partial_broad"]).table
    ciphers = [row for row in table.to_pylist() if row["original_id"]]
    assert len(ciphers) == 4 * ORIGINALS
    assert {row["original_id"] for row in ciphers} == {image.source_id for image in originals()}
    places = {image.source_id: (image.path, image.class_id) for image in originals()}
    for row in ciphers:
        path, class_id = places[row["original_id"]]
        content = (demo["imagenet"] / path).read_bytes()
        assert row["class_id"] == class_id
        assert row["original_hash"] in (hashlib.sha512(content).hexdigest()[:64], "none")
    assert [row["original_hash"] for row in ciphers].count("none") == 1


@pytest.mark.parametrize("name", [NAME, "ILSVRC2012_val_00000293.JPEG", f"val/{NAME}"])
def test_names_with_and_without_a_class_are_the_same_image(tmp_path, name):
    write(tmp_path, [(0, name, "none")])
    (row,) = open_source(SOURCES["partial_broad"], tmp_path, ("adversarial_pgd_vit",)).table.to_pylist()
    assert row["original_id"] == "val/ILSVRC2012_val_00000293.JPEG"
    assert row["source_id"] == "adversarial_pgd_vit/ILSVRC2012_val_00000293"
    assert row["class_id"] == "n01440764"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((1000, NAME, "none"), "the label 1000 is not from 0 to 999"),
        ((None, NAME, "none"), "the label None is not from 0 to 999"),
        ((1, NAME, "none"), f"{NAME} has the label 1, of another class"),
        ((0, "n01440764_10026.JPEG", "none"), "n01440764_10026.JPEG is not named ILSVRC2012_val_<8 digits>.JPEG"),
        ((0, None, "none"), "the original None is not named"),
        ((0, NAME, "0" * 63), f"the hash of {NAME} is neither 64 hexadecimal digits nor none"),
        ((0, NAME, None), f"the hash of {NAME} is neither"),
    ],
)
def test_a_row_that_cannot_be_right_is_refused_with_its_place(tmp_path, row, words):
    path = write(tmp_path, [(0, NAME, "none"), row])
    message = refusal("partial_broad", tmp_path, "adversarial_pgd_vit")
    assert words in message
    assert_sentence(message, path, "Download ServiceNow/PartialBROAD")


def test_files_that_are_no_part_of_it_are_refused(tmp_path):
    partition = "adversarial_pgd_vit"
    path = write(tmp_path / "short", [(0, NAME, "none")], name="{}-00000-of-00002.parquet")
    assert "lacks files of a set" in refusal("partial_broad", tmp_path / "short", partition)
    place = tmp_path / "other" / "data" / f"{partition}-00000-of-00001.parquet"
    place.parent.mkdir(parents=True)
    pq.write_table(pq.read_table(path).drop_columns(["original_hash"]), place)
    assert "lacks the columns of text original_hash" in refusal("partial_broad", tmp_path / "other", partition)
    place.write_bytes(b"PAR1")
    assert "cannot be read as Parquet" in refusal("partial_broad", tmp_path / "other", partition)
    (tmp_path / "empty").mkdir()
    assert f"data/{partition}-*.parquet" in refusal("partial_broad", tmp_path / "empty", partition)
