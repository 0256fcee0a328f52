"""Explains why a class is selected or not, and draws its place in WordNet's tree.

Tested by `tests/taxonomy/test_main.py`.
"""

import itertools
from collections.abc import Iterable, Iterator

from taxonomy import explain_facets, overlaps
from taxonomy.decisions import RULES, TABLES, Decision, load_decisions
from taxonomy.errors import TaxonomyError, suggestion
from taxonomy.rules import far
from taxonomy.wordnet.nouns import WordNet, load_wordnet
from unknown_detection.words import quantity

_OF_WNIDS = (
    "imagenet",
    "tiny158",
    "openood-imagenet200",
    "ssb-hard",
    "imagenet-ood",
    *explain_facets.SOURCES["imagenet"],
)  # tables whose classes are synsets themselves

_COMPARED = (
    {"tiny158": ("cifar", "imagenet"), "cifar100": ("cifar", "cifar100")}
    | {name: ("imagenet", name) for name in ("imagenet", "food101", "caltech256", "places365")}
    | {"openood-textures": ("broad", "dtd"), **dict.fromkeys(("ssb-hard", "imagenet-ood"), ("broad", "imagenet21k"))}
)
"""Benchmark and source by which the table of overlaps has the classes of a decision table; FACETS has its own."""

_LISTED_BY = {"sun397": "facets-t1-sun397", "coco2017": "cocomagenet"}
"""A table with the classes of a source that has no table of its own name."""

_BY_MATCH = ("cocomagenet", "coco2017")
"""Subjects whose classes are found by the wnid of the ImageNet class that they share, too."""

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
    "openood-imagenet200-train": ("openood-imagenet200",),
}
"""Configs of releases that no table is named after, or more than one table chooses the classes of: those tables."""

TAKEN_WHOLE = (
    "facets-baseline",
    "broad-reference",
    "broad-novel-classes",
    "broad-adversarial",
    "broad-synthetic",
    "broad-corruptions",
    "broad-corruptions-more",
    "mos",
    "openood-imagenet1k-shifted",
    "openood-imagenet1k-train",
)
"""Configs whose splits take all classes of their sources."""

_UNDECIDED = {
    **dict.fromkeys(("dtd", "lsun", "noise", "svhn"), "cifar"),
    **dict.fromkeys(("imagenet_o", "inaturalist", "mos_sun", "ninco", "openimage_o"), "broad"),
    "svhn_full": "facets",
}
"""Sources about whose classes no rule decides, with the benchmark that has them: what is known are their overlaps."""

SUBJECTS = tuple(dict.fromkeys((*TABLES, *_LISTED_BY, *CONFIGS, *_UNDECIDED)))
"""The sources, decision tables and configs that `explain` knows."""


def find_decisions(subject: str, wanted: str) -> list[tuple[str, Decision]]:
    """Return the decisions about one class, each with the name of the source or table that it is asked of.

    Args:
        subject: One of `SUBJECTS`. The tables of a config are searched in turn; a table of that very name goes first,
            and the others are left alone if it has the class.
        wanted: The class id or the class name, or the wnid of the ImageNet class that a COCO category is shared with;
            case does not matter, and spaces count as underscores.

    Raises:
        TaxonomyError: No such subject or class, or several classes of that name.
    """
    if subject in TAKEN_WHOLE:
        raise TaxonomyError(
            f"{subject} takes all classes of its sources, so no rule chose them. Ask about a source or a config that "
            f"chooses: {', '.join(SUBJECTS)}."
        )
    if subject not in SUBJECTS:
        close = suggestion(subject, SUBJECTS)
        known = "" if close else f" Choose one of {', '.join(SUBJECTS)}."
        raise TaxonomyError(f"There is no source, config or decision table '{subject}'{close}.{known}")
    found: list[tuple[str, Decision]] = []
    for asked in CONFIGS.get(subject, (subject,)):
        if not (found and asked != subject and subject in TABLES):
            found += [(asked, decision) for decision in _of_table(subject, asked, wanted)]
    if not found:
        key, tables = _key(wanted), CONFIGS.get(subject, (subject,))
        decisions = [item for asked in tables for item in load_decisions(_LISTED_BY.get(asked, asked))]
        close = suggestion(key, [_key(item.class_name) for item in decisions])
        close = close or suggestion(key, [_key(item.class_id) for item in decisions])
        raise TaxonomyError(f"{subject} has no class '{wanted}'{close}. Give the source's own id or name of a class.")
    return found


