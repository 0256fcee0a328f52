"""FACETS: the paper's counts (Recalcati et al., tables II to V), what parts share, and builds of the demo sources."""

import collections
import dataclasses
import functools
import hashlib
import re
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from builders.cli.build_options import BuildRequest
from builders.declare.ranking import Key
from builders.declare.splits import Part
from builders.executors.local import LocalExecutor
from builders.facets_benchmark import BENCHMARK, main
from builders.pipeline.from_index import plan_published
from builders.pipeline.published import Published
from builders.pipeline.run import write_release
from builders.plan.candidates import Draws, KeyedRanks
from builders.plan.planner import plan
from builders.release.duplicates import listed_comparisons
from builders.release.manifest import read_manifest
from builders.release.schema import ROLES
from builders.release.tables import read_excluded
from hf_scripts import verify
from hf_scripts.checks.duplicates import check_duplicates
from hf_scripts.checks.index_walk import IndexWalk
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.rows import IndexTask
from hf_scripts.checks.values import check_values, split_facts
from taxonomy import tables
from taxonomy.rules import facets
from tests.builders.conftest import assert_same_files, build_demo
from tests.builders.indexes import whole_indexes
from tests.builders.planning import QUIET
from tests.builders.trees import linked, replaced
from tests.killing import watched_at_renames
from tests.manifests import manifest_of, typed

SPLITS = tuple(BENCHMARK.splits)
CONFIGS = tuple(config.name for config in BENCHMARK.configs)


@pytest.fixture(scope="module")
def indexes():
    """Indexes of complete sources, as large as the real ones."""
    return whole_indexes(BENCHMARK)


@pytest.fixture(scope="module")
def planned(indexes):
    """The plan of every part from complete sources."""
    return {split.key: split for split in plan(Draws(BENCHMARK, 0), indexes, splits=tuple(BENCHMARK.parts))}


@pytest.fixture(scope="module")
def release(facets_release):
    """An undisturbed release of the demo sources."""
    return facets_release


def rows(planned, config, split, role):
    """Rows of a split in a role, by source and partition."""
    counts = collections.Counter()
    for part in planned.values():
        if part.split_key == f"{config}/{split}" and (part.split.role == "in_distribution") == (role == "ID"):
            counts[part.split.source.key, part.split.partitions[0]] += len(part.rows)
    return dict(counts)


PLACES = {("places365", "val"): 18_250}


@pytest.mark.parametrize("split", ["validation", "test"])
def test_the_counts_are_the_papers_where_the_classes_are(planned, split):
    # Tables II to V, each with one number for both splits.
    assert rows(planned, "facets-baseline", split, "ID") == PLACES
    assert rows(planned, "facets-baseline", split, "OOD") == {
        ("svhn_full", "train"): 16_701,
        ("svhn_full", "test"): 1_549,
    }
    assert rows(planned, "facets-inter-dataset", split, "ID") == PLACES
    assert rows(planned, "facets-inter-dataset", split, "OOD") == {("imagenet", "train"): 18_108}
    for config, unknown in (("t40", 21_332), ("t45", 22_750), ("t50", 25_560)):
        assert rows(planned, f"facets-wordnet-{config}", split, "OOD") == {("imagenet", "train"): unknown}
        assert rows(planned, f"facets-wordnet-{config}", split, "ID").items() >= PLACES.items()
    for config, train in (("facets-t1", 50_232), ("facets-t2", 56_606)):
        known, unknown = (rows(planned, config, split, role) for role in ("ID", "OOD"))
        assert known.items() >= PLACES.items()
        assert unknown["imagenet", "train"] == train
        # 46,851 + 7,530 and 49,827 + 4,554 are 54,381, whatever the grades; 108,754 images leave 54,373 for the test.
        sun = known["sun397", "images"] + unknown["sun397", "images"]
        assert sun == {"validation": 54_381, "test": 54_373}[split]
        # 8,900 + 16,100: every class has 25.
        assert known["imagenet", "val"] + unknown["imagenet", "val"] == 25_000


def roles(parts):
    """The role of each image, which is named by its source and its row there."""
    return {(part.split.source.key, row): part.split.role for part in parts for row in part.rows.tolist()}


