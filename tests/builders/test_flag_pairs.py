"""Flags in pairs: whatever two are given together, the release is whole, is loaded, and its rows are built again.

`flag_pairs.covering` has few builds that cover all pairs. The quick tests run the first of them, which have every flag
and nine of ten pairs; those marked `slow` are the others, and each pair alone.
"""

import hashlib
import json
import shutil

import datasets
import numpy as np
import pytest
from PIL import Image

from builders import (
    broad_benchmark,
    cifar_benchmark,
    facets_benchmark,
    folder_benchmark,
    imagenet_benchmark,
    openood_benchmark,
)
from builders.pipeline.from_sources import prepare
from hf_scripts import materialize, verify
from tests.builders.adopt.test_lists import T1 as FACETS_LISTS
from tests.builders.adopt.test_lists import binary
from tests.builders.conftest import digests
from tests.builders.flag_pairs import (
    ALONE,
    CHOICES,
    CHOSEN,
    DUPLICATES,
    FACTORS,
    OTHER_SPLITS,
    OTHERS,
    SLOW_DUPLICATES,
    VARIANTS,
    covering,
    every_pair,
)
from tests.builders.planning import planning_request
from tests.manifests import manifest_of, rows_in

MODULES = {
    "imagenet": imagenet_benchmark,
    "cifar": cifar_benchmark,
    "facets": facets_benchmark,
    "broad": broad_benchmark,
    "openood": openood_benchmark,
    "folder": folder_benchmark,
}
DEFAULTS = {name: levels[0] for name, levels in FACTORS.items()}
QUICK = 12
"""Builds of the quick tests."""


@pytest.fixture(scope="module")
def own_folders(tmp_path_factory):
    """Three classes, and unknowns of which some show what training images show, as one does in other bytes."""
    root = tmp_path_factory.mktemp("own")
    places = [f"known/{name}/{n}.jpg" for name in "abc" for n in range(12)]
    places += [f"near/wasp/{n}.png" for n in range(6)] + [f"external/{n}.webp" for n in range(6)]
    for seed, place in enumerate(places):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((48, 40), Image.Resampling.BICUBIC).save(root / place)
    for n in range(12):
        shutil.copy(root / f"known/a/{n}.jpg", root / f"near/wasp/copy{n}.jpg")
        Image.open(root / f"known/b/{n}.jpg").resize((96, 80)).save(root / f"near/wasp/like{n}.png")
    return root


@pytest.fixture(scope="module")
def sources(demo, tmp_path_factory):
    """A file with the place of each demo source."""
    path = tmp_path_factory.mktemp("sources") / "sources.toml"
    path.write_text("".join(f'{key} = "{folder}"\n' for key, folder in demo.items()))
    return path


