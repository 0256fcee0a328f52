"""Tables in Markdown, and how pages write figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, text: int = 1) -> str:
    """Return a Markdown table whose first `text` columns are text, and the others numbers."""
    rules = ["---"] * text + ["---:"] * (len(head) - text)
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rules, *rows])


def seconds(value: float) -> str:
    """Return seconds with two digits, or in milliseconds below a tenth."""
    if value < 0.1:
        return f"{value * 1000:.2g} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s" if value < 100 else f"{value:,.0f} s"


def compared(ours: float, other: float) -> str:
    """Return in words how our seconds stand to other ones."""
    ratio = other / ours
    if ratio >= 1:
        return f"{ratio:.1f} times faster" if ratio >= 2 else f"{ratio:.2f} times faster"
    return f"takes {1 / ratio:.1f} times as long" if ratio < 0.5 else f"takes {1 / ratio:.2f} times as long"
