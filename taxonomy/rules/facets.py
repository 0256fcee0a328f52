"""FACETS: distances of ImageNet's and SUN397's classes from Places365, read from small files without WordNet.

Source: Recalcati, Garcea, Piano, Lamberti & Morra, "Toward a Realistic Benchmark for Out-of-Distribution Detection"
(2023; arXiv:2404.10474), section IV. Places365's 365 classes are in-distribution; whether a class of another dataset
is too depends on its meaning. The paper decides this in two ways:

- By WordNet: `oodness` holds, for every ImageNet class, 1 less its similarity to the nearest Places365 class. At most
  0.40, 0.45 or 0.50 is in-distribution. The paper averages three measures and names its thresholds T40, T45 and T50;
  that Leacock-Chodorow is divided by its greatest value before, and that a threshold is one on 1 less the average, are
  our readings.
- By hand: `grades` holds a grade for every class and the rule that gave it. Section IV prints criteria and totals but
  no grades, so the grades are ours, by the rules of `taxonomy.grading`; `docs/benchmarks/facets.md` sets our totals
  beside the paper's.
"""

import functools
from dataclasses import dataclass

from taxonomy.errors import TaxonomyError, suggestion
from taxonomy.grading import GRADED, NO_ANIMALS
from taxonomy.tables import read_rows

OODNESS_FILE = "facets_oodness_imagenet.csv"

THRESHOLDS = {"facets-wordnet-t40": 0.40, "facets-wordnet-t45": 0.45, "facets-wordnet-t50": 0.50}
"""Greatest OODness of an in-distribution class, by decision table (section IV, table IV; the unit is our reading)."""

GRADE_LIMITS = {
    "facets-imagenet": ("imagenet", 0),
    NO_ANIMALS: ("imagenet", 0),
    "facets-t1-sun397": ("sun397", 1),
    "facets-t2-sun397": ("sun397", 2),
}
"""Source and greatest grade of an in-distribution class, by decision table (section IV, table V)."""


@dataclass(frozen=True, slots=True)
class ClassOodness:
    """Distance of an ImageNet class from Places365, all values to six decimals.

    `place` is the nearest Places365 category, of several equally near the first, and `place_wnid` its synset, with
    which the class has the similarities `path` (in (0, 1]), `leacock_chodorow` (divided by ln 38, its greatest value)
    and `wu_palmer` (with the place's synset as the first of the two). `oodness` is 1 less the mean of the three.
    """

    class_id: str
    class_name: str
    place: str
    place_wnid: str
    path: float
    leacock_chodorow: float
    wu_palmer: float
    oodness: float


@dataclass(frozen=True, slots=True)
class Grade:
    """A class graded by hand: its grade, and the rule that gives it, of `taxonomy.grading.GRADING`.

    `related` is the Places365 category that decided; "" for SUN397's grade 3 and ImageNet's grade 1. The reason is one
    line without a full stop.
    """

    class_id: str
    class_name: str
    grade: int
    rule: str
    related: str
    reason: str


@functools.cache
def oodness() -> tuple[ClassOodness, ...]:
    """Return the OODness of ImageNet's 1,000 classes, sorted by wnid."""
    return read_rows(ClassOodness, OODNESS_FILE)


@functools.cache
def grades(source: str) -> tuple[Grade, ...]:
    """Return the grades of "imagenet" (1,000 classes) or "sun397" (397), sorted by `class_id`."""
    if source not in GRADED:
        raise TaxonomyError(
            f"The classes of '{source}' are not graded{suggestion(source, GRADED)}. "
            f"Those of {' and '.join(GRADED)} are."
        )
    return read_rows(Grade, f"facets_grades_{source}.csv")
