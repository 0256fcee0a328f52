"""The order of versions is that of semver.org, section 11; the rest follows by hand from the table of changes."""

import copy

import pytest

from builders.errors import BuildError
from builders.release.schema import OODNESS
from hf_scripts.publish import versions
from hf_scripts.publish.versions import Changes, Version, check_version, latest, parse_version, requested_version
from tests import manifests
from tests.manifests import as_json, file, typed
from tests.sentences import assert_sentence, stops


def compare(old, new):
    return versions.compare_manifests(typed(old), typed(new))


def split(digest, *, data=True):
    return manifests.split(key="a/any", digest=digest * 64, data=[file("data/a.parquet")] if data else [])


@pytest.fixture
def old():
    config = manifests.config({"test": split("1"), "train": split("2")})
    published = {"version": "1.2.3", "previous": "1.2.2", "changelog": [file("CHANGELOG.md")]}
    return manifests.manifest({"a": config}, **published)


@pytest.fixture
def new(old):
    return copy.deepcopy(old)


# Tags


@pytest.mark.parametrize("tag", ["v1.0.0", "v0.0.0", "v10.20.30"])
def test_tags_that_are_versions(tag):
    assert parse_version(tag).tag == requested_version(tag).tag == tag


@pytest.mark.parametrize("tag", ["1.0.0", "v1.0", "v01.0.0", "v1.0.0-rc.1", "v1.0.0+b", "v1.0.0\n", "v１.0.0", "main"])
def test_tags_that_are_not(tag):
    assert parse_version(tag) is None
    with stops(BuildError, "--tag"):
        requested_version(tag)


def test_numbers_are_compared_as_numbers():
    assert latest(["v1.9.0", "v1.10.0", "v1.10.0-rc.1", "main", "v0.99.99"]) == Version(1, 10, 0)
    assert latest(["main"]) is None


# What differs


def test_the_same_differs_in_nothing(old, new):
    assert compare(old, new) == Changes()
    assert compare(old, new).level == ""


def test_another_card_alone_is_a_patch(old, new):
    new["card"] = file("README.md", "1")
    assert compare(old, new).patch == ("README.md",)
    del new["card"]
    assert compare(old, new).level == ""


def place(manifest, path):
    *parents, last = path.split(".")
    for name in parents:
        manifest = manifest[name]
    return manifest, last


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("benchmarks.bench.title", "Another title"),
        ("sources.source.licence.url", "there"),
        ("configs.a.splits.test.data", [file("data/b.parquet")]),
        ("configs.a.splits.test.index", file("index/a.parquet", "1")),
        ("configs.a.splits.train.parts", [manifests.part(key="a/train", why="because")]),
        ("configs.a.excluded", file("excluded/a.csv", "1")),
    ],
)
def test_patches(old, new, path, value):
    parent, last = place(new, path)
    parent[last] = value
    assert compare(old, new) == Changes(patch=(path,))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m["configs"]["a"]["splits"].update(more=split("3")), "a/more is new"),
        (lambda m: m["configs"].update(b=m["configs"]["a"] | {"splits": {"test": split("3")}}), "b/test is new"),
        (lambda m: m["configs"]["a"]["columns"].append(as_json(OODNESS)), "a gets the column oodness"),
    ],
)
def test_additions_are_minor(old, new, change, reason):
    change(new)
    assert compare(old, new).minor == (reason,)
    assert compare(old, new).level == "minor"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m["configs"]["a"]["splits"].pop("test"), "a/test is gone"),
        (lambda m: m["configs"]["a"]["splits"]["test"].update(digest="9" * 64), "a/test has other rows"),
        (lambda m: m["configs"]["a"]["splits"]["test"].update(data=[]), "a/test loses its images"),
        (lambda m: m["configs"]["a"].update(label_names=["y", "x"]), "a has other label names"),
    ],
)
def test_what_a_reader_counted_on_is_major(old, new, change, reason):
    change(new)
    assert compare(old, new).major == (reason,)
    assert compare(old, new).level == "major"


def test_a_column_of_another_type_goes_and_comes_and_one_described_anew_stays(old, new):
    described = {"name": "epsilon", "type": "int64", "description": "the largest change"}
    for manifest, entry in ((old, described), (new, described | {"type": "float64"})):
        manifest["configs"]["a"]["columns"] = [entry]
    assert compare(old, new).major == ("a loses the column epsilon",)
    assert compare(old, new).minor == ("a gets the column epsilon",)
    new["configs"]["a"]["columns"] = [described | {"description": "the largest change of a sample"}]
    assert compare(old, new) == Changes(patch=("configs.a.columns",))


def test_images_for_an_index_are_minor(old, new):
    old["configs"]["a"]["splits"]["test"] = split("1", data=False)
    assert compare(old, new).minor == ("a/test gets its images",)


def test_all_that_differs_is_named_and_the_worst_decides(old, new):
    splits = new["configs"]["a"]["splits"]
    splits["test"]["digest"] = "9" * 64
    splits["more"] = split("3")
    new["sources"]["source"]["licence"]["url"] = "there"
    changes = compare(old, new)
    assert (changes.level, changes.reason()) == ("major", "a/test has other rows")
    assert changes.splits == ("a/more", "a/test")
    assert changes.patch == ("sources.source.licence.url",)
    splits.pop("train")
    assert compare(old, new).reason() == "a/test has other rows and 1 more such change"


# Which version


@pytest.mark.parametrize(("level", "smallest"), [("patch", "v1.2.4"), ("minor", "v1.3.0"), ("major", "v2.0.0")])
def test_the_smallest_version_that_will_do(level, smallest):
    changes = Changes(**{level: ("something",)})
    last = Version(1, 2, 3)
    check_version(requested_version(smallest), last, changes)
    check_version(Version(7, 0, 0), last, changes)
    below = {"v1.2.4": "v1.2.3", "v1.3.0": "v1.2.99", "v2.0.0": "v1.99.99"}[smallest]
    with pytest.raises(BuildError) as caught:
        check_version(requested_version(below), last, changes)
    assert_sentence(str(caught.value), below, "v1.2.3", level, "--tag", smallest)
