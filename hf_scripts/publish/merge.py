"""Merges the manifest of a release into that of a repository, whose other splits stay."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from builders.cli.split_choice import chosen_splits
from builders.errors import BuildError
from builders.release.entries import CHOICES, ConfigEntry, Manifest
from hf_scripts.publish.versions import configs_of, unpublished, without_unused


def chosen_part(manifest: Manifest, requested: Sequence[str], where: str) -> Manifest:
    """Return the manifest of some splits alone, with the benchmarks and sources that they use."""
    keys = set(chosen_splits(requested, list(manifest.by_key()), where))
    return without_unused(replace(unpublished(manifest), configs=configs_of(manifest, keys)))


def without_images(manifest: Manifest) -> Manifest:
    """Return the manifest of the same rows without their images, as a build with --index-only writes it."""
    configs = {}
    for name, config in manifest.configs.items():
        splits = {key: replace(split, data=(), samples=None) for key, split in config.splits.items()}
        configs[name] = replace(config, splits=splits)
    return replace(manifest, configs=configs)


def merge(published: Manifest, release: Manifest, where: str) -> Manifest:
    """Merge the manifest of a release into that of a repository.

    Splits, configs, sources and audits of the release replace those of the same name. The entries `excluded`, `audit`
    and `duplicates` are taken from one side; `merged_release` merges the tables that they name.
    """
    for key, config, _ in published.splits():
        if key not in release.by_key():
            _check_staying(key, config, published, release, where)
    benchmarks = dict(published.benchmarks)
    for name, entry in release.benchmarks.items():
        before = benchmarks.get(name, entry)
        benchmarks[name] = replace(entry, version=max(entry.version, before.version, key=_numbers))
    configs = dict(published.configs)
    for name, config in release.configs.items():
        earlier = configs[name].splits if name in configs else {}
        configs[name] = replace(config, splits={**earlier, **config.splits})
    merged = replace(
        unpublished(release),
        benchmarks=benchmarks,
        sources={**published.sources, **release.sources},
        configs=configs,
        duplicates=release.duplicates or published.duplicates,
        audits={**published.audits, **release.audits},
    )
    return without_unused(merged)


def _check_staying(key: str, published: ConfigEntry, before: Manifest, release: Manifest, where: str) -> None:
    """Check that a split that stays has the labels, columns and choices of the release that joins it."""
    name = key.partition("/")[0]
    if (config := release.configs.get(name)) is not None:
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
    if published.benchmark not in release.benchmarks:
        return
    there, here = before.benchmarks[published.benchmark], release.benchmarks[published.benchmark]
    choices = [field for field in (*CHOICES, "near_distance") if field != "version"]
    differing = [field for field in choices if getattr(there, field) != getattr(here, field)]
    # A minor version of a benchmark adds splits and leaves the rows of the others. What follows a plus names another
    # choice of rows.
    major, choice = _numbers(there.version)[:1], there.version.partition("+")[2]
    if (major, choice) != (_numbers(here.version)[:1], here.version.partition("+")[2]):
        differing.insert(0, "version")
    for field in differing[:1]:
        raise BuildError(
            f"Benchmark {published.benchmark} was built with {field.replace('_', ' ')} {getattr(here, field)} here, "
            f"and with {getattr(there, field)} for {key}, which stays in {where}. Build with the same choices, push "
            "all splits of the benchmark together, or push to another repository."
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in version.partition("+")[0].split("."))
