"""Chooses the splits of a build: the named ones, or else the usual ones that can be generated.

A demo has tiny models of its own where no flag gives one.

Tested by `tests/builders/cli/test_build_options.py` and `tests/builders/commands/test_build_splits.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from builders.cli.build_options import DUPLICATES, BuildFlags, is_given, replaced_configs
from builders.cli.split_choice import is_selected
from builders.declare.benchmark import Benchmark, DemoModels, Listed, Settings, Split
from builders.errors import BuildError
from builders.generate.contract import Generator
from builders.generate.extra import INSTALL, check_installed, not_installed, without_packages
from builders.pipeline.build_plan import compared_with, generators_of
from unknown_detection.durable import make_folder

DemoSettings = tuple[tuple[Settings, DemoModels], ...]
"""Settings of a benchmark, each with the models that a demo makes for it."""


@dataclass(frozen=True)
class ModelsOfDemo:
    """The models that a demo makes for some settings of a benchmark, given the values of the settings' flags."""

    settings: DemoSettings
    values: Mapping[str, Any]

    @classmethod
    def of(cls, benchmark: Benchmark, configs: Collection[str], flags: BuildFlags) -> ModelsOfDemo:
        """Select the settings without a model of their own; none if the build is no demo.

        Args:
            benchmark: the declaration.
            configs: the configs that are named; empty for all. A config that a variant has from its own folder needs
                no models.
            flags: the build's flags.
        """
        selected = []
        for settings in benchmark.settings if flags.demo else ():
            demo, config = settings.demo, settings.config
            if demo is None or config in replaced_configs(benchmark, flags) or (configs and config not in configs):
                continue
            model_flags = [flag for flag in settings.flags if flag.name in demo.flags]
            if not any(is_given(flag, flags.settings[flag.name]) for flag in model_flags):
                selected.append((settings, demo))
        return cls(tuple(selected), flags.settings)

    @property
    def generators(self) -> dict[str, Generator]:
        """A generator that takes the same packages as the models, by the splits (`config/split`) that they make."""
        return {
            f"{settings.config}/{name}": generator
            for settings, demo in self.settings
            for name, generator in demo.makes.items()
        }

    def added_to(self, benchmark: Benchmark, folder: Path) -> Benchmark:
        """Write the models whose packages are installed, and return the benchmark with the splits that they make.

        Args:
            benchmark: the benchmark, with what flags ask for.
            folder: where each config's models get a folder. What an earlier run wrote there is used.

        Raises:
            BuildError: a value of a flag cannot be used.
        """
        added = {}
        for settings, demo in self.settings:
            names = [name for name in demo.makes if not without_packages({name: demo.makes[name]})]
            if names:
                model_folder = folder / settings.config
                make_folder(model_folder)
                given = {flag.name for flag in settings.flags if is_given(flag, self.values[flag.name])}
                demo_values = demo.write(model_folder, names)
                splits = settings.splits({**self.values, **demo_values, **{name: self.values[name] for name in given}})
                added[settings.config] = {
                    name: dataclasses.replace(split, classes=demo.classes) for name, split in splits.items()
                }
        return benchmark.with_splits(added)


def without_generators(benchmark: Benchmark, lacking: Mapping[str, Generator]) -> Benchmark:
    """Mark splits (`config/split`) whose packages are not installed as ones that cannot be generated."""
    declared = benchmark.by_key()
    added: dict[str, dict[str, Split]] = {}
    for key, generator in lacking.items():
        if key in declared:
            config, split = declared[key]
            missing = dataclasses.replace(generator, needs=not_installed([generator]))
            added.setdefault(config.name, {})[split.name] = dataclasses.replace(split, generator=missing)
    return benchmark.with_splits(added)


def left_out_lines(generators: Mapping[str, Generator]) -> Iterator[str]:
    """Yield a line for all splits that lack the same packages, given the generators of splits that lack some."""
    keys: dict[str, list[str]] = {}
    for key, generator in generators.items():
        keys.setdefault(not_installed([generator]), []).append(key)
    for missing, splits in keys.items():
        yield f"left out {', '.join(splits)}: {missing}. For these, too: {INSTALL}"


