"""Checks that the packages of the extra `generate` which generators need are installed.

Tested by `tests/builders/generate/exact/test_corruptions.py`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection, Mapping

from builders.errors import BuildError
from builders.generate.contract import Generator

INSTALL = "pip install 'unknown-detection[generate]' (in a checkout: pip install -e '.[generate]')"


def without_packages(generators: Mapping[str, Generator]) -> dict[str, Generator]:
    """Return those generators, by the keys of their splits, that lack a package in the required version."""
    return {key: generator for key, generator in generators.items() if _missing(generator)}


def not_installed(generators: Collection[Generator]) -> str:
    """Name the packages that generators lack, such as "imagecorruptions-imaug 1.1.5 is not installed"."""
    missing = sorted({name.replace("==", " ") for generator in generators for name in _missing(generator)})
    return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"


def check_installed(generators: Mapping[str, Generator]) -> None:
    """Check that the packages of generators are installed; the generators are given by the keys of their splits.

    Raises:
        BuildError: a package is not there, or in another version.
    """
    if lacking := without_packages(generators):
        raise BuildError(
            f"{not_installed(lacking.values())}, but needed to generate {', '.join(lacking)}. Run {INSTALL}, or "
            "choose other splits."
        )


def _missing(generator: Generator) -> list[str]:
    return [requirement for requirement in generator.requires if not _installed(requirement)]


def _installed(requirement: str) -> bool:
    name, _, version = requirement.partition("==")
    try:
        return importlib.metadata.version(name) == version or not version
    except importlib.metadata.PackageNotFoundError:
        return False
