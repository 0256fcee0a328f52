"""Runs a build, for `python -m builders.<benchmark>_benchmark`: from flags and folders of sources to its result.

Tested by `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from builders.cli.build_options import DUPLICATES, BuildRequest
from builders.cli.console import check_json
from builders.cli.executor_flags import WORKER_IMPORTS
from builders.cli.source_flags import (
    listed_places,
    parse_source_place,
    recognised_partitions,
    refuse_sources_of_demo,
    source_roots,
)
from builders.cli.split_choice import is_selected, parse_split_names
from builders.commands.demo_build import (
    demo_models,
    demo_sources,
    replaced_configs,
    with_demo_models,
)
from builders.commands.summary import print_result
from builders.declare.benchmark import Benchmark
from builders.errors import BuildError, one_line
from builders.generate.contract import INSTALL, not_installed, uninstalled_error
from builders.generate.flags import DEVICE
from builders.pipeline.build_plan import BuildPlan
from builders.pipeline.from_sources import prepare
from builders.pipeline.run import write_release
from builders.pipeline.state import refuse_unusable
from builders.release.split_names import splits_named
from builders.sources.base import Source, is_demo
from builders.storage.paths import require_access
from builders.storage.text_files import read_csv
from unknown_detection.terminal.progress import TerminalMeter
from unknown_detection.words import first_few


def run_build(declared: Benchmark, module: str, request: BuildRequest) -> None:
    """Build a benchmark as the flags ask, and print what was built."""
    meter = TerminalMeter(quiet=request.quiet)
    benchmark, request = apply_variants(declared, request)
    names = parse_split_names(request.splits)
    benchmark = benchmark.with_settings(request.settings, {name.partition("/")[0] for name in names})
    models = demo_models(declared, request) if request.demo else []
    benchmark = benchmark.with_splits({settings.config: demo.planned for settings, demo in models})
    where, keys = f"The benchmark {benchmark.name}", list(benchmark.splits)
    found = {name: splits_named(name, keys, where)[0] for name in names}
    names = [name if is_selected(key, [name]) else key for name, key in found.items()]
    check_flags(request, meter.note)
    with contextlib.ExitStack() as cleanup:
        benchmark, splits = choose_splits(benchmark, names, request, meter.note)
        read = benchmark.compared_with(splits) if request.without_duplicates else splits
        benchmark.check(read)
        if request.demo:
            benchmark = with_demo_models(benchmark, models, read, request, cleanup)
            splits, read = (tuple(key for key in keys if not benchmark.needs(key)) for keys in (splits, read))
            roots = demo_sources(sources_on_disk(benchmark, read), request, cleanup, meter.note)
        else:
            needed, partitions = sources_on_disk(benchmark, read), benchmark.partitions(benchmark.parts_of(read))
            closing = " Or choose --splits, or try the demo sources:\n"
            closing += f"  {module} --demo --out build/unknown-detection"
            roots = source_roots(needed, partitions, request, meter.note, closing)
        demo = any(is_demo(root) for root in roots.values())  # also where a flag gives the folder of one
        with request.executor.started(WORKER_IMPORTS) as executor:
            started = time.monotonic()
            listed = request.withdraw if not request.without_duplicates else None
            request = dataclasses.replace(
                request,
                splits=splits,
                allow_partial=request.allow_partial or demo,
                demo=demo,
                withdrawn=read_withdrawn(Path(listed)) if listed else {},
            )
            plan = prepare(benchmark, request, roots, meter)
            if request.withdrawn:
                warn_of_unmatched(plan)
            images = sum(split.size for split in plan.planned)
            meter.note(f"planned {images:,} images in {time.monotonic() - started:.1f} s")
            manifest = None if request.dry_run else write_release(plan, executor, meter)
        if manifest is None and request.without_duplicates:
            meter.note("--withdraw duplicates: which images are duplicates is known once they have been read")
        print_result(plan, manifest, as_json=request.as_json)


def check_flags(request: BuildRequest, note: Callable[[str], object]) -> None:
    """Refuse flags that exclude each other, and a release folder or a cluster that cannot be used."""
    check_json(as_json=request.as_json, dry_run=request.dry_run)
    require_access(request.out)
    refuse_unusable(request.out)
    require_access(request.out, writing=not request.dry_run)
    request.executor.check()
    if request.demo:
        refuse_sources_of_demo(request, note)


def refuse_replaced(benchmark: Benchmark, request: BuildRequest) -> None:
    """Refuse flags of generators whose images a chosen variant takes from a folder instead."""
    for settings in benchmark.settings:
        adopting = replaced_configs(benchmark, request).get(settings.config)
        given = " and ".join(f"--{flag.name}" for flag in request.given(settings) if flag != DEVICE)
        if adopting is not None and given:
            raise BuildError(
                f"{adopting} takes the images of {settings.config} from its folder, so {given} cannot be given with "
                f"it. Leave out {adopting}, or {given}."
            )


def apply_variants(benchmark: Benchmark, request: BuildRequest) -> tuple[Benchmark, BuildRequest]:
    """Apply the chosen variants; returns the benchmark, and the request with the variants' folders.

    A variant is also chosen where the folder of the usual source holds the variant's source instead.
    """
    refuse_replaced(benchmark, request)
    variants, folders = dict(request.variants), dict(request.folders)
    for variant in benchmark.variants:
        usual, other = variant.instead_of, variant.source
        if usual is not None and other is not None and not request.demo and variant.name not in variants:
            root = listed_places(request).get(usual.key) if other.key not in folders else None
            held = [any(recognised_partitions(s, root)) for s in (usual, other)] if isinstance(root, Path) else []
            if held == [False, True]:
                click.echo(f"{root} holds {other.title}, not {usual.title}: read as with --{variant.name}", err=True)
                variants[variant.name] = str(root)
        if other is not None and variant.name not in variants and other.key in folders:
            raise BuildError(
                f"--{other.key} is only used with --{variant.name}. Add that, or leave --{other.key} out."
            )
        if other is not None and (folder := variants.get(variant.name)):
            folders[other.key] = parse_source_place(folder)
    request = dataclasses.replace(request, variants=variants, folders=folders)
    return benchmark.with_variants(request.variants), request


def read_withdrawn(path: Path) -> dict[str, str]:
    """Read a CSV with the columns `id` and `reason`; returns the reason of each withdrawn row by id."""
    if not path.is_file():
        problem = "it is a folder" if path.is_dir() else "no such file"
        raise BuildError(f"Cannot read {path}: {problem}. Give --withdraw a CSV of id,reason, or {DUPLICATES}.")
    reasons: dict[str, str] = {}
    for line, row in read_csv(path, ("id", "reason"), "Give a CSV in UTF-8 with these two columns."):
        if not row["id"] or not row["reason"]:
            raise BuildError(f"Line {line} of {path} lacks an id or a reason. Add it.")
        if reasons.setdefault(row["id"], row["reason"]) != row["reason"]:
            raise BuildError(f"Line {line} of {path} gives {one_line(row['id'])} a second reason. Keep one of them.")
    return reasons


def warn_of_unmatched(plan: BuildPlan) -> None:
    """Warn of ids of `--withdraw` that no built row has, since a misspelt id withdraws nothing."""
    excluded = [(split.split, exclusion) for split in plan.planned for exclusion in split.excluded]
    withdrawn = {split.row_id(e.image) for split, e in excluded if e.rule == "withdrawn"}
    if unmatched := sorted(plan.request.withdrawn.keys() - withdrawn):
        # Also with --quiet: it is no progress.
        click.echo(
            f"--withdraw: no row of these splits has the id {first_few(unmatched)}; look at the spelling", err=True
        )


# Splits


def choose_splits(
    benchmark: Benchmark, names: Sequence[str], request: BuildRequest, note: Callable[[str], object]
) -> tuple[Benchmark, tuple[str, ...]]:
    """Choose the splits to build, as `config/split` in declared order: the named ones, or all usual ones.

    A config stands for its splits that can be generated. A demo leaves out, and compares with nothing, what takes
    packages that are not installed; the benchmark is returned with these as splits that cannot be generated.
    """
    lacking: dict[str, str] = {}
    if request.demo and not request.dry_run:
        unnamed = [key for key in benchmark.usual() if not is_selected(key, names) and not benchmark.needs(key)]
        lacking = {key: not_installed([generator]) for key, generator in benchmark.uninstalled(unnamed).items()}
        benchmark = benchmark.needing(lacking)
    ready = benchmark.ready()
    for name in names:
        inside = [key for key in benchmark.splits if is_selected(key, [name])]
        if not set(inside) & set(ready):
            raise BuildError(
                f"--splits {name} cannot be generated yet: {inside[0]} is made with {benchmark.needs(inside[0])}. Add "
                "these flags."
            )
    splits = tuple(key for key in ready if is_selected(key, names or benchmark.usual()))
    if not splits:
        needed = " or ".join(dict.fromkeys(map(benchmark.needs, benchmark.splits)))
        raise BuildError(f"All splits of this benchmark need a model: give {needed}.")
    for key in benchmark.usual() if not names else ():
        if key not in ready and key not in lacking:
            note(f"{key}: left out, since it is made with {benchmark.needs(key)}")
    for packages in dict.fromkeys(lacking.values()) if not names else ():
        keys = ", ".join(key for key in lacking if lacking[key] == packages)
        # Also with --quiet: it is no progress.
        click.echo(f"left out {keys}: {packages}. For these, too: {INSTALL}", err=True)
    if not request.dry_run:
        if uninstalled := benchmark.uninstalled(splits):
            raise uninstalled_error(uninstalled)
        if request.without_duplicates and (uninstalled := benchmark.uninstalled(benchmark.compared_with(splits))):
            raise BuildError(
                f"--withdraw duplicates compares the images with those of {', '.join(uninstalled)}, and "
                f"{not_installed(uninstalled.values())}. Run {INSTALL}."
            )
    return benchmark, splits


def sources_on_disk(benchmark: Benchmark, splits: Sequence[str]) -> Mapping[Source, list[str]]:
    """Return the sources that a person has in folders, of some splits, each with the configs that need it."""
    needing: dict[Source, dict[str, None]] = {}
    for key in benchmark.parts_of(splits):
        for source in benchmark.partitions([key]):
            if source.on_disk:
                needing.setdefault(source, {})[key.partition("/")[0]] = None
    return {source: list(configs) for source, configs in needing.items()}
