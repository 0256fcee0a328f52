"""Merges the manifest of a release into that of a repository, whose other splits stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from builders.cli.split_choice import chosen_splits
from builders.errors import BuildError
from builders.release.entries import BenchmarkEntry, ConfigEntry, Manifest
from builders.release.split_entries import SplitEntry, pieces_by_key
from hf_scripts.publish.versions import unpublished, without_unused

# The choices that a benchmark's rows depend on (builders.pipeline.state._CHOICES), except `version`, which is compared
# separately.
_IDENTITY = ("seed", "limit_per_class", "demo")


def chosen_part(manifest: Manifest, wanted: Sequence[str], where: str) -> Manifest:
    """The manifest of some splits, with the benchmarks and sources that they use.

    Args:
        manifest: the manifest of a release.
        wanted: values of `--splits`; empty for all splits.
        where: the release, for messages.

    Raises:
        BuildError: the release has no such config or split.
    """
    keys = set(chosen_splits(wanted, list(manifest.by_key()), where))
    configs = {}
    for name, config in manifest.configs.items():
        splits = {split: entry for split, entry in config.splits.items() if f"{name}/{split}" in keys}
        if splits:
            configs[name] = replace(config, splits=splits)
    withdrawn = tuple(row for row in manifest.withdrawn if row.split in keys)
    return without_unused(replace(unpublished(manifest), configs=configs, withdrawn=withdrawn))


def without_images(manifest: Manifest) -> Manifest:
    """The manifest of the same rows without pixels, like that of a build with --index-only."""
    configs = {
        name: replace(
            config, splits={key: replace(split, data=(), samples=None) for key, split in config.splits.items()}
        )
        for name, config in manifest.configs.items()
    }
    return replace(manifest, configs=configs)


def split_keys(manifest: Manifest, config: str) -> list[str]:
    """The splits of a config as `config/split`; empty if there is no such config."""
    return [f"{config}/{name}" for name in _splits_of(manifest, config)]


def part_keys(manifest: Manifest, config: str) -> list[str]:
    """The keys of the parts of a config's splits, as in its exclusions; empty if there is no such config."""
    splits = _splits_of(manifest, config)
    return [part for name, split in splits.items() for part in pieces_by_key(f"{config}/{name}", split)]


def merge(there: Manifest, ours: Manifest, where: str) -> Manifest:
    """Merge the manifest of a release into that of a repository.

    Splits, configs, sources and audits of the release replace those of the same name. The entries `excluded`, `audit`
    and `duplicates` are taken from one side; `merged_release` merges the tables that they name.

    Args:
        there: the manifest of the repository.
        ours: the manifest of the release.
        where: the repository, for messages.

    Raises:
        BuildError: remaining splits have other labels or columns, or were drawn with other choices.
    """
    mine = ours.by_key()
    staying = {key: config for key, config, _ in there.splits() if key not in mine}
    _check_configs(ours, staying, where)
    _check_benchmarks(there, ours, staying, where)
    configs = {
        name: replace(now, splits={**_splits_of(there, name), **now.splits}) for name, now in ours.configs.items()
    }
    withdrawn = [row for row in there.withdrawn if row.split in staying] + list(ours.withdrawn)
    merged = replace(
        unpublished(ours),
        benchmarks={**there.benchmarks, **_newest(there.benchmarks, ours.benchmarks)},
        sources={**there.sources, **ours.sources},
        configs={**there.configs, **configs},
        withdrawn=tuple(sorted(withdrawn, key=lambda row: (row.split, row.id))),
        duplicates=ours.duplicates or there.duplicates,
        audits={**there.audits, **ours.audits},
    )
    return without_unused(merged)


def _newest(there: Mapping[str, BenchmarkEntry], ours: Mapping[str, BenchmarkEntry]) -> dict[str, BenchmarkEntry]:
    """The benchmarks of the release, each with the higher version of both sides."""
    return {
        name: replace(now, version=max(now.version, there[name].version, key=_numbers)) if name in there else now
        for name, now in ours.items()
    }


def _check_configs(ours: Manifest, staying: Mapping[str, ConfigEntry], where: str) -> None:
    for key, was in sorted(staying.items()):
        name = key.partition("/")[0]
        now = ours.configs.get(name)
        if now is None:
            continue
        for words, differ in (
            ("benchmarks", now.benchmark != was.benchmark),
            ("label names", now.label_names != was.label_names),
            ("columns", now.columns != was.columns),
        ):
            if differ:
                raise BuildError(
                    f"Config {name} of this release has other {words} than {key}, which stays in {where}. Push all "
                    "splits of the config together, or push to another repository."
                )


def _check_benchmarks(there: Manifest, ours: Manifest, staying: Mapping[str, ConfigEntry], where: str) -> None:
    for key, config in sorted(staying.items()):
        name = config.benchmark
        if name not in ours.benchmarks:
            continue
        was, now = there.benchmarks[name], ours.benchmarks[name]
        differ = [field for field in _IDENTITY if getattr(was, field) != getattr(now, field)]
        # A minor version of a benchmark adds splits and leaves the rows of the others.
        if _numbers(was.version)[:1] != _numbers(now.version)[:1] or _variant(was) != _variant(now):
            differ.insert(0, "version")
        if differ:
            field = differ[0]
            raise BuildError(
                f"Benchmark {name} was built with {field.replace('_', ' ')} {getattr(now, field)} here, and with "
                f"{getattr(was, field)} for {key}, which stays in {where}. Build with the same choices, push all "
                "splits of the benchmark together, or push to another repository."
            )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in version.partition("+")[0].split("."))


def _variant(benchmark: BenchmarkEntry) -> str:
    """The suffix of a benchmark's version after the plus, which names another choice of rows."""
    return benchmark.version.partition("+")[2]


def _splits_of(manifest: Manifest, config: str) -> Mapping[str, SplitEntry]:
    return manifest.configs[config].splits if config in manifest.configs else {}
