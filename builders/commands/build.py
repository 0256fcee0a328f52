"""Runs a build, for `python -m builders.<benchmark>_benchmark`: from flags and folders of sources to its result.

Tested by `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from builders.cli.build_options import (
    DUPLICATES,
    BuildFlags,
    apply_variants,
    given_flags,
    read_withdrawn,
    refuse_replaced,
    replaced_configs,
)
from builders.cli.console import check_json, print_document
from builders.cli.source_flags import refuse_sources_of_demo, source_roots
from builders.cli.split_choice import is_selected, parse_split_names, refuse_unknown_splits
from builders.commands.summary import built_text, dry_run_document, dry_run_text
from builders.declare.benchmark import Benchmark, Listed, Settings, Split
from builders.demo.files import FILES
from builders.demo.write import is_demo, keep_demo
from builders.errors import NAMED, BuildError, more
from builders.generate.contract import INSTALL, check_installed, not_installed, without_packages
from builders.pipeline.build_plan import Run
from builders.pipeline.from_sources import prepare
from builders.pipeline.run import write_release
from builders.pipeline.state import locked, refuse_foreign
from builders.release.layout import Layout
from builders.sources.base import Source
from builders.storage.paths import store_of
from unknown_detection.durable import make_folder
from unknown_detection.terminal.progress import TerminalMeter

WORKER_IMPORTS = ("builders.declare.benchmark", "builders.generate.task", "builders.writing.shards", "numpy.ma")
"""All that a build's workers use, and no declared benchmark: the one that runs as `__main__` has another name in them.
pyarrow asks for the last at the first array that it makes of one of NumPy's."""


