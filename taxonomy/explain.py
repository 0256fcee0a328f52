"""Explains why a class is selected or not, and draws its place in WordNet's tree.

Tested by `tests/taxonomy/test_main.py`.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from taxonomy import overlaps, tables
from taxonomy.decisions import RULES, TABLES, Decision, load_decisions
from taxonomy.errors import TaxonomyError, suggestion
from taxonomy.grading import GRADING
from taxonomy.rules import facets, far
from taxonomy.wordnet.nouns import WordNet, load_wordnet
from unknown_detection.names import folded
from unknown_detection.words import quantity

_OF_FACETS = {
    "imagenet": tuple(name for name in TABLES if name.startswith("facets-") and not name.endswith("sun397")),
    "sun397": tuple(name for name in TABLES if name.endswith("sun397")),
    "places365": (),
}
"""The sources that FACETS uses, with their decision tables; all of Places365's classes are in-distribution."""

_COMPARED = (
    {"tiny158": ("cifar", "imagenet"), "cifar100": ("cifar", "cifar100")}
    | {name: ("imagenet", name) for name in ("imagenet", "food101", "caltech256", "places365")}
    | {"openood-textures": ("broad", "dtd"), **dict.fromkeys(("ssb-hard", "imagenet-ood"), ("broad", "imagenet21k"))}
)
"""Benchmark and source by which the table of overlaps has the classes of a decision table; FACETS has its own."""

_OF_OPENOOD = {"cifar100": ("cifar10",), "places365": ("cifar10", "cifar")}
"""Tables whose classes OpenOOD's benchmarks on CIFAR compare with known ones, too, with the keys of these."""

_LISTED_BY = {
    "sun397": "facets-t1-sun397",
    "coco2017": "cocomagenet",
    "cub200": "ssb-cub",
    "fgvc_aircraft": "ssb-aircraft",
}
"""The table that has the classes of a source without a table of its own name."""

_BY_PLACE = ("shared_name", "within_threshold", "beyond_threshold")
"""Rules that compare a class with one of Places365's."""

_BY_KEYWORD = ("food101", "caltech256", "places365")
"""Tables whose classes are decided by the synsets that their keywords match."""

CONFIGS = {
    "imagenet": ("imagenet", *_BY_KEYWORD),
    "imagenet-train": ("imagenet",),
    "imagenet-external": ("imagenet",),
    "cifar": ("cifar100", "tiny158"),
    "cifar-train": ("cifar100",),
    "cifar-external": ("tiny158",),
    "facets-t1": ("facets-t1-sun397", "facets-imagenet"),
    "facets-t2": ("facets-t2-sun397", "facets-imagenet"),
    "broad-multi-label": ("cocomagenet",),
    "openood-imagenet1k": ("ssb-hard", "openood-textures"),
    "openood-imagenet200": ("openood-imagenet200", "ssb-hard", "openood-textures"),
    "openood-imagenet200-shifted": ("openood-imagenet200",),
    "openood-imagenet200-train": ("openood-imagenet200",),
    "ssb-cub-train": ("ssb-cub",),
    "ssb-aircraft-train": ("ssb-aircraft",),
}
"""The tables that choose the classes of a config, for configs without one table of the same name."""

TAKEN_WHOLE = (
    "facets-baseline",
    "broad-reference",
    "broad-novel-classes",
    "broad-adversarial",
    "broad-synthetic",
    "broad-corruptions",
    "broad-corruptions-more",
    "mos",
    "imagenet-es",
    "openood-cifar10",
    "openood-cifar10-train",
    "openood-cifar100",
    "openood-cifar100-train",
    "openood-imagenet1k-shifted",
    "openood-imagenet1k-train",
)
"""Configs whose splits take all classes of their sources."""

_UNDECIDED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("lsun", "lsun_fix", "noise", "cifar10"), ("cifar",)),
    **dict.fromkeys(("dtd", "svhn", "mnist", "tiny_imagenet"), ("cifar", "cifar10")),
    **dict.fromkeys(("imagenet_o", "inaturalist", "mos_sun", "ninco", "openimage_o"), ("broad",)),
    "svhn_full": ("facets",),
}
"""Sources about whose classes no rule decides, with the benchmarks in which their overlaps are known."""

SUBJECTS = tuple(dict.fromkeys((*TABLES, *_LISTED_BY, *CONFIGS, *_UNDECIDED)))
"""The sources, decision tables and configs that `explain` knows."""


