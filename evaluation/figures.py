"""A figure: one number of a protocol, with all that says what it is a number of."""

from __future__ import annotations

from dataclasses import dataclass

AS_PUBLISHED = "as_published"
OVERLAP_REMOVED = "overlap_removed"


@dataclass(frozen=True)
class Figure:
    """One number. All fields but the last four name it: no two figures of a run share them.

    Attributes:
        protocol: such as `facets`.
        config: the release's config; of several configs their names, joined by ` + `.
        setting: what is asked of the detector, such as `unknown_detection`, `dsd` or `od_test`.
        known: the split of the rows that ought to be accepted.
        unknown: the split of those that ought to be refused; several are joined by ` + `. For a statistic, what it is
            taken over.
        metric: a name of `METRICS`.
        positive: the side that the metric counts as positive, `known` or `unknown`; empty where it does not matter.
        rows: `as_published`, or `overlap_removed` without the rows that nearly repeat a training image.
        statistic: empty for a figure of rows; `mean`, `median` and so on for one of other figures.
        fitted_on: the split of unknowns that a threshold was fitted on, or empty.
        value: in its own unit: a rate or an area from 0 to 1. NaN where the model leaves one side without rows.
        factor: what the paper multiplies it by before it prints it.
        n_known: how many rows ought to be accepted.
        n_unknown: how many ought to be refused.
    """

    protocol: str
    config: str
    setting: str
    known: str
    unknown: str
    metric: str
    positive: str
    rows: str
    statistic: str
    fitted_on: str
    value: float
    factor: float
    n_known: int
    n_unknown: int

    @property
    def reported(self) -> float:
        """The value as the paper prints it."""
        return self.value * self.factor
