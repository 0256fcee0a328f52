"""The command line that every builder has: `python -m builders.<benchmark>`."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import click

from builders.cli.build_options import ESSENTIAL, HOW, build_options, source_choices, which_rows
from builders.cli.demo_models import NO_MODELS, ModelsOfDemo, left_out, without
from builders.cli.documents import check_json, print_document
from builders.cli.executor_flags import check_executor, chosen_executor
from builders.cli.progress import TerminalMeter
from builders.cli.runner import exit_code
from builders.cli.setting_flags import given_values, setting_flags, setting_options
from builders.cli.source_flags import (
    listed_once,
    listed_sources,
    missing_sources,
    refuse_sources_of_demo,
    source_options,
)
from builders.cli.source_places import Downloads, refuse_wrong_folders
from builders.cli.split_choice import is_named, named, refuse_unknown
from builders.cli.variant_flags import chosen_reading, every_source, variant_options
from builders.commands.summary import built_text, dry_run_document, dry_run_text
from builders.declare.benchmark import Benchmark, Variant, split_of
from builders.errors import NAMED, BuildError, more, os_errors_as_build_errors
from builders.executors.local import LocalExecutor
from builders.generate.contract import Generator
from builders.generate.extra import INSTALL, check_installed, not_installed, without_packages
from builders.pipeline.from_sources import prepare
from builders.pipeline.request import (
    BuildRequest,
    Run,
    compared_with,
    generators_of,
    needed_partitions,
    parts_of,
    with_parents,
)
from builders.pipeline.run import write_release
from builders.pipeline.state import locked, refuse_foreign
from builders.plan.withdrawals import DUPLICATES, read_withdrawn
from builders.release.layout import Layout
from builders.sources.base import Source
from builders.storage.paths import store_of
from unknown_detection.help import ESSENTIALS, helpful

WORKER_IMPORTS = ("builders.declare.benchmark", "builders.generate.task", "builders.writing.shards", "numpy.ma")
"""All that a build's workers use, and no declared benchmark: the one that runs as `__main__` has another name in them.
pyarrow asks for the last at the first array that it makes of one of NumPy's."""


def run_command(benchmark: Benchmark, argv: Sequence[str] | None) -> int:
    """Parse and run one builder's command line.

    Args:
        benchmark: the declaration.
        argv: arguments; None takes the process's.

    Returns:
        The exit code: 0 when all is built, 2 for anything the user can mend, 130 after Ctrl-C.
    """
    stopped = "stopped; run the same command again and it goes on where this run stopped."
    return exit_code(make_command(benchmark), argv, stopped=stopped)


def make_command(benchmark: Benchmark) -> click.Command:
    """The click command of one builder: shared flags, and one flag for each of its sources."""
    module = f"python -m builders.{benchmark.name}_benchmark"

    sources = [source.key for source in every_source(benchmark) if source.on_disk]

    @helpful(
        module,
        help=f"Build a release of {benchmark.title}, from your own copies of its source datasets.",
        sections={
            ESSENTIALS: ESSENTIAL,
            "Sources (run without any to see where to get each, and its layouts)": [*sources, "sources"],
            "Which rows": which_rows(benchmark),
            "Models that make images": [flag.name.replace("-", "_") for flag in setting_flags(benchmark)],
            "How it is built": HOW,
        },
        examples=(
            f"{module} --demo --out build/unknown-detection",
            f"{module} --sources sources.toml --splits {next(iter(benchmark.parts()))} --dry-run",
        ),
    )
    def command(**flags: Any) -> None:
        with os_errors_as_build_errors("read the sources and write the release"):
            read, chosen = chosen_reading(benchmark, flags)
            configs = {name.partition("/")[0] for name in named(flags["splits"])}
            values = given_values(benchmark, chosen, flags)
            models = _demo_models(read, chosen, values, configs) if flags["demo"] else NO_MODELS
            build(read.with_settings(values, configs), module, flags, models)

    for option in (
        *source_options(every_source(benchmark)),
        *variant_options(benchmark),
        *setting_options(benchmark),
        *build_options(benchmark.seed, list(benchmark.parts())),
        *source_choices(benchmark),
    ):
        command = option(command)
    return command


def _demo_models(
    benchmark: Benchmark, chosen: Sequence[Variant], values: Mapping[str, Any], configs: Set[str]
) -> ModelsOfDemo:
    """A demo's models for the configs that are built; those that a variant has from its own folder need none."""
    replaced = {config.name for variant in chosen for config in variant.configs}
    others = {config.name for config in benchmark.configs} - configs if configs else set()
    return ModelsOfDemo.of(benchmark, values, without=replaced | others)