def _of_table(subject: str, asked: str, wanted: str) -> list[Decision]:
    """Return the one decision of a table about a class, or none.

    Raises:
        TaxonomyError: Several classes have the name.
    """
    decisions = load_decisions(_LISTED_BY.get(asked, asked))
    key = _key(wanted)
    found = [decision for decision in decisions if _key(decision.class_id) == key]
    found = found or [decision for decision in decisions if _key(decision.class_name) == key]
    if not found and asked in _BY_MATCH:
        found = [item for item in decisions if item.decision == "shared" and item.matched == key]
    if len(found) > 1:
        ids = " and ".join(decision.class_id for decision in found)
        raise TaxonomyError(f"{subject} has {len(found)} classes '{wanted}'. Give the id of one of them: {ids}.")
    return found


def _key(name: str) -> str:
    return name.lower().replace(" ", "_")


def explain_class(subject: str, wanted: str, *, every_match: bool = False) -> str:
    """Explain why a class is selected or not, in several lines: decision, rule, evidence, synsets and their place.

    For a source that FACETS uses, FACETS's decisions about the class follow.

    Args:
        subject: One of `SUBJECTS`.
        wanted: See `find_decisions`.
        every_match: List all synsets that the keywords of a far-OoD class match, not the best alone.

    Raises:
        TaxonomyError: See `find_decisions`.
    """
    if subject in _UNDECIDED:
        return _explain_overlaps(_UNDECIDED[subject], subject, wanted)
    parts = []
    found = find_decisions(subject, wanted)
    if subject in TABLES and all(asked != subject for asked, _ in found):
        others = " and ".join(dict.fromkeys(asked for asked, _ in found))
        parts.append(f"The source {subject} has no class '{wanted}'. The config {subject} has one, of {others}:")
    for asked, decision in found:
        if asked in TABLES or asked not in explain_facets.SOURCES:
            parts.append(_explain_decision(_LISTED_BY.get(asked, asked), decision))
        if every_match and asked in _BY_KEYWORD:
            parts.append(_all_matches(decision))
        if asked in explain_facets.SOURCES:
            parts.append(explain_facets.explain_facets(asked, decision.class_id))
    return "\n\n".join(parts)


def _all_matches(decision: Decision) -> str:
    """List all synsets that a class's keywords match: those that remove the class first, in each part whole lemmas."""
    found = far.matches(decision.class_name)
    lines = [f"{len(found)} {'match' if len(found) == 1 else 'matches'} of {decision.class_id}, the best first"]
    lines += [f"  {'part ' if match.part else 'whole'}  {far.evidence(match)}" for match in found if match.rule]
    lines += [
        f"  {'part ' if match.part else 'whole'}  '{match.keyword}' matches {_describe(load_wordnet(), match.wnid)}, "
        "which no ImageNet class is related to."
        for match in found
        if not match.rule
    ]
    return "\n".join(lines)


def _strength(table: str, decision: Decision) -> dict[str, str]:
    """Say how good the evidence of a keyword's match is, and how many matches there are beside it."""
    if table not in _BY_KEYWORD or not decision.matched:
        return {}
    best, *others = far.matches(decision.class_name)
    lemmas = far.lemmas_with(best)
    if best.part:
        match = f"only part of a lemma: '{best.keyword}' in '{lemmas[0]}'"
    else:
        match = f"the whole lemma '{lemmas[0]}'"
    more = f"; {quantity(len(others), 'other')}, shown by --all" if others else "; no other"
    return {"match": match + more}