def splits_to_build(
    benchmark: Benchmark, models: ModelsOfDemo, names: Sequence[str], flags: BuildFlags
) -> tuple[Benchmark, tuple[str, ...]]:
    """Return the benchmark as the installed packages let it be generated, and the splits to build (`config/split`).

    A demo leaves out, and compares with nothing, what takes packages that are not installed.

    Raises:
        BuildError: something has to be given, or installed, before a named split can be generated.
    """
    splits = _named_splits(benchmark, names)
    if not flags.dry_run:
        splits = _installed_splits(benchmark, models, splits, flags)
    if flags.demo:
        unbuilt = [key for key in benchmark.usual() if key not in splits]
        benchmark = without_generators(benchmark, without_packages(generators_of(benchmark, unbuilt)))
    if flags.withdraw == DUPLICATES and not flags.dry_run:
        _check_compared(benchmark, splits)
    return benchmark, splits


def note_left_out(
    benchmark: Benchmark, models: ModelsOfDemo, names: Sequence[str], note: Callable[[str], object]
) -> None:
    """Say which of the usual splits are left out since a flag is missing, if no splits were named."""
    lacking = without_packages(models.generators) if models.settings else {}
    for key in () if names else benchmark.usual():
        if benchmark.needs(key) and key not in lacking:
            note(f"{key}: left out, since it is made with {benchmark.needs(key)}")


def _named_splits(benchmark: Benchmark, names: Sequence[str]) -> tuple[str, ...]:
    """Return the named splits as `config/split`, in declared order; the usual ones that can be generated if none are.

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
        inside = [key for key in declared if is_selected(key, [name])]
        if not set(inside) & set(ready):
            raise BuildError(
                f"--splits {name} cannot be generated yet: {inside[0]} is made with {benchmark.needs(inside[0])}. Add "
                "these flags."
            )
    return tuple(key for key in declared if key in names or (key.split("/")[0] in names and key in ready))


def _installed_splits(
    benchmark: Benchmark, models: ModelsOfDemo, splits: tuple[str, ...], flags: BuildFlags
) -> tuple[str, ...]:
    """Return the splits whose packages are installed, if all of a demo is built; otherwise check that all are."""
    generators = generators_of(benchmark, splits)
    if not flags.demo or flags.splits:
        if generators:
            check_installed(generators)
        return splits
    lacking = {**without_packages(generators), **without_packages(models.generators)}
    for line in left_out_lines(lacking):
        click.echo(line, err=True)  # also with --quiet: it is no progress
    return tuple(key for key in splits if key not in lacking)


def listed_in_demo(benchmark: Benchmark, splits: tuple[str, ...]) -> tuple[str, ...]:
    """Return the splits without those of listed images of which the demo of their source has none."""
    from builders.demo.files import FILES  # which draws images, and only a demo asks it

    declared, kept_keys = benchmark.by_key(), []
    for key in splits:
        split = declared[benchmark.parts()[key][0]][1]
        if isinstance(split.quota, Listed):
            demo = FILES.get(split.source.key)
            if demo is not None and not any(split.quota.has(image.source_id) for image in demo.images()):
                click.echo(f"{key}: left out, since the demo has none of the listed images", err=True)
                continue
        kept_keys.append(key)
    return tuple(kept_keys)


def _check_compared(benchmark: Benchmark, splits: Sequence[str]) -> None:
    """Check that the images of all splits that take part in the comparison can be generated.

    Raises:
        BuildError: a package is not installed.
    """
    lacking = without_packages(generators_of(benchmark, compared_with(benchmark, splits)))
    if lacking:
        raise BuildError(
            f"--withdraw duplicates compares the images with those of {', '.join(lacking)}, and "
            f"{not_installed(lacking.values())}. Run {INSTALL}."
        )
