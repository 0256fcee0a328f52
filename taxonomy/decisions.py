"""The frozen decisions of the rules: whether each class is selected, and why.

Loading reads one small CSV file and no WordNet. `python -m taxonomy freeze` writes the files with
`taxonomy.rules.unified`, and a test recomputes them. Tables that are named after their source belong to the unified
benchmark.
"""

import functools
from dataclasses import dataclass

from taxonomy.errors import TaxonomyError, suggestion
from taxonomy.grading import GRADING, NO_ANIMALS
from taxonomy.tables import read_rows

TABLES = (
    "imagenet",
    "tiny158",
    "cifar100",
    "food101",
    "caltech256",
    "places365",
    "facets-inter-dataset",
    "facets-wordnet-t40",
    "facets-wordnet-t45",
    "facets-wordnet-t50",
    "facets-imagenet",
    NO_ANIMALS,
    "facets-t1-sun397",
    "facets-t2-sun397",
    "cocomagenet",
    "openood-imagenet200",
    "openood-textures",
    "ssb-hard",
    "imagenet-ood",
    "ssb-cub",
    "ssb-aircraft",
)

# The rules up to "no_object" are those of Kim, Koo & Hwang (2023), sections 3.1 and 3.2, but for the three marked
# "ours"; the next are those of FACETS (`taxonomy.rules.facets`), section IV, the four of categories follow BROAD
# (`taxonomy.rules.broad`), appendix A, and the last four are membership in published lists and class splits.
RULES = {
    "tiny_imagenet": "one of Tiny ImageNet's 200 classes, which are the in-distribution classes",
    "below_parent": "descends from a direct hypernym of an in-distribution class",
    "below_no_parent": "descends from no direct hypernym of an in-distribution class",
    "same_label": "shares its label text (all lemmas) with another ImageNet class, so the two fall together (ours)",
    "same_synset": "is the synset of a CIFAR-100 class",
    "descendant": "descends from the synset of a CIFAR-100 class",
    "no_overlap": "neither is nor descends from the synset of a CIFAR-100 class",
    "superclass": "one of the five classes of its superclass, of which two are in-distribution and three near "
    "unknowns",
    "i": "a keyword matches a node that is an ImageNet class",
    "ii": "a keyword matches a node with a sibling that is an ImageNet class",
    "iii": "a keyword matches a node with an ancestor or descendant that is an ImageNet class",
    "unrelated": "keywords match nodes of the ImageNet tree, none of which meets rule i, ii or iii",
    "no_match": "no keyword matches a node of the ImageNet tree",
    "override": "the rule's outcome is set aside by hand (ours)",
    "no_object": "the class holds no kind of object (ours)",
    "shared_name": "one of its lemmas is the name of a Places365 class",
    "no_shared_name": "none of its lemmas is the name of a Places365 class",
    "within_threshold": "its OODness, 1 less its similarity to the nearest Places365 class, is at most the threshold",
    "beyond_threshold": "its OODness, 1 less its similarity to the nearest Places365 class, is above the threshold",
    **{
        f"{source}_{rule}": f"{meaning} (grade {grade}, ours)"
        for source, rules in GRADING.items()
        for rule, (grade, meaning) in rules.items()
    },
    "animal": "lives in one kind of place, which Places365 has, but in this reading no animal is known (ours)",
    "category_lemma": "the name of the COCO category is one word and a lemma of an ImageNet class",
    "category_plural": "the name of the COCO category is the plural of a lemma of an ImageNet class",
    "category_words": "the name of the COCO category is a lemma of an ImageNet class, but has several words, and "
    "BROAD's list has none of these",
    "category_alone": "the name of the COCO category is no lemma of an ImageNet class",
    "listed": "the published list has images of the class",
    "not_listed": "the published list has no image of the class",
    "ssb_known": "one of the known classes of the Semantic Shift Benchmark's class split",
    "ssb_unknown": "one of the unknown classes of the Semantic Shift Benchmark's class split",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a rule, one of `RULES`, about one class of a source, with a sentence of evidence.

    Attributes:
        class_id: The source's own class: a wnid for ImageNet, ImageNet-21k and "tiny158", a name for "cifar100",
            "openood-textures" and "food101" ("apple_pie"), a folder for "caltech256" ("133.lightning") and "ssb-cub",
            a variant ("A318") for "ssb-aircraft", a category for "places365", SUN397 ("/a/airfield") and "cocomagenet"
            ("wine glass").
        class_name: Its readable name, which in ImageNet may occur twice.
        decision: "in_distribution", "near_candidate", "external" or "excluded" for "imagenet", "candidate" for
            "cifar100", "shared" or "out_of_distribution" for "facets-inter-dataset", "shared" or "unshared" for
            "cocomagenet", "in_distribution" or "out_of_distribution" for the other tables of FACETS,
            "in_distribution", "hard", "medium" or "easy" for the two of SSB, "keep" or "remove" for the rest.
        keyword: The keyword of the far-OoD rules, the CIFAR-100 class of "tiny158", the Places365 category of FACETS.
        matched: wnid of the synset that decided. For "below_parent" it is the hypernym, for "same_label" the other
            class with the label.
        witness: wnid of the ImageNet class that `matched` is related to; for "below_parent" the in-distribution one.
        group: The group within which classes are drawn: the superclass of "cifar100".
    """

    class_id: str
    class_name: str
    decision: str
    rule: str
    evidence: str
    keyword: str = ""
    matched: str = ""
    witness: str = ""
    group: str = ""


def decisions_file(table: str) -> str:
    """Return the file in `taxonomy/data` that holds a decision table."""
    return f"decisions_{table}.csv"


@functools.cache
def load_decisions(table: str) -> tuple[Decision, ...]:
    """Return the frozen decisions of one table, one per class of the source, sorted by `class_id`."""
    if table not in TABLES:
        raise TaxonomyError(
            f"There is no decision table '{table}'{suggestion(table, TABLES)}. The tables are {', '.join(TABLES)}."
        )
    return read_rows(Decision, decisions_file(table))
