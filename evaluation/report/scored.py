"""Scores beside the rows that they are of, before and after they are judged.

Tested by `tests/evaluation/report/test_compose.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evaluation.protocols.figures import Figure
from evaluation.protocols.results import Run
from evaluation.scoring.rows import Rows

Judged = tuple[Run, str, list[Figure]]
"""A run, the name of one of its detectors, and its figures."""


@dataclass(frozen=True)
class Scored:
    """A scores file beside the rows that it is of.

    Attributes:
        run: what it says of itself.
        configs: the configs that its rows are of.
        rows: of each detector.
        duplicates: by config, why its duplicates are called so; without the configs of which the release does not say
            which rows are duplicates.
    """

    run: Run
    configs: tuple[str, ...]
    rows: Mapping[str, Rows]
    duplicates: Mapping[str, str] = field(default_factory=dict)
