"""What a repository holds once a release is pushed into it: splits that are there stay unless the release has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from builders.errors import BuildError
from builders.release.entries import BenchmarkEntry, ConfigEntry, Manifest, SplitEntry, pieces_by_key
from hf_scripts.publish.versions import unpublished, without_unused

# What a benchmark's rows depend on besides its declaration (builders.pipeline.state.Identity). `version` is looked at
# apart.
_IDENTITY = ("seed", "limit_per_class", "demo")


def chosen_configs(manifest: Manifest, names: Sequence[str]) -> Manifest:
    """A manifest with some configs only, and the benchmarks and sources that they use.

    Args:
        manifest: a release's.
        names: names of configs; none means all.

    Raises:
        BuildError: the release has no config of a name.
    """
    unknown = [name for name in names if name not in manifest.configs]
    if unknown:
        known = ", ".join(sorted(manifest.configs))
        raise BuildError(f"expected configs of {known} for --configs, found {unknown[0]}; name one of these.")
    found = unpublished(manifest)
    if names:
        found = replace(
            found,
            configs={name: found.configs[name] for name in sorted(set(names))},
            withdrawn=tuple(row for row in found.withdrawn if row.split.partition("/")[0] in names),
        )
    return without_unused(found)


def without_images(manifest: Manifest) -> Manifest:
    """The same rows with no pixels, as a build with --index-only has them."""
    configs = {
        name: replace(config, splits={key: replace(split, data=()) for key, split in config.splits.items()})
        for name, config in manifest.configs.items()
    }
    return replace(manifest, configs=configs)


def split_keys(manifest: Manifest, config: str) -> list[str]:
    """The splits of a config as `config/split`; none where there is no such config."""
    return [f"{config}/{name}" for name in _splits_of(manifest, config)]


def part_keys(manifest: Manifest, config: str) -> list[str]:
    """The keys of the parts of a config's splits, which their exclusions go by; none where there is no such config."""
    splits = _splits_of(manifest, config)
    return [part for name, split in splits.items() for part in pieces_by_key(f"{config}/{name}", split)]


def merge(there: Manifest, ours: Manifest, where: str) -> Manifest:
    """Put a release's splits among those that a repository holds.

    A split of ours replaces one of the same name. What both describe (a config, a source) is as ours has it.
    `excluded` and `audit` of a config and the release's `duplicates` are still those of one side: what they list is
    merged where the files are.

    Args:
        there: the repository's manifest.
        ours: the release's.
        where: the repository, for messages.

    Raises:
        BuildError: splits that stay have other labels or columns than ours, or were drawn by other choices.
    """
    mine = ours.by_key()
    staying = {key: config for key, config, _ in there.splits() if key not in mine}
    _check_configs(ours, staying, where)
    _check_benchmarks(there, ours, staying, where)
    withdrawn = [row for row in there.withdrawn if row.split in staying] + list(ours.withdrawn)
    merged = replace(
        unpublished(ours),
        benchmarks={**there.benchmarks, **_newest(there.benchmarks, ours.benchmarks)},
        sources={**there.sources, **ours.sources},
        configs={**there.configs, **{name: _merged(there, name, now) for name, now in ours.configs.items()}},
        withdrawn=tuple(sorted(withdrawn, key=lambda row: (row.split, row.id))),
        duplicates=ours.duplicates or there.duplicates,
    )
    return without_unused(merged)


def _newest(there: Mapping[str, BenchmarkEntry], ours: Mapping[str, BenchmarkEntry]) -> dict[str, BenchmarkEntry]:
    """Our benchmarks, each with the higher one of both sides' versions."""
    return {
        name: replace(now, version=max(now.version, there[name].version, key=_numbers)) if name in there else now
        for name, now in ours.items()
    }


def _merged(there: Manifest, name: str, now: ConfigEntry) -> ConfigEntry:
    """A config of ours with the splits that a repository has besides; what ours lacks is the repository's."""
    was = there.configs.get(name)
    if was is None:
        return now
    return replace(
        now,
        splits={**was.splits, **now.splits},
        audit=now.audit or was.audit,
        duplicates_of=now.duplicates_of or was.duplicates_of,
    )


def _check_configs(ours: Manifest, staying: Mapping[str, ConfigEntry], where: str) -> None:
    for key, was in sorted(staying.items()):
        name = key.partition("/")[0]
        now = ours.configs.get(name)
        if now is None:
            continue
        for words, differ in (
            ("benchmark", now.benchmark != was.benchmark),
            ("label names", now.label_names != was.label_names),
            ("columns", now.columns != was.columns),
        ):
            if differ:
                raise BuildError(
                    f"expected the {words} of {key}, which stays in {where}, found others in config {name} of this "
                    "release; push all splits of the config together, or to another repository."
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
                f"expected benchmark {name} with {field.replace('_', ' ')} {getattr(was, field)} as for {key}, which "
                f"stays in {where}, found {getattr(now, field)}; build with the same choices, push all splits of the "
                "benchmark together, or push to another repository."
            )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in version.partition("+")[0].split("."))


def _variant(benchmark: BenchmarkEntry) -> str:
    """What follows the plus in a benchmark's version: another choice of rows."""
    return benchmark.version.partition("+")[2]


def _splits_of(manifest: Manifest, config: str) -> Mapping[str, SplitEntry]:
    return manifest.configs[config].splits if config in manifest.configs else {}
