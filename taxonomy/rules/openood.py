"""Decisions by the published lists of OpenOOD v1.5 and ImageNet-OOD: a class is in if its list has images of it.

SSB-hard's authors chose ImageNet-21k classes by their semantic distance from ImageNet-1k (Vaze et al., 2022), and
ViM's (Wang et al., 2022) ruled out four textures that coincide with classes of ImageNet. Their rules are not repeated.

Tested by `tests/taxonomy/rules/test_openood.py`.
"""

from collections import Counter

from taxonomy import lists, tables
from taxonomy.decisions import Decision
from taxonomy.wordnet.nouns import load_wordnet

_RULED_OUT = ("bubbly", "cobwebbed", "honeycombed", "spiralled")
"""The textures of which OpenOOD's list has no image; of the others it has all 120."""


def textures() -> tuple[Decision, ...]:
    """Divide DTD's 47 textures: 43 keep, 4 remove."""
    return tuple(
        Decision(
            name, name, "remove", "not_listed", "ViM's authors ruled it out, as it coincides with a class of ImageNet."
        )
        if name in _RULED_OUT
        else Decision(name, name, "keep", "listed", "OpenOOD's list has all its 120 images.")
        for name in tables.dtd()
    )


def imagenet200() -> tuple[Decision, ...]:
    """Divide ImageNet-1k's classes by OpenOOD's ImageNet-200: 200 keep, 800 remove."""
    known = lists.imagenet_r()
    return tuple(
        Decision(row.wnid, row.name, "keep", "listed", "It is a class of ImageNet-R.")
        if row.wnid in known
        else Decision(row.wnid, row.name, "remove", "not_listed", "It is no class of ImageNet-R.")
        for row in tables.imagenet1k()
    )


def of_imagenet21k(name: str, title: str) -> tuple[Decision, ...]:
    """Keep the ImageNet-21k classes of the list `name`, sorted by wnid; `title` names the list in the evidence."""
    wordnet = load_wordnet()
    return tuple(
        Decision(
            wnid, wordnet.lemmas(wordnet.row(wnid))[0], "keep", "listed", f"{title} list has {images} of its images."
        )
        for wnid, images in sorted(Counter(lists.load_list(name).values()).items())
    )
