"""The values that hyperparameters may have.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self


class Range(str):
    """The allowed values of a hyperparameter, in words such as `above 0`, and as a function, which `fit` calls."""

    allows: Callable[[float], bool]

    def __new__(cls, words: str, allows: Callable[[float], bool]) -> Self:
        """Make a range of its words and of a function."""
        self = super().__new__(cls, words)
        self.allows = allows
        return self


def at_least(least: float, words: str = "") -> Range:
    """Return a range without an upper end, described as `2 or more` or in other words."""
    return Range(words or f"{least:g} or more", lambda value: least <= value < math.inf)


POSITIVE = Range("above 0", lambda value: 0 < value < math.inf)
SHARE = Range("0 to 1", lambda value: 0 <= value <= 1)
BELOW_ONE = Range("0 to below 1", lambda value: 0 <= value < 1)
BETWEEN = Range("above 0, below 1", lambda value: 0 < value < 1)
SWITCH = Range("0 or 1", lambda value: value in (0, 1))