def find_decisions(subject: str, class_: str) -> list[tuple[str, Decision]]:
    """Return the decisions about one class, each with the name of the source or table that has it.

    The tables of a config are searched in turn, the one of the config's own name first; if that has the class, the
    others are not. `class_` is an id, a name, or the wnid of the ImageNet class that a COCO category is shared with;
    case does not matter, and spaces count as underscores.
    """
    if subject in TAKEN_WHOLE:
        raise TaxonomyError(
            f"{subject} takes all classes of its sources, so no rule chose them. Ask about a source or a config that "
            f"chooses: {', '.join(SUBJECTS)}."
        )
    if subject not in SUBJECTS:
        hint = suggestion(subject, SUBJECTS)
        known = "" if hint else f" Choose one of {', '.join(SUBJECTS)}."
        raise TaxonomyError(f"There is no source, config or decision table '{subject}'{hint}.{known}")
    searched = {table: load_decisions(_LISTED_BY.get(table, table)) for table in CONFIGS.get(subject, (subject,))}
    matches: list[tuple[str, Decision]] = []
    for table, decisions in searched.items():
        if not (matches and table != subject and subject in TABLES):
            matches += [(table, decision) for decision in _matching(subject, table, decisions, class_)]
    if not matches:
        every = [decision for decisions in searched.values() for decision in decisions]
        hint = suggestion(_key(class_), [_key(decision.class_name) for decision in every])
        hint = hint or suggestion(_key(class_), [_key(decision.class_id) for decision in every])
        raise TaxonomyError(f"{subject} has no class '{class_}'{hint}. Give the source's own id or name of a class.")
    return matches


def _matching(subject: str, table: str, decisions: Sequence[Decision], class_: str) -> list[Decision]:
    """Return the decision of a table about a class, or []."""
    key = _key(class_)
    matches = [decision for decision in decisions if _key(decision.class_id) == key]
    matches = matches or [decision for decision in decisions if _key(decision.class_name) == key]
    if not matches and _LISTED_BY.get(table, table) == "cocomagenet":  # a wnid of ImageNet names what shares it
        matches = [decision for decision in decisions if decision.decision == "shared" and decision.matched == key]
    if len(matches) > 1:
        ids = " and ".join(decision.class_id for decision in matches)
        raise TaxonomyError(f"{subject} has {len(matches)} classes '{class_}'. Give the id of one of them: {ids}.")
    return matches


def _key(name: str) -> str:
    return folded(name).replace(" ", "_")


def explain_class(subject: str, class_: str, *, every_match: bool = False) -> str:
    """Return lines that explain why a class is selected or not: decision, rule, evidence, synsets and their place.

    For a source that FACETS uses, FACETS's decisions about the class follow. `every_match` lists all synsets that the
    keywords of a far-OoD class match, not only the best.
    """
    if subject in _UNDECIDED:
        return _explain_overlaps(_UNDECIDED[subject], subject, class_)
    parts = []
    decisions = find_decisions(subject, class_)
    if subject in TABLES and all(table != subject for table, _ in decisions):
        names = " and ".join(dict.fromkeys(table for table, _ in decisions))
        parts.append(f"The source {subject} has no class '{class_}'. The config {subject} has one, of {names}:")
    for table, decision in decisions:
        if table in TABLES or table not in _OF_FACETS:
            parts.append(_explain_decision(_LISTED_BY.get(table, table), decision))
        if every_match and table in _BY_KEYWORD:
            parts.append(_all_matches(decision))
        if table in _OF_FACETS:
            parts.append(_explain_facets(table, decision.class_id))
    return "\n\n".join(parts)


def explain_as_document(subject: str, class_: str, *, every_match: bool = False) -> dict[str, Any]:
    """Return a class's decisions and their explanation as a JSON document; no decisions if no rule applies."""
    decided = [] if subject in _UNDECIDED else find_decisions(subject, class_)
    decisions = [{"table": _LISTED_BY.get(table, table), **asdict(decision)} for table, decision in decided]
    text = explain_class(subject, class_, every_match=every_match)
    return {"subject": subject, "class": class_, "decisions": decisions, "text": text}


def _all_matches(decision: Decision) -> str:
    """List all synsets that a class's keywords match, first those that remove it, in both parts whole lemmas first."""
    matches = far.matches(decision.class_name)
    lines = [f"{len(matches)} {'match' if len(matches) == 1 else 'matches'} of {decision.class_id}, the best first"]
    for match in matches:
        synset = _describe(load_wordnet(), match.wnid)
        unrelated = f"'{match.keyword}' matches {synset}, which no ImageNet class is related to."
        lines.append(f"  {'part ' if match.part else 'whole'}  {far.evidence(match) if match.rule else unrelated}")
    return "\n".join(lines)


