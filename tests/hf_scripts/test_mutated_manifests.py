"""Thousands of damaged and malicious manifests against the commands that read one, in this process.

Each is either refused in one printable sentence or taken as a manifest: no other error, no control character on the
terminal, nothing written outside.
"""

import contextlib
import dataclasses
import functools
import io
import os
import re
import shutil

import click
import pytest

from builders import imagenet_benchmark
from builders.cli.build_options import BuildRequest
from builders.errors import BuildError
from builders.executors.local import LocalExecutor
from builders.pipeline.from_index import plan_published
from builders.pipeline.from_sources import prepare
from builders.pipeline.published import Published
from builders.pipeline.run import write_release
from builders.release.entries import Manifest
from builders.release.manifest import parse
from hf_scripts import card, push, verify
from tests.builders.planning import QUIET
from tests.hf_scripts.pair_tables import add_table
from tests.hf_scripts.samples import REPO, make_release
from tests.manifests import manifest_of
from tests.mutations import broken_texts, mutations
from unknown_detection.words import UNPRINTABLE

FOOD = "imagenet/far_ood_food32"


def variants(root, step=1):
    """Those that `parse` refuses and those that it takes, by name, of every `step`-th."""
    manifest = manifest_of(root)
    refused, taken = {}, {}
    for name, data in [*mutations(manifest), *broken_texts(manifest)][::step]:
        try:
            assert isinstance(parse(data, "x"), Manifest)
            taken[name] = data
        except BuildError as error:
            assert str(error).isprintable() and len(str(error)) < 400, name
            refused[name] = data
    return refused, taken


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    root = make_release(
        tmp_path_factory.mktemp("small") / "release", {"bench/test": range(2), "bench-train/train": range(100, 102)}
    )
    add_table(root)
    return root


@pytest.fixture(scope="module")
def food(demo, tmp_path_factory):
    """A release of one split of the demo, with the state of its build, and the functions that build it."""
    out = tmp_path_factory.mktemp("food") / "release"
    request = BuildRequest(out, (FOOD,), limit_per_class=2, allow_partial=True, demo=True)
    with LocalExecutor(1) as executor:
        planned = prepare(imagenet_benchmark.BENCHMARK, request, {"food101": demo["food101"]}, QUIET)
        write_release(planned, executor, QUIET)
        yield planned, executor


@functools.cache
def everything(root):
    """Those that are taken."""
    return variants(root)[1]


def fewer(root):
    """Those that are taken, with fewer of the texts that may stand in any text."""
    alike = ("word", "inside", "card", "manifest", "state", "digest", "absolute", "more", "up")
    return {name: data for name, data in everything(root).items() if not name.endswith(alike)}


def some(root):
    """A fifth of these."""
    return dict(list(fewer(root).items())[::5])


MANY = pytest.mark.parametrize("chosen", [some, pytest.param(everything, marks=pytest.mark.slow)])


class Tried:
    """Runs one command on a copy of a release with other manifests; one that writes into it has a copy for each."""

    def __init__(self, root, folder):
        self.root, self.folder, self.codes = root, folder, {}
        self.outside = folder / "outside"
        self.outside.mkdir()

    def __call__(self, variants, run, *, writes=False):
        place = self.folder / "inside" / "place"
        for name, data in variants.items():
            if not place.exists():
                shutil.copytree(self.root, place / "release", copy_function=os.link)
                before = listing(place)
            (place / "release/manifest.json").unlink()
            (place / "release/manifest.json").write_bytes(data)
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                code = run(place / "release")
            shown = output.getvalue().replace("\n", "")
            assert not re.search(f"[{UNPRINTABLE}]", shown), name
            assert "all is well" not in [line.strip() for line in output.getvalue().splitlines()], name
            assert len(shown) < 20_000, name
            self.codes[name] = code
            assert sorted(path.name for path in self.folder.iterdir()) == ["inside", "outside"], name
            assert sorted(path.name for path in place.iterdir()) in (["release"], ["out", "release"]), name
            assert not any(self.outside.iterdir()), name
            shutil.rmtree(place if writes else place / "out", ignore_errors=True)
            assert writes or listing(place) == before, name
        return self.codes


def listing(folder):
    """Every path below a folder, with size and time of its files but for the manifest."""
    files = {path: path.stat() for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json"}
    return sorted(folder.rglob("*")), {path: (state.st_size, state.st_mtime_ns) for path, state in files.items()}


@pytest.fixture
def tried(tmp_path):
    return lambda root: Tried(root, tmp_path)


@pytest.mark.parametrize("release", ["small", pytest.param("cifar_release", marks=pytest.mark.slow)])
def test_each_is_a_manifest_or_is_refused_in_a_sentence(release, request):
    refused, taken = variants(request.getfixturevalue(release))
    assert len(refused) > 2000 and len(taken) > 200


def test_so_is_every_tenth_of_a_release_with_generators_and_joined_splits(cifar_release):
    refused, taken = variants(cifar_release, step=10)
    assert refused and taken


PUSH = ["--repo", REPO, "--tag", "v1.0.0", "--dry-run", "--workers", "1"]
READING = {
    "verify": (lambda root: verify.main([str(root), "--check", "fast", "--workers", "1"]), {0, 1}),
    "card": (lambda root: card.main([str(root), "--check"]), {0, 1}),
    "push": (lambda root: push.main([str(root), *PUSH]), {0, 2}),
}


@MANY
@pytest.mark.parametrize("command", READING)
def test_commands_that_only_read(small, tried, chosen, command, hub, api, only_loopback):
    run, codes = READING[command]
    assert set(tried(small)(chosen(small), run).values()) == codes


def code_of(run):
    try:
        run()
    except BuildError as error:
        click.echo(f"error: {error}")
        return 2
    return 0


@MANY
def test_build(food, tried, chosen):
    out = food[0].request.out
    taken = chosen(out)

    def run(root):
        planned, executor = food
        plan = dataclasses.replace(planned, request=dataclasses.replace(planned.request, out=root))
        return code_of(lambda: write_release(plan, executor, QUIET))

    assert set(tried(out)(taken, run, writes=True).values()) == {0, 2}


@MANY
def test_materialize(food, tried, chosen):
    taken = chosen(food[0].request.out)

    def run(root):
        published = Published(root, "imagenet")
        planned, executor = food
        roots = {key: index.root for key, index in planned.indexes.items()}
        request = BuildRequest(root.parent / "out")
        return code_of(lambda: write_release(plan_published(published, request, roots), executor, QUIET))

    assert set(tried(food[0].request.out)(taken, run).values()) == {0, 2}
