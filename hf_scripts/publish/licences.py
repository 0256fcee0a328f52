"""Checks that the licences of the sources allow publishing their images in a repository.

A source's licence is `open` (images may be public), `gated` (only in a private or gated repository) or `ids-only`
(only in a private repository, whose members have all agreed to the owner's terms). It is taken from the declaration of
the source in `builders.sources`, and not from a manifest, which anybody can edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from builders.errors import BuildError, more
from builders.hub.repository import Access
from builders.release.entries import LicenceEntry, Manifest, SourceEntry
from builders.release.schema import is_demo_schema
from builders.sources.base import Source
from builders.sources.made import NOISE
from builders.sources.registry import SOURCES
from builders.storage.parquet import read_schema
from hf_scripts.checks.rows import UNREADABLE

_MAY_READ: Mapping[str, tuple[Access, ...]] = {
    "open": ("public", "gated", "private"),
    "gated": ("gated", "private"),
    "ids-only": ("private",),
}


def with_declared_licences(manifest: Manifest) -> Manifest:
    """Return a manifest with the licences that its sources declare. Unknown sources keep theirs, as `ids-only`."""
    return replace(manifest, sources={key: _declared_entry(key, entry) for key, entry in manifest.sources.items()})


def check_declared(folder: Path, manifest: Manifest) -> None:
    """Check the licences and `demo` in a folder's manifest against the sources' declarations and the files' metadata.

    Files that cannot be read are left to `verify`.
    """
    for key, entry in sorted(manifest.sources.items()):
        source = _declared(key)
        if source is not None and entry.licence.publish != source.licence.publish:
            raise BuildError(
                f"The manifest.json of {folder} says that images of {source.title} may be published as "
                f"{entry.licence.publish}, but its licence says {source.licence.publish}. Build the release again."
            )
    for key, config, split in manifest.splits():
        demo = manifest.benchmarks[config.benchmark].demo
        for file in split.files:
            try:
                marked = is_demo_schema(read_schema(folder / file.path))
            except UNREADABLE:
                continue
            if marked != demo:
                stated, actual = ("demo", "real") if demo else ("real", "demo")
                raise BuildError(
                    f"The manifest.json of {folder} says that {config.benchmark} is built from {stated} sources, but "
                    f"{file.path} of {key} has rows of {actual} ones. Build the release again."
                )


def forbidden_images(manifest: Manifest, access: Access) -> str:
    """Describe the images that licences do not allow with this access, and the licences; empty if there are none."""
    wrong = _forbidden(manifest, access)
    entries = {key: _declared_entry(key, manifest.sources[key]) for key in sorted(wrong)}
    return "; ".join(
        f"{entry.title} in {wrong[key][0]}{more(wrong[key], 1)} (licence: {entry.licence.name}, {entry.licence.url})"
        for key, entry in entries.items()
    )


def check_licences(manifest: Manifest, access: Access, where: str) -> None:
    """Check that every source's licence allows its images in the repository `where`, as it will be with `manifest`."""
    if wrong := _forbidden(manifest, access):
        out = "a private or gated" if all("gated" in _may_read(key) for key in wrong) else "a private"
        raise BuildError(
            f"{where} is {access}, where the licence does not allow images of {forbidden_images(manifest, access)}. "
            f"Publish rows without images with --index-only, or push to {out} repository (--private for a new one) "
            "that only people whom the licence allows can read."
        )


def check_demo(manifest: Manifest, access: Access, where: str, *, allowed: bool) -> None:
    """Check that a release of demo sources is not published where somebody could take it for a benchmark."""
    demo = [name for name, benchmark in sorted(manifest.benchmarks.items()) if benchmark.demo]
    if demo and access != "private" and not allowed:
        # A licence holds for the demo of a source, too: nobody sees of a row that its image is made up.
        flags = "--allow-demo and --index-only, without images" if _forbidden(manifest, access) else "--allow-demo"
        raise BuildError(
            f"{', '.join(demo)} is built from demo sources, and {where} is {access}. Build it from the real sources, "
            f"push to a private repository (--private for a new one), or allow it with {flags}."
        )


def _declared(key: str) -> Source | None:
    return NOISE if key == NOISE.key else SOURCES.get(key)


def _may_read(key: str) -> tuple[Access, ...]:
    """Return who may read images of a source: of one that is unknown to this version, as few as possible."""
    source = _declared(key)
    return _MAY_READ[source.licence.publish if source is not None else "ids-only"]


def _declared_entry(key: str, entry: SourceEntry) -> SourceEntry:
    source = _declared(key)
    if source is None:
        return replace(entry, licence=replace(entry.licence, publish="ids-only"))
    licence = source.licence
    declared = LicenceEntry(licence.name, licence.url, licence.publish, licence.statement)
    return replace(entry, title=source.title, licence=declared)


def _forbidden(manifest: Manifest, access: Access) -> dict[str, list[str]]:
    """Return the splits with images that may not be read with this access, by the key of their source."""
    splits_of: dict[str, list[str]] = {}
    for key, _, split in manifest.splits():
        for source in split.sources if split.data else ():
            if access not in _may_read(source):
                splits_of.setdefault(source, []).append(key)
    return splits_of