def _explain_overlaps(benchmark: str, source: str, wanted: str) -> str:
    rows = overlaps.source_overlaps(benchmark, source)
    ids = dict.fromkeys(row.class_id for row in rows)
    named = {_key(name): row.class_id for row in rows for name in (row.class_name, row.class_id)}
    class_id = named.get(_key(wanted), overlaps.EVERY)
    if class_id not in ids:
        raise TaxonomyError(
            f"{source} has no class '{wanted}'{suggestion(_key(wanted), list(named))}. Give the source's own id or "
            "name of a class."
        )
    shown = wanted if class_id == overlaps.EVERY else class_id
    return "\n".join(
        [f"{source} {shown}", *(f"  overlap   {said}" for said in overlaps.describe(benchmark, source, class_id))]
    )


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
        lines += [f"  overlap   {said}" for said in overlaps.describe(*_COMPARED[table], decision.class_id)]
    tree = draw_tree(wordnet, _paths(wordnet, table, decision), _marks(wordnet, table, decision))
    return "\n".join([*lines, *([""] if tree else []), *(f"  {line}" for line in tree)])


def _describe(wordnet: WordNet, wnid: str) -> str:
    return f"{', '.join(wordnet.lemmas(wordnet.row(wnid)))} ({wnid})" if wnid else ""


def _marks(wordnet: WordNet, table: str, decision: Decision) -> dict[int, str]:
    """Return the remarks to write beside synsets, by row."""
    marks: dict[int, list[str]] = {}
    if table in _OF_WNIDS:
        marks.setdefault(wordnet.row(decision.class_id), []).append("this class")
    if decision.matched:
        roles = {
            "below_parent": "hypernym of an in-distribution class",
            "same_label": "the class of the same label",
            "same_synset": f"CIFAR-100 class '{decision.keyword}'",
            "descendant": f"CIFAR-100 class '{decision.keyword}'",
            "shared_name": f"Places365 class '{decision.keyword}'",
            "within_threshold": f"Places365 class '{decision.keyword}'",
            "beyond_threshold": f"Places365 class '{decision.keyword}'",
            "category_lemma": f"ImageNet class, COCO category '{decision.class_id}'",
            "category_plural": f"ImageNet class, COCO category '{decision.class_id}'",
        }
        role = roles.get(decision.rule, f"matches '{decision.keyword}'")
        marks.setdefault(wordnet.row(decision.matched), []).append(role)
    if decision.witness and decision.rule != "same_label":
        role = "in-distribution class" if decision.rule == "below_parent" else "ImageNet class"
        marks.setdefault(wordnet.row(decision.witness), []).append(role)
    return {row: "; ".join(roles) for row, roles in marks.items()}


def _paths(wordnet: WordNet, table: str, decision: Decision) -> Iterator[list[int]]:
    """Yield the paths to draw, each from a synset up to a synset of an earlier path, the first up to the root."""
    rows = [wordnet.row(wnid) for wnid in (decision.matched, decision.witness) if wnid]
    if table in _OF_WNIDS:
        rows.append(wordnet.row(decision.class_id))
    if not rows:
        return
    first = rows[0]
    below = [row for row in rows[1:] if row == first or first in wordnet.ancestors(row)]
    above = [row for row in rows[1:] if row in wordnet.ancestors(first)]
    if above:
        yield wordnet.path_up(above[0])
        yield wordnet.path_up(first, above[0])
    else:
        shared = [p for p in wordnet.hypernyms(first).tolist() if any(p in wordnet.hypernyms(row) for row in rows[1:])]
        yield wordnet.path_up(shared[0] if shared else first)
        if shared:
            yield [first, shared[0]]
    for row in rows[1:]:
        if row in below:
            yield wordnet.path_up(row, first)
        elif row not in above:
            siblings = [p for p in wordnet.hypernyms(first).tolist() if p in wordnet.hypernyms(row)]
            yield [row, siblings[0]] if siblings else wordnet.path_up(row)


def draw_tree(wordnet: WordNet, paths: Iterable[list[int]], marks: dict[int, str]) -> list[str]:
    """Draw paths of WordNet as one tree, the root on top.

    Args:
        wordnet: WordNet's nouns.
        paths: Paths upwards, lowest synset first. The first ends at the root; where a later one meets the tree drawn
            so far, it joins it.
        marks: Row to remark. Marked synsets are written with all lemmas and the remark; runs of others on one line.

    Returns:
        Lines of text; [] without paths.
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
