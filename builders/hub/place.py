"""Places of datasets on the Hub, such as `hf://datasets/ILSVRC/imagenet-1k`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from builders.errors import BuildError, one_line
from builders.hub.repo_id import is_repository

PREFIX = "hf://"

# As huggingface_hub's HfFileSystem writes them. A revision with a slash is one of the Hub's own references.
_PLACE = re.compile(
    r"hf://datasets/(?P<repo>[^/@]+/[^/@]+)(?:@(?P<revision>refs/(?:convert|pr)/[^/@]+|[^/@]+))?(?:/(?P<folder>.*))?"
)


@dataclass(frozen=True)
class HubPlace:
    """A dataset repository, a revision of it, and a folder inside (empty: all of it)."""

    repo: str
    revision: str = "main"
    folder: str = ""

    def __str__(self) -> str:
        revision = "" if self.revision == "main" else f"@{self.revision}"
        return f"{PREFIX}datasets/{self.repo}{revision}" + (f"/{self.folder}" if self.folder else "")


def parse_place(text: str) -> HubPlace:
    """Parse a place such as `hf://datasets/ORG/NAME@REVISION/FOLDER`.

    Raises:
        BuildError: it is not of this form.
    """
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
