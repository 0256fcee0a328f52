"""Computes the table of overlaps (`taxonomy.overlaps`) from WordNet, FACETS's grades and entries by hand.

WordNet says that two classes have one synset, that one descends from the other, or that they have a lemma in common,
in the singular or the plural. Classes without a synset of their own are compared by name. `overlaps_by_hand.csv` has
what WordNet cannot say: parts, scenes, things of two names, and that a class was examined and has none. An entry by
hand replaces a computed one of the same two classes.

FACETS's unknown classes were graded by us against Places365 one by one; the grade and its reason are the evidence.

Tested by `tests/taxonomy/test_overlaps.py`.
"""

import functools
from collections.abc import Iterator, Mapping

from taxonomy import tables
from taxonomy.errors import TaxonomyError
from taxonomy.grading import GRADED
from taxonomy.overlaps import CLOSENESS, EVERY, LABEL_SPACES, NONE, Overlap
from taxonomy.rules import compared, facets
from taxonomy.rules.compared import ComparedClass
from taxonomy.rules.far import synset_text
from taxonomy.wordnet.nouns import WordNet, load_wordnet

BY_HAND_FILE = "overlaps_by_hand.csv"

CATEGORIES = {"n02084071": "dog", "n01726692": "snake", "n01696633": "crocodilian reptile"}
"""Everyday categories with known and external classes, by synset. Near classes are related by design, so only external
ones are compared by category."""

_GRADES = {
    "imagenet": {"scene": "kind-of", **dict.fromkeys(("habitat", "grows", "belongs"), "scene holds object")},
    "sun397": {
        "name": "same",
        **dict.fromkeys(("kin", "qualifier"), "kind-of"),
        "part": "part-of",
        "sight": "scene holds object",
    },
}
"""The kind of overlap of a class and the Places365 class that decided its grade, by the grade's rule."""


@functools.cache
def overlaps() -> tuple[Overlap, ...]:
    """Compute the table, sorted by benchmark, source, unknown class, closeness and known class."""
    by_hand = list(_by_hand())  # first: a wrong line is refused at once
    overlap_of: dict[tuple[str, str, str, str], Overlap] = {}
    for benchmark, source in compared.COMPARED:
        for row in _computed(benchmark, source):
            key = (benchmark, source, row.class_id, row.known)
            if key not in overlap_of or _place(row) < _place(overlap_of[key]):
                overlap_of[key] = row
    for row in by_hand:
        overlap_of[row.benchmark, row.source, row.class_id, row.known] = row
    overlapping = {key[:3]: row for key, row in overlap_of.items() if row.kind != NONE}
    for key, row in list(overlap_of.items()):
        if row.kind == NONE and row.basis != "by hand" and key[:3] in overlapping:
            del overlap_of[key]  # an overlap by WordNet or by hand outweighs a grade that names no class
    for benchmark, source, class_id, known in overlap_of:
        other = overlapping.get((benchmark, source, class_id))
        if known == "" and other is not None:
            raise TaxonomyError(
                f"{BY_HAND_FILE} says that {class_id} of {source} has no overlap in {benchmark}, but it has one with "
                f"{other.known} ({other.basis}: {other.evidence}). Remove its line."
            )
    return tuple(
        sorted(overlap_of.values(), key=lambda row: (row.benchmark, row.source, row.class_id, _place(row), row.known))
    )


def _place(row: Overlap) -> int:
    return CLOSENESS.get(row.kind, len(CLOSENESS))


# ---- by WordNet and grades


@functools.cache
def _ancestors(row: int) -> tuple[int, ...]:
    return tuple(load_wordnet().ancestors(row).tolist())


def _computed(benchmark: str, source: str) -> Iterator[Overlap]:
    unknown, known = compared.unknown(benchmark, source), compared.known(benchmark)
    # ImageNet-O's classes go up to the most general ones, above hundreds of known ones.
    for item, other, kind, evidence in related(unknown, known, above=source != "imagenet_o"):
        if other.id != item.id:
            yield Overlap(benchmark, source, item.id, item.name, other.id, other.name, kind, "WordNet", evidence)
    if benchmark == "facets":
        yield from _graded(source, unknown, known)


