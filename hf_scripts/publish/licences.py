"""Checks that the licences of the sources allow publishing their images in a repository.

A source's licence is `open` (images may be public), `gated` (only in a private or gated repository) or `ids-only`
(only in a private repository, whose members have all agreed to the owner's terms). It is taken from the declaration of
the source in `builders.sources`, and not from a manifest, which anybody can edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from builders.errors import BuildError
from builders.hub.repository import Access
from builders.release.entries import Manifest, SourceEntry
from builders.release.schema import is_demo_schema
from builders.sources.registry import declared_source
from builders.storage.parquet import UNREADABLE, read_schema
from unknown_detection.words import first_few

_MAY_READ: Mapping[str, tuple[Access, ...]] = {
    "open": ("public", "gated", "private"),
    "gated": ("gated", "private"),
    "ids-only": ("private",),
}


def with_declared_licences(manifest: Manifest) -> Manifest:
    """Return a manifest with the licences that its sources declare. Unknown sources keep theirs, as `ids-only`."""
    sources = {}
    for key, entry in manifest.sources.items():
        if (source := declared_source(key)) is None:
            sources[key] = replace(entry, licence=replace(entry.licence, publish="ids-only"))
        else:
            sources[key] = replace(entry, title=source.title, licence=source.licence)
    return replace(manifest, sources=sources)


def check_declared(folder: Path, manifest: Manifest) -> None:
    """Check the licences and `demo` in a folder's manifest against the sources' declarations and the files' metadata.

    Files that cannot be read are left to `verify`.
    """
    for key, entry in sorted(manifest.sources.items()):
        source = declared_source(key)
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
    """List the images that licences forbid with this access, each with its licence; empty if there are none."""
    return "; ".join(
        f"{source.title} in {first_few(keys, 1)} (licence: {source.licence.name}"
        f"{f', {source.licence.url}' if source.licence.url else ''})"
        for source, keys in _forbidden(manifest, access)
    )


def check_licences(manifest: Manifest, access: Access, where: str) -> None:
    """Check that the licences allow all images that the repository `where` would have with this manifest."""
    if wrong := _forbidden(manifest, access):
        gated = all("gated" in _MAY_READ[source.licence.publish] for source, _ in wrong)
        raise BuildError(
            f"{where} is {access}, where the licence does not allow images of {forbidden_images(manifest, access)}. "
            f"Publish rows without images with --index-only, or push to a private {'or gated ' if gated else ''}"
            "repository (--private for a new one) that only people whom the licence allows can read."
        )


def check_demo(manifest: Manifest, access: Access, where: str, *, allowed: bool) -> None:
    """Refuse to publish a release of demo sources where somebody could take it for a benchmark."""
    demo = [name for name, benchmark in sorted(manifest.benchmarks.items()) if benchmark.demo]
    if demo and access != "private" and not allowed:
        # A licence holds for the demo of a source, too: nobody sees of a row that its image is made up.
        flags = "--allow-demo and --index-only, without images" if _forbidden(manifest, access) else "--allow-demo"
        raise BuildError(
            f"{', '.join(demo)} is built from demo sources, and {where} is {access}. Build it from the real sources, "
            f"push to a private repository (--private for a new one), or allow it with {flags}."
        )


def _forbidden(manifest: Manifest, access: Access) -> list[tuple[SourceEntry, list[str]]]:
    """Return the sources whose images may not be read with this access, each with its splits that have images."""
    wrong = []
    for key, source in sorted(with_declared_licences(manifest).sources.items()):
        splits = [name for name, _, split in manifest.splits() if split.data and key in split.sources]
        if splits and access not in _MAY_READ[source.licence.publish]:
            wrong.append((source, splits))
    return wrong