def test_the_other_reading_of_animals_moves_the_rows_that_the_documentation_says(indexes, planned):
    other = BENCHMARK.with_variants(["animals-unknown"])
    assert other.version == f"{BENCHMARK.version}+animals-unknown"
    text = (Path(__file__).parents[2] / "docs" / "benchmarks" / "facets.md").read_text(encoding="utf-8")
    keys = ("facets-t1/validation", "facets-t2/validation")
    parts = plan(Draws(other, 0), indexes, splits=[p for key in keys for p in other.splits[key]], counts_only=True)
    for key in keys:
        assert other.count(key).rows == BENCHMARK.count(key).rows
        theirs = roles(part for part in parts if part.split_key == key)
        ours = roles(planned[part] for part in BENCHMARK.splits[key])
        moved = sum(theirs.get(name, role) != role for name, role in ours.items())
        replaced = len(set(ours) - set(theirs))
        # An animal's class has 25 of 50 validation images in a split.
        animals = sum(grade.rule == "habitat" for grade in facets.grades("imagenet"))
        assert moved == 25 * animals
        assert moved > len(ours) / 100
        assert re.search(rf"{len(ours):,} rows of\s`{key}`, {moved:,} .*?{replaced:,}", text, re.S)


def test_the_authors_grades_would_give_the_papers_sun397_rows(indexes):
    # Table V under any assignment of classes follows from the halves; the whole of them is 54,381 (section IV).
    index = indexes["sun397"]
    split = BENCHMARK.parts["facets-t1/validation.sun397_known"]
    everything = index.rows_of(("images",), index.source.classes())
    ranks = KeyedRanks(index, Key(0, "facets-t1", "validation"))
    assert len(ranks.take(split.quota, everything, split.partitions)) == 54_381
    # Half to even, as Python rounds: an odd count gives its spare image to either split.
    assert [round(n * 0.5) for n in (1, 2, 3, 5, 7)] == [0, 1, 2, 2, 4]


def test_every_split_has_as_many_rows_as_are_declared(planned):
    for key, part in planned.items():
        assert len(part.rows) == BENCHMARK.count(key).rows, key
    for key, parts in BENCHMARK.splits.items():
        assert sum(len(planned[part].rows) for part in parts) == BENCHMARK.count(key).rows


def test_every_source_image_is_kept_or_excluded_by_each_part(planned):
    for key, part in planned.items():
        assert len(part.rows) + sum(e.images for e in part.excluded) == part.available, key
        assert all(e.split == key and e.rule and e.evidence for e in part.excluded)


@pytest.mark.parametrize("config", CONFIGS)
def test_no_image_is_in_two_parts_of_a_config(planned, config):
    ids = [part.table["id"].combine_chunks() for part in planned.values() if part.config.name == config]
    together = pa.concat_arrays(ids)
    assert len(together.unique()) == len(together)


@pytest.mark.parametrize("config", CONFIGS)
def test_a_class_of_imagenet_or_sun397_is_known_or_unknown(planned, config):
    sides = {True: set(), False: set()}
    for part in planned.values():
        if part.config.name == config:
            known = part.split.role == "in_distribution"
            sides[known] |= {(part.split.source.key, name) for name in part.table["class_id"].unique().to_pylist()}
    assert not sides[True] & sides[False]
    assert {name for source, name in sides[True] if source == "places365"} == {
        row.category for row in tables.places365()
    }


def test_quotas_are_the_papers(planned):
    for key, part in planned.items():
        of_class = collections.Counter(part.table["class_id"].to_pylist())
        if part.split.source.key == "places365" or part.split.name == "imagenet_train_known":
            assert set(of_class.values()) == {50}, key
        elif part.split.partitions == ("val",):
            assert set(of_class.values()) == {25}, key
    # Stratified: every class has its share of 18,108 to within one image.
    images = {row.wnid: row.train_images for row in tables.imagenet1k()}
    part = planned["facets-inter-dataset/validation.imagenet_train"]
    of_class = collections.Counter(part.table["class_id"].to_pylist())
    total = sum(images[wnid] for wnid in of_class)
    assert len(of_class) == 968
    assert all(abs(count - 18_108 * images[wnid] / total) < 1 for wnid, count in of_class.items())


