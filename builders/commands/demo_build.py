"""What `--demo` builds from: models with random weights, and made-up copies of sources.

Tested by `tests/builders/commands/test_build_splits.py` and `tests/builders/test_broad_demo.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from builders.cli.build_options import BuildFlags
from builders.declare.benchmark import Benchmark, DemoModels, Settings
from builders.declare.quotas import Listed
from builders.declare.splits import Split
from builders.demo.files import FILES
from builders.demo.write import keep_demo
from builders.generate.flags import Flag
from builders.pipeline.state import locked
from builders.release.layout import Layout
from builders.sources.base import Source
from builders.storage.paths import store_of
from unknown_detection.durable import make_folder


def replaced_configs(benchmark: Benchmark, flags: BuildFlags) -> dict[str, str]:
    """Return the flags of the chosen variants that take a config's images from a folder, by the config's name."""
    chosen = [variant for variant in benchmark.variants if variant.name in flags.variants]
    return {config.name: f"--{variant.name}" for variant in chosen for config in variant.configs}


def given_flags(settings: Settings, flags: BuildFlags) -> list[Flag]:
    """Return the flags of some settings that have another value than without the flag."""
    return [flag for flag in settings.flags if flags.settings[flag.name] != (() if flag.multiple else flag.default)]


def demo_models(benchmark: Benchmark, flags: BuildFlags) -> list[tuple[Settings, DemoModels]]:
    """Return the models that a demo makes: no flag gives one of them, and no variant replaces their images."""
    replaced = replaced_configs(benchmark, flags)
    return [
        (settings, settings.demo)
        for settings in (benchmark.settings if flags.demo else ())
        if settings.demo is not None
        and settings.config not in replaced
        and not any(flag.name in settings.demo.flags for flag in given_flags(settings, flags))
    ]


def planned_demo_models(benchmark: Benchmark, models: Iterable[tuple[Settings, DemoModels]]) -> Benchmark:
    """Return the benchmark with the splits that a demo's models make.

    Their generators take the same packages, and `with_demo_models` replaces them.
    """
    added: dict[str, dict[str, Split]] = {}
    for settings, demo in models:
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
    models: Iterable[tuple[Settings, DemoModels]],
    splits: Sequence[str],
    flags: BuildFlags,
    cleanup: contextlib.ExitStack,
) -> Benchmark:
    """Write a demo's models for some splits, and return the benchmark with the generators that use them."""
    for settings, demo in models if not flags.dry_run else ():
        names = [name for name in demo.makes if f"{settings.config}/{name}" in splits]
        if not names:
            continue
        with _demo_folder("demo-models", flags, cleanup) as folder:
            make_folder(folder / settings.config)
            values = {**flags.settings, **demo.write(folder / settings.config, names)}
        given = {flag.name: flags.settings[flag.name] for flag in given_flags(settings, flags)}
        made = settings.splits(values | given)
        chosen = {name: dataclasses.replace(made[name], classes=demo.classes) for name in names if name in made}
        for name in set(names) - set(made):  # which other flags rule out, such as --attack
            _, split = benchmark.by_key()[f"{settings.config}/{name}"]
            generator = split.generator and dataclasses.replace(split.generator, needs="other flags")
            chosen[name] = dataclasses.replace(split, generator=generator)
        benchmark = benchmark.with_splits({settings.config: chosen})
    return benchmark


def demo_sources(sources: Iterable[Source], flags: BuildFlags, cleanup: contextlib.ExitStack) -> dict[str, Path]:
    """Write the demo's copies of sources, and return their folders by source key."""
    with _demo_folder("demo", flags, cleanup) as folder:
        return keep_demo(folder, [source.key for source in sources], progress=not flags.quiet)


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
