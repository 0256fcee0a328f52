"""Looks up a source's classes by the names that users and copies give them.

Tested by `tests/builders/adopt/test_copies.py`.
"""

from __future__ import annotations

import re
from collections import defaultdict

from builders.errors import BuildError, one_line
from builders.sources.base import Source
from builders.sources.readers.folders import printable


class ClassNames:
    """Finds classes of a source by id, by name and by the spellings that copies use."""

    def __init__(self, source: Source) -> None:
        self.title = source.title
        self.ids = source.classes()
        self.spelled: dict[str, list[str]] = defaultdict(list)
        for class_id, name in self.ids.items():
            for spelling in {_plain(class_id), _plain(name)}:
                self.spelled[spelling].append(class_id)

    def candidates(self, name: str) -> list[str]:
        """Ids of all classes that a name may mean."""
        return [name] if name in self.ids else self.spelled.get(_plain(name), [])

    def of_folder(self, name: str) -> str | None:
        """Id of the class that a folder is named after, by its own name or with its parents (`a/airfield`)."""
        for part in (name, name.partition("/")[0], name.rpartition("/")[2]):
            if len(found := self.candidates(part)) == 1:
                return found[0]
        return None

    def of_name(self, name: str, where: str) -> str:
        """Id of the one class that a name means; `where` says where the name stands.

        Raises:
            BuildError: the name means no class, or several.
        """
        found = self.candidates(name)
        if len(found) == 1:
            return found[0]
        problem = (
            f"{one_line(repr(printable(name)))} means several classes of {self.title}, {' and '.join(found)}"
            if found
            else f"{self.title} has no class {one_line(repr(printable(name)))}"
        )
        raise BuildError(
            f"{problem} ({where}). Name a class like {next(iter(self.ids))}, and check that the set belongs to this "
            "source."
        )


def _plain(name: str) -> str:
    """Normalise a class name: drop Caltech's number and the letter of Places, unify case and separators."""
    return re.sub(r"[/_\s-]+", "_", re.sub(r"^(\d{3}\.|/?[a-z]/)", "", name)).casefold()