def test_oodness_agrees_with_the_roles(planned):
    # By the paper: at most 0.40, 0.45, 0.50; grades 0-1 and 0-2 of SUN397, 0 of ImageNet.
    limits = {"facets-wordnet-t40": 0.40, "facets-wordnet-t45": 0.45, "facets-wordnet-t50": 0.50}
    sun = {"facets-t1": 1, "facets-t2": 2}
    for key, part in planned.items():
        config, source = part.config.name, part.split.source.key
        limit = sun.get(config, 0) if source == "sun397" else limits.get(config, 0)
        low, high = pc.min_max(part.table["oodness"]).as_py().values()
        if part.split.role == "in_distribution":
            assert 0 <= low <= high <= limit, key
        else:
            assert low > limit, key


def test_oodness_is_the_published_tables(planned):
    table = planned["facets-wordnet-t45/test.imagenet_train"].table
    of_class = {row.class_id: row.oodness for row in facets.oodness()}
    assert table["oodness"].to_pylist() == [of_class[name] for name in table["class_id"].to_pylist()]
    table = planned["facets-t2/test.sun397_known"].table
    grades = {row.class_id: row.grade for row in facets.grades("sun397")}
    assert table["oodness"].to_pylist() == [grades[name] for name in table["class_id"].to_pylist()]


def test_only_places365_rows_have_labels_and_those_count_its_categories(planned):
    names = [row.category for row in tables.places365()]
    for key, part in planned.items():
        if part.split.source.key == "places365":
            assert [names[label] for label in part.table["label"].to_pylist()] == part.table["class_id"].to_pylist()
        else:
            assert pc.all(pc.equal(part.table["label"], -1)).as_py(), key
        assert Draws(BENCHMARK, 0).label_names(part.config) == tuple(names)


def test_configs_have_images_in_common_as_far_as_quotas_allow(planned):
    ids = {key: set(part.table["id"].to_pylist()) for key, part in planned.items()}
    scenes = [ids[f"{config}/validation.places365"] for config in CONFIGS]
    assert all(other == scenes[0] for other in scenes)
    # SUN397's halves do not depend on grades, so T1 and T2 divide the same images.
    halves = [
        ids[f"{config}/test.sun397_known"] | ids[f"{config}/test.sun397"] for config in ("facets-t1", "facets-t2")
    ]
    assert halves[0] == halves[1]


def manifest_splits(root):
    configs = sorted(manifest_of(root)["configs"].items())
    return {f"{name}/{split}": entry for name, config in configs for split, entry in config["splits"].items()}


def test_the_demo_has_every_class_and_verifies(release, capsys):
    # The other configs have images of the same sources.
    assert verify.main([str(release), "--workers", "1", "--splits", "facets-baseline,facets-t1"]) == 0
    assert "facets is built from demo sources and is not for results" in capsys.readouterr().out
    classes = collections.defaultdict(set)
    for config in CONFIGS:
        table = pq.read_table(release / "index" / config / "validation.parquet", columns=["source", "class_id"])
        for row in table.group_by(["source", "class_id"]).aggregate([]).to_pylist():
            classes[row["source"]].add(row["class_id"])
    assert {source: len(names) for source, names in classes.items()} == {
        "places365": 365,
        "imagenet": 1_000,
        "sun397": 397,
        "svhn_full": 1,
    }


def test_a_joined_split_loads_with_its_roles_and_oodness(release, tmp_path):
    plain = datasets.load_dataset(str(release), "facets-t1", split="test", cache_dir=str(tmp_path))
    index = datasets.load_dataset(str(release), "facets-t1-index", split="test", cache_dir=str(tmp_path))
    streamed = datasets.load_dataset(str(release), "facets-t1", split="test", streaming=True)
    assert plain["id"][:] == index["id"][:] == [row["id"] for row in streamed.remove_columns("image")]
    assert plain.features["oodness"] == datasets.Value("float64")
    assert plain.features["label"].names == [row.category for row in tables.places365()]
    assert set(plain["source"][:]) == {"places365", "sun397", "imagenet"}
    assert {ROLES[role] for role in plain["role"][:]} == {"in_distribution", "near_ood"}
    assert plain[0]["image"].size > (0, 0)


def test_rows_of_a_joined_split_are_mixed_in_keyed_order(release):
    # The formula of the design, without the code that is tested: SHA-256 of (seed, config, split, id), lowest first.
    ids = pq.read_table(release / "index" / "facets-baseline" / "test.parquet")["id"].to_pylist()
    key = {name: hashlib.sha256(f"0\0facets-baseline\0test\0{name}".encode()).digest() for name in ids}
    assert ids == sorted(ids, key=key.__getitem__)


