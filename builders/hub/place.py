"""Names of datasets on the Hub, and places such as `hf://datasets/ILSVRC/imagenet-1k`.

Tested by `tests/builders/hub/test_place.py` and `tests/hf_scripts/test_verify_hub.py`.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from builders.errors import BuildError, one_line
from builders.storage.paths import as_path, require_access

PREFIX = "hf://"

Granted = Literal["auto", "manual"]
"""How requests for access to a gated repository are granted: at once, or by its owner."""

# As huggingface_hub's HfFileSystem writes them. A revision with a slash is one of the Hub's own references.
_PLACE = re.compile(
    r"hf://datasets/(?P<repo>[^/@]+/[^/@]+)(?:@(?P<revision>refs/(?:convert|pr)/[^/@]+|[^/@]+))?(?:/(?P<folder>.*))?"
)


# The rule of huggingface_hub.utils.validate_repo_id (2.4), with a required account.
_NAME = re.compile(r"\b[\w.-]{1,96}\b/\b[\w.-]{1,96}\b(?<!\.git)", re.ASCII)


def is_repository(text: str) -> bool:
    """Whether a text has the form ORG/NAME."""
    return _NAME.fullmatch(text) is not None and ".." not in text and "--" not in text


@dataclass(frozen=True)
class HubPlace:
    """A place on the Hub: a dataset repository, its revision, and a folder inside (empty: all of it)."""

    repo: str
    revision: str = "main"
    folder: str = ""

    def __str__(self) -> str:
        revision = "" if self.revision == "main" else f"@{self.revision}"
        return f"{PREFIX}datasets/{self.repo}{revision}" + (f"/{self.folder}" if self.folder else "")


def parse_place(text: str) -> HubPlace:
    """Parse a place such as `hf://datasets/ORG/NAME@REVISION/FOLDER`; `BuildError` for any other form."""
    match = _PLACE.fullmatch(text)
    folder = (match["folder"] or "").strip("/") if match else ""
    if match is None or not is_repository(match["repo"]) or {"", ".", ".."} & set(folder.split("/")) - {folder}:
        raise BuildError(
            f"{one_line(text)} is no dataset on the Hub. Write hf://datasets/ORG/NAME, with @REVISION or /FOLDER "
            "behind it where needed."
        )
    if folder in (".", "..") or re.fullmatch(r"[!-~]+", text) is None:
        raise BuildError(f"{one_line(text)} has a folder or characters that no place on the Hub has. Correct it.")
    return HubPlace(match["repo"], match["revision"] or "main", folder)


def folder_or_repository(text: str, revision: str | None) -> Path | str:
    """Return the path of an existing folder or of an address in a store, else the text as a repository's name.

    `BuildError` says that there is no such folder, and that the text is, or looks like, a path.
    """
    path = as_path(text)
    require_access(path)
    if path.exists():
        return path
    siblings = sorted(sibling.name for sibling in path.parent.iterdir()) if path.parent.is_dir() else []
    similar = difflib.get_close_matches(path.name, siblings, n=1, cutoff=0.5)
    hint = f" (did you mean {path.parent / similar[0]}?)" if similar else ""
    if not is_repository(text):
        raise BuildError(f"There is no folder {text}{hint}, and a repository on the Hub is named ORG/NAME. Check it.")
    if revision is None and path.parent.is_dir():
        raise BuildError(
            f"There is no folder {text}{hint}. Check the path, or name a revision, too, for the dataset repository of "
            "this name on the Hub."
        )
    return text
