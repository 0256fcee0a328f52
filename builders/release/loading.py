"""How `datasets.load_dataset` (5.2) finds a release folder: by expanding a path, and by a folder's name in its cache.

Tested by `tests/hf_scripts/test_law_places.py`.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

from builders.errors import BuildError
from builders.storage.paths import system_path

_EXPANDED = {
    re.compile(r"[*?[]"): "for part of a pattern",
    re.compile("::"): "for what separates an archive from a path inside",
    re.compile(r"\$(\w+|\{[^}]*\})", re.ASCII): "for an environment variable",
}
"""What `load_dataset` expands in any part of a path, links resolved (fsspec's `glob` and chained addresses, and
`os.path.expandvars`), and what it takes it for."""

_PROTOCOLS = re.compile("(data|file|local):")
"""How a relative path must not begin: fsspec takes it for an address."""


def refuse_misread(root: Path, flag: str) -> None:
    """Refuse a folder for a release that `load_dataset` would not read; `flag` is what gave it."""
    if reason := misread(root):
        raise BuildError(f"load_dataset does not read a release at {root}: {reason}. Give another {flag}.")


def misread(root: Path) -> str:
    """Return why `load_dataset` does not read this folder when given its path; empty if it does.

    It may read another folder, a neighbour that a pattern matches, and say nothing.
    """
    if system_path(root) is None:
        return ""
    resolved, given = root.resolve().as_posix(), root.as_posix()
    try:
        resolved.encode()
    except UnicodeEncodeError:
        return "its path is not UTF-8 text"
    for pattern, meaning in _EXPANDED.items():
        if match := pattern.search(resolved):
            return f"it takes {match[0]} in {resolved} {meaning}"
    if given.startswith("~"):
        return f"it takes {root.parts[0]} for a home folder"
    if match := _PROTOCOLS.match(given):
        return f"it takes {match[0]} for the beginning of an address"
    if root.name.endswith(".py"):
        return f"it takes {root.name} for a script"
    # The package has a folder for each format, and is slow to import.
    package = importlib.util.find_spec("datasets") if "/" not in given else None
    if package and package.origin and (Path(package.origin).parent / "packaged_modules" / given).is_dir():
        from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES

        if given in _PACKAGED_DATASETS_MODULES:
            return f"it takes {given} for the name of a format"
    return ""


def cached_copies(root: Path) -> Path | None:
    """Return the folder in the cache of `datasets` with copies made of folders of this name, if there is one.

    It returns the copy of any such folder with an equal card, also after the files of this one have changed.
    """
    if system_path(root) is None:
        return None
    from huggingface_hub.constants import HF_HOME

    # As `datasets` reads it: an empty variable is the working directory, and `~` a home folder.
    cache = Path(os.environ.get("HF_DATASETS_CACHE", os.path.join(HF_HOME, "datasets"))).expanduser()  # noqa: PTH118
    name = root.name or root.resolve().name
    # It writes words of a name apart by underscores, in lower case. A look at the cache is quicker than its import.
    alike = cache.glob("*") if cache.is_dir() else ()
    if not any(_letters(folder.name) == _letters(name) for folder in alike):
        return None
    from datasets.naming import camelcase_to_snakecase

    copies = cache / camelcase_to_snakecase(name)
    return copies if any(copies.glob("*/*/*/dataset_info.json")) else None


def _letters(name: str) -> str:
    return name.replace("_", "").lower()
