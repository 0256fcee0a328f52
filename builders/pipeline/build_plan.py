"""What a run writes: the value that both ways into a build return, from sources and from a published index.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.quotas import Rows
from builders.generate.contract import Generator
from builders.pipeline.published import Published
from builders.pipeline.request import Run, generators_of
from builders.plan.classes import Draws
from builders.plan.planner import PlannedSplit
from builders.sources.base import SourceIndex


@dataclass(frozen=True)
class BuildPlan:
    """What a run writes, and how the release describes it.

    Attributes:
        run: the run.
        indexes: the opened sources, by key.
        draws: the benchmark's draws.
        planned: the rows of every split that is written, or of its parts.
        labels: in-distribution classes by config.
        adopted: a digest of what each split or part, and each that one is the rest of, is adopted from; or empty.
        lacking: what the sources lack of each split or part, in sentences, by its key.
        published: the published config whose rows these are; None where they are planned from sources.
    """

    run: Run
    indexes: Mapping[str, SourceIndex]
    draws: Draws
    planned: tuple[PlannedSplit, ...]
    labels: Mapping[str, Sequence[str]]
    adopted: Mapping[str, str]
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    published: Published | None = None

    @property
    def generators(self) -> Mapping[str, Generator]:
        """The generators of the splits whose images are generated, by `config/split`."""
        return generators_of(self.run.benchmark, self.run.request.splits)

    def order(self, key: str, ids: pa.Array) -> Rows:
        """The order of a joined split's rows (`config/split`), of which `ids` are given part by part.

        It is that of the keyed ranks, or the one in which the rows were published.
        """
        if self.published is None:
            return self.draws.order(ids, key)
        places = pc.index_in(self.published.rows(key.partition("/")[2])["id"], value_set=ids)
        found: Rows = places.to_numpy().astype(np.int64)
        return found
