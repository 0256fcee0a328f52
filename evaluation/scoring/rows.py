"""The rows of a release beside one detector's scores: what every protocol judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from evaluation.errors import EvaluationError
from evaluation.metrics.ranking import Ranking, rank

IN_DISTRIBUTION = "in_distribution"
"""The role of rows that a detector should accept."""


@dataclass(frozen=True, eq=False)
class Rows:
    """n rows of one or several configs, in any order.

    Attributes:
        id: the release's `id`, shape (n,).
        config: name of the row's config, shape (n,).
        split: name of its split, shape (n,).
        role: name of its role as the release writes it (`in_distribution`, `near_ood`, ...), shape (n,).
        label: in-distribution class as an index, shape (n,); -1 where no such class applies.
        class_id: the source's own class, shape (n,).
        source_id: the image that the row shows or is made from, unique among all sources, shape (n,): a corrupted row
            and the clean one it comes from have the same.
        score: shape (n,), float64, finite, higher = more unknown.
        prediction: predicted class as an index, shape (n,), any for rows without a label; None without predictions.
        duplicate: whether the release says that the row shows the same picture as another one (`duplicates`), shape
            (n,); None where the release does not say which rows do.

    Raises:
        EvaluationError: the columns have different lengths, or a score is NaN or infinite.
    """

    id: npt.NDArray[np.str_]
    config: npt.NDArray[np.str_]
    split: npt.NDArray[np.str_]
    role: npt.NDArray[np.str_]
    label: npt.NDArray[np.int64]
    class_id: npt.NDArray[np.str_]
    source_id: npt.NDArray[np.str_]
    score: npt.NDArray[np.float64]
    prediction: npt.NDArray[np.int64] | None = None
    duplicate: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        shapes = {name: np.shape(values) for name, values in columns.items() if values is not None}
        for name, shape in shapes.items():
            if shape != (len(self),):
                raise EvaluationError(
                    f"expected one {name} for each of {len(self):,} rows, found the shape {shape}; join the scores "
                    "with the release by id."
                )
        finite = np.isfinite(self.score)
        if not finite.all():
            raise EvaluationError(
                f"expected finite scores, found {np.count_nonzero(~finite):,} that are NaN or infinite, the first at "
                f"{self.id[~finite][0]}; mend the detector, since no metric can rank such rows."
            )

    def __len__(self) -> int:
        return len(self.id)

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether each row is in-distribution, shape (n,)."""
        known: npt.NDArray[np.bool_] = self.role == IN_DISTRIBUTION
        return known

    @property
    def wrong(self) -> npt.NDArray[np.bool_]:
        """Whether each row's prediction is not its label, shape (n,); a row without a label is always wrong.

        Raises:
            EvaluationError: there are no predictions.
        """
        if self.prediction is None:
            raise EvaluationError(
                "expected predictions, found scores alone; add a column prediction (or class) to the scores file."
            )
        wrong: npt.NDArray[np.bool_] = (self.label < 0) | (self.prediction != self.label)
        return wrong

    def where(self, chosen: npt.NDArray[np.bool_]) -> Rows:
        """Return the rows for which `chosen`, of shape (n,), holds."""
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        return replace(self, **{name: values[chosen] for name, values in columns.items() if values is not None})

    def by(self, column: Literal["config", "split"]) -> dict[str, Rows]:
        """Return the rows of each config or split, by its name, sorted."""
        values = getattr(self, column)
        return {name: self.where(values == name) for name in np.unique(values).tolist()}


def known_rows(rows: Rows, split: str) -> Rows:
    """The in-distribution rows of a split.

    Args:
        rows: of one config.
        split: its name.

    Raises:
        EvaluationError: there are none.
    """
    found = rows.where(rows.known & (rows.split == split))
    if not len(found):
        raise EvaluationError(
            f"expected in-distribution rows in {split} of {' and '.join(rows.by('config'))}, found none among "
            f"{len(rows):,} rows; score that split too."
        )
    return found


def unknown_splits(rows: Rows, roles: Sequence[str]) -> dict[str, Rows]:
    """The rows of some roles by their split, in the order of the roles and then by name.

    Args:
        rows: of one config.
        roles: such as `near_ood`.

    Raises:
        EvaluationError: there are none.
    """
    found = {}
    for role in roles:
        found.update(rows.where(rows.role == role).by("split"))
    if not found:
        raise EvaluationError(
            f"expected rows of the role {' or '.join(roles)} in {' and '.join(rows.by('config'))}, found "
            f"{', '.join(np.unique(rows.role).tolist())}; score a split of unknowns too, or name another protocol."
        )
    return found


def against(known: Rows, *unknown: Rows) -> Ranking:
    """Rank rows that ought to be accepted against rows that ought to be refused."""
    scores = [known.score, *(rows.score for rows in unknown)]
    return rank(np.concatenate(scores), np.arange(sum(map(len, scores))) >= len(known))[0]


def mistakes(rows: Rows) -> Ranking:
    """Rank rows classified right against rows classified wrong.

    Raises:
        EvaluationError: there are no predictions.
    """
    return rank(rows.score, rows.wrong)[0]
