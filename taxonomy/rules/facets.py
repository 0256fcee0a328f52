"""FACETS: distances of ImageNet's and SUN397's classes from Places365, read from small files without WordNet.

Source: Recalcati, Garcea, Piano, Lamberti & Morra, "Toward a Realistic Benchmark for Out-of-Distribution Detection"
(2023; arXiv:2404.10474), section IV. Places365's 365 classes are in-distribution; whether a class of another dataset
is too depends on its meaning. The paper decides this in two ways:

- By WordNet: `oodness` holds, for every ImageNet class, 1 less its similarity to the nearest Places365 class. At most
  0.40, 0.45 or 0.50 is in-distribution.
- By hand: `grades` holds a grade for every class. The paper prints its criteria and its totals but not its grades, so
  these are ours.

How we grade. The paper calls a prediction good if somebody who sees the picture would accept it. So the question is
whether a Places365 name would be a right answer for a picture of the class. SUN397's categories are places too:

- 0: Places365 has a category of this very name, letter and qualifier included (294 of the 397; no folding is needed).
- 1: The class is a Places365 class in other words: a synonym, a kind of it, or the same place with another qualifier
  (inside and outside, front seat and back seat).
- 2: It is not, but its picture usually shows the very thing that a Places365 class is known by: it is a part of such
  a place, lies in it, or has the furniture that defines it. The name would be right about the picture, if not about
  the class.
- 3: Neither. A class that only looks like one of Places365's, or does a like service, is here: no tennis court is a
  volleyball court.

ImageNet's classes are mostly things, and the grade says whether the thing belongs to a scene of Places365:

- 0 (in-distribution): it is a Places365 class or a kind or part of one, or it is a fixture, piece of equipment or
  feature whose place is one kind of scene there, the first that comes to mind.
- 1 (out-of-distribution): things that are worn, carried, eaten or kept in many places, vehicles that are at home on
  every road, and animals. An animal lives in a landscape but is no part of it; only those are graded 0 that can hardly
  be seen outside of the scene, which is under water.

The classes were graded by name, synset and gloss. No image was viewed: a reason that mentions a picture means pictures
of such a thing in general. Our totals beside the paper's (section IV and table V):

======================  ====  =====
grade                   ours  paper
======================  ====  =====
SUN397, 0                294    294
SUN397, 1                 45     25
SUN397, 2                 42     32
SUN397, 3                 16     46
ImageNet, 0              292    356
ImageNet, 1              708    644
======================  ====  =====

The authors are stricter about places and more generous about things. No grade was moved to come nearer. Under their
grades the SUN397 classes of grade 2 and 3 have 7,530 images in a validation split, those of grade 3 4,554; under ours
5,031 and 1,392.
"""

import functools
from dataclasses import dataclass

from taxonomy.errors import TaxonomyError, suggestion
from taxonomy.tables import read_rows

OODNESS_FILE = "facets_oodness_imagenet.csv"
GRADED = ("imagenet", "sun397")

THRESHOLDS = {"facets-wordnet-t40": 0.40, "facets-wordnet-t45": 0.45, "facets-wordnet-t50": 0.50}
"""Greatest OODness of an in-distribution class, by decision table (section IV, table IV)."""

GRADE_LIMITS = {
    "facets-imagenet": ("imagenet", 0),
    "facets-t1-sun397": ("sun397", 1),
    "facets-t2-sun397": ("sun397", 2),
}
"""Source and greatest grade of an in-distribution class, by decision table (section IV, table V)."""


@dataclass(frozen=True, slots=True)
class Oodness:
    """Distance of an ImageNet class from Places365, all values to six decimals.

    Attributes:
        class_id: wnid.
        class_name: First lemma.
        place: The nearest Places365 category; of several equally near, the first.
        place_wnid: Its synset.
        path: Path similarity of the two synsets, 1 / (links + 1), in (0, 1].
        leacock_chodorow: Leacock-Chodorow similarity divided by ln 38, its greatest value, in [0, 1].
        wu_palmer: Wu-Palmer similarity with the place's synset as the first of the two, in (0, 1].
        oodness: 1 less the mean of the three, in [0, 1).
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
    """A class graded by hand.

    Attributes:
        class_id: wnid in "imagenet", category in "sun397".
        class_name: First lemma; category without its letter.
        grade: 0 to 3 in "sun397", 0 or 1 in "imagenet"; the module's docstring defines them.
        related: The Places365 category that decided; "" for SUN397's grade 3 and ImageNet's grade 1.
        reason: One line, without a full stop.
    """

    class_id: str
    class_name: str
    grade: int
    related: str
    reason: str


@functools.cache
def oodness() -> tuple[Oodness, ...]:
    """Return the OODness of ImageNet's 1,000 classes, sorted by wnid."""
    return tuple(
        Oodness(
            row["class_id"],
            row["class_name"],
            row["place"],
            row["place_wnid"],
            *(float(row[name]) for name in ("path", "leacock_chodorow", "wu_palmer", "oodness")),
        )
        for row in read_rows(OODNESS_FILE)
    )


@functools.cache
def grades(source: str) -> tuple[Grade, ...]:
    """Return the grades of "imagenet" (1,000 classes) or "sun397" (397), sorted by `class_id`.

    Raises:
        TaxonomyError: The source's classes are not graded.
    """
    if source not in GRADED:
        raise TaxonomyError(
            f"The classes of '{source}' are not graded{suggestion(source, GRADED)}. "
            f"Those of {' and '.join(GRADED)} are."
        )
    return tuple(
        Grade(row["class_id"], row["class_name"], int(row["grade"]), row["related"], row["reason"])
        for row in read_rows(f"facets_grades_{source}.csv")
    )