def _strength(table: str, decision: Decision) -> dict[str, str]:
    """Describe how good the evidence of the best match is, and count the other matches."""
    if table not in _BY_KEYWORD or not decision.matched:
        return {}
    best_match, *other_matches = far.matches(decision.class_name)
    lemmas = far.lemmas_with(best_match)
    if best_match.part:
        extent = f"only part of a lemma: '{best_match.keyword}' in '{lemmas[0]}'"
    else:
        extent = f"the whole lemma '{lemmas[0]}'"
    more = f"; {quantity(len(other_matches), 'other')}, shown by --all" if other_matches else "; no other"
    return {"match": extent + more}


def _explain_overlaps(benchmarks: Sequence[str], source: str, class_: str) -> str:
    rows = [row for benchmark in benchmarks for row in overlaps.source_overlaps(benchmark, source)]
    ids = dict.fromkeys(row.class_id for row in overlaps.source_overlaps(benchmarks[0], source))
    named = {_key(name): row.class_id for row in rows for name in (row.class_name, row.class_id)}
    class_id = named.get(_key(class_), overlaps.EVERY)
    if class_id == overlaps.EVERY and class_id not in ids:
        raise TaxonomyError(
            f"{source} has no class '{class_}'{suggestion(_key(class_), list(named))}. Give the source's own id or "
            "name of a class."
        )
    title = class_ if class_id == overlaps.EVERY else class_id
    lines = [f"  overlap   {line}" for line in _described(benchmarks[0], source, class_id)]
    return "\n".join([f"{source} {title}", *lines, *_in_openood(benchmarks[1:], source, class_id)])


def _described(benchmark: str, source: str, class_id: str) -> list[str]:
    """Return a line for each overlap of a class in a benchmark, by the entry for all others if it has none."""
    return overlaps.describe(benchmark, source, class_id) or overlaps.describe(benchmark, source, overlaps.EVERY)


def _in_openood(benchmarks: Sequence[str], source: str, class_id: str) -> list[str]:
    return [
        f"  OpenOOD   {overlaps.LABEL_SPACES[benchmark].partition(',')[0]}: {line}"
        for benchmark in benchmarks
        for line in _described(benchmark, source, class_id)
    ]


def _explain_decision(table: str, decision: Decision) -> str:
    wordnet = load_wordnet()
    name = f" ({decision.class_name})" if decision.class_name not in decision.class_id else ""
    facts = {
        "rule": f"{decision.rule}: {RULES[decision.rule]}",
        "evidence": decision.evidence,
        "Places365" if table.startswith("facets-") else "keyword": decision.keyword,
        "synset": _describe(wordnet, decision.matched),
        **_strength(table, decision),
        "ImageNet": _describe(wordnet, decision.witness) if decision.witness != decision.matched else "",
    }
    lines = [f"{table} {decision.class_id}{name}: {decision.decision}"]
    lines += [f"  {label:<9} {fact}" for label, fact in facts.items() if fact]
    if table in _COMPARED:
        lines += [f"  overlap   {overlap}" for overlap in overlaps.describe(*_COMPARED[table], decision.class_id)]
    lines += _in_openood(_OF_OPENOOD.get(table, ()), table, decision.class_id)
    tree = _draw_tree(wordnet, _paths(wordnet, decision), _marks(wordnet, decision))
    return "\n".join([*lines, *([""] if tree else []), *(f"  {line}" for line in tree)])


def _describe(wordnet: WordNet, wnid: str) -> str:
    return f"{', '.join(wordnet.lemmas(wordnet.row(wnid)))} ({wnid})" if wnid else ""


def _explain_facets(source: str, class_id: str) -> str:
    """Return FACETS's decisions about a class: its OODness or grade, and in which tables it is in-distribution."""
    facts = {}
    wordnet = load_wordnet()
    if source == "imagenet":
        near = next(item for item in facets.oodness() if item.class_id == class_id)
        facts["OODness"] = (
            f"{near.oodness:.6f}, 1 less the mean of path {near.path:.6f}, Leacock-Chodorow "
            f"{near.leacock_chodorow:.6f} and Wu-Palmer {near.wu_palmer:.6f}"
        )
        facts["nearest"] = f"{near.place}, {far.synset_text(wordnet, wordnet.row(near.place_wnid))}"
    if source == "places365":
        place = next(item for item in tables.places365_wnids() if item.name == class_id)
        facts["synset"] = far.synset_text(wordnet, wordnet.row(place.wnid))
        facts["reason"] = f"{place.basis}: {place.note}" if place.note else place.basis
        facts["all tables"] = "in_distribution"
    else:
        item = next(item for item in facets.grades(source) if item.class_id == class_id)
        facts["grade"] = f"{item.grade}, {item.rule}: {GRADING[source][item.rule][1]} (ours)"
        facts |= {"related": item.related} if item.related else {}
        facts["reason"] = item.reason
    for table in _OF_FACETS[source]:
        facts[table] = next(row.decision for row in load_decisions(table) if row.class_id == class_id)
    width = max(map(len, facts))
    lines = [*facts.items(), *(("overlap", overlap) for overlap in overlaps.describe("facets", source, class_id))]
    return "\n".join([f"FACETS {class_id}", *(f"  {label:<{width}}  {fact}" for label, fact in lines)])


