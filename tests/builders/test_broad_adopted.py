"""BROAD with the authors' own images: deciphered, stored, verified, materialized, and what is left out or refused."""

import dataclasses
import hashlib
import io
import json
import shutil

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders import broad_benchmark
from builders.broad_benchmark import ORIGINALS
from builders.demo.containers import attacked, originals
from builders.demo.images import encode_image, encode_jpeg
from builders.generate.contract import Companion, SourceImage
from builders.generate.exact.deciphered import decipher, is_noise, partial_broad
from builders.plan.candidates import missing_originals, shared_originals
from builders.release.images import array_sha256
from builders.release.manifest import read_manifest
from builders.sources.datasets.partial_broad import ADVERSARIAL
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from builders.storage.file_cipher import deciphered, file_hash
from hf_scripts import materialize, verify
from taxonomy import tables
from tests.builders.photographs import photographs
from tests.builders.sources.datasets.test_partial_broad import write
from tests.builders.trees import linked, replaced
from tests.sentences import assert_sentence

PGD_VIT = dataclasses.replace(ORIGINALS, partitions=("adversarial_pgd_vit",))
SPLITS = "broad-reference/test,broad-adversarial,broad-synthetic"


def build(imagenet, partial_broad, out, splits=SPLITS):
    flags = [f"--imagenet={imagenet}", f"--adopt-partial-broad={partial_broad}", f"--splits={splits}"]
    return broad_benchmark.main([*flags, f"--out={out}", "--workers=1"])


@pytest.fixture(scope="module")
def release(demo, tmp_path_factory):
    """A release with the demo's PartialBROAD; read only."""
    out = tmp_path_factory.mktemp("adopted") / "release"
    assert build(demo["imagenet"], demo["partial_broad"], out) == 0
    return out


def rows(release, config, split):
    (path,) = sorted((release / "data" / config).glob(f"{split}-*.parquet"))
    return pq.read_table(path).to_pylist()


@pytest.mark.parametrize(
    ("split", "partition", "side"),
    [
        ("pgd_resnet50", "adversarial_pgd_resnet", 224),
        ("autoattack_resnet50", "adversarial_autoattack_resnet", 224),
        ("pgd_vit", "adversarial_pgd_vit", 384),
        ("autoattack_vit", "adversarial_autoattack_vit", 384),
    ],
)
def test_ciphers_become_the_images_that_were_enciphered(release, demo, split, partition, side):
    drawn = {image.source_id: image for image in originals()}
    labels = {row.wnid: number for number, row in enumerate(tables.imagenet1k())}
    built = rows(release, "broad-adversarial", split)
    assert {row["source_id"] for row in built} == drawn.keys()
    # In the order of their originals.
    assert [row["source_id"] for row in built] == [
        row["source_id"] for row in rows(release, "broad-reference", "test")
    ]
    for row in built:
        pixels = np.asarray(Image.open(io.BytesIO(row["image"]["bytes"])))
        assert pixels.shape == (side, side, 3)
        assert np.array_equal(pixels, np.asarray(attacked(partition, drawn[row["source_id"]], 0)))
        assert row["stored"] == "adopted"
        assert row["content_sha256"] == array_sha256(pixels[None])[0]
        attack, _, model = split.partition("_")
        assert row["id"] == f"imagenet/{row['source_id']}#partial-broad-{attack}-{model}"
        assert (row["attack"], row["model"], row["source"]) == (attack, model, "imagenet")
        assert row["label"] == labels[row["class_id"]]
        file = (demo["imagenet"] / drawn[row["source_id"]].path).read_bytes()
        assert row["original_hash"] == hashlib.sha512(file).hexdigest()[:64]
    unpublished = {row["source_id"] for row in built if not row["hash_published"]}
    assert unpublished == ({"val/ILSVRC2012_val_00000010.JPEG"} if split == "pgd_resnet50" else set())


def test_the_clean_side_is_exactly_their_originals(release, demo):
    assert {row["source_id"] for row in rows(release, "broad-reference", "test")} == {
        image.source_id for image in originals()
    }
    excluded = (release / "excluded" / "broad-reference.csv").read_text(encoding="utf-8")
    assert "PartialBROAD has no image made of it in adversarial_pgd_resnet" in excluded


@pytest.mark.parametrize(
    ("split", "partition"), [("biggan", "synthetic_gan"), ("stable_diffusion", "synthetic_diffusion")]
)
def test_synthetic_images_are_stored_as_they_are(release, demo, split, partition):
    (path,) = (demo["partial_broad"] / "data").glob(f"{partition}-*.parquet")
    stored = [row["image"]["bytes"] for row in pq.read_table(path).to_pylist()]
    built = rows(release, "broad-synthetic", split)
    assert len(built) == 1000
    for row in built:
        content = stored[int(row["source_id"].rpartition("/")[2])]
        assert row["image"]["bytes"] == content
        assert (row["stored"], row["source"]) == ("source", "partial_broad")
        assert row["content_sha256"] == hashlib.sha256(content).hexdigest()


