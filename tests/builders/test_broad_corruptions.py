"""BROAD's corruptions from a small ImageNet of photographs: built, verified, loaded, rebuilt and refused."""

import shutil

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.broad_benchmark import BENCHMARK, PAPERS_CORRUPTIONS, main
from builders.errors import BuildError
from builders.generate import batches
from builders.generate.contract import SourceImage, _installed
from builders.generate.exact.corruptions import corruption
from builders.plan.candidates import Draws
from builders.plan.planner import plan
from builders.release.manifest import read_manifest
from builders.release.schema import ROLES
from hf_scripts import materialize, verify
from hf_scripts.publish.licences import check_licences
from tests.builders.conftest import assert_same_files, files_of
from tests.builders.indexes import whole_index
from tests.builders.photographs import photographs
from tests.manifests import manifest_of, rows_in
from tests.sentences import assert_sentence, stops

CONFIG = "broad-corruptions"
CLASSES = ("n01440764", "n01443537", "n02123045")


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory):
    """Six images of each of three classes, of several sizes and modes, some smaller than 224."""
    root = tmp_path_factory.mktemp("imagenet")
    sizes = ((400, 300), (300, 400), (120, 90), (333, 250), (250, 333), (500, 300))
    for number, wnid in enumerate(CLASSES * 6):
        image = photographs()[number % 2].rotate(number).resize(sizes[number // 3])
        path = root / "val" / wnid / f"ILSVRC2012_val_{number + 1:08d}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.convert(("RGB", "RGB", "L", "CMYK")[number % 4]).save(path, "JPEG", quality=90)
    return root


def build(imagenet, out, splits, *flags, workers=1):
    common = [f"--imagenet={imagenet}", f"--splits={splits}", "--allow-partial", "--quiet", f"--workers={workers}"]
    return main([*common, *flags, "--out", str(out)])


@pytest.fixture(scope="module")
def release(imagenet, tmp_path_factory):
    pytest.importorskip("imagecorruptions", reason="needs the extra generate")
    out = tmp_path_factory.mktemp("corruptions") / "release"
    assert build(imagenet, out, f"broad-reference/test,{CONFIG}") == 0
    return out


def rows_of(root, key, *columns):
    return pq.read_table(root / "index" / f"{key}.parquet", columns=list(columns)).to_pylist()


def test_every_split_has_the_images_of_the_reference(release):
    columns = ("source_id", "label", "class_id")
    clean = rows_of(release, "broad-reference/test", *columns)
    assert len(clean) == 9  # half of each class at most
    for name in PAPERS_CORRUPTIONS:
        key = f"{CONFIG}/{name}"
        assert rows_of(release, key, *columns) == clean
        assert rows_of(release, key, "corruption", "severity", "stored") == [
            {"corruption": name, "severity": 5, "stored": "pixels"}
        ] * len(clean)


def test_rows_load_and_their_pixels_are_the_generators(release, imagenet, tmp_path):
    loaded = datasets.load_dataset(str(release), CONFIG, cache_dir=str(tmp_path))
    for name, rows in loaded.items():
        generator = corruption(name, 5)
        generate = generator.start(generator)
        for row in rows:
            assert row["id"] == f"imagenet/{row['source_id']}#{name}-5"
            assert row["role"] == ROLES.index("corruption")
            image = Image.open(imagenet / "val" / row["class_id"] / row["source_id"].rpartition("/")[2])
            expected = generate([SourceImage(row["id"], "", "", image, b"")])[0].pixels
            assert row["image"].size == (224, 224)
            assert np.array_equal(np.asarray(row["image"]), expected)


def test_another_order_smaller_batches_and_more_workers_change_no_byte(release, imagenet, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_BATCH_BYTES", 1 << 19)
    last, *others = reversed([f"{CONFIG}/{name}" for name in PAPERS_CORRUPTIONS])
    for splits in (last, ",".join([*others, "broad-reference/test"])):
        assert build(imagenet, tmp_path, splits, workers=2) == 0
    assert len(list((tmp_path / ".state" / "staging").glob("*snow*.made.parquet"))) == 4
    assert_same_files(release, tmp_path, 10, lambda name: name.startswith(("data/", "index/")))


def test_the_release_verifies_and_says_how_it_was_made(release, capsys):
    assert verify.main([str(release), "--workers", "1"]) == 0, capsys.readouterr()
    entry = manifest_of(release)["configs"][CONFIG]["splits"]["snow"]
    assert entry["generator"] == corruption("snow", 5).identity() | {"prepared": 224}
    card = (release / "README.md").read_text(encoding="utf-8")
    assert "ImageNet-C's own files are JPEGs of quality 85; these are PNGs without that loss" in card
    assert "the snow is blurred by the library's own 25 taps instead of ImageMagick's." in card
    assert "| `severity` | int64 | its severity, 1 to 5 |" in card


def test_they_are_recomputed_from_the_index_and_compared(release, imagenet, tmp_path, capsys):
    published = tmp_path / "published"
    for name in ("index", "excluded", "duplicates"):
        shutil.copytree(release / name, published / name)
    shutil.copy(release / "manifest.json", published)
    flags = [f"--splits={CONFIG}", "--workers=1", "--quiet"]
    out = tmp_path / "again"
    assert materialize.main([str(published), *flags, f"--imagenet={imagenet}", f"--out={out}"]) == 0
    assert_same_files(out, release, 4, lambda name: name.startswith("data/"))
    # One source image is another picture than when the index was published.
    other = shutil.copytree(imagenet, tmp_path / "other")
    changed = rows_of(release, "broad-reference/test", "source_id", "class_id")[0]
    path = other / "val" / changed["class_id"] / changed["source_id"].rpartition("/")[2]
    Image.new("RGB", (300, 300), (9, 99, 9)).save(path, "JPEG")
    capsys.readouterr()
    assert materialize.main([str(published), *flags, f"--imagenet={other}", f"--out={tmp_path / 'refused'}"]) == 2
    assert path.name in capsys.readouterr().err


def test_their_pixels_are_published_no_wider_than_imagenets(release):
    manifest = read_manifest(release)
    for access in ("public", "gated"):
        with stops(BuildError, "ImageNet-1k", "--index-only"):
            check_licences(manifest, access, "somebody/release")
    check_licences(manifest, "private", "somebody/release")


# --- others than the paper's


def test_all_19_corruptions_can_be_built_at_any_severity(release, imagenet, tmp_path):
    names = {key for key in BENCHMARK.splits if key.startswith(("broad-corruptions/", "broad-corruptions-more/"))}
    assert len(names) == 19 * 5
    assert not any(key.startswith("broad-corruptions-more/") for key in BENCHMARK.usual())
    out = shutil.copytree(release, tmp_path / "out")
    assert build(imagenet, out, "broad-corruptions-more/fog_3,broad-corruptions-more/pixelate_1") == 0
    splits = manifest_of(out)["configs"]["broad-corruptions-more"]["splits"]
    assert {name: rows_in(split) for name, split in splits.items()} == {"fog_3": 9, "pixelate_1": 9}
    assert verify.main([str(out), "--workers", "1"]) == 0
    assert_same_files(release, out, 10, lambda name: name.startswith(("data/", "index/")))


def test_without_duplicates_only_what_is_built_is_compared():
    splits = ["broad-reference/test", "broad-corruptions-more/fog_3"]
    compared = set(BENCHMARK.compared_with(splits))
    assert compared == {*(set(BENCHMARK.usual()) & set(BENCHMARK.ready())), "broad-corruptions-more/fog_3"}
    # What needs a model cannot be looked at without it, and takes no part unless it is built.
    assert not any(BENCHMARK.needs(key) for key in compared)


def test_all_50000_by_flag_is_another_version():
    all_images = BENCHMARK.with_variants(["corrupt-all"])
    assert all_images.version == "1.1.0+corrupt-all"
    index = {"imagenet": whole_index(BENCHMARK.sources()[0], ["val"])}
    (split,) = plan(Draws(all_images, 0), index, splits=("broad-corruptions/snow",))
    assert len(split.rows) == 50_000
    assert all_images.count("broad-corruptions-more/fog_3").rows == 50_000
    assert all_images.count("broad-reference/test").rows == 5_000


def test_with_the_authors_images_their_originals_are_corrupted(demo, tmp_path):
    pytest.importorskip("imagecorruptions", reason="needs the extra generate")
    flags = [f"--adopt-partial-broad={demo['partial_broad']}"]
    assert build(demo["imagenet"], tmp_path, f"broad-reference/test,{CONFIG}/gaussian_noise", *flags) == 0
    clean = rows_of(tmp_path, "broad-reference/test", "source_id", "label")
    assert rows_of(tmp_path, f"{CONFIG}/gaussian_noise", "source_id", "label") == clean


# --- without the extra


@pytest.fixture
def no_library(monkeypatch):
    monkeypatch.setattr(
        "builders.generate.contract._installed",
        lambda requirement: "imagecorruptions" not in requirement and _installed(requirement),
    )


SENTENCE = "error: imagecorruptions-imaug 1.1.5 is not installed, but needed to generate broad-corruptions/"


def test_asked_for_without_the_extra_one_sentence_names_it(imagenet, tmp_path, no_library, capsys):
    assert build(imagenet, tmp_path, CONFIG) == 2
    message = capsys.readouterr().err
    assert message.startswith(SENTENCE)
    assert_sentence(message)
    assert message.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    # A plan needs no packages.
    assert build(imagenet, tmp_path, CONFIG, "--dry-run") == 0


def test_a_variant_without_duplicates_says_what_it_compares(imagenet, tmp_path, no_library, capsys):
    assert build(imagenet, tmp_path, "broad-reference/test", "--withdraw=duplicates") == 2
    message = capsys.readouterr().err
    assert_sentence(message, "--withdraw duplicates", f"{CONFIG}/snow", "1.1.5", "[generate]")
    assert message.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_rebuilt_without_the_extra_the_same_sentence(release, imagenet, tmp_path, no_library, capsys):
    flags = [f"--imagenet={imagenet}", "--workers=1", "--quiet", f"--out={tmp_path}"]
    assert materialize.main([str(release), f"--splits={CONFIG}", *flags]) == 2
    assert SENTENCE in capsys.readouterr().err
    assert files_of(tmp_path) == {}


@pytest.mark.parametrize("flags", [[], ["--withdraw=duplicates"]])
def test_a_demo_without_the_extra_leaves_corruptions_out_and_says_so(flags, tmp_path, no_library, capsys, monkeypatch):
    class ReachedError(Exception):
        pass

    def reached(benchmark, request, *_):
        raise ReachedError(request.splits, benchmark.compared_with(request.splits))

    monkeypatch.setattr("builders.commands.build.prepare", reached)
    monkeypatch.setattr("builders.commands.build.demo_sources", lambda *_, **__: {})
    monkeypatch.setattr("builders.commands.build.with_demo_models", lambda benchmark, *_, **__: benchmark)
    with pytest.raises(ReachedError) as caught:
        main(["--demo", "--quiet", "--out", str(tmp_path), *flags])
    expected = [key for key in BENCHMARK.usual() if not key.startswith(f"{CONFIG}/") and not BENCHMARK.needs(key)]
    for splits in caught.value.args:
        # With the packages of models, a demo has splits of those, too.
        assert [
            key for key in splits if key.partition("/")[0] not in ("broad-adversarial", "broad-synthetic")
        ] == expected
    # Which other packages are there differs from machine to machine, and so do their lines.
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "broad-corruptions/" in line]
    assert_sentence(
        line,
        "broad-corruptions/defocus_blur",
        "broad-corruptions/gaussian_noise",
        "broad-corruptions/snow",
        "broad-corruptions/brightness",
        "1.1.5",
    )


def test_half_of_one_image_a_class_is_told_as_such(imagenet, tmp_path, capsys):
    """At most half of a short class is drawn (`builders.declare.quotas.PerClass`), and 1 // 2 is 0."""
    for wnid in CLASSES:
        first = min((imagenet / "val" / wnid).iterdir())
        (tmp_path / "imagenet/val" / wnid).mkdir(parents=True)
        shutil.copy(first, tmp_path / "imagenet/val" / wnid)
    assert build(tmp_path / "imagenet", tmp_path / "out", "broad-reference/test") == 2
    sentence = f"in {tmp_path / 'imagenet'} has 3 images of its classes, and all are left out, 3 of them by the rule "
    assert f"{sentence}image-not-drawn" in capsys.readouterr().err
