"""What a repository holds once a release is pushed into it: splits that are there stay unless the release has them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from builders.errors import BuildError
from builders.release.manifest import parts_of, sources_of
from hf_scripts.publish.versions import PUBLISHED_KEYS

Manifest = dict[str, Any]

# What a benchmark's rows depend on besides its declaration (builders.pipeline.state.Identity). `version` is looked at
# apart.
_IDENTITY = ("seed", "limit_per_class", "demo")


def chosen_configs(manifest: Mapping[str, Any], names: Sequence[str]) -> Manifest:
    """A manifest with some configs only, and the benchmarks and sources that they use.

    Args:
        manifest: a release's.
        names: names of configs; none means all.

    Raises:
        BuildError: the release has no config of a name.
    """
    unknown = [name for name in names if name not in manifest["configs"]]
    if unknown:
        known = ", ".join(sorted(manifest["configs"]))
        raise BuildError(f"expected configs of {known} for --configs, found {unknown[0]}; name one of these.")
    found = {key: copy.deepcopy(value) for key, value in manifest.items() if key not in PUBLISHED_KEYS}
    if names:
        found["configs"] = {name: found["configs"][name] for name in sorted(set(names))}
        if "withdrawn" in found:
            found["withdrawn"] = [e for e in found["withdrawn"] if e["split"].partition("/")[0] in names]
    return _without_unused(found)


def without_images(manifest: Mapping[str, Any]) -> Manifest:
    """The same rows with no pixels, as a build with --index-only has them."""
    found = copy.deepcopy(dict(manifest))
    for _, _, split in _splits(found):
        split["data"] = []
    return found


def split_keys(manifest: Mapping[str, Any], config: str) -> list[str]:
    """The splits of a config as `config/split`; none where there is no such config."""
    return [f"{config}/{name}" for name in manifest["configs"].get(config, {"splits": {}})["splits"]]


def part_keys(manifest: Mapping[str, Any], config: str) -> list[str]:
    """The keys of the parts of a config's splits, which their exclusions go by; none where there is no such config."""
    splits = manifest["configs"].get(config, {"splits": {}})["splits"]
    return [part for name, split in splits.items() for part in parts_of(f"{config}/{name}", split)]


def merge(there: Mapping[str, Any], ours: Mapping[str, Any], where: str) -> Manifest:
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
    staying = {key: config for key, config, _ in _splits(there) if key not in {k for k, _, _ in _splits(ours)}}
    _check_configs(ours, staying, where)
    _check_benchmarks(there, ours, staying, where)
    both = {key: copy.deepcopy(value) for key, value in {**there, **ours}.items() if key not in PUBLISHED_KEYS}
    for kind in ("benchmarks", "sources", "configs"):
        both[kind] = copy.deepcopy({**there[kind], **ours[kind]})
    for name in there["configs"].keys() & ours["configs"].keys():
        was, now = there["configs"][name], ours["configs"][name]
        both["configs"][name] = copy.deepcopy({**was, **now, "splits": {**was["splits"], **now["splits"]}})
    for name in there["benchmarks"].keys() & ours["benchmarks"].keys():
        both["benchmarks"][name]["version"] = max(
            (manifest["benchmarks"][name]["version"] for manifest in (there, ours)), key=_numbers
        )
    withdrawn = [entry for entry in there.get("withdrawn", []) if entry["split"] in staying]
    withdrawn += ours.get("withdrawn", [])
    if withdrawn:
        both["withdrawn"] = sorted(copy.deepcopy(withdrawn), key=lambda entry: (entry["split"], entry["id"]))
    return _without_unused(both)


def _check_configs(ours: Mapping[str, Any], staying: Mapping[str, Mapping[str, Any]], where: str) -> None:
    for key, was in sorted(staying.items()):
        name = key.partition("/")[0]
        now = ours["configs"].get(name)
        for field, words in (("benchmark", "benchmark"), ("label_names", "label names"), ("columns", "columns")):
            if now is not None and now[field] != was[field]:
                raise BuildError(
                    f"expected the {words} of {key}, which stays in {where}, found others in config {name} of this "
                    "release; push all splits of the config together, or to another repository."
                )


def _check_benchmarks(
    there: Mapping[str, Any], ours: Mapping[str, Any], staying: Mapping[str, Mapping[str, Any]], where: str
) -> None:
    for key, config in sorted(staying.items()):
        name = config["benchmark"]
        if name not in ours["benchmarks"]:
            continue
        was, now = there["benchmarks"][name], ours["benchmarks"][name]
        differ = [field for field in _IDENTITY if was.get(field) != now.get(field)]
        # A minor version of a benchmark adds splits and leaves the rows of the others.
        if _numbers(was["version"])[:1] != _numbers(now["version"])[:1] or _variant(was) != _variant(now):
            differ.insert(0, "version")
        if differ:
            field = differ[0]
            raise BuildError(
                f"expected benchmark {name} with {field.replace('_', ' ')} {was.get(field)} as for {key}, which stays "
                f"in {where}, found {now.get(field)}; build with the same choices, push all splits of the benchmark "
                "together, or push to another repository."
            )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in version.partition("+")[0].split("."))


def _variant(benchmark: Mapping[str, Any]) -> str:
    """What follows the plus in a benchmark's version: another choice of rows."""
    return str(benchmark["version"]).partition("+")[2]


def _splits(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], dict[str, Any]]]:
    for config_name, config in manifest["configs"].items():
        for name, split in config["splits"].items():
            yield f"{config_name}/{name}", config, split


def _without_unused(manifest: Manifest) -> Manifest:
    """Leave out benchmarks and sources that no split has."""
    benchmarks = {config["benchmark"] for config in manifest["configs"].values()}
    sources = {source for _, _, split in _splits(manifest) for source in sources_of(split)}
    manifest["benchmarks"] = {key: entry for key, entry in manifest["benchmarks"].items() if key in benchmarks}
    manifest["sources"] = {key: entry for key, entry in manifest["sources"].items() if key in sources}
    return manifest
