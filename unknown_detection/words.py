"""Numbers for readers: bytes in decimal units, and how many there are of something."""

from __future__ import annotations


def byte_text(size: int) -> str:
    """A number of bytes in the decimal unit that leaves one to three digits before the point, as in `4.57 kB`."""
    if size < 1000:
        return quantity(size, "byte")
    number, unit = size / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if number < 999.5:  # less would be rounded to 1000
            break
        number, unit = number / 1000, larger
    return f"{number:,.0f} {unit}" if number >= 99.95 else f"{number:.3g} {unit}"


def quantity(number: int, noun: str) -> str:
    """How many there are of something, as in `1 image` and `4,041 images`; the noun's plural ends in s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
