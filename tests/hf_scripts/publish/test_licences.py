"""The table of who may read what, written out for every licence and every kind of repository."""

import contextlib

import pytest

from builders.errors import BuildError
from builders.hub.repository import Info
from builders.release.manifest import dump, parse
from builders.sources import registry
from builders.sources.base import Licence
from builders.sources.datasets.imagenet import IMAGENET
from builders.sources.made import NOISE
from hf_scripts.publish.licences import (
    check_declared,
    check_licences,
    with_declared_licences,
)
from tests import manifests
from tests.hf_scripts.samples import declaration
from tests.manifests import typed
from tests.sentences import assert_sentence, stops

# What a licence allows, and the name of a source that has such a licence.
NAMES = {"open": "open", "gated": "gated", "ids-only": "ids-only", "a word of tomorrow": "tomorrow"}


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    declarations = {
        name: declaration(
            name, f"The {publish} Source", Licence(f"{publish} terms", f"https://example.org/{publish}", publish, "")
        )
        for publish, name in NAMES.items()
        if publish != "a word of tomorrow"
    }
    known = registry.declared_source
    monkeypatch.setattr("hf_scripts.publish.licences.declared_source", lambda key: declarations.get(key) or known(key))


def manifest(*, demo=False, **splits):
    """One split for each licence, with pixels unless its name ends in `_index`."""
    pixels = [manifests.file("data/a/x.parquet")]
    splits = {
        name: manifests.split(source=NAMES[publish], data=[] if name.endswith("_index") else pixels)
        for name, publish in splits.items()
    }
    sources = {
        name: manifests.source(
            title=f"The {publish} Source",
            licence={"name": f"{publish} terms", "url": f"https://example.org/{publish}", "publish": publish}
            | {"statement": ""},
        )
        for publish, name in NAMES.items()
    }
    benchmarks = {"bench": manifests.benchmark(demo=demo)}
    return typed(manifests.manifest({"a": manifests.config(splits)}, sources=sources, benchmarks=benchmarks))


def allowed(release):
    """The kinds of repositories that may hold a release's images."""
    found = []
    for access in ("public", "gated", "private"):
        with contextlib.suppress(BuildError):
            check_licences(release, access, "org/name")
            found.append(access)
    return found


@pytest.mark.parametrize(
    ("publish", "accesses"),
    [
        ("open", ["public", "gated", "private"]),
        ("gated", ["gated", "private"]),
        ("ids-only", ["private"]),
        ("a word of tomorrow", ["private"]),
    ],
)
def test_who_may_read_images(publish, accesses):
    assert allowed(manifest(test=publish)) == accesses


@pytest.mark.parametrize(("key", "public"), [("noise", True), ("stable_diffusion", True), ("biggan", False)])
def test_images_that_this_project_makes_have_the_licences_that_it_declares(key, public):
    splits = {"test": manifests.split(source=key), "shown": manifests.split(source=key)}
    splits["shown"]["samples"] = manifests.file("samples/a/shown.png")
    release = typed(manifests.manifest({"a": manifests.config(splits)}, sources={key: manifests.source()}))
    assert allowed(release) == ["public", "gated", "private"][not public :]
    # A picture of images that may be public can be listed after push has put the declared licences into the manifest.
    if public:
        parse(dump(with_declared_licences(release)).encode(), "manifest.json")


@pytest.mark.parametrize("access", ["public", "gated", "private"])
def test_rows_without_images_may_go_anywhere(access):
    check_licences(manifest(test_index="ids-only", train_index="gated"), access, "org/name")


def test_every_source_in_the_way_is_named_with_its_licence():
    with pytest.raises(BuildError) as caught:
        check_licences(manifest(a="gated", b="ids-only", c="ids-only", d="open"), "public", "org/name")
    assert_sentence(
        str(caught.value),
        "org/name",
        "a/a",
        "https://example.org/gated",
        "a/b",
        "https://example.org/ids-only",
        "--index-only",
        "--private",
    )


def test_what_the_hub_says():
    assert Info("", private=True, gated="auto").access == Info("", private=True, gated="").access == "private"
    assert Info("", private=False, gated=True).access == "gated"
    assert Info("", private=False, gated=False).access == "public"


def test_a_licence_is_that_of_the_declaration_and_not_that_of_the_manifest(tmp_path):
    """ImageNet's terms and ours, whatever a manifest says of them."""
    licence = {"name": "free", "url": "https://example.org", "publish": "open", "statement": "All is allowed."}
    sources = {key: manifests.source(title="Anything", licence=licence) for key in ("imagenet", "noise", "unheard-of")}
    splits = {
        key: manifests.split(source=source, data=[manifests.file(f"data/{key}.parquet")])
        for key, source in (("one", "imagenet"), ("two", "noise"), ("three", "unheard-of"))
    }
    edited = typed(manifests.manifest({"a": manifests.config(splits)}, sources=sources))
    with pytest.raises(BuildError) as caught:
        check_licences(edited, "public", "org/name")
    assert "a/two" not in str(caught.value)
    assert_sentence(str(caught.value), IMAGENET.title, "a/one", IMAGENET.licence.name, "a/three")
    with stops(BuildError, IMAGENET.title):
        check_declared(tmp_path, edited)
    entries = with_declared_licences(edited).sources
    assert entries["imagenet"].licence.statement == IMAGENET.licence.statement
    assert [entries[key].licence.publish for key in sources] == ["ids-only", "open", "ids-only"]
    assert entries["noise"].licence.name == NOISE.licence.name
