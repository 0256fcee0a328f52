"""Runs a build, for `python -m builders.<benchmark>_benchmark`: from flags and folders of sources to its result.

Tested by `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from builders.cli.build_options import DUPLICATES, BuildFlags, apply_variants, read_withdrawn, refuse_replaced
from builders.cli.console import check_json, print_document
from builders.cli.source_flags import (
    missing_sources,
    refuse_sources_of_demo,
    refuse_wrong_folders,
    source_folders,
    source_places,
    sources_file_hint,
)
from builders.cli.split_choice import is_selected, parse_split_names, refuse_unknown_splits
from builders.commands.build_splits import ModelsOfDemo, listed_in_demo, note_left_out, splits_to_build
from builders.commands.summary import built_text, dry_run_document, dry_run_text
from builders.declare.benchmark import Benchmark, split_of
from builders.errors import NAMED, BuildError, more
from builders.generate.extra import check_installed
from builders.pipeline.build_plan import (
    BuildRequest,
    Run,
    compared_with,
    keys_of_parts,
    needed_partitions,
    with_parents,
)
from builders.pipeline.from_sources import prepare
from builders.pipeline.run import write_release
from builders.pipeline.state import locked, refuse_foreign
from builders.release.layout import Layout
from builders.sources.base import Source
from builders.storage.paths import store_of
from unknown_detection.terminal.progress import TerminalMeter
from unknown_detection.words import quantity


def given_sources(
    benchmark: Benchmark, module: str, splits: Sequence[str], flags: BuildFlags, note: Callable[[str], object]
) -> dict[str, Path]:
    """Return the folders of the sources that the splits need, by source key; what is on the Hub is downloaded.

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
    places = source_places(needing, flags)
    flagged = {source: flags.folders[source.key] for source in benchmark.sources() if source.key in flags.folders}
    refuse_wrong_folders(flagged | places)  # also of sources that these splits do not need
    missing = [source for source in needing if source not in places]
    if missing:
        lines = [f"No folder was given for {quantity(len(missing), 'source')} of these splits:"]
        lines += missing_sources((source, _in_few_words(benchmark, needing[source])) for source in missing)
        lines.append(f"{sources_file_hint(missing[0])}. Or choose --splits, or try the demo sources:")
        lines.append(f"  {module} --demo --out build/unknown-detection")
        raise BuildError("\n".join(lines))
    return source_folders(places, needed_partitions(benchmark, splits), flags, note)


def demo_sources(
    benchmark: Benchmark, splits: Sequence[str], flags: BuildFlags, cleanup: contextlib.ExitStack
) -> dict[str, Path]:
    """Write the demo's copies of the sources that the splits need, and return their folders by source key."""
    from builders.demo.write import keep_demo

    keys = [source.key for source in _on_disk(benchmark, splits)]
    with _demo_folder("demo", flags, cleanup) as folder:
        return keep_demo(folder, keys, progress=not flags.quiet)


def with_demo_models(
    benchmark: Benchmark, models: ModelsOfDemo, names: Sequence[str], flags: BuildFlags, cleanup: contextlib.ExitStack
) -> Benchmark:
    """Write a demo's models, and return the benchmark with the splits that they make.

    Raises:
        BuildError: a named split takes packages that are not installed.
    """
    if not models.settings:
        return benchmark
    check_installed({key: generator for key, generator in models.generators.items() if is_selected(key, names)})
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
    """Return whether a source is made up, also where a flag gives its folder."""
    from builders.demo.write import is_demo

    return any(is_demo(root) for root in roots.values())


def _in_few_words(benchmark: Benchmark, parts: Sequence[str]) -> str:
    """Name the configs, or the splits of a single config, that some parts of splits belong to."""
    splits = list(dict.fromkeys(map(split_of, parts)))
    configs = list(dict.fromkeys(key.partition("/")[0] for key in splits))
    all_chosen = len(splits) == sum(key.partition("/")[0] in configs for key in benchmark.usual())
    names = configs if all_chosen or len(configs) > 1 else splits
    return ", ".join(names[:NAMED]) + more(names)