def test_it_verifies_and_its_manifest_says_what_it_is(release, capsys):
    assert verify.main([str(release), "--workers", "1"]) == 0, capsys.readouterr()
    manifest = read_manifest(release)
    assert manifest.benchmarks["broad"].version == "1.1.0+adopt-partial-broad"
    entry = manifest.configs["broad-adversarial"].splits["pgd_vit"]
    assert (entry.generator.reproducible, entry.sources) == ("exact", ("imagenet",))
    # Pixels of ImageNet are for nobody's repository, the synthetic ones for everybody's.
    assert {key: source.licence.publish for key, source in manifest.sources.items()} == {
        "imagenet": "ids-only",
        "partial_broad": "open",
    }


def test_it_is_materialized_from_the_same_sources(release, demo, tmp_path, capsys):
    published = shutil.copytree(release, tmp_path / "index", ignore=shutil.ignore_patterns("data", ".state"))
    sources = [f"--imagenet={demo['imagenet']}", f"--partial_broad={demo['partial_broad']}"]
    command = [str(published), "--splits=broad-adversarial", f"--out={tmp_path / 'out'}", "--workers=1"]
    assert materialize.main([*command, *sources]) == 0, capsys.readouterr()
    for split in ("pgd_resnet50", "autoattack_vit"):
        assert rows(tmp_path / "out", "broad-adversarial", split) == rows(release, "broad-adversarial", split)
    assert materialize.main([*command[:2], f"--out={tmp_path / 'other'}", sources[0]]) == 2
    assert_sentence(capsys.readouterr().err, "--partial_broad", "DIR")


def test_the_flag_without_a_folder_names_the_source(demo, tmp_path, capsys):
    flags = [f"--imagenet={demo['imagenet']}", "--splits=broad-adversarial/pgd_vit", f"--out={tmp_path / 'out'}"]
    assert broad_benchmark.main([*flags, "--adopt-partial-broad"]) == 2
    message = capsys.readouterr().err
    assert "https://huggingface.co/datasets/ServiceNow/PartialBROAD" in message
    # What the message asks for is a flag, too, but says nothing alone.
    assert "--partial_broad DIR  PartialBROAD, for broad-adversarial" in message
    assert broad_benchmark.main([*flags, f"--partial_broad={demo['partial_broad']}"]) == 2
    assert_sentence(capsys.readouterr().err, "--partial_broad", "--adopt-partial-broad")
    # Without the flag these are the images of own attacks, which need weights.
    assert broad_benchmark.main(flags) == 2
    assert_sentence(capsys.readouterr().err, "broad-adversarial/pgd_vit", "--model", "--weights", "FILE")


@pytest.fixture
def imagenet(demo, tmp_path):
    """The demo's validation images as links, so that one can be replaced, and never written into."""
    root = tmp_path / "imagenet"
    linked(demo["imagenet"] / "val", root / "val")
    shutil.copy(demo["imagenet"] / "DEMO.txt", root)
    return root


def test_an_original_that_was_encoded_again_or_is_missing_is_left_out_with_its_reason(demo, imagenet, tmp_path):
    encoded_again, missing = (imagenet / image.path for image in originals()[6:8])
    replaced(encoded_again, lambda data: encode_jpeg(Image.open(io.BytesIO(data))))
    missing.unlink()
    out = tmp_path / "out"
    assert build(imagenet, demo["partial_broad"], out, "broad-adversarial/pgd_resnet50") == 0
    ids = {row["source_id"] for row in rows(out, "broad-adversarial", "pgd_resnet50")}
    assert len(ids) == 8
    assert not {f"val/{encoded_again.name}", f"val/{missing.name}"} & ids
    entry = json.loads((out / "manifest.json").read_text())["configs"]["broad-adversarial"]["splits"]["pgd_resnet50"]
    shortfalls = " ".join(entry["shortfalls"])
    assert f"val/{encoded_again.name} left out as unreadable (it is not the file that the authors" in shortfalls
    assert "lacks 1 of the 10 images from which PartialBROAD has images" in shortfalls
    assert f"such as val/{missing.name}" in shortfalls


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda _: b"", "its file is empty"),
        (lambda data: data[: len(data) // 2], "deciphers to noise"),
        (lambda data: encode_jpeg(Image.open(io.BytesIO(data))), "deciphers to noise"),
    ],
    ids=["empty", "cut", "encoded again"],
)
def test_an_original_without_a_published_hash_is_judged_by_what_it_deciphers(demo, imagenet, tmp_path, change, reason):
    """An empty file ended in a traceback, and any other file but the right one gave a row of noise."""
    (unpublished,) = (image for image in originals() if image.source_id == "val/ILSVRC2012_val_00000010.JPEG")
    replaced(imagenet / unpublished.path, change)
    out = tmp_path / "out"
    assert build(imagenet, demo["partial_broad"], out, "broad-adversarial/pgd_resnet50") == 0
    ids = {row["source_id"] for row in rows(out, "broad-adversarial", "pgd_resnet50")}
    assert ids == {image.source_id for image in originals()} - {unpublished.source_id}
    entry = json.loads((out / "manifest.json").read_text())["configs"]["broad-adversarial"]["splits"]["pgd_resnet50"]
    assert f"{unpublished.source_id} left out as unreadable" in " ".join(entry["shortfalls"])
    assert reason in " ".join(entry["shortfalls"])


