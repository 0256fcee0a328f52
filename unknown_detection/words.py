"""Formats sizes, counts and lists for people, and makes text of others safe to print."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Control characters, line and paragraph separators, bidirectional marks and lone surrogates, which must not reach a
# terminal, a card or a file name.
UNPRINTABLE = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
"""The characters that `printable` escapes, as the inside of a character class of a regular expression."""


def byte_text(size: int) -> str:
    """Format bytes in the decimal unit that leaves one to three digits before the point, as in `4.57 kB`."""
    if size < 1000:
        return quantity(size, "byte")
    number, unit = size / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if number < 999.5:  # less would be rounded to 1000
            break
        number, unit = number / 1000, larger
    return f"{number:,.0f} {unit}" if number >= 99.95 else f"{number:.3g} {unit}"


def quantity(number: int, noun: str) -> str:
    """Format a count with its noun, as in `1 image` and `4,041 images`; the noun's plural ends in s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


NAMED = 3
"""How many items of a long list a message names."""


def first_few(items: Sequence[object], most: int = NAMED) -> str:
    """Name the first items of a list for a message, as in `a, b, c and 5 more`."""
    return ", ".join(map(str, items[:most])) + more(items, most)


def more(items: Sequence[object], named: int) -> str:
    """Return ` and 5 more` for a message that named only the first items of a list; empty if it named them all."""
    return f" and {len(items) - named:,} more" if len(items) > named else ""


def is_printable(text: str) -> bool:
    """Whether a text has no characters that `printable` escapes."""
    return re.search(f"[{UNPRINTABLE}]", text) is None


def printable(text: str, *, keep: str = "") -> str:
    """Escape the characters of a text that could change what a terminal shows, such as ESC and line breaks."""
    return re.sub(
        f"[{UNPRINTABLE}]",
        lambda match: match[0] if match[0] in keep else match[0].encode("unicode_escape").decode(),
        text,
    )