# ---- the tree


def _marks(wordnet: WordNet, decision: Decision) -> dict[int, str]:
    """Return the remarks on synsets, by row."""
    remarks = []
    if tables.is_wnid(decision.class_id):
        remarks.append((decision.class_id, "this class"))
    if decision.matched:
        roles = {
            "below_parent": "hypernym of an in-distribution class",
            "same_label": "the class of the same label",
            **dict.fromkeys(("same_synset", "descendant"), f"CIFAR-100 class '{decision.keyword}'"),
            **dict.fromkeys(_BY_PLACE, f"Places365 class '{decision.keyword}'"),
            **dict.fromkeys(
                ("category_lemma", "category_plural"), f"ImageNet class, COCO category '{decision.class_id}'"
            ),
        }
        remarks.append((decision.matched, roles.get(decision.rule, f"matches '{decision.keyword}'")))
    if decision.witness and decision.rule != "same_label":
        role = "in-distribution class" if decision.rule == "below_parent" else "ImageNet class"
        remarks.append((decision.witness, role))
    marks: dict[int, list[str]] = {}
    for wnid, remark in remarks:
        marks.setdefault(wordnet.row(wnid), []).append(remark)
    return {row: "; ".join(roles) for row, roles in marks.items()}


def _paths(wordnet: WordNet, decision: Decision) -> Iterator[list[int]]:
    """Yield the paths to draw, each from a synset up to a synset of an earlier path, the first up to the root."""
    wnids = [decision.matched, decision.witness, decision.class_id if tables.is_wnid(decision.class_id) else ""]
    rows = [wordnet.row(wnid) for wnid in wnids if wnid]
    if not rows:
        return
    first, *others = rows
    above = [row for row in others if row in wordnet.ancestors(first)]
    parents_of = {
        row: [parent for parent in wordnet.hypernyms(first).tolist() if parent in wordnet.hypernyms(row)]
        for row in others
    }
    if above:
        yield wordnet.path_up(above[0])
        yield wordnet.path_up(first, above[0])
    else:
        shared = [
            parent
            for parent in wordnet.hypernyms(first).tolist()
            if any(parent in parents for parents in parents_of.values())
        ]
        yield wordnet.path_up(shared[0] if shared else first)
        if shared:
            yield [first, shared[0]]
    for row in others:
        if row == first or first in wordnet.ancestors(row):
            yield wordnet.path_up(row, first)
        elif row not in above:
            yield [row, parents_of[row][0]] if parents_of[row] else wordnet.path_up(row)


def _draw_tree(wordnet: WordNet, paths: Iterable[list[int]], marks: dict[int, str]) -> list[str]:
    """Draw paths of WordNet, which go upwards, as one tree with the root on top; [] without paths.

    The first path ends at the root; a later one joins the tree of the earlier ones where it meets it. Synsets with
    `marks`, by row, are written with all lemmas and the remark, runs of others on one line.
    """
    children: dict[int, list[int]] = {}
    root = -1
    for path in paths:
        root = path[-1] if root < 0 else root
        for child, parent in itertools.pairwise(path):
            known = parent in children
            if child not in children.setdefault(parent, []):
                children[parent].append(child)
            children.setdefault(child, [])
            if known:
                break
        else:
            children.setdefault(path[-1], [])
    return _draw_node(wordnet, children, marks, root) if children else []


def _draw_node(wordnet: WordNet, children: dict[int, list[int]], marks: dict[int, str], row: int) -> list[str]:
    run = [row]
    while len(children[run[-1]]) == 1 and run[-1] not in marks and children[run[-1]][0] not in marks:
        run.append(children[run[-1]][0])
    if row in marks:
        lines = [f"{_describe(wordnet, wordnet.wnid(row))}  <- {marks[row]}"]
    else:
        lines = [" > ".join(wordnet.lemmas(node)[0] for node in run)]
    below = children[run[-1]]
    for child in below:
        last = child == below[-1]
        head, tail = ("└─ ", "   ") if last else ("├─ ", "│  ")
        drawn = _draw_node(wordnet, children, marks, child)
        lines += [head + drawn[0], *(tail + line for line in drawn[1:])]
    return lines
