"""Manifests of releases made here are merged; what is expected is what a reader of both would write down."""

import copy

import pytest

from builders.errors import BuildError
from builders.release.schema import OODNESS
from hf_scripts.publish import merge as merging
from tests.hf_scripts.samples import SPLITS, make_release
from tests.manifests import as_json, manifest_of, typed
from tests.sentences import stops


def merge(published, built, where):
    return as_json(merging.merge(typed(published), typed(built), where))


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    root = tmp_path_factory.mktemp("merge")

    def make(name, splits, **how):
        if not (root / name).exists():
            make_release(root / name, splits, **how)
        return manifest_of(root / name)

    return make


def keys(merged):
    return sorted(f"{name}/{split}" for name, config in merged["configs"].items() for split in config["splits"])


def test_splits_are_added_and_replaced(manifest):
    published = manifest("published", SPLITS) | {"version": "1.0.0", "previous": "", "changelog": []}
    built = manifest("built", {"bench/test": range(9), "bench/far_ood": range(2), "other/test": range(20, 22)})
    before = copy.deepcopy((published, built))
    merged = merge(published, built, "org/name")
    assert keys(merged) == ["bench-train/train", "bench/far_ood", "bench/near_ood", "bench/test", "other/test"]
    assert merged["configs"]["bench"]["splits"]["test"] == built["configs"]["bench"]["splits"]["test"]
    assert merged["configs"]["bench"]["splits"]["near_ood"] == published["configs"]["bench"]["splits"]["near_ood"]
    assert not {"version", "previous", "changelog", "card", "croissant"} & set(merged)
    assert (published, built) == before


def test_what_no_split_uses_any_more_goes(manifest):
    published, built = copy.deepcopy(manifest("published", SPLITS)), manifest("published", SPLITS)
    published["sources"]["old"] = published["sources"]["source"]
    published["configs"]["bench"]["splits"]["test"]["parts"][0]["source"] = "old"
    assert set(merge(published, built, "org/name")["sources"]) == {"source"}


def test_the_higher_version_of_a_benchmark_counts(manifest):
    newer = manifest("newer", {"bench/far_ood": range(2)}, version="1.10.0")
    older = manifest("older", SPLITS, version="1.9.0")
    for published, built in ((newer, older), (older, newer)):
        assert merge(published, built, "org/name")["benchmarks"]["bench"]["version"] == "1.10.0"


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"seed": 1}, "bench was built with seed 1 here, and with 0 for bench/near_ood, which stays in org/name"),
        ({"demo": True}, "Benchmark bench was built with demo True here, and with False for"),
        ({"version": "2.0.0"}, "Benchmark bench was built with version 2.0.0 here, and with 1.0.0 for"),
        ({"labels": ("n02", "n01")}, "Config bench of this release has other label names than bench/near_ood, "),
    ],
)
def test_splits_that_do_not_go_together(manifest, how, sentence):
    built = manifest(f"apart {how}", {"bench/far_ood": range(2)}, **how)
    with pytest.raises(BuildError) as caught:
        merge(manifest("published", SPLITS), built, "org/name")
    assert sentence in str(caught.value)
    # Where they replace all that is there they are free.
    assert merge(manifest("test", {"bench/far_ood": range(2)}), built, "org/name")


def test_splits_with_other_columns_do_not_go_together(manifest):
    built = copy.deepcopy(manifest("test", {"bench/far_ood": range(2)}))
    built["configs"]["bench"]["columns"] = [as_json(OODNESS)]
    with stops(BuildError, "bench/near_ood"):
        merge(manifest("published", SPLITS), built, "org/name")


def test_near_pairs_up_to_other_distances_do_not_go_together(manifest):
    published, built = manifest("published", SPLITS), copy.deepcopy(manifest("more", {"bench/far_ood": range(2)}))
    built["benchmarks"]["bench"]["near_distance"] = 0.05
    with stops(BuildError, "0.05", "0.096"):
        merge(published, built, "org/name")


def test_a_variant_does_not_join_the_benchmark_that_it_varies(manifest):
    built = manifest("variant", {"bench/far_ood": range(2)}, version="1.0.0+without-duplicates")
    with stops(BuildError, "1.0.0+without-duplicates", "1.0.0"):
        merge(manifest("published", SPLITS), built, "org/name")
    merged = merge(built, built, "org/name")
    assert merged["benchmarks"]["bench"]["version"] == "1.0.0+without-duplicates"
