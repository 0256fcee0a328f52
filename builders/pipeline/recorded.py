"""Splits whose images cannot be generated again: their pixels are taken from the published release, where it has them.

Tested by `tests/builders/generate/test_toy_release.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from builders.benchmark import Benchmark
from builders.errors import BuildError
from builders.generate.contract import differences
from builders.pipeline.request import generators_of
from builders.release.digests import file_sha256
from builders.release.entries import GeneratorEntry, SplitEntry
from builders.release.layout import Layout
from builders.storage.atomic import atomic_path


def recorded_splits(benchmark: Benchmark, entries: Mapping[str, SplitEntry]) -> list[str]:
    """The published splits (`config/split`) whose images nobody can generate again.

    Args:
        benchmark: the declaration.
        entries: the splits' entries in the published manifest, by `config/split`.

    Raises:
        BuildError: a split was generated in another way than these tools generate it.
    """
    generators = generators_of(benchmark, list(entries))
    for key, generator in generators.items():
        # Releases of format 1 record none: their images were generated as the generators' first versions do.
        published = entries[key].generator or generator.entry()
        if differing := differences(_compared(published), _compared(generator.entry())):
            raise BuildError(
                f"The images of {key} were generated in another way than these tools generate them: with "
                f"{', '.join(differing)}. Use the tools that published it."
            )
    return [key for key, generator in generators.items() if generator.reproducible == "recorded"]


def _compared(entry: GeneratorEntry) -> dict[str, object]:
    """What has to be the declared generator's: all, or of images that are only copied, the recipe that they followed.

    Parameters and weights of a model are those of the person who ran it.
    """
    if entry.reproducible == "exact":
        return entry.identity()
    return {name: entry.identity()[name] for name in ("name", "version", "reproducible")}


def copy_pixels(key: str, entry: SplitEntry, published: Path, layout: Layout) -> None:
    """Copy the shards of a split from one release folder into another.

    Args:
        key: `config/split`.
        entry: its entry in the published manifest.
        published: the published release's folder, which may have its index alone.
        layout: the release folder that is written.

    Raises:
        BuildError: the published folder does not have them all, or has others than its manifest lists.
    """
    config, _, name = key.partition("/")
    shards = len(entry.data)
    missing = [file.path for file in entry.data if not (published / file.path).is_file()]
    if missing or not entry.data:
        raise BuildError(
            f"The images of {key} cannot be generated again: they depend on the device and the library versions that "
            f"generated them. Load the published ones, or give a release folder that has them; {published} "
            "does not."
        )
    for shard, file in enumerate(entry.data):
        target = layout.data(config, name, shard, shards)
        with atomic_path(target) as temporary:
            shutil.copyfile(published / file.path, temporary)
            if layout.relative(target) != file.path or file_sha256(temporary) != file.sha256:
                raise BuildError(
                    f"{published / file.path} is not shard {shard} of {key}, or not as its manifest lists it "
                    f"(SHA-256 {file.sha256}). Fetch the release again."
                )
