"""Rebuilding a published index: the publisher's bytes from the right sources, one sentence for anything else."""

import json
import shutil

import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.cifar_benchmark import BENCHMARK as CIFAR
from builders.cli.build_options import BuildRequest
from builders.cli.executor_flags import WORKER_IMPORTS
from builders.errors import BuildError
from builders.executors.local import LocalExecutor
from builders.pipeline.from_index import plan_published
from builders.pipeline.published import Published
from builders.pipeline.run import write_release
from tests.builders.conftest import build_demo, files_of
from tests.builders.planning import QUIET
from tests.builders.trees import linked
from tests.hf_scripts.samples import with_column
from tests.killing import watched_at_renames
from tests.manifests import as_json, manifest_of, write_json
from tests.sentences import assert_sentence, stops


@pytest.fixture(scope="module")
def few_of_cifar(demo, tmp_path_factory):
    """A release of CIFAR's splits with at most eight images of a class, and of the noise."""
    root = tmp_path_factory.mktemp("few") / "release"
    build_demo(demo, root, benchmark=CIFAR, limit_per_class=8)
    return root


@pytest.fixture(scope="module")
def published(few_of_cifar, release, tmp_path_factory):
    """Releases by config, as a reader gets them: without pixels and without state."""
    by_config = {}
    for root, configs in ((few_of_cifar, ("cifar", "cifar-train")), (release, ("imagenet",))):
        folder = linked(root, tmp_path_factory.mktemp("published") / "release", ".state", "data", "samples", "*.md")
        by_config |= {config: Published(folder, config) for config in configs}
    return by_config


def materialize(published, roots, out, workers=1):
    with LocalExecutor(workers, preload=WORKER_IMPORTS) as executor:
        return as_json(write_release(plan_published(published, BuildRequest(out), roots), executor, QUIET))


@pytest.mark.parametrize(("config", "origin"), [("cifar", "few_of_cifar"), ("imagenet", "release")])
def test_the_same_sources_give_the_publishers_files(published, demo, tmp_path, request, config, origin):
    expected = files_of(request.getfixturevalue(origin))
    manifest = materialize(published[config], demo, tmp_path)
    files = files_of(tmp_path)
    for name, content in files.items():
        if name.startswith(("data/", "index/", "excluded/")):
            assert content == expected[name], name
    assert manifest["configs"][config] == json.loads(expected["manifest.json"])["configs"][config]
    assert sum(name.startswith("data/") for name in files) == len(manifest["configs"][config]["splits"])


def test_configs_are_added_to_one_folder(published, demo, tmp_path):
    materialize(published["cifar-train"], demo, tmp_path)
    before = files_of(tmp_path)
    manifest = materialize(published["imagenet"], demo, tmp_path, workers=2)
    assert sorted(manifest["configs"]) == ["cifar-train", "imagenet"]
    earlier = {name for name in before if name.startswith(("data/", "index/", "excluded/"))}
    assert all(files_of(tmp_path)[name] == before[name] for name in earlier)


def changed(published, folder, change, split):
    """One split of a published config whose manifest was changed, and the manifest."""
    root = shutil.copytree(published.root, folder)
    manifest = manifest_of(root)
    change(manifest)
    write_json(root, manifest)
    return Published(root, published.config, only=frozenset((split,))), manifest


def test_a_release_from_before_the_table_of_duplicates_is_built_too(published, demo, tmp_path):
    remove = lambda manifest: manifest.pop("duplicates")  # noqa: E731
    before_table, manifest = changed(published["imagenet"], tmp_path / "published", remove, "far_ood_food32")
    shutil.rmtree(before_table.root / "duplicates")
    built = materialize(before_table, demo, tmp_path / "out")
    before = manifest["configs"]["imagenet"]["splits"]["far_ood_food32"]
    assert built["configs"]["imagenet"]["splits"]["far_ood_food32"]["digest"] == before["digest"]