def _on_disk(benchmark: Benchmark, splits: Sequence[str]) -> dict[Source, list[str]]:
    """Return the sources of some splits that lie in folders, each with the parts that need it."""
    needing: dict[Source, list[str]] = {}
    declared = benchmark.by_key()
    for key in keys_of_parts(benchmark, splits):
        drawn_from = with_parents(benchmark, [split_of(key)])
        for source in dict.fromkeys(source for part in (key, *drawn_from) for source in declared[part][1].sources):
            if source.on_disk:
                needing.setdefault(source, []).append(key)
    return needing


WORKER_IMPORTS = ("builders.declare.benchmark", "builders.generate.task", "builders.writing.shards", "numpy.ma")
"""All that a build's workers use, and no declared benchmark: the one that runs as `__main__` has another name in them.
pyarrow asks for the last at the first array that it makes of one of NumPy's."""


def run_build(declared: Benchmark, module: str, flags: BuildFlags) -> None:
    """Build a benchmark as flags ask for, and print what was built.

    Args:
        declared: the declaration.
        module: how the command is called, for messages.
        flags: the values of its flags.

    Raises:
        BuildError: anything that the user can fix.
    """
    declared.check()
    benchmark, flags = apply_variants(declared, flags)
    names = parse_split_names(flags.splits)
    refuse_replaced(declared, flags)
    configs = {name.partition("/")[0] for name in names}
    models = ModelsOfDemo.of(declared, configs, flags)
    benchmark = benchmark.with_settings(flags.settings, configs)
    refuse_unknown_splits(names, [*benchmark.parts(), *models.generators], f"The benchmark {benchmark.name}")
    check_json(as_json=flags.as_json, dry_run=flags.dry_run)
    store_of(flags.out).require_access(flags.out)
    refuse_foreign(flags.out)
    store_of(flags.out).require_access(flags.out, writing=not flags.dry_run)
    flags.executor.check()
    with TerminalMeter(quiet=flags.quiet) as meter, contextlib.ExitStack() as cleanup:
        if flags.demo:
            refuse_sources_of_demo(flags, meter.note)
            benchmark = with_demo_models(benchmark, models, names, flags, cleanup)
        benchmark, splits = splits_to_build(benchmark, models, names, flags)
        read = compared_with(benchmark, splits) if flags.withdraw == DUPLICATES else splits
        if flags.demo:
            roots = demo_sources(benchmark, read, flags, cleanup)
        else:
            roots = given_sources(benchmark, module, read, flags, meter.note)
        if not names and any_demo(roots):
            splits = listed_in_demo(benchmark, splits)
        note_left_out(benchmark, models, names, meter.note)
        with flags.executor.started(WORKER_IMPORTS) as executor:
            started = time.monotonic()
            planned = prepare(Run.of(benchmark, _request(flags, splits, roots), executor, meter))
            images = sum(split.size for split in planned.planned)
            meter.note(f"planned {images:,} images in {time.monotonic() - started:.1f} s")
            manifest = None if flags.dry_run else write_release(planned)
        if manifest is None and flags.withdraw == DUPLICATES:
            meter.note("--withdraw duplicates: which images are duplicates is known once they have been read")
        meter.done()
        if manifest is not None:
            click.echo(built_text(benchmark, manifest, flags.out, splits))
        elif flags.as_json:
            print_document("build", dry_run_document(planned))
        else:
            click.echo(dry_run_text(planned))


def _request(flags: BuildFlags, splits: tuple[str, ...], roots: Mapping[str, Path]) -> BuildRequest:
    variant, demo = flags.withdraw == DUPLICATES, any_demo(roots)
    return BuildRequest(
        out=flags.out,
        splits=splits,
        roots=roots,
        seed=flags.seed,
        limit_per_class=flags.limit_per_class,
        index_only=flags.index_only,
        allow_partial=flags.allow_partial or demo,
        decode=flags.check == "decode",
        adopt=flags.adopt,
        demo=demo,
        withdrawn=read_withdrawn(Path(flags.withdraw)) if flags.withdraw and not variant else {},
        without_duplicates=variant,
    )
