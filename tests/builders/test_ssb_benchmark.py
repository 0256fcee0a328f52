"""The Semantic Shift Benchmark: every row against public lists of its splits, and a build of the demo."""

import hashlib

import pytest

from builders.plan.candidates import Draws
from builders.plan.planner import plan
from builders.release.manifest import read_manifest
from builders.sources.datasets import cub200, fgvc_aircraft
from builders.ssb_benchmark import BENCHMARK, main
from hf_scripts import materialize, verify
from tests.builders.indexes import named_index

# SHA-256 of the sorted ids, joined by newlines, of the lists that glhr/ood-labelnoise (12cecfc3,
# data/benchmark_imglist/fgvc-*) made of the owners' files and the published splits; `train` is its train and val.
LISTS = {
    "ssb-cub/test": (2_884, "f424ca16a4e8cc36341ad4b59d9105d8c251706f9607ace845c418e482822dc7"),
    "ssb-cub/hard": (991, "d735a67e50d1b1fa8295a6a72be50f36d1cd20acb00250de3c053c73a75a9e28"),
    "ssb-cub/medium": (1_004, "0c67c1c082e63be1401820bdbddca1b8cf5039ceed373345c5c68d8a7fa65601"),
    "ssb-cub/easy": (915, "6f0b4282294f744ca53757c3f67600ce8988bd873ca7a279917be11475bbb076"),
    "ssb-cub-train/train": (2_997, "edf50d767fcdcb52ac2555df7f8e89a02d8e679d4ef69135a520a1cc6f71f0df"),
    "ssb-aircraft/test": (1_668, "9b505d9e341a61a87cc8c5def5df1a99a32f65fb897101f2913fa0d4bd4956d2"),
    "ssb-aircraft/hard": (433, "dd1c6902a4492d50fe480846e553f1249f851346af75aea63fd4468e89f562a2"),
    "ssb-aircraft/medium": (565, "35f55bf30f16004698b2c2f1ab1598e9cb7f57a535182c1225b212805e576771"),
    "ssb-aircraft/easy": (667, "69b59966fd6c34316d434eda5f7ae0103e80ffa5e78babf20e2605ff969dbeec"),
    "ssb-aircraft-train/train": (3_332, "e2cac16697acf9ea13f86384022f1ae8c6c85ff9ccbfab980ae40a4a97d7c0b0"),
}


@pytest.fixture(scope="module")
def planned():
    """The plan of every split from complete copies, by key."""
    indexes = {
        module.__name__.rpartition(".")[2]: named_index(
            source, {partition: module.listed_images(partition) for partition in ("test", "train")}
        )
        for module, source in ((cub200, cub200.CUB200), (fgvc_aircraft, fgvc_aircraft.FGVC_AIRCRAFT))
    }
    return {split.key: split.table for split in plan(Draws(BENCHMARK, seed=0), indexes, splits=list(BENCHMARK.parts))}


@pytest.mark.parametrize("key", LISTS)
def test_a_split_has_exactly_the_published_images(planned, key):
    ids = sorted(planned[key]["source_id"].to_pylist())
    assert (len(ids), hashlib.sha256("\n".join(ids).encode()).hexdigest()) == LISTS[key]
    assert BENCHMARK.count(key).rows == BENCHMARK.count(key).paper == len(ids)


@pytest.mark.parametrize(("name", "module", "known"), [("cub", cub200, 100), ("aircraft", fgvc_aircraft, 50)])
def test_labels_count_the_known_classes_in_the_owners_order(planned, name, module, known):
    for key in (f"ssb-{name}/test", f"ssb-{name}-train/train"):
        pairs = {*zip(*(planned[key][column].to_pylist() for column in ("class_id", "label")), strict=True)}
        order = [class_id for class_id in module.classes() if class_id in dict(pairs)]
        assert sorted(pairs) == [(class_id, label) for label, class_id in enumerate(order)]
        assert len(order) == known


def test_the_demo_is_built_verified_and_built_again_from_its_index(demo, tmp_path):
    out, again = tmp_path / "release", tmp_path / "again"
    flags = [f"--{key}={demo[key]}" for key in ("cub200", "fgvc_aircraft")]
    assert main([*flags, f"--out={out}", "--workers=1", "--quiet", "--limit-per-class=2"]) == 0
    built = read_manifest(out).by_key()
    # two images of each of the published classes
    assert [built[f"ssb-cub/{part}"].rows for part in ("test", "hard", "medium", "easy")] == [200, 68, 68, 64]
    assert built["ssb-aircraft-train/train"].rows == 100
    assert verify.main([str(out), "--workers=1"]) == 0
    assert materialize.main([str(out), *flags, f"--out={again}"]) == 0
    assert {key: split.data for key, split in read_manifest(again).by_key().items()} == {
        key: split.data for key, split in built.items()
    }
