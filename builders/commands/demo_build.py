"""What `--demo` builds from: made-up copies of sources, and models with random weights.

Tested by `tests/builders/commands/test_build_splits.py` and `tests/builders/test_broad_demo.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from builders.cli.build_options import BuildRequest
from builders.declare.benchmark import Benchmark, DemoModels, Settings
from builders.demo.write import keep_demo
from builders.pipeline.state import locked
from builders.sources.base import Source
from builders.storage.paths import system_path
from unknown_detection.durable import make_folder


def replaced_configs(benchmark: Benchmark, request: BuildRequest) -> dict[str, str]:
    """Return which configs a chosen variant takes from a folder: the variant's flag by the config's name."""
    chosen = [variant for variant in benchmark.variants if variant.name in request.variants]
    return {config.name: f"--{variant.name}" for variant in chosen for config in variant.configs}


def demo_models(benchmark: Benchmark, request: BuildRequest) -> list[tuple[Settings, DemoModels]]:
    """Return the models that a demo must make: no flag gives them, and no variant replaces their images."""
    replaced = replaced_configs(benchmark, request)
    return [
        (settings, settings.demo)
        for settings in benchmark.settings
        if settings.demo is not None
        and settings.config not in replaced
        and not any(flag.name in settings.demo.flags for flag in request.given(settings))
    ]


def with_demo_models(
    benchmark: Benchmark,
    models: Iterable[tuple[Settings, DemoModels]],
    splits: Sequence[str],
    request: BuildRequest,
    cleanup: contextlib.ExitStack,
) -> Benchmark:
    """Write the models that a demo needs for some splits; returns the benchmark with generators that use them."""
    for settings, demo in models if not request.dry_run else ():
        names = [split.name for split in demo.splits if f"{settings.config}/{split.name}" in splits]
        if not names:
            continue
        given = {flag.name: request.settings[flag.name] for flag in request.given(settings)}
        with _demo_folder("demo-models", request, cleanup) as folder:
            make_folder(folder / settings.config)
            made = settings.splits({**request.settings, **demo.write(folder / settings.config, names), **given})
        added = {name: dataclasses.replace(made[name], classes=demo.classes) for name in names if name in made}
        ruled_out = [f"{settings.config}/{name}" for name in names if name not in made]  # by flags such as --attack
        benchmark = benchmark.with_splits({settings.config: added}).needing(dict.fromkeys(ruled_out, "other flags"))
    return benchmark


def demo_sources(
    sources: Iterable[Source], request: BuildRequest, cleanup: contextlib.ExitStack, note: Callable[[str], object]
) -> dict[str, Path]:
    """Write the demo's copies of sources, and return their folders by source key; `note` is told where they lie."""
    with _demo_folder("demo", request, cleanup) as folder:
        note(f"using demo sources in {folder}, which are drawn if they are not there")  # where no bar is redrawn
        return keep_demo(folder, [source.key for source in sources], progress=not request.quiet)


@contextlib.contextmanager
def _demo_folder(name: str, request: BuildRequest, cleanup: contextlib.ExitStack) -> Iterator[Path]:
    """Yield a folder for a demo's files; `cleanup` removes it if the release's folder is not to be written."""
    if request.dry_run or system_path(request.out) is None:
        yield Path(cleanup.enter_context(tempfile.TemporaryDirectory()))
        return
    # Beside the release's state, so that a second run finds the same files; the folder is never pushed.
    with locked(request.layout):
        yield request.layout.state / name