def run_build(declared: Benchmark, module: str, flags: BuildFlags) -> None:
    """Build a benchmark as flags ask for, and print what was built.

    Raises:
        BuildError: anything that the user can fix.
    """
    declared.check()
    variant = flags.withdraw == DUPLICATES
    refuse_replaced(declared, flags)
    benchmark, flags = apply_variants(declared, flags)
    names = parse_split_names(flags.splits)
    benchmark = benchmark.with_settings(flags.settings, {name.partition("/")[0] for name in names})
    modelled = demo_settings(declared, flags) if flags.demo else []
    benchmark = planned_demo_models(benchmark, modelled) if modelled else benchmark
    refuse_unknown_splits(names, list(benchmark.parts()), f"The benchmark {benchmark.name}")
    check_json(as_json=flags.as_json, dry_run=flags.dry_run)
    store_of(flags.out).require_access(flags.out)
    refuse_foreign(flags.out)
    store_of(flags.out).require_access(flags.out, writing=not flags.dry_run)
    flags.executor.check()
    with TerminalMeter(quiet=flags.quiet) as meter, contextlib.ExitStack() as cleanup:
        if flags.demo:
            refuse_sources_of_demo(flags, meter.note)
        benchmark, splits = choose_splits(benchmark, names, flags, meter.note)
        read = benchmark.compared_with(splits) if variant else splits
        if flags.demo:
            benchmark = with_demo_models(benchmark, modelled, read, flags, cleanup)
            splits, read = (tuple(key for key in keys if not benchmark.needs(key)) for keys in (splits, read))
            roots = demo_sources(benchmark, read, flags, cleanup)
        else:
            roots = given_sources(benchmark, module, read, flags, meter.note)
        demo = any(is_demo(root) for root in roots.values())  # also where a flag gives the folder of one
        if demo and not names:
            splits = listed_in_demo(benchmark, splits)
        with flags.executor.started(WORKER_IMPORTS) as executor:
            started = time.monotonic()
            run = Run(
                benchmark,
                executor,
                meter,
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
            plan = prepare(run)
            images = sum(split.size for split in plan.planned)
            meter.note(f"planned {images:,} images in {time.monotonic() - started:.1f} s")
            manifest = None if flags.dry_run else write_release(plan)
        if manifest is None and variant:
            meter.note("--withdraw duplicates: which images are duplicates is known once they have been read")
        meter.done()
        if manifest is not None:
            click.echo(built_text(benchmark, manifest, flags.out, splits))
        elif flags.as_json:
            print_document("build", dry_run_document(plan))
        else:
            click.echo(dry_run_text(plan))


# Splits


def choose_splits(
    benchmark: Benchmark, names: Sequence[str], flags: BuildFlags, note: Callable[[str], object]
) -> tuple[Benchmark, tuple[str, ...]]:
    """Return the named splits, as `config/split` in declared order, or all usual ones that can be generated.

    A config stands for its splits that can be generated. A demo leaves out, and compares with nothing, what takes
    packages that are not installed; the benchmark is returned with these as splits that cannot be generated.

    Raises:
        BuildError: something has to be given, or installed, before a split can be generated.
    """
    lacking: dict[str, str] = {}
    if flags.demo and not flags.dry_run:
        unnamed = [key for key in benchmark.usual() if not is_selected(key, names) and not benchmark.needs(key)]
        missing: dict[str, dict[str, Split]] = {}
        for key, generator in without_packages(benchmark.generators(unnamed)).items():
            lacking[key] = not_installed([generator])
            config, split = benchmark.by_key()[key]
            needing = dataclasses.replace(generator, needs=lacking[key])
            missing.setdefault(config.name, {})[split.name] = dataclasses.replace(split, generator=needing)
        benchmark = benchmark.with_splits(missing)
    ready = benchmark.ready()
    for name in names:
        inside = [key for key in benchmark.parts() if is_selected(key, [name])]
        if not set(inside) & set(ready):
            raise BuildError(
                f"--splits {name} cannot be generated yet: {inside[0]} is made with {benchmark.needs(inside[0])}. Add "
                "these flags."
            )
    splits = tuple(key for key in ready if is_selected(key, names or benchmark.usual()))
    if not splits:
        needed = " or ".join(dict.fromkeys(map(benchmark.needs, benchmark.parts())))
        raise BuildError(f"All splits of this benchmark need a model: give {needed}.")
    for key in benchmark.usual() if not names else ():
        if key not in ready and key not in lacking:
            note(f"{key}: left out, since it is made with {benchmark.needs(key)}")
    for packages in dict.fromkeys(lacking.values()) if not names else ():
        keys = ", ".join(key for key in lacking if lacking[key] == packages)
        # Also with --quiet: it is no progress.
        click.echo(f"left out {keys}: {packages}. For these, too: {INSTALL}", err=True)
    if not flags.dry_run:
        check_installed(benchmark.generators(splits))
        others = benchmark.compared_with(splits) if flags.withdraw == DUPLICATES else ()
        if uninstalled := without_packages(benchmark.generators(others)):
            raise BuildError(
                f"--withdraw duplicates compares the images with those of {', '.join(uninstalled)}, and "
                f"{not_installed(uninstalled.values())}. Run {INSTALL}."
            )
    return benchmark, splits


def listed_in_demo(benchmark: Benchmark, splits: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the splits whose published lists name no image of the demo."""
    kept = []
    for key in splits:
        split = benchmark.by_key()[benchmark.parts()[key][0]][1]
        demo = FILES.get(split.source.key)
        quota = split.quota if isinstance(split.quota, Listed) else None
        images = demo.images() if demo is not None else None
        if quota is None or images is None or any(quota.has(image.source_id) for image in images):
            kept.append(key)
        else:
            click.echo(f"{key}: left out, since the demo has none of the listed images", err=True)
    return tuple(kept)


# A demo's models and sources


def demo_settings(benchmark: Benchmark, flags: BuildFlags) -> list[Settings]:
    """Return the settings whose models a demo makes: no flag gives a model, and no variant replaces the images."""
    replaced = replaced_configs(benchmark, flags)
    return [
        settings
        for settings in benchmark.settings
        if settings.demo is not None
        and settings.config not in replaced
        and not any(flag.name in settings.demo.flags for flag in given_flags(settings, flags))
    ]


def planned_demo_models(benchmark: Benchmark, modelled: Sequence[Settings]) -> Benchmark:
    """Return the benchmark with the splits that a demo's models make.

    Their generators take the same packages, and `with_demo_models` replaces them.
    """
    added: dict[str, dict[str, Split]] = {}
    for settings in modelled:
        if (demo := settings.demo) is not None:
            (own,) = (config.splits for config in benchmark.configs if config.name == settings.config)
            templates = {split.name: split for split in own if isinstance(split, Split)}
            like = next(iter(templates.values()))
            added[settings.config] = {
                name: dataclasses.replace(
                    templates.get(name, like),
                    name=name,
                    classes=demo.classes,
                    generator=dataclasses.replace(generator, needs=""),
                )
                for name, generator in demo.makes.items()
            }
    return benchmark.with_splits(added)


def with_demo_models(
    benchmark: Benchmark,
    modelled: Sequence[Settings],
    splits: Sequence[str],
    flags: BuildFlags,
    cleanup: contextlib.ExitStack,
) -> Benchmark:
    """Write a demo's models for some splits, and return the benchmark with the generators that use them."""
    for settings in modelled if not flags.dry_run else ():
        demo = settings.demo
        names = [name for name in demo.makes if f"{settings.config}/{name}" in splits] if demo is not None else []
        if demo is not None and names:
            with _demo_folder("demo-models", flags, cleanup) as folder:
                make_folder(folder / settings.config)
                values = {**flags.settings, **demo.write(folder / settings.config, names)}
            made = settings.splits(
                values | {flag.name: flags.settings[flag.name] for flag in given_flags(settings, flags)}
            )
            chosen = {name: dataclasses.replace(made[name], classes=demo.classes) for name in names if name in made}
            for name in set(names) - set(made):  # which other flags rule out, such as --attack
                _, split = benchmark.by_key()[f"{settings.config}/{name}"]
                generator = split.generator and dataclasses.replace(split.generator, needs="other flags")
                chosen[name] = dataclasses.replace(split, generator=generator)
            benchmark = benchmark.with_splits({settings.config: chosen})
    return benchmark


def demo_sources(
    benchmark: Benchmark, splits: Sequence[str], flags: BuildFlags, cleanup: contextlib.ExitStack
) -> dict[str, Path]:
    """Write the demo's copies of the sources that the splits need, and return their folders by source key."""
    keys = [source.key for source in _on_disk(benchmark, splits)]
    with _demo_folder("demo", flags, cleanup) as folder:
        return keep_demo(folder, keys, progress=not flags.quiet)


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


# A person's sources


def given_sources(
    benchmark: Benchmark, module: str, splits: Sequence[str], flags: BuildFlags, note: Callable[[str], object]
) -> dict[str, Path]:
    """Return the folders of the sources that the splits need, by source key; what is on the Hub is downloaded.

    Raises:
        BuildError: a source has no folder, or something cannot be downloaded.
    """
    needing = {}
    for source, parts in _on_disk(benchmark, splits).items():
        configs = list(dict.fromkeys(key.partition("/")[0] for key in parts))
        needing[source] = ", ".join(configs[:NAMED]) + more(configs)
    closing = f" Or choose --splits, or try the demo sources:\n  {module} --demo --out build/unknown-detection"
    return source_roots(needing, benchmark.partitions(benchmark.parts_of(splits)), flags, note, closing)


def _on_disk(benchmark: Benchmark, splits: Sequence[str]) -> Mapping[Source, list[str]]:
    """Return the sources of some splits that lie in folders, each with the parts that need it."""
    needing: dict[Source, list[str]] = {}
    for key in benchmark.parts_of(splits):
        for source in benchmark.partitions([key]):
            if source.on_disk:
                needing.setdefault(source, []).append(key)
    return needing
