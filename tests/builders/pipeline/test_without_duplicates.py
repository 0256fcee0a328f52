"""`--withdraw duplicates`: which images go, who moves up, and that the result is a release of its own."""

import dataclasses
import json

import pyarrow.parquet as pq
import pytest

from builders.broad_benchmark import BENCHMARK as BROAD
from builders.broad_benchmark import REFERENCE, originals
from builders.cifar_benchmark import BENCHMARK as CIFAR
from builders.commands.benchmark import run_command
from builders.declare.splits import PaperCount
from builders.facets_benchmark import BENCHMARK as FACETS
from builders.generate.exact.resize import FIXED_RESIZE
from builders.imagenet_benchmark import BENCHMARK, main
from builders.pipeline.shards import ShardTask
from builders.pipeline.without_duplicates import removed_rows
from builders.release.duplicates import PairedRow, pair_of, read_pairs
from builders.release.manifest import read_manifest
from builders.release.tables import read_excluded
from hf_scripts.materialize import main as materialize
from hf_scripts.verify import main as verify
from tests.builders.conftest import build_demo, files_of
from tests.builders.planted import Planting, with_comment
from tests.builders.trees import replaced

TEST, NEAR, TRAIN = "imagenet/test", "imagenet/near_ood", "imagenet-train/train"


def row(split, name, role="in_distribution"):
    return PairedRow(split, name, role, "c")


def test_the_rule():
    train, other_train = row("x/train", "t1"), row("x/train", "t2")
    test, near, far = row("x/test", "a"), row("x/near_ood", "b", "near_ood"), row("x/far_ood", "c", "far_ood")

    def removed(*pairs):
        return removed_rows([pair_of(*rows, 0.0) for rows in pairs], {"x/train"})

    assert removed((train, test)) == {"a": "t1"}
    assert removed((train, other_train)) == {"t1": "t2", "t2": "t1"}
    assert removed((test, near)) == {"a": "b", "b": "a"}
    # Of three of a kind the training image stays, and the least id is the evidence.
    assert removed((train, near), (train, far), (near, far)) == {"b": "c", "c": "b"}


def test_what_is_compared_does_not_depend_on_the_splits_that_are_built():
    assert BENCHMARK.compared_with(("imagenet/test",)) == tuple(BENCHMARK.splits)
    assert FACETS.compared_with(("facets-t1/test",)) == ("facets-t1/validation", "facets-t1/test")


@pytest.fixture(scope="module")
def plain(demo, tmp_path_factory):
    """The unvaried benchmark, one image a class."""
    root = tmp_path_factory.mktemp("plain") / "release"
    build_demo(demo, root, limit_per_class=1, index_only=True)
    return root


@pytest.fixture(scope="module")
def planted(demo, release, plain, tmp_path_factory):
    """Sources with duplicates, and for each image that has to go the id of the other."""
    planting = Planting(demo["imagenet"], plain, tmp_path_factory.mktemp("planted") / "imagenet")
    known = planting.copy((TRAIN, 0), (NEAR, 0))
    unknown = planting.copy((TEST, 1), (NEAR, 1))
    # The image that moves up for the first is a training image as well, so its class of two has none left.
    first = planting.row(NEAR, 0)
    everyone = pq.read_table(release / "index" / f"{NEAR}.parquet", columns=["id", "class_id"]).to_pylist()
    (second,) = [r["id"] for r in everyone if r["class_id"] == first.class_id and r["id"] != first.id]
    data = planting.path(TRAIN, 2).read_bytes()
    replaced(planting.files[second.rpartition("/")[2]], lambda _: data)
    train = {planting.row(TRAIN, number).id for number in (0, 2)}
    expected = {first.id: planting.row(TRAIN, 0).id, second: planting.row(TRAIN, 2).id}
    expected |= {unknown.id: unknown.other_id, unknown.other_id: unknown.id}
    assert {known.id, known.other_id} & train
    return demo | {"imagenet": planting.folder}, expected, first.class_id


@pytest.fixture(scope="module")
def varied(planted, tmp_path_factory):
    """The variant, built in one run."""
    root = tmp_path_factory.mktemp("varied") / "release"
    build_demo(planted[0], root, limit_per_class=1, withdraw="duplicates")
    return root


def ids(root, key):
    return pq.read_table(root / "index" / f"{key}.parquet")["id"].to_pylist()


