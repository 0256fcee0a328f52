"""Small charts as inline SVG, and roles as marks. Colours are those of the page's style, so they follow its theme.

Tested by `tests/builders/report/test_counts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from builders.card.words import ROLE_NAMES
from builders.release.schema import Role

_WIDTH, _HEIGHT = 200, 10


def chip(role: Role) -> Markup:
    """Draw a role in its colour."""
    return Markup('<span class="chip {}">{}</span>').format(role, ROLE_NAMES[role])


def stacked(parts: Sequence[tuple[str, str, int]]) -> Markup:
    """Draw a bar of the shares of some parts in their sum.

    Args:
        parts: CSS class, name and number of each.
    """
    total = sum(number for _, _, number in parts)
    label = ", ".join(f"{name} {number:,}" for _, name, number in parts)
    rectangles, start = Markup(""), 0.0
    for style, name, number in parts:
        width = _WIDTH * number / total if total else 0.0
        rectangles += Markup('<rect class="{}" x="{:.2f}" width="{:.2f}" height="{}"><title>{}</title></rect>').format(
            style, start, width, _HEIGHT, f"{name}: {number:,}"
        )
        start += width
    return _bar(label, rectangles)


def filled(number: int, of: int) -> Markup:
    """Draw a bar that is filled by the share of a number in another, at most fully."""
    share = min(number / of, 1.0) if of else 0.0
    return _bar(
        f"{number:,} of {of:,}",
        Markup('<rect class="rest" width="{}" height="{}"/><rect class="done" width="{:.2f}" height="{}"/>').format(
            _WIDTH, _HEIGHT, _WIDTH * share, _HEIGHT
        ),
    )


def _bar(label: str, content: Markup) -> Markup:
    return Markup(
        '<svg class="bar" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>'
    ).format(label, _WIDTH, _HEIGHT, content)
