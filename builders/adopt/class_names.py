"""Finding a class of a source by what a person or a copy calls it.

Tested by `tests/builders/adopt/test_copies.py`.
"""

from __future__ import annotations

import re
from collections import defaultdict

from builders.errors import BuildError
from builders.sources.base import Source
from builders.sources.readers.folders import shown


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
        """All classes that a name may mean."""
        return [name] if name in self.ids else self.spelled.get(_plain(name), [])

    def of_folder(self, name: str) -> str | None:
        """The class that a folder is named after, alone (`n01443537/images`) or with its parents (`a/airfield`)."""
        for part in (name, name.partition("/")[0], name.rpartition("/")[2]):
            if len(found := self.candidates(part)) == 1:
                return found[0]
        return None

    def of_name(self, name: str, where: str) -> str:
        """The one class that a name means; `where` says where it stands.

        Raises:
            BuildError: it means none, or several.
        """
        found = self.candidates(name)
        if len(found) == 1:
            return found[0]
        problem = f"{shown(name)!r}, which means {' and '.join(found)}," if found else f"{shown(name)!r}"
        raise BuildError(
            f"{self.title}: expected one of its classes, found {problem} at {where}; "
            f"name a class as {next(iter(self.ids))}, and check that the set belongs to this source."
        )


def _plain(name: str) -> str:
    """A class name without what differs between copies: Caltech's number, the Places letter, case and separators."""
    return re.sub(r"[/_\s-]+", "_", re.sub(r"^(\d{3}\.|/?[a-z]/)", "", name)).casefold()
