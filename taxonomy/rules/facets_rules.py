"""The rules of FACETS: which classes of ImageNet and SUN397 are unknown to a model of Places365's classes.

`taxonomy.rules.facets` names the source, `taxonomy.grading` defines the grades.

Thresholds and rounding. The similarity of two synsets depends on two things only: the number of links between them (0
to 37) and the Wu-Palmer fraction, whose terms are small. Over all such pairs no OODness is nearer than 4.8e-6 to 0.40,
0.45 or 0.50, and no two different ones are nearer than 2.9e-11 to each other (a test goes through them with 50
digits). So neither a platform's rounding (1e-15) nor that of the published table (5e-7) can move a class over a
threshold; and similarities closer than `_SAME` are equal up to rounding.

Counts reached. At 0.40, 0.45 and 0.50 we find 60, 87 and 143 in-distribution classes, the paper 56, 90 and 140. The
authors' synsets for Places365 are not published; ours are `tables.places365_wnids`. A name's only noun sense stands,
even where it is narrow (pavilion is a tent to WordNet); else a sense of the name that fits, else of its head word,
else the nearest synset. Where another choice can be defended, it alone would give:

- booth/indoor as a stall instead of seats in a restaurant: 58, 85, 132
- elevator/door as the elevator instead of its door: 61, 90, 166
- interiors of bus, car and train as the vehicle instead of its compartment: 78, 114, 179
- pavilion as a gazebo instead of a tent: 59, 86, 143

The compartment and, before it was corrected from doorway to door, the elevator's door were first chosen with the
paper's totals known, so a nearly equal total is no evidence that the synsets are the authors'.

Wu-Palmer is not symmetric. We take the place's synset as the first argument; `similarity.wu_palmer` says why the order
matters. Two pairs depend on it, house with monastery and with palace, and neither is the nearest of its class. With
the synset of palace that is also called castle they would be, and the other order would put monastery out at 0.45.

Tested by `tests/taxonomy/rules/test_facets.py`.
"""

import functools

import numpy as np

from taxonomy import tables
from taxonomy.decisions import Decision
from taxonomy.grading import ANIMAL_RULE, NO_ANIMALS
from taxonomy.rules import facets
from taxonomy.rules.far import synset_text
from taxonomy.wordnet import similarity
from taxonomy.wordnet.nouns import load_wordnet

_SAME = 1e-12  # see "Thresholds and rounding" above


@functools.cache
def compute_oodness() -> tuple[facets.ClassOodness, ...]:
    """Compute the OODness of ImageNet's 1,000 classes from their nearest Places365 class; sorted by wnid."""
    places = tables.places365_wnids()
    classes = tables.imagenet1k()
    pairs = [place.wnid for place in places], [item.wnid for item in classes]
    mean = similarity.mean_normalised(*pairs)
    nearest = np.argmax(mean >= mean.max(axis=0) - _SAME, axis=0)  # the first of the equally near
    column = np.arange(len(classes))
    measures = (
        similarity.path(*pairs),
        similarity.leacock_chodorow(*pairs) / similarity.GREATEST_LEACOCK_CHODOROW,
        similarity.wu_palmer(*pairs),
        1.0 - mean,
    )
    values = np.stack([measure[nearest, column] for measure in measures], axis=1).tolist()
    return tuple(
        facets.ClassOodness(
            item.wnid,
            item.name,
            places[place].name,
            places[place].wnid,
            *(round(value, 6) + 0.0 for value in row),  # -0.0 + 0.0 is 0.0
        )
        for item, place, row in zip(classes, nearest.tolist(), values, strict=True)
    )


def by_wordnet(table: str) -> tuple[Decision, ...]:
    """Decide which of ImageNet's 1,000 classes are known: those within the table's threshold of OODness. By wnid."""
    threshold = facets.THRESHOLDS[table]
    wordnet = load_wordnet()
    return tuple(
        Decision(
            item.class_id,
            item.class_name,
            "in_distribution" if item.oodness <= threshold else "out_of_distribution",
            "within_threshold" if item.oodness <= threshold else "beyond_threshold",
            f"OODness {item.oodness:.6f}, threshold {threshold:.2f}: nearest to {item.class_name} is "
            f"{synset_text(wordnet, wordnet.row(item.place_wnid))}, Places365's {item.place}.",
            keyword=item.place,
            matched=item.place_wnid,
        )
        for item in compute_oodness()
    )


def inter_dataset() -> tuple[Decision, ...]:
    """Find the ImageNet classes whose name is also a Places365 class; they are not out-of-distribution.

    The paper removes 32 common classes and does not say how they were found; the benchmark that it follows (Roady et
    al., 2019) compared names, as section II says. So does this rule: a class goes if one of its lemmas, in lower case,
    is a Places365 name without its qualifier (church for church/indoor). That gives 32. Homonyms are among them: the
    pier of a bridge, the grocery called market and the wardrobe called closet; butcher shop is not, as Places365
    writes butchers_shop. Comparing synsets instead, by `tables.places365_wnids`, would give 30.
    """
    wordnet = load_wordnet()
    places: dict[str, str] = {}  # the first category of each name, without qualifier and written with spaces
    for category in tables.places365():
        places.setdefault(category.name.split("/")[0].replace("_", " "), category.category)
    wnid_of = {item.name: item.wnid for item in tables.places365_wnids()}
    decisions = []
    for item in tables.imagenet1k():
        lemmas = wordnet.lemmas(wordnet.row(item.wnid))
        if (lemma := next((lemma for lemma in lemmas if lemma.lower() in places), None)) is not None:
            place = places[lemma.lower()]
            evidence = f"Its lemma '{lemma}' is the name of Places365's {place}."
            outcome = Decision(item.wnid, item.name, "shared", "shared_name", evidence, place, wnid_of[place])
        else:
            evidence = f"Places365 has no class named {', '.join(lemmas)}."
            outcome = Decision(item.wnid, item.name, "out_of_distribution", "no_shared_name", evidence)
        decisions.append(outcome)
    return tuple(decisions)


def by_grade(table: str) -> tuple[Decision, ...]:
    """Decide which classes of a graded source are known: those up to the table's greatest known grade. By class id."""
    source, limit = facets.GRADE_LIMITS[table]
    unknown = ANIMAL_RULE if table == NO_ANIMALS else ""
    return tuple(
        Decision(
            item.class_id,
            item.class_name,
            "in_distribution" if item.grade <= limit and item.rule != unknown else "out_of_distribution",
            f"{source}_{item.rule}" if item.rule != unknown else "animal",
            f"{item.reason}.",
            keyword=item.related,
        )
        for item in facets.grades(source)
    )
