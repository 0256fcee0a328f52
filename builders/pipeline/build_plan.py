"""The plan of a build: what it writes, made from sources or from a published index.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from builders.cli.build_options import BuildRequest
from builders.pipeline.repeated import Repeated
from builders.plan.candidates import Draws
from builders.plan.planner import PlannedSplit
from builders.sources.base import SourceIndex


@dataclass(frozen=True)
class BuildPlan:
    """The rows that a build writes, and what describes them in the release.

    `version` is that of the rows: the benchmark's, or the published one's. `indexes` are the opened sources by key,
    `planned` the rows of every split that is written or of its parts, and `labels` the in-distribution classes by
    config. `adopted` has, by key of each split or part and of its parents, the digest of the lists that it was adopted
    from; empty where it was drawn. `lacking` says what the sources lack of each split or part. `repeated` is what is
    repeated of a published release; nothing where rows are planned from sources.
    """

    request: BuildRequest
    version: str
    indexes: Mapping[str, SourceIndex]
    draws: Draws
    planned: tuple[PlannedSplit, ...]
    labels: Mapping[str, Sequence[str]]
    adopted: Mapping[str, str]
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    repeated: Repeated = field(default_factory=Repeated)