def test_a_joined_entry_has_the_parts_that_were_declared_with_all_their_images(release):
    for key, entry in manifest_splits(release).items():
        parts = entry["parts"]
        assert [part["key"] for part in parts] == list(BENCHMARK.splits[key])
        lines = read_excluded(release / "excluded" / f"{key.partition('/')[0]}.csv")
        for part in parts:
            left_out = sum(line.images for line in lines if line.split == part["key"])
            assert part["rows"] + left_out == part["available"]


def test_worker_count_and_one_split_at_a_time_change_no_byte(release, demo, tmp_path):
    for split in ("facets-t1/test", "facets-t1/validation"):
        build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=(split,), workers=2)
    assert_same_files(release, tmp_path, 5, lambda name: "/facets-t1/" in name or name == "excluded/facets-t1.csv")


KILLED = """
from builders.facets_benchmark import BENCHMARK
from tests.builders.conftest import build_demo
build_demo(sources(sys.argv[3]), Path(sys.argv[2]), benchmark=BENCHMARK, splits=sys.argv[4:])
"""


@pytest.mark.slow
def test_a_killed_build_of_joined_splits_goes_on_to_the_same_bytes(release, demo, tmp_path):
    splits, points = ("facets-baseline/validation", "facets-baseline/test"), (4, 8)
    watched = watched_at_renames(points, tmp_path / "out", KILLED, tmp_path / "out", demo["dtd"].parent, *splits)
    for point in points:
        out = watched.as_killed(point)
        build_demo(demo, out, benchmark=BENCHMARK, splits=splits)
        assert_same_files(release, out, 5, lambda name: "facets-baseline" in name)


def test_a_published_config_is_rebuilt_from_its_index(release, demo, tmp_path):
    with LocalExecutor(1) as executor:
        plan = plan_published(Published(release, "facets-t2"), BuildRequest(tmp_path), demo)
        write_release(plan, executor, QUIET)
    assert_same_files(release, tmp_path, 5, lambda name: "facets-t2" in name)


def test_a_withdrawn_row_leaves_its_part(release, demo, tmp_path):
    before = pq.read_table(release / "index" / "facets-t2" / "test.parquet")["id"].to_pylist()
    gone = next(name for name in before if name.startswith("sun397/"))
    manifest = build_demo(
        demo, tmp_path, benchmark=BENCHMARK, splits=("facets-t2/test",), withdrawn={gone: "its owner asked"}
    )
    after = pq.read_table(tmp_path / "index" / "facets-t2" / "test.parquet")["id"].to_pylist()
    assert after == [name for name in before if name != gone]
    withdrawn = manifest["configs"]["facets-t2"]["splits"]["test"]["withdrawn"]
    assert withdrawn == [{"id": gone, "reason": "its owner asked"}]
    (line,) = [e for e in read_excluded(tmp_path / "excluded" / "facets-t2.csv") if e.rule == "withdrawn"]
    assert line.split in ("facets-t2/test.sun397_known", "facets-t2/test.sun397")


