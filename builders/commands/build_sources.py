"""The folders of the sources that a build reads: those that a person gives, or a demo's.

Tested by `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from builders.cli.build_flags import BuildFlags
from builders.cli.demo_models import ModelsOfDemo
from builders.cli.source_flags import given_places, listed_once, missing_sources
from builders.cli.source_places import Downloads, refuse_wrong_folders
from builders.cli.split_choice import is_named
from builders.declare.benchmark import Benchmark, split_of
from builders.errors import NAMED, BuildError, more
from builders.generate.extra import check_installed
from builders.pipeline.request import needed_partitions, parts_of, with_parents
from builders.pipeline.state import locked
from builders.release.layout import Layout
from builders.sources.base import Source
from builders.storage.paths import store_of
from unknown_detection.words import quantity


def given_sources(
    benchmark: Benchmark, module: str, splits: Sequence[str], flags: BuildFlags, note: Callable[[str], object]
) -> dict[str, Path]:
    """Folders of the sources that the splits need, by source key; what is on the Hub is downloaded.

    Args:
        benchmark: the declaration.
        module: how the command is called, for messages.
        splits: the splits (`config/split`) that are read.
        flags: the build's flags.
        note: prints a line.

    Raises:
        BuildError: a source has no folder, or something cannot be downloaded.
    """
    needing = _on_disk(benchmark, splits)
    places = given_places(needing, flags)
    given = {source: flags.folders[source.key] for source in benchmark.sources() if source.key in flags.folders}
    refuse_wrong_folders(given | places)  # also of sources that these splits do not need
    missing = [source for source in needing if source not in places]
    if missing:
        lines = [f"No folder was given for {quantity(len(missing), 'source')} of these splits:"]
        lines += missing_sources((source, _in_few_words(benchmark, needing[source])) for source in missing)
        lines.append(f"{listed_once(missing[0])}. Or choose --splits, or try the demo sources:")
        lines.append(f"  {module} --demo --out build/unknown-detection")
        raise BuildError("\n".join(lines))
    downloads = Downloads(flags.cache, note, quiet=flags.quiet, only_look=flags.dry_run)
    return downloads.folders(places, needed_partitions(benchmark, splits))


def demo_sources(
    benchmark: Benchmark, splits: Sequence[str], flags: BuildFlags, cleanup: contextlib.ExitStack
) -> dict[str, Path]:
    """Folders with the demo's copies of the sources that the splits need, by source key."""
    from builders.demo.write import keep_demo

    keys = [source.key for source in _on_disk(benchmark, splits)]
    with _demo_folder("demo", flags, cleanup) as folder:
        return keep_demo(folder, keys, progress=not flags.quiet)


def with_demo_models(
    benchmark: Benchmark, models: ModelsOfDemo, names: Sequence[str], flags: BuildFlags, cleanup: contextlib.ExitStack
) -> Benchmark:
    """The benchmark with the splits that a demo's models make, which are written first.

    Raises:
        BuildError: a split that is named takes packages that are not installed.
    """
    if not models.wanted:
        return benchmark
    check_installed({key: made for key, made in models.generators.items() if is_named(key, names)})
    with _demo_folder("demo-models", flags, cleanup) as folder:
        return models.added_to(benchmark, folder)


@contextlib.contextmanager
def _demo_folder(name: str, flags: BuildFlags, cleanup: contextlib.ExitStack) -> Iterator[Path]:
    """Yield a folder for a demo's files; `cleanup` removes it if the release's folder is not to be written."""
    if flags.dry_run or not store_of(flags.out).is_local:
        yield Path(cleanup.enter_context(tempfile.TemporaryDirectory()))
        return
    # Beside the release's state, so that a second run finds the same files; the folder is never pushed.
    layout = Layout(flags.out)
    with locked(layout):
        yield layout.state / name


def any_demo(roots: Mapping[str, Path]) -> bool:
    """Whether a source is made up, also where its folder is given by a flag."""
    from builders.demo.write import is_demo

    return any(is_demo(root) for root in roots.values())


def _in_few_words(benchmark: Benchmark, parts: Sequence[str]) -> str:
    """Name the configs, or the splits of a single config, that some parts of splits belong to."""
    splits = list(dict.fromkeys(map(split_of, parts)))
    configs = list(dict.fromkeys(key.partition("/")[0] for key in splits))
    whole = len(splits) == sum(key.partition("/")[0] in configs for key in benchmark.usual())
    names = configs if whole or len(configs) > 1 else splits
    return ", ".join(names[:NAMED]) + more(names)


def _on_disk(benchmark: Benchmark, splits: Sequence[str]) -> dict[Source, list[str]]:
    """The sources of the splits that are folders, each with the parts that need it."""
    needing: dict[Source, list[str]] = {}
    declared = benchmark.by_key()
    for key in parts_of(benchmark, splits):
        drawn_from = with_parents(benchmark, [split_of(key)])
        for source in dict.fromkeys(source for part in (key, *drawn_from) for source in declared[part][1].sources):
            if source.on_disk:
                needing.setdefault(source, []).append(key)
    return needing
