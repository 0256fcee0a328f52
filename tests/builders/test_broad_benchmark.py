"""BROAD: what the paper and the sets' owners count, and one build of the demo sources."""

import collections
import dataclasses

import datasets
import pyarrow.parquet as pq
import pytest

from builders.broad_benchmark import BENCHMARK, REFERENCE, main, originals
from builders.declare.quotas import DeclarationError
from builders.declare.splits import PaperCount
from builders.generate.exact.resize import FIXED_RESIZE
from builders.plan.candidates import Draws
from builders.plan.planner import plan
from builders.release.manifest import read_manifest
from builders.release.schema import ROLES
from hf_scripts import materialize, verify
from taxonomy import tables
from tests.builders.conftest import assert_same_files
from tests.builders.indexes import whole_index
from tests.manifests import manifest_of
from tests.sentences import stops
from unknown_detection.evaluation.protocols import broad

SOURCES = ("imagenet", "inaturalist", "imagenet_o", "openimage_o")


@pytest.fixture(scope="module")
def reference():
    """The plan of broad-reference from all of ILSVRC2012's validation images."""
    sources = {source.key: source for source in BENCHMARK.sources()}
    indexes = {"imagenet": whole_index(sources["imagenet"], ["val"])}
    keys = ("broad-reference/test", "broad-reference/held_out")
    return {split.key.partition("/")[2]: split for split in plan(Draws(BENCHMARK, seed=0), indexes, splits=keys)}


def test_reference_is_all_of_validation_in_two_parts(reference):
    # The paper fits mixtures on 45,000 held-out images (section 3), and its repository attacks 5,000 originals.
    test, held_out = reference["test"], reference["held_out"]
    assert (len(test.rows), len(held_out.rows)) == (5_000, 45_000)
    ids = [set(split.table["id"].to_pylist()) for split in (test, held_out)]
    assert not ids[0] & ids[1]
    for split, images in ((test, 5), (held_out, 45)):
        names = split.table["class_id"].to_pylist()
        assert collections.Counter(names) == {row.wnid: images for row in tables.imagenet1k()}
        count = BENCHMARK.count(split.key)
        assert count.rows == count.paper == len(split.rows)
        numbers = {row.wnid: row.index for row in tables.imagenet1k()}
        assert split.table["label"].to_pylist() == [numbers[name] for name in names]
        assert Draws(BENCHMARK, 0).label_names(split.config) == tuple(numbers)


@pytest.fixture(scope="module")
def shifted():
    """BROAD with one more config, as those of generated images are declared."""
    generated = originals("resized", "corruption", generator=FIXED_RESIZE, paper=PaperCount(5_000))
    config = dataclasses.replace(REFERENCE, name="broad-resized", splits=(generated,))
    return dataclasses.replace(BENCHMARK, configs=(*BENCHMARK.configs, config))


def test_generated_images_are_of_the_same_originals(reference, shifted):
    # What the protocol's error detection asks for: every shifted row has its original among the rows of test.
    index = {"imagenet": whole_index(shifted.sources()[0], ["val"])}
    (split,) = plan(Draws(shifted, 0), index, splits=("broad-resized/resized",))
    clean = reference["test"].table
    assert split.table["source_id"].equals(clean["source_id"])
    assert split.table["label"].equals(clean["label"])
    assert not set(split.table["id"].to_pylist()) & set(clean["id"].to_pylist())


def test_sets_have_their_owners_sizes():
    """Of Wang et al. (2022) 17,632; tests/stated_figures.csv has the others."""
    variant = BENCHMARK.with_variants(["openimage-o-all"])
    assert variant.count("broad-novel-classes/openimage_o").rows == 17_632
    assert BENCHMARK.with_variants([]) is BENCHMARK


def test_a_variant_of_a_split_that_is_not_there_is_refused():
    variant = next(variant for variant in BENCHMARK.variants if variant.name == "openimage-o-all")
    wrong = dataclasses.replace(variant, splits={"broad-novel-classes/ninco": next(iter(variant.splits.values()))})
    with stops(DeclarationError, "openimage_o", "broad-novel-classes/ninco"):
        dataclasses.replace(BENCHMARK, variants=(wrong,)).check()


