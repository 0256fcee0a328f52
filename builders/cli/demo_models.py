"""Tiny models for `--demo`, used where no flag gives a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.cli.build_flags import BuildFlags
from builders.cli.setting_flags import is_given, replaced_configs
from builders.declare.benchmark import Benchmark, DemoModels, Settings, Split
from builders.generate.contract import Generator
from builders.generate.extra import INSTALL, not_installed, without_packages
from unknown_detection.durable import make_folder

Wanted = tuple[tuple[Settings, DemoModels], ...]


@dataclass(frozen=True)
class ModelsOfDemo:
    """The models that a demo makes for some settings of a benchmark, given the values of the settings' flags."""

    wanted: Wanted
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
        wanted = []
        for settings in benchmark.settings if flags.demo else ():
            demo, config = settings.demo, settings.config
            if demo is None or config in replaced_configs(benchmark, flags) or (configs and config not in configs):
                continue
            own = [flag for flag in settings.flags if flag.name in demo.flags]
            if not any(is_given(flag, flags.settings[flag.name]) for flag in own):
                wanted.append((settings, demo))
        return cls(tuple(wanted), flags.settings)

    @property
    def generators(self) -> dict[str, Generator]:
        """By the splits (`config/split`) that the models make, a generator that takes the same packages."""
        return {
            f"{settings.config}/{name}": made for settings, demo in self.wanted for name, made in demo.makes.items()
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
        for settings, demo in self.wanted:
            names = [name for name in demo.makes if not without_packages({name: demo.makes[name]})]
            if names:
                place = folder / settings.config
                make_folder(place)
                given = {flag.name for flag in settings.flags if is_given(flag, self.values[flag.name])}
                own = {name: value for name, value in demo.write(place, names).items() if name not in given}
                made = settings.splits({**self.values, **own})
                added[settings.config] = {
                    name: dataclasses.replace(split, classes=demo.classes) for name, split in made.items()
                }
        return benchmark.with_splits(added)


def without(benchmark: Benchmark, lacking: Mapping[str, Generator]) -> Benchmark:
    """Mark splits (`config/split`) whose packages are not installed as ones that cannot be generated."""
    declared = benchmark.by_key()
    added: dict[str, dict[str, Split]] = {}
    for key, generator in lacking.items():
        if key in declared:
            config, split = declared[key]
            missing = dataclasses.replace(generator, needs=not_installed([generator]))
            added.setdefault(config.name, {})[split.name] = dataclasses.replace(split, generator=missing)
    return benchmark.with_splits(added)


def left_out(generators: Mapping[str, Generator]) -> Iterator[str]:
    """Yield a line for all splits that lack the same packages, given the generators of splits that lack some."""
    keys: dict[str, list[str]] = {}
    for key, generator in generators.items():
        keys.setdefault(not_installed([generator]), []).append(key)
    for what, some in keys.items():
        yield f"left out {', '.join(some)}: {what}. For these, too: {INSTALL}"
