"""Compares names of classes without differences of case and of Unicode's encoding.

One name may be written in several ways: an accented letter as one character or as a letter and a mark (macOS and Linux
write file names differently), full width, a ligature, with characters that do not show.

Tested by `tests/unknown_detection/test_names.py`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable


def folded(name: str) -> str:
    """Return a name in the form in which it is compared with others.

    Two names have one form where they match caselessly with compatibility (The Unicode Standard, section 3.13, D146)
    when characters are left out that say how others are shown: joiners, soft hyphens and variation selectors.
    """
    if name.isascii():
        return name.lower()
    return _encoded(_encoded(unicodedata.normalize("NFD", name).casefold()).casefold())


def by_name(names: Iterable[str]) -> Callable[[str], str | None]:
    """Return a function that finds a name among some: the identical one, else the only one that folds to the same.

    A name that is there twice stands for neither: ImageNet has two classes called crane, and two called maillot.
    """
    alike: dict[str, list[str]] = {}
    exact = Counter(iter(names))  # of a mapping, its keys
    for name in exact.elements():
        alike.setdefault(folded(name), []).append(name)

    def find(name: str) -> str | None:
        if name in exact:
            return name if exact[name] == 1 else None
        found = alike.get(folded(name), [])
        return found[0] if len(found) == 1 else None

    return find


def differ_in_encoding(one: str, other: str) -> bool:
    """Whether two names are one name in different forms of Unicode, such as full width, a ligature or accents."""
    return one != other and _encoded(one) == _encoded(other)


def told_apart(one: str, other: str) -> str:
    r"""Say how two names with one folded form differ, as in `café (caf\xe9) and café (cafe\u0301) differ in ...`."""
    if one.casefold() == other.casefold():
        return f"{one} and {other} differ in case alone"
    how = "encoding" if differ_in_encoding(one, other) else "case and encoding"
    return f"{one} ({_escaped(one)}) and {other} ({_escaped(other)}) differ in {how} alone"


def _encoded(name: str) -> str:
    shown = (letter for letter in name if unicodedata.category(letter) != "Cf" and not "\ufe00" <= letter <= "\ufe0f")
    return unicodedata.normalize("NFKC", "".join(shown))


def _escaped(name: str) -> str:
    return ascii(name)[1:-1]