def test_an_unreadable_image_leaves_its_part(demo, tmp_path):
    sources = demo | {"svhn_full": linked(demo["svhn_full"], tmp_path / "svhn_full")}
    broken = sources["svhn_full"] / "train" / "3.png"
    replaced(broken, lambda data: data[: len(data) // 2])
    manifest = build_demo(
        sources, tmp_path / "out", benchmark=BENCHMARK, splits=("facets-baseline/validation", "facets-baseline/test")
    )
    parts = [part for entry in manifest["configs"]["facets-baseline"]["splits"].values() for part in entry["parts"]]
    (hit,) = [part for part in parts if "unreadable" in part["excluded_by_rule"]]
    assert hit["key"].endswith(".svhn_train")
    assert (hit["rows"], sum(hit["excluded_by_rule"].values())) == (11, 13)


def test_the_counts_table_names_classes_and_rows_of_each_part(demo, tmp_path, capsys):
    flags = [f"--{key}={demo[key]}" for key in ("places365", "imagenet")]
    assert main(["--dry-run", "--allow-partial", "--splits", "facets-wordnet-t50", "--quiet", *flags]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    known = next(line for line in lines if line[:1] == ["facets-wordnet-t50/validation.imagenet_train_known"])
    assert known[1:3] == ["in_distribution", "imagenet"]
    ours = sum(row.oodness <= 0.5 for row in facets.oodness())
    assert known[3:6] == [str(ours), "140", f"{ours - 140:+}"]
    assert known[7] == "7,000"


def test_parts_are_told_apart_by_role_source_or_partitions():
    for key, parts in BENCHMARK.splits.items():
        declared = [BENCHMARK.parts[part] for part in parts]
        assert len({(split.role, split.source.key, split.partitions) for split in declared}) == len(declared), key
        assert all(
            isinstance(split, Part) and split.image_generator is None and split.oodness is not None
            for split in declared
        )


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda t: set_first(t, "sun397", "label", 3), "label is 3, not -1, although facets-t1/test has no label"),
        (lambda t: set_first(t, "places365", "role", ROLES.index("near_ood")), "which rows of its source do not have"),
        (lambda t: set_first(t, "imagenet", "oodness", float("nan")), "oodness is nan, not 0 or more"),
        (lambda t: set_first(t, "imagenet", "source", "food101"), "source is food101, not places365 or sun397 or"),
    ],
)
def test_verify_checks_the_rows_of_each_part(release, damage, sentence):
    config = read_manifest(release).configs["facets-t1"]
    rows = pq.read_table(release / "index" / "facets-t1" / "test.parquet")
    split = split_facts("facets-t1/test", config, config.splits["test"], demo=True, compared=frozenset())
    problems = Problems()
    check_values(rows, split, "x.parquet", 0, problems)
    assert problems.total() == 0
    check_values(damage(rows), split, "x.parquet", 0, problems)
    assert any(sentence in line for line in problems.lines())


def set_first(table, source, name, value):
    """The table with another value in the first row of a source."""
    at = pc.index(table["source"], source).as_py()
    values = table[name].to_pylist()
    values[at] = value
    place = table.column_names.index(name)
    return table.set_column(place, table.schema.field(place), pa.array(values, table.schema.field(place).type))


def test_verify_counts_the_rows_of_each_part(release):
    manifest = manifest_of(release)

    def checked():
        config, entry = (changed := typed(manifest)).configs["facets-t1"], changed.by_key()["facets-t1/test"]
        split = split_facts("facets-t1/test", config, entry, demo=True, compared=frozenset())
        task = IndexTask(release, entry.index, split, entry)
        with IndexWalk() as indexes:
            return list(task.check(lambda rows, size: None, indexes).problems.lines())

    assert checked() == []
    manifest["configs"]["facets-t1"]["splits"]["test"]["parts"][1]["rows"] += 1
    (line,) = checked()
    assert "rows of role in_distribution from sun397, and its parts have " in line


def test_an_image_may_have_another_role_in_another_config_and_not_in_its_own(release):
    manifest = read_manifest(release)
    problems = Problems()
    check_duplicates(release, manifest, {}, problems, LocalExecutor(1))
    assert problems.total() == 0
    compared = set(listed_comparisons(manifest.duplicates.compared))
    # Three comparisons of two splits in each of seven configs, and none between configs.
    assert len(compared) == 3 * len(CONFIGS)
    assert all(c.one.partition("/")[0] == c.other.partition("/")[0] for c in compared)
    # T1 and T2 disagree on SUN397's grade 2.
    roles = {}
    for key in ("facets-t1/test", "facets-t2/test"):
        rows = pq.read_table(release / "index" / f"{key}.parquet", columns=["id", "role"]).to_pylist()
        for row in rows:
            roles.setdefault(row["id"], set()).add(row["role"])
    assert any(len(of_image) == 2 for of_image in roles.values())


def test_sizes_of_parts_do_not_depend_on_the_order_of_an_index(indexes):
    keys = ("facets-baseline/validation.svhn_test", "facets-baseline/test.svhn_test")
    index = indexes["svhn_full"]
    tables = [partition.table for partition in index.partitions]
    orders = [pa.array(range(table.num_rows - 1, -1, -1)) for table in tables]
    partitions = zip(index.partitions, tables, orders, strict=True)
    turned = [dataclasses.replace(partition, table=table.take(order)) for partition, table, order in partitions]
    turned = dataclasses.replace(index, partitions=tuple(reversed(turned)))
    planner = functools.partial(plan, Draws(BENCHMARK, 0), splits=keys)
    for split, turned_split in zip(planner({"svhn_full": index}), planner({"svhn_full": turned}), strict=True):
        assert split.table.equals(turned_split.table)