def build(benchmark: Benchmark, module: str, flags: Mapping[str, Any], models: ModelsOfDemo = NO_MODELS) -> None:
    """Build a benchmark as flags ask for, and print what was built.

    Args:
        benchmark: the declaration.
        module: how the command is called, for messages.
        flags: values of all flags by parameter name, and the folder of each source by its key.
        models: the models that a demo makes.

    Raises:
        BuildError: anything that the user can fix.
    """
    names = named(flags["splits"])
    check_json(as_json=flags["as_json"], dry_run=flags["dry_run"])
    known = [*benchmark.parts(), *(key for key in models.generators if key not in benchmark.parts())]
    refuse_unknown(names, known, f"The benchmark {benchmark.name}")
    out: Path = flags["out"]
    store_of(out).ask(out)
    refuse_foreign(out)
    store_of(out).ask(out, writing=not flags["dry_run"])
    check_executor(flags)
    with TerminalMeter(quiet=flags["quiet"]) as meter, contextlib.ExitStack() as cleanup:
        if flags["demo"]:
            refuse_sources_of_demo(every_source(benchmark), flags, meter.note)
        if models.wanted:
            check_installed({key: made for key, made in models.generators.items() if is_named(key, names)})
            benchmark = _with_demo_models(benchmark, models, out, cleanup, dry_run=flags["dry_run"])
        lacking = without_packages(models.generators)
        benchmark, splits = _with_packages(benchmark, _chosen_splits(benchmark, names), flags, lacking)
        needed = compared_with(benchmark, splits) if flags["withdraw"] == DUPLICATES else splits
        if flags["demo"]:
            keys = [source.key for source in _on_disk(benchmark, needed)]
            roots = _demo_roots(out, keys, cleanup, dry_run=flags["dry_run"], quiet=flags["quiet"])
        else:
            roots = _roots(benchmark, module, needed, flags, meter)
        if not names:
            for key in [key for key in benchmark.usual() if benchmark.needs(key) and key not in lacking]:
                meter.note(f"{key}: left out, since it is made with {benchmark.needs(key)}")
        _carry_out(benchmark, _request(flags, splits, roots), flags, meter)


def _with_packages(
    benchmark: Benchmark, splits: tuple[str, ...], flags: Mapping[str, Any], of_models: Mapping[str, Generator]
) -> tuple[Benchmark, tuple[str, ...]]:
    """The benchmark and the splits as the installed packages let them be generated.

    A demo leaves out, and compares with nothing, what takes packages that are not installed. `of_models` are splits
    that lack packages for the demo's models.

    Raises:
        BuildError: a package is missing without which the wanted splits cannot be built.
    """
    if not flags["dry_run"]:
        splits = _installed_splits(benchmark, splits, flags, of_models)
    if flags["demo"]:
        others = {key: made for key, made in generators_of(benchmark, benchmark.usual()).items() if key not in splits}
        benchmark = without(benchmark, without_packages(others))
    if flags["withdraw"] == DUPLICATES and not flags["dry_run"]:
        _check_compared(benchmark, splits)
    return benchmark, splits


def _request(flags: Mapping[str, Any], splits: tuple[str, ...], roots: Mapping[str, Path]) -> BuildRequest:
    variant, demo = flags["withdraw"] == DUPLICATES, _any_demo(roots)
    return BuildRequest(
        out=flags["out"],
        splits=splits,
        roots=roots,
        seed=flags["seed"],
        limit_per_class=flags["limit_per_class"],
        index_only=flags["index_only"],
        allow_partial=flags["allow_partial"] or demo,
        decode=flags["check"] == "decode",
        adopt=flags["adopt"],
        demo=demo,
        withdrawn=read_withdrawn(Path(flags["withdraw"])) if flags["withdraw"] and not variant else {},
        without_duplicates=variant,
    )


def _carry_out(benchmark: Benchmark, request: BuildRequest, flags: Mapping[str, Any], meter: TerminalMeter) -> None:
    """Plan what is asked for, write it unless this is a dry run, and print what there is."""
    started = time.monotonic()
    gpus = max((made.resources.gpus for made in generators_of(benchmark, request.splits).values()), default=0)
    work = LocalExecutor(1) if flags["dry_run"] else chosen_executor(flags, gpus=gpus, preload=WORKER_IMPORTS)
    with work as executor:
        planned = prepare(Run.of(benchmark, request, executor, meter))
        images = sum(split.size for split in planned.planned)
        meter.note(f"planned {images:,} images in {time.monotonic() - started:.1f} s")
        if not flags["dry_run"]:
            manifest = write_release(planned)
            meter.done()
            click.echo(built_text(benchmark, manifest, request.out, request.splits))
            return
        if request.without_duplicates:
            meter.note("--withdraw duplicates: which images are duplicates is known once they have been read")
        meter.done()
        if flags["as_json"]:
            print_document("build", dry_run_document(planned))
        else:
            click.echo(dry_run_text(planned))


