"""Merges the manifest of a release into that of a repository, whose other splits stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from builders.cli.split_choice import chosen_splits
from builders.errors import BuildError
from builders.release.entries import BenchmarkEntry, ConfigEntry, Manifest, SplitEntry
from hf_scripts.publish.versions import unpublished, without_unused

# The choices that a benchmark's rows depend on (builders.pipeline.state._CHOICES), except `version`, which is compared
# separately.
_IDENTITY = ("seed", "limit_per_class", "demo")


def chosen_part(manifest: Manifest, requested: Sequence[str], where: str) -> Manifest:
    """Return the manifest of some splits, with the benchmarks and sources that they use.

    Raises:
        BuildError: the release has no such config or split.
    """
    keys = set(chosen_splits(requested, list(manifest.by_key()), where))
    configs = {}
    for name, config in manifest.configs.items():
        splits = {split: entry for split, entry in config.splits.items() if f"{name}/{split}" in keys}
        if splits:
            configs[name] = replace(config, splits=splits)
    return without_unused(replace(unpublished(manifest), configs=configs))


def without_images(manifest: Manifest) -> Manifest:
    """Return the manifest of the same rows without pixels, like that of a build with --index-only."""
    configs = {
        name: replace(
            config, splits={key: replace(split, data=(), samples=None) for key, split in config.splits.items()}
        )
        for name, config in manifest.configs.items()
    }
    return replace(manifest, configs=configs)


def part_keys(manifest: Manifest, config: str) -> list[str]:
    """Return the keys of the parts of a config's splits, as its exclusions have them; empty without such a config."""
    return [part.key for split in _splits_of(manifest, config).values() for part in split.parts]


def merge(published: Manifest, release: Manifest, where: str) -> Manifest:
    """Merge the manifest of a release into that of a repository.

    Splits, configs, sources and audits of the release replace those of the same name. The entries `excluded`, `audit`
    and `duplicates` are taken from one side; `merged_release` merges the tables that they name.

    Raises:
        BuildError: remaining splits have other labels or columns, or were drawn with other choices.
    """
    staying = {key: config for key, config, _ in published.splits() if key not in release.by_key()}
    _check_configs(release, staying, where)
    _check_benchmarks(published, release, staying, where)
    configs = {
        name: replace(config, splits={**_splits_of(published, name), **config.splits})
        for name, config in release.configs.items()
    }
    merged = replace(
        unpublished(release),
        benchmarks={**published.benchmarks, **_newest(published.benchmarks, release.benchmarks)},
        sources={**published.sources, **release.sources},
        configs={**published.configs, **configs},
        duplicates=release.duplicates or published.duplicates,
        audits={**published.audits, **release.audits},
    )
    return without_unused(merged)


def _newest(
    published: Mapping[str, BenchmarkEntry], release: Mapping[str, BenchmarkEntry]
) -> dict[str, BenchmarkEntry]:
    """Return the benchmarks of the release, each with the higher version of both sides."""
    return {
        name: replace(entry, version=max(entry.version, published[name].version, key=_numbers))
        if name in published
        else entry
        for name, entry in release.items()
    }


def _check_configs(release: Manifest, staying: Mapping[str, ConfigEntry], where: str) -> None:
    for key, published in sorted(staying.items()):
        name = key.partition("/")[0]
        config = release.configs.get(name)
        if config is None:
            continue
        for field, differ in (
            ("benchmarks", config.benchmark != published.benchmark),
            ("label names", config.label_names != published.label_names),
            ("columns", config.columns != published.columns),
        ):
            if differ:
                raise BuildError(
                    f"Config {name} of this release has other {field} than {key}, which stays in {where}. Push all "
                    "splits of the config together, or push to another repository."
                )


def _check_benchmarks(published: Manifest, release: Manifest, staying: Mapping[str, ConfigEntry], where: str) -> None:
    for key, config in sorted(staying.items()):
        name = config.benchmark
        if name not in release.benchmarks:
            continue
        before, after = published.benchmarks[name], release.benchmarks[name]
        differ = [field for field in _IDENTITY if getattr(before, field) != getattr(after, field)]
        # A minor version of a benchmark adds splits and leaves the rows of the others.
        if _numbers(before.version)[:1] != _numbers(after.version)[:1] or _variant(before) != _variant(after):
            differ.insert(0, "version")
        if differ:
            field = differ[0]
            raise BuildError(
                f"Benchmark {name} was built with {field.replace('_', ' ')} {getattr(after, field)} here, and with "
                f"{getattr(before, field)} for {key}, which stays in {where}. Build with the same choices, push all "
                "splits of the benchmark together, or push to another repository."
            )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in version.partition("+")[0].split("."))


def _variant(benchmark: BenchmarkEntry) -> str:
    """Return the suffix of a benchmark's version after the plus, which names another choice of rows."""
    return benchmark.version.partition("+")[2]


def _splits_of(manifest: Manifest, config: str) -> Mapping[str, SplitEntry]:
    return manifest.configs[config].splits if config in manifest.configs else {}
