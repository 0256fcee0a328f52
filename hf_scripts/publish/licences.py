"""Checks that the licences of the sources allow publishing their images in a repository.

A source's licence is `open` (images may be public), `gated` (only in a private or gated repository) or `ids-only`
(only in a private repository, whose members have all agreed to the owner's terms).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from builders.errors import BuildError
from builders.release.entries import Manifest, SourceEntry

Access = Literal["public", "gated", "private"]
"""Who may read a repository: anybody, users whose access request was granted, or members."""

_MAY_READ: Mapping[str, tuple[Access, ...]] = {
    "open": ("public", "gated", "private"),
    "gated": ("gated", "private"),
    "ids-only": ("private",),
}


def access_of(*, private: bool, gated: bool) -> Access:
    """Who may read a repository, from its settings on the Hub."""
    if private:
        return "private"
    return "gated" if gated else "public"


def sources_of_images(manifest: Manifest) -> dict[str, list[str]]:
    """Splits with pixels (`config/split`) by the key of their source, generated images included."""
    found: dict[str, list[str]] = {}
    for key, _, split in manifest.splits():
        if split.data:
            for source in split.sources:
                found.setdefault(source, []).append(key)
    return found


def check_licences(manifest: Manifest, access: Access, where: str) -> None:
    """Check that every source's licence allows its images in the repository.

    Args:
        manifest: the manifest of the repository after publishing.
        access: who may read the repository, by its actual settings.
        where: the repository's name.

    Raises:
        BuildError: some licence does not; the message names each such source, its licence, and the alternatives.
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
        f"{where} is {access}, where the licence does not allow images of {named}. Publish rows without images with "
        f"--index-only, or push to {out} repository (--private for a new one) that only people whom the licence "
        "allows can read."
    )


def check_demo(manifest: Manifest, access: Access, where: str, *, allowed: bool) -> None:
    """Check that a release of demo sources is not published where somebody could take it for a benchmark.

    Raises:
        BuildError: the release is of demo sources, the repository is not private, and `allowed` is False.
    """
    demo = [name for name, benchmark in sorted(manifest.benchmarks.items()) if benchmark.demo]
    if demo and access != "private" and not allowed:
        raise BuildError(
            f"{', '.join(demo)} is built from demo sources, and {where} is {access}. Build it from the real sources, "
            "push to a private repository with --private, or allow it with --allow-demo."
        )


def _may_read(source: SourceEntry) -> tuple[Access, ...]:
    # Unknown licence classes are treated as the strictest.
    return _MAY_READ.get(source.licence.publish, _MAY_READ["ids-only"])


def _some(keys: list[str]) -> str:
    return keys[0] if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more"