def _chosen_splits(benchmark: Benchmark, names: Sequence[str]) -> tuple[str, ...]:
    """Names as `config/split`, in declared order; the usual ones that can be generated if none are named.

    A config stands for its splits that can be generated.

    Raises:
        BuildError: something has to be given before a split can be generated.
    """
    declared, ready = list(benchmark.parts()), benchmark.ready()
    if not names:
        usual = tuple(key for key in benchmark.usual() if key in ready)
        if not usual:
            needed = " or ".join(dict.fromkeys(benchmark.needs(key) for key in declared))
            raise BuildError(f"All splits of this benchmark need a model: give {needed}.")
        return usual
    for name in names:
        inside = [key for key in declared if is_named(key, [name])]
        if not set(inside) & set(ready):
            raise BuildError(
                f"--splits {name} cannot be generated yet: {inside[0]} is made with {benchmark.needs(inside[0])}. Add "
                "these flags."
            )
    return tuple(key for key in declared if key in names or (key.split("/")[0] in names and key in ready))


def _installed_splits(
    benchmark: Benchmark, splits: tuple[str, ...], flags: Mapping[str, Any], of_models: Mapping[str, Generator]
) -> tuple[str, ...]:
    """The splits whose generators' packages are installed, if all of a demo is built; otherwise all must be.

    `of_models` are splits that lack packages for the demo's models.
    """
    generators = generators_of(benchmark, splits)
    if not flags["demo"] or flags["splits"]:
        check_installed(generators)
        return splits
    lacking = {**without_packages(generators), **of_models}
    for line in left_out(lacking):
        click.echo(line, err=True)  # also with --quiet: it is no progress
    return tuple(key for key in splits if key not in lacking)


def _check_compared(benchmark: Benchmark, splits: Sequence[str]) -> None:
    """Check that the images of all splits that are compared with some can be generated.

    Raises:
        BuildError: a package is not installed.
    """
    lacking = without_packages(generators_of(benchmark, compared_with(benchmark, splits)))
    if lacking:
        raise BuildError(
            f"--withdraw duplicates compares the images with those of {', '.join(lacking)}, and "
            f"{not_installed(lacking.values())}. Run {INSTALL}."
        )


def _with_demo_models(
    benchmark: Benchmark, models: ModelsOfDemo, out: Path, cleanup: contextlib.ExitStack, *, dry_run: bool
) -> Benchmark:
    if dry_run or not store_of(out).is_local:
        return models.added_to(benchmark, Path(cleanup.enter_context(tempfile.TemporaryDirectory())))
    layout = Layout(out)
    with locked(layout):
        return models.added_to(benchmark, layout.state / "demo-models")


def _demo_roots(
    out: Path, keys: Sequence[str], cleanup: contextlib.ExitStack, *, dry_run: bool, quiet: bool
) -> dict[str, Path]:
    """Folders with the demo copies of some sources."""
    from builders.demo.write import keep_demo, write_demo

    if dry_run or not store_of(out).is_local:
        return write_demo(Path(cleanup.enter_context(tempfile.TemporaryDirectory())), keys, progress=not quiet)
    # Beside the release's state, so that a second run finds the same files; the folder is never pushed.
    layout = Layout(out)
    with locked(layout):
        return keep_demo(layout.state / "demo", keys, progress=not quiet)


def _any_demo(roots: Mapping[str, Path]) -> bool:
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


def _roots(
    benchmark: Benchmark, module: str, splits: Sequence[str], flags: Mapping[str, Any], meter: TerminalMeter
) -> dict[str, Path]:
    """Folders of the sources that the splits need; what is on the Hub is downloaded."""
    listed = listed_sources(flags["sources"])
    needing = _on_disk(benchmark, splits)
    named = {source: flags.get(source.key) or listed.get(source.key) for source in needing}
    places = {source: place for source, place in named.items() if place is not None}
    found = (source for source in every_source(benchmark) if source.on_disk)  # a key may also be the flag of a model
    given = {source: flags[source.key] for source in found if flags.get(source.key) is not None}
    refuse_wrong_folders({**given, **places})  # also of sources that these splits do not need
    missing = [source for source in needing if source not in places]
    if missing:
        lines = [f"No folder was given for {len(missing)} source{'s' if len(missing) > 1 else ''} of these splits:"]
        lines += missing_sources((source, _in_few_words(benchmark, needing[source])) for source in missing)
        lines.append(f"{listed_once(missing[0])}. Or choose --splits, or try the demo sources:")
        lines.append(f"  {module} --demo --out build/unknown-detection")
        raise BuildError("\n".join(lines))
    downloads = Downloads(flags["cache"], meter.note, quiet=flags["quiet"], only_look=flags["dry_run"])
    return downloads.folders(places, needed_partitions(benchmark, splits))
