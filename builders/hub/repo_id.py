"""Names of dataset repositories, which users give in place of a folder.

Tested by `tests/hf_scripts/test_verify_hub.py`.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from builders.errors import BuildError
from builders.storage.paths import as_path, store_of

# The rule of huggingface_hub.utils.validate_repo_id, with a required account.
_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


def is_repository(text: str) -> bool:
    """Whether a text has the form ORG/NAME."""
    return _NAME.fullmatch(text) is not None and ".." not in text and "--" not in text


def folder_or_repository(text: str, revision: str | None) -> Path | str:
    """Return the path of a folder that exists, or of an address, or else the name of a repository.

    Args:
        text: DIR, an address in a store, or ORG/NAME, as the user wrote it.
        revision: the revision that the user asks for, which only a repository has.

    Raises:
        BuildError: there is no such folder, and the text is, or looks like, a path; or a store cannot be used.
    """
    path = as_path(text)
    store_of(path).require_access(path)
    if not store_of(path).is_local or path.exists():
        return path
    siblings = sorted(sibling.name for sibling in path.parent.iterdir()) if path.parent.is_dir() else []
    similar = difflib.get_close_matches(path.name, siblings, n=1)
    hint = f" (did you mean {path.parent / similar[0]}?)" if similar else ""
    if not is_repository(text):
        raise BuildError(f"There is no folder {text}{hint}, and a repository on the Hub is named ORG/NAME. Check it.")
    if revision is None and path.parent.is_dir():
        raise BuildError(
            f"There is no folder {text}{hint}. Check the path, or give --revision, too, for the dataset repository of "
            "this name on the Hub."
        )
    return text
