"""Formats tables with aligned columns for terminals.

Tested by `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

from collections.abc import Sequence


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, with words aligned left and numbers right."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    numeric = [all(_is_number(line[i]) for line in lines[1:]) for i in range(len(widths))]
    return [
        "  ".join(
            cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    ]


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").lstrip("+-").isdigit()