@pytest.fixture(scope="module")
def lists_of(demo, tmp_path_factory):
    """Gives the files of `--withdraw` and `--adopt` of a benchmark: some of the rows and classes that are drawn."""
    made = {}

    def write(name):
        if name in made or name == "folder":
            return made.get(name, {})
        folder = tmp_path_factory.mktemp(name)
        withdrawn, adopted = ["id,reason"], ["split,class"]
        benchmark = MODULES[name].BENCHMARK
        chosen = {*CHOSEN[name].split(","), OTHERS[name]}
        keys = [key for key in benchmark.ready() if {key, key.partition("/")[0]} & chosen]
        roots = {source.key: demo[source.key] for source in benchmark.sources() if source.key in demo}
        plans = prepare(*planning_request(benchmark, folder / "out", roots=roots, splits=tuple(keys))).planned
        for plan in plans:
            rows = plan.table.to_pylist()
            withdrawn += [f'"{row["id"]}",somebody asked' for row in rows[::7]]
            classes = sorted({row["class_id"] for row in rows} - {"unlabelled"})
            kept = classes if rows[0]["role"] == 0 else classes[: len(classes) // 2 + 1]
            adopted += [f'{plan.key},"{class_id}"' for class_id in kept]
        copy = folder / "adopted.csv"
        copy.write_text("\n".join([*adopted, ""]))
        if name == "facets":  # whose authors have lists of images
            copy = folder / "lists"
            copy.mkdir()
            for key in keys:
                rows = [row for plan in plans if plan.split_key == key for row in plan.table.to_pylist()]
                (copy / FACETS_LISTS[key]).write_text("\n".join([*map(binary, rows[::5]), ""]))
        (folder / "withdrawn.csv").write_text("\n".join([*withdrawn, ""]))
        made[name] = {"withdrawn": folder / "withdrawn.csv", "adopted": copy}
        return made[name]

    return write


def built(row, base, lists, out, capsys):
    """Build a row's release after what an earlier run has built; returns the rows by split of a dry run before it."""
    name, full = row["benchmark"], DEFAULTS | row
    run, chosen = MODULES[name].main, CHOSEN[name]
    words = lists | {"one": "", "chosen": ""}
    words |= {level.strip("{}"): flag for level, flag in VARIANTS.get(name, {}).items()}
    flags = {factor: full[factor].format(**words).split() for factor in FACTORS}
    common = [*base, f"--out={out}"]
    splits = f"--splits={chosen.partition(',')[0] if full['splits'] == ALONE else chosen}"
    if full["earlier"]:
        # With --withdraw duplicates the check, too, says which rows there are.
        choices = [flag for factor in (*CHOICES, "check") for flag in flags[factor]]
        other = [f"--splits={OTHERS[name]}"] if full["earlier"] == OTHER_SPLITS else [splits, full["earlier"]]
        assert run([*common, *other, *choices, "--workers=1"]) == 0, capsys.readouterr().err
    given = [flag for factor in flags if factor not in ("splits", "earlier", "dry") for flag in flags[factor]]
    given = [*common, splits, *given]
    planned = {}
    if full["dry"]:
        before = sorted(out.rglob("*"))
        capsys.readouterr()
        assert run([*given, *flags["dry"]]) == 0, capsys.readouterr().err
        assert sorted(out.rglob("*")) == before
        said = capsys.readouterr().out
        if "--json" in full["dry"] and full["withdraw"] != DUPLICATES:  # which are known once images have been read
            planned = {split["split"]: split["rows"] for split in json.loads(said)["splits"]}
    capsys.readouterr()
    assert run(given) == 0, capsys.readouterr().err
    said = capsys.readouterr().err
    assert not full["quiet"] or all(line.startswith(("--withdraw", "--index-only")) for line in said.splitlines())
    return planned


def assert_loaded(out, cache):
    """Check what `load_dataset` returns against the manifest's digests, computed as docs/release-format.md says."""
    for name, config in manifest_of(out)["configs"].items():
        for suffix in ("", "-index"):
            splits = {split: entry for split, entry in config["splits"].items() if suffix or entry["data"]}
            if not splits:
                continue
            loaded = datasets.load_dataset(str(out), name + suffix, cache_dir=str(cache))
            assert set(loaded) == set(splits)
            for split, entry in splits.items():
                columns = (loaded[split][column] for column in ("id", "label", "role", "content_sha256"))
                text = "".join("\t".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
                assert hashlib.sha256(text.encode()).hexdigest() == entry["digest"], (name, split)
                assert suffix or loaded[split][-1]["image"].size


def check(row, own_folders, sources, lists, tmp_path, capsys):
    """Build a row, and hold it to all that a release promises."""
    out, again, name = tmp_path / "out", tmp_path / "again", row["benchmark"]
    base = ["--demo"]
    if name == "folder":
        base = [f"--in-distribution={own_folders / 'known'}", f"--unknown=near={own_folders / 'near'}"]
        base.append(f"--unknown=external={own_folders / 'external'}")
    planned = built(row, base, lists, out, capsys)
    manifest = manifest_of(out)
    counts = {f"{c}/{s}": rows_in(e) for c, config in manifest["configs"].items() for s, e in config["splits"].items()}
    assert planned.items() <= counts.items()
    assert verify.main([str(out), "--workers=1"]) == 0, capsys.readouterr()
    assert_loaded(out, tmp_path / "cache")
    if name == "folder":  # which nobody else can build: the same choices in another folder
        kept = {factor: row[factor] for factor in CHOICES if factor in row}
        built({"benchmark": name, "splits": "{chosen}", **kept}, base, lists, again, capsys)
        rebuilt = digests(manifest_of(again))
        assert all(rebuilt.get(key, digest) == digest for key, digest in digests(manifest).items())
    else:
        flags = [f"--sources={sources}", f"--out={again}", "--workers=1", "--quiet"]
        assert materialize.main([str(out), *flags]) == 0, capsys.readouterr().err
        assert digests(manifest_of(again)) == digests(manifest)


def title(row):
    flags = [level for factor, level in row.items() if factor != "benchmark" and level != DEFAULTS[factor]]
    return " ".join([row["benchmark"], *flags])


@pytest.mark.parametrize("row", covering()[:QUICK], ids=title)
def test_flags_that_together_cover_most_pairs(row, own_folders, sources, lists_of, drawn_demo, tmp_path, capsys):
    check(row, own_folders, sources, lists_of(row["benchmark"]), tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("row", covering()[QUICK:], ids=title)
def test_flags_that_together_cover_the_other_pairs(row, own_folders, sources, lists_of, drawn_demo, tmp_path, capsys):
    check(row, own_folders, sources, lists_of(row["benchmark"]), tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("row", [{"benchmark": b, **pair} for b in CHOSEN for pair in every_pair(b)], ids=title)
def test_every_pair_of_flags(row, own_folders, sources, lists_of, drawn_demo, tmp_path, capsys):
    check(row, own_folders, sources, lists_of(row["benchmark"]), tmp_path, capsys)


def test_the_covering_builds_have_every_pair():
    """By counting: each pair of two flags of some benchmark stands in a row, and each flag in a row of every one."""
    rows = [row.items() for row in covering()]
    for benchmark in CHOSEN:
        for pair in every_pair(benchmark):
            slow = DUPLICATES in pair.values() and benchmark in SLOW_DUPLICATES
            assert slow or any(pair.items() <= row for row in rows), pair
            for level in pair.items():
                assert slow or any({level, ("benchmark", benchmark)} <= row for row in rows), (benchmark, level)


def test_the_quick_builds_have_every_flag():
    levels = {level for row in covering() for level in row.items()}
    assert {level for row in covering()[:QUICK] for level in row.items()} == levels
