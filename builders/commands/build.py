"""Runs a build from its flags to its printed result, for `python -m builders.<benchmark>_benchmark`.

Tested by `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import click

from builders.cli.build_flags import BuildFlags
from builders.cli.demo_models import ModelsOfDemo
from builders.cli.documents import check_json, print_document
from builders.cli.progress import TerminalMeter
from builders.cli.setting_flags import refuse_replaced
from builders.cli.source_flags import refuse_sources_of_demo
from builders.cli.split_choice import named, refuse_unknown
from builders.cli.variant_flags import chosen_reading
from builders.commands.build_sources import any_demo, demo_sources, given_sources, with_demo_models
from builders.commands.build_splits import chosen_splits, listed_in_demo, note_left_out
from builders.commands.summary import built_text, dry_run_document, dry_run_text
from builders.declare.benchmark import Benchmark
from builders.executors.base import Executor
from builders.executors.local import LocalExecutor
from builders.pipeline.from_sources import prepare
from builders.pipeline.request import BuildRequest, Run, compared_with, generators_of
from builders.pipeline.run import write_release
from builders.pipeline.state import refuse_foreign
from builders.plan.withdrawals import DUPLICATES, read_withdrawn
from builders.storage.paths import store_of

WORKER_IMPORTS = ("builders.declare.benchmark", "builders.generate.task", "builders.writing.shards", "numpy.ma")
"""All that a build's workers use, and no declared benchmark: the one that runs as `__main__` has another name in them.
pyarrow asks for the last at the first array that it makes of one of NumPy's."""


def build(declared: Benchmark, module: str, flags: BuildFlags) -> None:
    """Build a benchmark as flags ask for, and print what was built.

    Args:
        declared: the declaration.
        module: how the command is called, for messages.
        flags: the values of its flags.

    Raises:
        BuildError: anything that the user can fix.
    """
    declared.check()
    benchmark, flags = chosen_reading(declared, flags)
    names = named(flags.splits)
    refuse_replaced(declared, flags)
    configs = {name.partition("/")[0] for name in names}
    models = ModelsOfDemo.of(declared, configs, flags)
    benchmark = benchmark.with_settings(flags.settings, configs)
    refuse_unknown(names, [*benchmark.parts(), *models.generators], f"The benchmark {benchmark.name}")
    _check(flags)
    with TerminalMeter(quiet=flags.quiet) as meter, contextlib.ExitStack() as cleanup:
        if flags.demo:
            refuse_sources_of_demo(flags, meter.note)
            benchmark = with_demo_models(benchmark, models, names, flags, cleanup)
        benchmark, splits = chosen_splits(benchmark, models, names, flags)
        read = compared_with(benchmark, splits) if flags.withdraw == DUPLICATES else splits
        if flags.demo:
            roots = demo_sources(benchmark, read, flags, cleanup)
        else:
            roots = given_sources(benchmark, module, read, flags, meter.note)
        if any_demo(roots) and not names:
            splits = listed_in_demo(benchmark, splits)
        note_left_out(benchmark, models, names, meter.note)
        with _executor(benchmark, splits, flags) as executor:
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


def _check(flags: BuildFlags) -> None:
    """Check flags and output place before any work."""
    check_json(as_json=flags.as_json, dry_run=flags.dry_run)
    store_of(flags.out).require_access(flags.out)
    refuse_foreign(flags.out)
    store_of(flags.out).require_access(flags.out, writing=not flags.dry_run)
    flags.executor.check()


def _executor(benchmark: Benchmark, splits: tuple[str, ...], flags: BuildFlags) -> AbstractContextManager[Executor]:
    """Return the executor of the build's tasks; a dry run needs no workers."""
    if flags.dry_run:
        return LocalExecutor(1)
    gpus = max((made.resources.gpus for made in generators_of(benchmark, splits).values()), default=0)
    return flags.executor.started(gpus=gpus, preload=WORKER_IMPORTS)


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
