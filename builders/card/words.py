"""Roles and rules in words, and text that is wrapped to the width of a picture.

Wrapping is tested by `tests/builders/card/test_grid.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from builders.release.schema import ROLES, Role
from taxonomy.decisions import RULES

ROLE_NAMES: Mapping[Role, str] = {
    "in_distribution": "in-distribution",
    "near_ood": "near-OoD",
    "far_ood": "far-OoD",
    "external": "external",
    "novel_class": "novel class",
    "adversarial": "adversarial",
    "synthetic": "synthetic",
    "corruption": "corruption",
    "multi_label": "multi-label",
}
"""Names of the roles for readers."""

ROLE_MEANINGS: Mapping[Role, str] = {
    "in_distribution": "known: an image of a class that a classifier is trained on",
    "near_ood": "unknown: an image of a class that resembles the known ones",
    "far_ood": "unknown: an image of another kind, such as a texture or a scene",
    "external": "unknown: for tuning detectors or training them on unknown images, never for reporting results",
    "novel_class": "unknown: an image of a class that the known ones do not include",
    "adversarial": "known class, attacked: changed so that a model takes it for another class",
    "synthetic": "known class, generated: made by a generative model",
    "corruption": "known class, shifted: blurred, noisy or otherwise degraded, or another kind of picture",
    "multi_label": "several known classes in one image, or one of these alone as the control",
}
"""What each role says of a row."""

_BREAKS = re.compile(r"[^\s/_,.-]*[/_,.-]*|\s+")


def role_order(role: Role) -> int:
    """Position of a role in `ROLES`, by which pictures and tables are sorted."""
    return ROLES.index(role)


def wrapped(text: str, width: float, lines: int, length: Callable[[str], float]) -> list[str]:
    """Break a text into lines that fit a width, at spaces and after `/`, `_`, `,`, `.` and `-`.

    Args:
        text: the text; runs of spaces count as one.
        width: the most that `length` may give for a line.
        lines: the most lines; a longer text ends in an ellipsis.
        length: gives the width of a text.
    """
    found, line = [], ""
    for piece in filter(None, _BREAKS.findall(" ".join(text.split()))):
        if length((line + piece).rstrip()) <= width:
            line += piece if line or not piece.isspace() else ""
            continue
        if line.strip():
            found.append(line.rstrip())
        line = piece.lstrip()
        while length(line) > width and len(line) > 1:  # a word longer than a line
            fit = next(end for end in range(len(line) - 1, 0, -1) if end == 1 or length(line[:end]) <= width)
            found.append(line[:fit])
            line = line[fit:]
    if line.strip():
        found.append(line.rstrip())
    if len(found) > lines:
        last = found[lines - 1]
        while last and length(f"{last}\u2026") > width:
            last = last[:-1]
        found = [*found[: lines - 1], f"{last.rstrip()}\u2026"]
    return found


_BUILD_RULES: Mapping[str, str] = {
    "broken-in-source": "the image is broken in the genuine source",
    "class-drawn": "its class was drawn for another split",
    "class-not-drawn": "its class was a candidate, and others were drawn",
    "demo-classes": "not one of the first classes, of which a demo makes images",
    "duplicate": "shows the same picture as another row (variant without duplicates)",
    "image-not-drawn": "its class has more images than the split takes, or none was made of this one",
    "image-not-listed": "not in the published list of images",
    "in-other-split": "drawn for another split",
    "limit-per-class": "beyond the limit of images of a class that was given, for a quick look",
    "not-adopted": "not in the copy of the published benchmark that was adopted",
    "outside": "its class is not one that the rules look at",
    "stray": "a file that is no image of the source",
    "unreadable": "the image does not decode",
    "withdrawn": "withdrawn from the release",
}
"""What the rules of a build mean; those about classes are in `taxonomy.decisions.RULES`."""


def rule_meaning(rule: str) -> str:
    """A rule of `excluded/` in words; empty for one that this version does not know."""
    return _BUILD_RULES.get(rule) or RULES.get(rule, "")