def related(
    unknown: Mapping[str, ComparedClass], known: Mapping[str, ComparedClass], *, above: bool = True
) -> Iterator[tuple[ComparedClass, ComparedClass, str, str]]:
    """Yield the pairs of classes that overlap by WordNet: the unknown class, the known one, the kind and the evidence.

    Classes are given by id; of several known ones with one synset the last counts. `above`: whether an unknown class
    above a known one overlaps it.
    """
    wordnet = load_wordnet()
    of_row = {row: item for item in known.values() for row in item.rows}
    of_word: dict[str, list[ComparedClass]] = {}
    for item in known.values():
        for word in item.words:
            of_word.setdefault(word, []).append(item)
    below: dict[int, list[tuple[int, ComparedClass]]] = {}
    for row, item in of_row.items() if above else ():
        for ancestor in _ancestors(row):
            below.setdefault(ancestor, []).append((row, item))
    for item in unknown.values():
        for other, kind, evidence in _related(wordnet, item, of_row, of_word, below):
            yield item, other, kind, evidence


def _related(
    wordnet: WordNet,
    item: ComparedClass,
    of_row: Mapping[int, ComparedClass],
    of_word: Mapping[str, list[ComparedClass]],
    below: Mapping[int, list[tuple[int, ComparedClass]]],
) -> Iterator[tuple[ComparedClass, str, str]]:
    for row in item.rows:
        if row in of_row:
            yield of_row[row], "same", f"Both are {synset_text(wordnet, row)}."
        for above in _ancestors(row):
            if above in of_row:
                yield of_row[above], "descendant", _path(wordnet, row, above)
        for known_row, other in below.get(row, ()):
            yield other, "ancestor", _path(wordnet, known_row, row)
        if item.external:
            yield from _of_one_category(wordnet, row, below)
    for word in sorted(item.words):
        for other in of_word.get(word, ()):
            yield other, "shared word", f"Both are called '{word}'."


def _of_one_category(
    wordnet: WordNet, row: int, below: Mapping[int, list[tuple[int, ComparedClass]]]
) -> Iterator[tuple[ComparedClass, str, str]]:
    """Yield known classes of the same everyday category."""
    above = _ancestors(row)
    for wnid, name in CATEGORIES.items():
        category = wordnet.row(wnid)
        if category in above:
            for known_row, other in below.get(category, ()):
                evidence = (
                    f"Both are kinds of {name}: {_path(wordnet, row, category)}; {synset_text(wordnet, known_row)}."
                )
                yield other, "kind-of", evidence


def _path(wordnet: WordNet, row: int, above: int) -> str:
    between = [wordnet.lemmas(node)[0] for node in wordnet.path_up(row, above)[1:-1]]
    return " > ".join([synset_text(wordnet, row), *between, synset_text(wordnet, above)])


def _graded(
    source: str, unknown: Mapping[str, ComparedClass], known: Mapping[str, ComparedClass]
) -> Iterator[Overlap]:
    """Yield the overlaps with Places365 by our grades; a grade that names no class of it gives an entry `NONE`."""
    for grade in facets.grades(source) if source in GRADED else ():
        name, kind = unknown[grade.class_id].name, _GRADES[source].get(grade.rule)
        evidence = f"Grade {grade.grade}: {grade.reason}"
        near = known[grade.related] if kind else None
        overlap = (grade.related, near.name, kind) if near and kind else ("", "", NONE)
        yield Overlap("facets", source, grade.class_id, name, *overlap, "FACETS grade", f"{evidence}.")


# ---- by hand


def _by_hand() -> Iterator[Overlap]:
    for row in tables.read_csv_rows(BY_HAND_FILE):
        benchmark, source, class_id, known = (row[name] for name in ("benchmark", "source", "class_id", "known"))
        where = f"{BY_HAND_FILE}, {class_id} of {source} in {benchmark}"
        if benchmark not in LABEL_SPACES or (known and known not in compared.known(benchmark)):
            raise TaxonomyError(f"{where}: {known} is not among {LABEL_SPACES.get(benchmark, 'any known classes')}.")
        if row["kind"] not in (*CLOSENESS, NONE) or (row["kind"] == NONE) is not (known == ""):
            raise TaxonomyError(
                f"{where}: the kind '{row['kind']}' is none of {', '.join(CLOSENESS)}, or has no class."
            )
        if not row["reason"]:
            raise TaxonomyError(f"{where}: a reason is missing.")
        name = _name_of(benchmark, source, class_id)
        known_name = compared.known(benchmark)[known].name if known else ""
        yield Overlap(benchmark, source, class_id, name, known, known_name, row["kind"], "by hand", row["reason"])


def _name_of(benchmark: str, source: str, class_id: str) -> str:
    if class_id == EVERY:
        return "all other classes"
    if (benchmark, source) not in compared.COMPARED:  # classes that no synset can be given
        return class_id.replace("_", " ")
    classes = compared.unknown(benchmark, source)
    if class_id not in classes:
        raise TaxonomyError(f"{BY_HAND_FILE} names {class_id}, which {source} does not have in {benchmark}.")
    return classes[class_id].name
