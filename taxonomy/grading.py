"""The rules by which the classes of SUN397 and ImageNet are graded for FACETS.

Section IV of the paper (`taxonomy.rules.facets` cites it) defines the grades: SUN397's 0 (the very label), 1 (related
in meaning), 2 (usually has features of an in-distribution class) and 3 (the rest), and ImageNet's 0 (is in Places365,
or an object typically associated with a scene of it) and 1. The rules below say what we take that to mean.

How we grade. A class has the grade of the first rule of `GRADING` that holds of it; the rules are applied by name,
synset and gloss (WordNet 3.0) and by what is commonly known of such things. No image was viewed. Nothing else counts:
not how near the camera is, not zoos and shops, and not the totals of the paper.

Things. "Typically associated with a scene" (section IV) is read as: of the places where such a thing is used or
stands, one kind comes to mind first, and Places365 has it. So all pots and tools for cooking belong to the kitchen,
all instruments of orchestras and bands to the stage, and all balls to the field or court of their game where Places365
has it. Vehicles that carry passengers along a street or tend it belong to the street, long-distance trucks to the
highway, those that a building sends out to that building, other road vehicles nowhere. What is set on any table,
instruments that one person plays anywhere, stationery, and toys for every room belong nowhere.

Animals. Section VI says that certain animals were graded as known, and calls it an error. So by default an animal is
graded as things are: it is known if it lives in one kind of place, by WordNet's gloss where that names one and by what
is commonly known of it elsewhere, and Places365 has this kind. Sea, reef and sea floor count as one kind of place
(under water), savanna, prairie and steppe as another (open field), so do sea shores (coast), and forests other than
rain forest. Farm animals live on the farm or its pasture. Animals of several kinds of place are unknown, and so are
pets, which live where people do. The other reading, by which no animal is known, is the table
"facets-imagenet-no-animals" and the flag `--animals-unknown`. Fungi and crops have a rule of their own; extinct
animals belong to their museum.

Tested by `tests/taxonomy/rules/test_facets.py`.
"""

from collections.abc import Mapping

GRADED = ("imagenet", "sun397")

GRADING: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "sun397": {
        "name": (0, "Places365 has a category of this very name, letter and qualifier included"),
        "kin": (1, "is a Places365 class in other words: a synonym, a kind of it, or the same kind of place"),
        "qualifier": (1, "is a Places365 class with another qualifier: inside, outside, half or variety of it"),
        "part": (2, "is a part of a Places365 class or lies in one, which its picture shows"),
        "sight": (2, "is another place, but has the furniture or installations that a Places365 class is known by"),
        "none": (3, "neither is a Places365 class nor has what one is known by"),
    },
    "imagenet": {
        "scene": (0, "is a place that Places365 has, in the same or other words, a kind of one, or all that it shows"),
        "habitat": (0, "is an animal that lives in one kind of place, which Places365 has"),
        "grows": (0, "is a fungus or crop that grows in one kind of place, which Places365 has"),
        "belongs": (
            0,
            "is a part, fixture, tool, vehicle, garment or person of one kind of place, which Places365 has",
        ),
        "kept": (1, "is a pet, which lives wherever people do"),
        "ranges": (1, "is an animal or plant of several kinds of place"),
        "food": (1, "is food or drink, which is served and sold in many places"),
        "worn": (1, "is worn wherever people are"),
        "road": (1, "is a vehicle that is at home on every road or ground"),
        "nowhere": (1, "belongs to a kind of place that Places365 lacks"),
        "anywhere": (1, "is used, kept or carried in many places"),
    },
}
"""The rules of grading, by source: grade and meaning. The grades are the paper's (section IV), the rules ours."""

ANIMAL_RULE = "habitat"
"""The rule by which ImageNet's animals are known, and which the other reading sets aside."""

NO_ANIMALS = "facets-imagenet-no-animals"
"""The decision table of the other reading."""