@pytest.mark.parametrize(
    ("config", "split", "source"), [("imagenet", "far_ood_food32", "food101"), ("cifar", "far_ood_dtd", "dtd")]
)
def test_a_changed_image_is_named_also_where_it_is_resized(published, demo, tmp_path, config, split, source):
    root = linked(demo[source], tmp_path / source)
    row = published[config].rows(f"{config}/{split}").to_pylist()[7]
    path = root / "images" / row["source_id"]
    path.unlink()
    Image.new("RGB", (40, 40)).save(path, "JPEG")
    only = Published(published[config].root, config, only=frozenset((split,)))
    with pytest.raises(BuildError) as caught:
        materialize(only, demo | {source: root}, tmp_path / "out")
    sentence = str(caught.value)
    assert_sentence(sentence, row["id"], "content_sha256", row["content_sha256"])
    assert config == "cifar" or str(path) in sentence
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_an_edition_without_an_image_is_named(published, demo, tmp_path):
    root = linked(demo["food101"], tmp_path / "food101")
    row = published["imagenet"].rows("imagenet/far_ood_food32").to_pylist()[7]
    (root / "images" / row["source_id"]).unlink()
    with pytest.raises(BuildError) as caught:
        materialize(published["imagenet"], demo | {"food101": root}, tmp_path / "out")
    assert_sentence(str(caught.value), "193", "imagenet/far_ood_food32", row["source_id"], "Food-101 (2014)")


@pytest.mark.parametrize(
    ("config", "split", "change", "sentence"),
    [
        (
            "imagenet",
            "test",
            lambda manifest: manifest["configs"]["imagenet"]["splits"]["test"].update(digest="0" * 64),
            r"has other rows than its manifest says \(digest 0000",
        ),
        (
            "imagenet",
            "test",
            lambda manifest: manifest["benchmarks"]["imagenet"].update(version="9.0.0"),
            r"do not build version 9\.0\.0 of the benchmark imagenet, only 1\.1\.0",
        ),
        (
            "cifar",
            "far_ood_dtd",
            lambda manifest: manifest["configs"]["cifar"]["splits"]["far_ood_dtd"].pop("generator"),
            "does not say how the images of cifar/far_ood_dtd were generated",
        ),
    ],
    ids=["another-index", "another-version", "no-generator"],
)
def test_an_index_that_does_not_fit_its_manifest_or_these_tools_is_refused(
    published, demo, tmp_path, config, split, change, sentence
):
    with pytest.raises(BuildError, match=sentence):
        materialize(changed(published[config], tmp_path / "published", change, split)[0], demo, tmp_path / "out")


@pytest.mark.parametrize("file", ["index/imagenet/test.parquet", "excluded/imagenet.csv", "duplicates/pairs.parquet"])
def test_a_table_that_the_manifest_does_not_list_is_refused(published, demo, tmp_path, file):
    """Cut behind its first line or row, or with other classes: the digest of the rows says nothing of it."""
    root = linked(published["imagenet"].root, tmp_path / "published")
    path = root / file
    if path.suffix == ".csv":
        changed, write = path.read_text().splitlines()[:-1], lambda lines: path.write_text("\n".join(lines) + "\n")
    else:
        table = pq.read_table(path)
        rows = with_column(table, "class_name", ["other"] * len(table)) if "index" in file else table.slice(1)
        changed, write = rows, lambda rows: pq.write_table(rows, path)
    path.unlink()
    write(changed)
    with stops(BuildError, file):
        materialize(Published(root, "imagenet"), demo, tmp_path / "out")


@pytest.mark.parametrize(("count", "file"), [("rows", "index"), ("available", "excluded"), ("rule", "excluded")])
def test_counts_of_a_manifest_that_its_tables_do_not_have_are_refused(published, demo, tmp_path, count, file):
    """They would be those of the new release: a digit of a manifest may change on a disk, and it has no digest."""
    root = linked(published["imagenet"].root, tmp_path / "published")
    manifest = manifest_of(root)
    part = manifest["configs"]["imagenet"]["splits"]["near_ood"]["parts"][0]
    if count == "rule":
        part["excluded_by_rule"] = {f"{rule}?": images for rule, images in part["excluded_by_rule"].items()}
        assert part["excluded_by_rule"]
    else:
        part[count] += 1
    write_json(root, manifest)
    with stops(BuildError, f"{file}/imagenet", "near_ood"):
        materialize(Published(root, "imagenet"), demo, tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_config_that_is_not_there_is_refused(published, demo, tmp_path):
    absent = Published(published["imagenet"].root, "absent")
    with stops(BuildError):
        materialize(absent, demo, tmp_path / "out")


def test_a_killed_run_goes_on_to_the_publishers_files(published, release, demo, tmp_path):
    out = tmp_path / "out"
    watched = watched_at_renames((11,), out, lambda: materialize(published["imagenet"], demo, out))
    out = watched.as_killed(11)
    materialize(published["imagenet"], demo, out)
    expected = files_of(release)
    files = files_of(out)
    assert all(files[name] == expected[name] for name in files if name.startswith(("data/", "index/")))