def test_duplicates_are_gone_and_others_of_their_class_moved_up(planted, plain, varied):
    _, expected, short = planted
    assert read_pairs(varied / "duplicates" / "pairs.parquet") == []
    for key in BENCHMARK.splits:
        before, after = ids(plain, key), ids(varied, key)
        assert not set(after) & expected.keys(), key
        duplicates = set(before) & expected.keys()
        # One image a class, and one class that has no other.
        assert len(before) - len(after) <= (key == NEAR)
        assert len(set(before) - set(after)) >= len(duplicates)
    classes = pq.read_table(varied / "index" / f"{NEAR}.parquet")["class_id"].to_pylist()
    assert short not in classes


def test_each_is_named_with_the_other_and_the_sums_are_whole(planted, varied, capsys):
    _, expected, _ = planted
    lines = read_excluded(varied / "excluded" / "imagenet.csv") + read_excluded(varied / "excluded/imagenet-train.csv")
    named = {f"imagenet/{line.image}": line.evidence for line in lines if line.rule == "duplicate"}
    assert named.items() >= expected.items()
    assert all(line.images == 1 for line in lines if line.rule == "duplicate")
    assert verify([str(varied), "--check", "fast", "--workers", "1"]) == 0
    assert "excluded" not in capsys.readouterr().err


def test_equal_pixels_go_where_images_are_decoded(demo, plain, tmp_path):
    planting = Planting(demo["imagenet"], plain, tmp_path / "imagenet")
    pair = planting.copy((TRAIN, 3), (NEAR, 8), with_comment)
    roots = demo | {"imagenet": planting.folder}
    choices = {"splits": (NEAR, TRAIN), "limit_per_class": 1, "withdraw": "duplicates", "index_only": True}
    build_demo(roots, tmp_path / "bytes", **choices)
    build_demo(roots, tmp_path / "pixels", **choices, decode=True)
    assert pair.other_id in ids(tmp_path / "bytes", NEAR)
    assert pair.other_id not in ids(tmp_path / "pixels", NEAR)
    assert pair.id in ids(tmp_path / "pixels", TRAIN)
    version = read_manifest(tmp_path / "pixels").benchmarks["imagenet"].version
    assert version == "1.1.0+without-duplicates.decoded"


def test_it_is_another_version_and_the_card_says_so(planted, plain, varied):
    manifest = read_manifest(varied)
    assert manifest.benchmarks["imagenet"].version == "1.1.0+without-duplicates"
    assert manifest.withdrawn() == []
    near = manifest.by_key()["imagenet/near_ood"]
    assert near.digest != read_manifest(plain).by_key()["imagenet/near_ood"].digest
    sentence = f"1 class is short of images without duplicates: {planted[2]} by 1"
    assert any(sentence in line for line in near.shortfalls), near.shortfalls
    assert "a variant without duplicates" in (varied / "README.md").read_text(encoding="utf-8")


def test_built_in_parts_it_is_the_same_and_reads_no_image_twice(planted, varied, tmp_path, monkeypatch):
    reads = []
    run = ShardTask.run
    monkeypatch.setattr(ShardTask, "run", lambda task, progress: reads.append(task.record) or run(task, progress))
    choices = {"limit_per_class": 1, "withdraw": "duplicates"}
    build_demo(planted[0], tmp_path, splits=(NEAR,), **choices)
    surveyed = [part for part in reads if part.parent.name == "survey"]
    assert surveyed
    reads.clear()
    build_demo(planted[0], tmp_path, splits=tuple(key for key in BENCHMARK.splits if key != NEAR), **choices)
    assert not [part for part in reads if part.parent.name == "survey"]
    assert files_of(tmp_path) == files_of(varied)


def flags(sources, out, *more):
    keys = [source.key for source in BENCHMARK.sources()]
    roots = [text for key in keys for text in (f"--{key}", str(sources[key]))]
    return [*roots, "--allow-partial", "--limit-per-class", "1", "--workers", "1", "--out", str(out), *more]


