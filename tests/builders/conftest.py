"""Building the demo sources, and looking at what was built."""

import dataclasses
import importlib.metadata

import pytest

from builders.cli.build_options import BuildRequest
from builders.cli.executor_flags import WORKER_IMPORTS
from builders.executors.local import LocalExecutor
from builders.imagenet_benchmark import BENCHMARK
from builders.pipeline.from_sources import prepare
from builders.pipeline.run import write_release
from builders.sources.base import Expected
from builders.sources.opening import open_source
from tests.manifests import as_json
from unknown_detection.terminal.progress import TerminalMeter


def complete(benchmark, roots):
    """The same benchmark for a world in which the owners' editions are as small as the given sources."""

    def shrunk(source):
        if not source.on_disk:
            return source
        index = open_source(source, roots[source.key], tuple(source.expected()))
        counts = {
            partition.name: Expected(partition.table.num_rows, by_class(partition)) for partition in index.partitions
        }
        return dataclasses.replace(source, expected=lambda: counts)

    def by_class(partition):
        counted = partition.table["class_id"].value_counts()
        return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))

    sources = {source.key: shrunk(source) for source in benchmark.sources()}
    configs = tuple(
        dataclasses.replace(
            config,
            splits=tuple(dataclasses.replace(split, source=sources[split.source.key]) for split in config.splits),
        )
        for config in benchmark.configs
    )
    return dataclasses.replace(benchmark, configs=configs)


def build_demo(roots, out, *, benchmark=BENCHMARK, workers=1, executor=None, **changes):
    """Build a benchmark (ImageNet's if none is given) from the demo sources; returns the manifest as JSON.

    It runs on this machine's cores if no executor is given.
    """
    values = {"splits": benchmark.ready(), "allow_partial": True, "demo": True} | changes
    meter, local = TerminalMeter(quiet=True), LocalExecutor(workers, preload=WORKER_IMPORTS)
    with executor or local as executor:
        return as_json(write_release(prepare(benchmark, BuildRequest(out, **values), roots, meter), executor, meter))


def files_of(root):
    """Every file of a release outside its state, with its bytes."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".state" not in path.relative_to(root).parts
    }


def digests(manifest):
    """The digest of every split of a manifest, as JSON, by `config/split`."""
    return {
        f"{config}/{name}": split["digest"]
        for config, entry in manifest["configs"].items()
        for name, split in entry["splits"].items()
    }


def assert_same_files(release, rebuilt, count, holds):
    """Check that a release has `count` files whose names `holds` accepts, with the same bytes in another folder."""
    expected = {name: data for name, data in files_of(release).items() if holds(name)}
    built = files_of(rebuilt)
    assert len(expected) == count
    assert {name: built.get(name) for name in expected} == expected


@pytest.fixture(scope="session")
def release(imagenet_release):
    """An undisturbed ImageNet-scale release."""
    return imagenet_release


@pytest.fixture
def uninstalled(monkeypatch):
    """Lets some packages that generators need seem not to be installed."""

    def hide(*names):
        real_version = importlib.metadata.version

        def version(package):
            if package in names:
                raise importlib.metadata.PackageNotFoundError(package)
            return real_version(package)

        monkeypatch.setattr("builders.generate.contract.importlib.metadata.version", version)

    return hide
