"""Who may get the images of a release: what the sources' licences let us publish, and where.

A licence of a source says `open` (images may be public), `gated` (only in a repository that is private or gated) or
`ids-only` (no images in public; a private repository is between its owner and the people who agreed to the terms).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from builders.errors import BuildError
from builders.release.entries import Manifest, SourceEntry

Access = Literal["public", "gated", "private"]
"""Who reads a repository: anybody, anybody who asked and was let in, its members."""

_MAY_READ: Mapping[str, tuple[Access, ...]] = {
    "open": ("public", "gated", "private"),
    "gated": ("gated", "private"),
    "ids-only": ("private",),
}


def access_of(*, private: bool, gated: bool) -> Access:
    """Who reads a repository, from what the Hub says of it."""
    if private:
        return "private"
    return "gated" if gated else "public"


def sources_of_images(manifest: Manifest) -> dict[str, list[str]]:
    """Splits (`config/split`) with pixels by the key of the source that the pixels come from, made ones included."""
    found: dict[str, list[str]] = {}
    for key, _, split in manifest.splits():
        if split.data:
            for source in split.sources:
                found.setdefault(source, []).append(key)
    return found


def check_licences(manifest: Manifest, access: Access, where: str) -> None:
    """Refuse to publish images where a source's licence does not allow it.

    Args:
        manifest: what the repository will hold.
        access: who reads the repository: as it is, not as it was asked for.
        where: the repository's name.

    Raises:
        BuildError: naming each source that stands in the way, its licence, and the ways out.
    """
    wrong = {
        key: splits
        for key, splits in sources_of_images(manifest).items()
        if access not in _may_read(manifest.sources[key])
    }
    if not wrong:
        return
    entries = [manifest.sources[key] for key in sorted(wrong)]
    named = "; ".join(
        f"{entry.title} in {_some(wrong[key])} (licence: {entry.licence.name}, {entry.licence.url})"
        for key, entry in zip(sorted(wrong), entries, strict=True)
    )
    out = "a private or gated" if all("gated" in _may_read(entry) for entry in entries) else "a private"
    raise BuildError(
        f"expected images whose licence lets them be {access} for {where}, found {named}; publish rows without "
        f"images with --index-only, or push to {out} repository (--private for a new one), to which only people may "
        "get access whom the licence allows."
    )


def check_demo(manifest: Manifest, access: Access, where: str, *, allowed: bool) -> None:
    """Refuse to make a release of demo sources public, where somebody could take it for a benchmark.

    Raises:
        BuildError: unless it is allowed, or the repository is private.
    """
    demo = [name for name, benchmark in sorted(manifest.benchmarks.items()) if benchmark.demo]
    if demo and access != "private" and not allowed:
        raise BuildError(
            f"expected a release of real images for {where}, which is {access}, found {', '.join(demo)} built from "
            "demo sources; build it from the real ones, push to a private repository with --private, or say "
            "--allow-demo."
        )


def _may_read(source: SourceEntry) -> tuple[Access, ...]:
    # A word that this version does not know allows no more than the strictest that it knows.
    return _MAY_READ.get(source.licence.publish, _MAY_READ["ids-only"])


def _some(keys: list[str]) -> str:
    return keys[0] if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more"
