"""Explains FACETS's decisions about a class: its OODness or grade, and in which tables it is in-distribution.

Tested by `tests/taxonomy/test_main.py`.
"""

from taxonomy import overlaps, tables
from taxonomy.decisions import TABLES, load_decisions
from taxonomy.grading import GRADING
from taxonomy.rules import facets
from taxonomy.rules.far import synset_text
from taxonomy.wordnet.nouns import load_wordnet

SOURCES = {
    "imagenet": tuple(name for name in TABLES if name.startswith("facets-") and not name.endswith("sun397")),
    "sun397": tuple(name for name in TABLES if name.endswith("sun397")),
    "places365": (),
}
"""The sources that FACETS uses, with their decision tables; all of Places365's classes are in-distribution."""


def explain_facets(source: str, class_id: str) -> str:
    """Return FACETS's decisions about a class, as text of several lines."""
    facts = {
        "imagenet": _of_imagenet,
        "sun397": lambda class_id: _grade("sun397", class_id),
        "places365": _of_places365,
    }[source](class_id)
    for table in SOURCES[source]:
        decision = next(row for row in load_decisions(table) if row.class_id == class_id)
        facts[table] = decision.decision
    width = max(map(len, facts))
    lines = [*facts.items(), *(("overlap", overlap) for overlap in overlaps.describe("facets", source, class_id))]
    return "\n".join([f"FACETS {class_id}", *(f"  {label:<{width}}  {fact}" for label, fact in lines)])


def _of_imagenet(class_id: str) -> dict[str, str]:
    wordnet = load_wordnet()
    item = next(item for item in facets.oodness() if item.class_id == class_id)
    return {
        "OODness": f"{item.oodness:.6f}, 1 less the mean of path {item.path:.6f}, Leacock-Chodorow "
        f"{item.leacock_chodorow:.6f} and Wu-Palmer {item.wu_palmer:.6f}",
        "nearest": f"{item.place}, {synset_text(wordnet, wordnet.row(item.place_wnid))}",
        **_grade("imagenet", class_id),
    }


def _of_places365(class_id: str) -> dict[str, str]:
    wordnet = load_wordnet()
    item = next(item for item in tables.places365_wnids() if item.name == class_id)
    reason = f"{item.basis}: {item.note}" if item.note else item.basis
    return {"synset": synset_text(wordnet, wordnet.row(item.wnid)), "reason": reason, "all tables": "in_distribution"}


def _grade(source: str, class_id: str) -> dict[str, str]:
    item = next(item for item in facets.grades(source) if item.class_id == class_id)
    meaning = f"{item.grade}, {item.rule}: {GRADING[source][item.rule][1]} (ours)"
    nearest = {"related": item.related} if item.related else {}
    return {"grade": meaning, **nearest, "reason": item.reason}
