"""Scores joined with release rows, and the figures computed from them.

Tested by `tests/evaluation/report/test_compose.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evaluation.protocols.figures import Figure
from evaluation.protocols.results import Run
from evaluation.scoring.rows import Rows

DetectorFigures = tuple[Run, str, list[Figure]]
"""A run, the name of one of its detectors, and its figures."""


@dataclass(frozen=True)
class ScoredRun:
    """A scores file, joined with the rows of a release.

    Attributes:
        run: the run that it describes.
        configs: the configs of its rows.
        rows: rows with scores, by detector.
        duplicates: by config, why rows count as duplicates; configs without information on duplicates are missing.
        overlaps: the configs whose rows say which known class they overlap.
    """

    run: Run
    configs: tuple[str, ...]
    rows: Mapping[str, Rows]
    duplicates: Mapping[str, str] = field(default_factory=dict)
    overlaps: frozenset[str] = frozenset()
