"""Thresholds on scores that keep a share of known rows, by split conformal prediction, and each row's decision.

Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2005), section 2.2; Lei et al., Distribution-Free
Predictive Inference for Regression (JASA 2018), theorem 2.2: of n + 1 exchangeable scores, the last is at or below the
k-th smallest of the others with a probability of k / (n + 1), or more if scores tie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from unknown_detection.evaluation.detectors.base import Detector
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.scoring.fit import Scorer
from unknown_detection.words import first_few

KNOWN, UNKNOWN = "known", "unknown"


class Level(NamedTuple):
    """The share of known rows to keep, and the place of the threshold among n sorted scores, 1 for the smallest."""

    asked: float
    rows: int
    place: int
    where: str

    @property
    def quantile(self) -> float:
        """The share of the rows that are at or below the threshold, unless scores tie."""
        return self.place / self.rows

    def sentence(self) -> str:
        """Say what the thresholds guarantee, and for whom."""
        return (
            f"thresholds at {100 * self.asked:g} % of known rows: place {self.place} of {self.rows} among those of "
            f"{self.where} (quantile {self.quantile:.4f}). A new known row that is exchangeable with them is decided "
            f"known with a probability of {100 * self.place / (self.rows + 1):.2f} %, or more where scores tie, over "
            "draws of it and them. Nothing is said of unknown rows, of single classes, or of shifted known rows"
        )


def choose_level(scorer: Scorer, at_known: Any) -> Level:
    """Choose the place of the threshold among the held-out known rows; refuse too few of them."""
    if not isinstance(at_known, float | np.floating) or not 0 < at_known < 1:
        raise EvaluationError(f"at_known= is a share of known rows between 0 and 1, found {at_known!r}. Give another.")
    if "validation" not in scorer.rows:
        raise EvaluationError(
            f"{scorer.cache.store.root} has no features of validation or held_out, on whose known rows at_known= "
            "chooses thresholds. Extract such a split."
        )
    count, share = len(_held_out(scorer)), Fraction(str(float(at_known)))
    place = math.ceil((count + 1) * share)  # exactly: 0.95 in floating point may give one more
    if place > count:
        needed = math.ceil(share / (1 - share))
        raise EvaluationError(
            f"{scorer.words('validation')} has {count} known rows, but a threshold that keeps {100 * at_known:g} % of "
            f"them needs {needed}. Extract more, or lower at_known=."
        )
    return Level(float(at_known), count, place, scorer.words("validation"))


def find_threshold(scorer: Scorer, name: str, level: Level) -> float:
    """Return the threshold of a fitted detector: rows above it are decided unknown."""
    scores = scorer.score(name, scorer.rows["validation"].key)[_held_out(scorer)]
    return float(np.partition(scores, level.place - 1)[level.place - 1])


def decide(scores: pa.Table, threshold: float) -> pa.Table:
    """Add the column `decision` to a detector's scores."""
    above = scores["score"].to_numpy() > threshold
    return scores.append_column("decision", pa.array(np.where(above, UNKNOWN, KNOWN)))


def chosen_on_the_same(scorer: Scorer, thresholds: Mapping[str, float]) -> str:
    """Say of which detectors the guarantee is not exact, because they were fitted or tuned on the same rows."""

    def seen(detector: Detector) -> bool:
        own = detector.name in scorer.trials or detector.fits_on == "validation"
        return own or any(seen(scorer.fit(base)) for base in detector.base_methods)

    names = [name for name in thresholds if seen(scorer.fit(name))]
    if not names:
        return ""
    return (
        f"note: {first_few(names)} {'was' if len(names) == 1 else 'were'} fitted or tuned on the rows that thresholds "
        "are chosen on, so the guarantee is not exact there; with search=False it is, of detectors that are not "
        "fitted on validation"
    )


def _held_out(scorer: Scorer) -> np.ndarray:
    """Return the numbers of the known rows that thresholds are chosen on."""
    rows = scorer.rows["validation"]
    return np.flatnonzero(rows.mask(scorer.cache.features(rows.key)))