def test_the_demo_has_every_set_and_verifies(broad_release, capsys):
    assert verify.main([str(broad_release), "--workers", "1"]) == 0
    assert "note: broad is built from demo sources" in capsys.readouterr().out
    assert {key: split.rows for key, _, split in read_manifest(broad_release).splits()} == {
        "broad-multi-label/cocomagenet": 40,
        "broad-multi-label/cocomagenet_mono": 52,
        "broad-novel-classes/inaturalist": 220,
        "broad-novel-classes/imagenet_o": 400,
        "broad-novel-classes/openimage_o": 54,
        "broad-reference/test": 1_000,
        "broad-reference/held_out": 1_000,
    }


def test_rows_of_novel_classes_load_with_what_their_source_says(broad_release, tmp_path):
    loaded = datasets.load_dataset(str(broad_release), "broad-novel-classes", cache_dir=str(tmp_path))
    assert loaded["imagenet_o"].features["confidence"] == datasets.Value("float64")
    known = {row.wnid for row in tables.imagenet1k()}
    for name, rows in loaded.items():
        assert {ROLES[role] for role in rows["role"][:]} == {"novel_class"} <= set(broad.KINDS)
        assert set(rows["label"][:]) == {-1}
        assert not known & set(rows["class_id"][:])
        assert rows.features["label"].names == [row.wnid for row in tables.imagenet1k()]
        if name == "imagenet_o":
            assert set(rows["predicted_wnid"][:]) < known
            assert all(0 < confidence <= 1 for confidence in rows["confidence"][:])
            for row in rows.select_columns(["source_id", "source_class", "predicted_wnid", "confidence"]):
                folder, _, file = row["source_id"].partition("/")
                lemmas, _, confidence = file.removesuffix(".JPEG").rpartition("_")
                assert (folder, lemmas, float(confidence)) == (
                    row["predicted_wnid"],
                    row["source_class"],
                    row["confidence"],
                )
        else:
            assert set(rows["source_class"][:]) == set(rows["predicted_wnid"][:]) == {""}
            assert set(rows["confidence"][:]) == {-1.0}
    # Of the 400 ImageNet-O images, which are the demo's, NINCO's authors marked 78; of iNaturalist's 10 in all, of
    # which the demo has at most two a species (four of the ten are of one); of OpenImage-O's test list the demo has 4.
    overlapping = {name: sum(rows["known_object_seen"][:]) for name, rows in loaded.items()}
    assert overlapping == {"imagenet_o": 78, "inaturalist": 8, "openimage_o": 4}
    # Nine of the 400 are of a synset below one of the 1,000, such as a bullhorn below loudspeaker; OpenImage-O has no
    # classes.
    overlapped = {
        name: [row["class_id"] for row in rows.select_columns(["class_id", "id_overlap"]) if row["id_overlap"]]
        for name, rows in loaded.items()
    }
    assert len(overlapped["imagenet_o"]) == 9
    assert (set(overlapped["inaturalist"]), overlapped["openimage_o"]) == ({"Ungnadia speciosa"}, [])


def test_a_published_config_is_rebuilt_from_its_index(broad_release, demo, tmp_path):
    flags = [f"--{key}={demo[key]}" for key in SOURCES]
    arguments = [str(broad_release), "--splits=broad-novel-classes", *flags, "--out", str(tmp_path), "--workers", "1"]
    assert materialize.main([*arguments, "--quiet"]) == 0
    assert_same_files(broad_release, tmp_path, 7, lambda name: "broad-novel-classes" in name)


def test_all_of_openimage_o_by_flag_is_another_version(demo, tmp_path, capsys):
    split = "broad-novel-classes/openimage_o"
    flags = [f"--openimage_o={demo['openimage_o']}", f"--splits={split}", "--allow-partial", "--workers=1", "--quiet"]
    out = tmp_path / "all"
    assert main(["--openimage-o-all", *flags, "--out", str(out)]) == 0
    assert manifest_of(out)["benchmarks"]["broad"]["version"] == "1.1.0+openimage-o-all"
    assert len(pq.read_table(out / "index" / f"{split}.parquet")) == 54 + 6
    capsys.readouterr()
    assert main([*flags, "--out", str(out)]) == 2
    assert "1.1.0" in capsys.readouterr().err
    arguments = ["--splits=broad-novel-classes", flags[0], f"--out={tmp_path / 'again'}", "--workers=1", "--quiet"]
    assert materialize.main([str(out), *arguments]) == 0
    assert manifest_of(tmp_path / "again")["benchmarks"]["broad"]["version"] == "1.1.0+openimage-o-all"