def test_shifted_images_keep_the_same_originals_as_the_clean_ones(demo, tmp_path, capsys):
    # The clean side, and what is made of it: here the fixed resize, which any machine has.
    resized = originals("resized", "corruption", generator=FIXED_RESIZE, paper=PaperCount(5_000))
    config = dataclasses.replace(REFERENCE, name="broad-resized", splits=(resized,))
    alone = dataclasses.replace(BROAD, configs=(REFERENCE, config), variants=(), settings=())
    flags = [f"--imagenet={demo['imagenet']}", "--allow-partial", "--withdraw=duplicates", "--index-only"]
    assert run_command(alone, [*flags, "--quiet", "--workers=1", f"--out={tmp_path}"]) == 0
    columns = ["source_id", "label"]
    clean, shifted, held_out = (
        pq.read_table(tmp_path / "index" / f"{key}.parquet", columns=columns).to_pylist()
        for key in ("broad-reference/test", "broad-resized/resized", "broad-reference/held_out")
    )
    assert shifted == clean
    # Both validation images of `builders.demo.duplicates`: a bathtub that is also a tub.
    tubs = {f"val/ILSVRC2012_val_{number:08d}.JPEG" for number in (207, 751)}
    assert not tubs & {row["source_id"] for row in (*clean, *held_out)}
    evidence = {
        row.image: row.evidence
        for row in read_excluded(tmp_path / "excluded" / "broad-resized.csv")
        if row.rule == "duplicate"
    }
    assert tubs < evidence.keys()
    for tub, other_tub in zip(sorted(tubs), sorted(tubs, reverse=True), strict=True):
        assert evidence[tub].startswith(f"imagenet/{other_tub}")


def test_a_folder_of_the_unvaried_benchmark_is_refused(planted, tmp_path, capsys):
    sources = planted[0]
    assert main(flags(sources, tmp_path, "--splits", "imagenet/far_ood_food32")) == 0
    before = files_of(tmp_path)
    assert main(flags(sources, tmp_path, "--withdraw", "duplicates")) == 2
    error = capsys.readouterr().err
    assert "and this run has 1.1.0+without-duplicates" in error
    assert "looking for duplicates" not in error
    assert files_of(tmp_path) == before


def test_all_sources_that_are_compared_are_asked_for(planted, tmp_path, capsys):
    arguments = ["--food101", str(planted[0]["food101"]), "--splits", "imagenet/far_ood_food32"]
    assert main([*arguments, "--withdraw", "duplicates", "--out", str(tmp_path / "out")]) == 2
    assert "--imagenet DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("duplicates", "--dry-run"), 0, "which images are duplicates is known once they have been read"),
        (("duplicate",), 2, "Cannot read duplicate: no such file. Give --withdraw a CSV of id,reason, or duplicates."),
    ],
)
def test_a_dry_run_cannot_know_and_a_list_that_is_not_there_is_named(planted, tmp_path, capsys, words, code, sentence):
    assert main(flags(planted[0], tmp_path / "out", "--withdraw", *words)) == code
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_published_index_takes_no_withdrawal(varied, tmp_path, capsys):
    out = ["--out", str(tmp_path / "out")]
    assert materialize([str(varied), "--splits=imagenet", *out, "--withdraw", "duplicates"]) == 2
    assert "--withdraw does not apply to a published index" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_index_of_a_variant_is_built_like_any_other(planted, varied, tmp_path):
    arguments = [str(varied), "--splits=imagenet-train", "--imagenet", str(planted[0]["imagenet"]), "--workers", "1"]
    assert materialize([*arguments, "--out", str(tmp_path / "out")]) == 0
    path = "index/imagenet-train/train.parquet"
    assert (tmp_path / "out" / path).read_bytes() == (varied / path).read_bytes()


def test_near_duplicates_go_too(demo, cifar_release, tmp_path):
    splits = ("cifar/test", "cifar/near_ood", "cifar-train/train")
    # All that is compared, but the images that are resized and the 10,000 of noise.
    configs = [
        dataclasses.replace(
            config, splits=tuple(split for split in config.splits if split.source.key in ("cifar100", "svhn"))
        )
        for config in CIFAR.configs[:2]
    ]
    quick = dataclasses.replace(CIFAR, configs=tuple(configs), variants=())
    build_demo(demo, tmp_path, benchmark=quick, splits=splits, withdraw="duplicates", index_only=True)
    assert read_pairs(tmp_path / "duplicates" / "pairs.parquet") == []
    pairs = read_pairs(cifar_release / "duplicates" / "pairs.parquet")
    pairs = [pair for pair in pairs if {*pair.splits} <= {*quick.splits}]
    repeating = {pair.other_id for pair in pairs if pair.split == "cifar-train/train" and pair.other_split in splits}
    # All splits of the benchmark are compared, also those that are not built.
    ambiguous = {row for pair in pairs if "cifar-train/train" not in pair.splits for row in (pair.id, pair.other_id)}
    assert repeating - ambiguous and ambiguous - repeating
    for key in splits[:2]:
        assert set(ids(tmp_path, key)) == set(ids(cifar_release, key)) - repeating - ambiguous
    assert json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))["benchmarks"]["cifar"]["version"] == (
        f"{CIFAR.version}+without-duplicates"
    )