def test_noise_is_told_from_pictures():
    # The seeds are arbitrary. A finest checkerboard, whose neighbours differ by 255, is no noise.
    for side in (224, 384):
        for seed in range(20):
            drawn = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
            assert is_noise(drawn)
    board = (np.indices((224, 224)).sum(axis=0) % 2 * 255).astype(np.uint8)[..., None].repeat(3, axis=2)
    assert not is_noise(board)
    for photograph in photographs():
        attacked = np.asarray(photograph.convert("RGB")).astype(int)
        attacked += np.random.default_rng(0).choice([-12, 12], attacked.shape)
        assert not is_noise(attacked.clip(0, 255).astype(np.uint8))


ORIGINAL = b"the original's file"


def companion(image, known=None, **options):
    """A cipher of an image, with the hash of its original."""
    cipher = Image.fromarray(deciphered(np.asarray(image), ORIGINAL))
    source = Companion(encode_image(cipher, "PNG", **options), {"original_hash": known or file_hash(ORIGINAL)})
    return SourceImage("imagenet/val/x.JPEG#pgd", "n01440764", "tench", None, ORIGINAL, source)


def of_size(width, height):
    """The generator of a set of such images."""
    return dataclasses.replace(partial_broad("pgd", "resnet50", 224), size=(width, height))


def picture(width, height, mode="RGB"):
    generator = np.random.default_rng(0)
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    return Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8))


def test_a_cipher_opens_with_its_hash_and_without_one():
    image = picture(6, 5)
    for known, published in ((None, True), ("none", False)):
        result = decipher(of_size(6, 5), companion(image, known))
        assert np.array_equal(result.pixels, np.asarray(image))
        how = {"attack": "pgd", "model": "resnet50"}
        assert result.values == {**how, "original_hash": file_hash(ORIGINAL), "hash_published": published}


def test_what_gives_no_image_has_a_reason():
    enciphered = companion(picture(6, 5))
    cut = SourceImage(*[getattr(enciphered, name) for name in ("id", "class_id", "class_name", "image", "data")])
    for image, size, words in (
        (companion(picture(6, 5), "0" * 64), (6, 5), f"its hash is {file_hash(ORIGINAL)[:12]}, not 000000000000"),
        (enciphered, (224, 224), "its cipher in PartialBROAD has 6 x 5 pixels of mode RGB instead of 224 x 224"),
        (companion(picture(6, 5, "L")), (6, 5), "6 x 5 pixels of mode L instead of 6 x 5 of mode RGB"),
    ):
        result = decipher(of_size(*size), image)
        assert result.pixels is None
        assert words in result.reason
    png = enciphered.companion.data
    for data in (b"", b"no PNG", png[:60], png[:-40], png[:50] + b"\0" + png[51:], encode_jpeg(picture(6, 5))):
        damaged = dataclasses.replace(enciphered, companion=dataclasses.replace(enciphered.companion, data=data))
        result = decipher(of_size(6, 5), damaged)
        assert result.pixels is None
        assert result.reason.startswith("its cipher in PartialBROAD is not a whole PNG (")
        assert "0x" not in result.reason
    with pytest.raises(ValueError, match="has no cipher"):
        decipher(of_size(6, 5), cut)


def test_whether_the_sets_share_their_originals_is_counted(demo, tmp_path):
    index = open_source(SOURCES["partial_broad"], demo["partial_broad"], ADVERSARIAL)
    assert shared_originals(ORIGINALS, index) == "all 4 partitions share the same 10 originals"
    names = [f"ILSVRC2012_val_{number:08d}_n01440764.JPEG" for number in (1, 2, 3)]
    for partition in ADVERSARIAL:
        several = names[:2] if partition != "adversarial_pgd_vit" else names[1:]
        write(tmp_path, [(0, name, "none") for name in several], partition)
    other = open_source(SOURCES["partial_broad"], tmp_path, ADVERSARIAL)
    assert shared_originals(ORIGINALS, other).startswith(
        "the partitions do not share all originals: 3 in total, 1 in all (adversarial_pgd_resnet 2, "
    )
    imagenet = open_source(SOURCES["imagenet"], demo["imagenet"], ("val",))
    assert missing_originals(PGD_VIT, index, imagenet) == ""
    (partition,) = imagenet.partitions
    few = partition.table.filter(pc.not_equal(partition.table["source_id"], "val/ILSVRC2012_val_00000003.JPEG"))
    short = dataclasses.replace(imagenet, partitions=(dataclasses.replace(partition, table=few),))
    missing = missing_originals(PGD_VIT, index, short)
    assert "lacks 1 of the 10 images" in missing and missing.endswith("such as val/ILSVRC2012_val_00000003.JPEG")
