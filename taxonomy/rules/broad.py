"""Which COCO categories BROAD matches with ImageNet classes, and why.

Source: Guille-Escuret et al., "Expecting The Unexpected: Towards Broad Out-Of-Distribution Detection" (2023), section
2.5 and appendix A.

Tested by `tests/taxonomy/rules/test_broad.py`.
"""

from taxonomy import tables
from taxonomy.decisions import Decision
from taxonomy.wordnet.nouns import WordNet, load_wordnet

# Table 3 has skis, though ImageNet's class is ski: the one name of the 17 that is no lemma letter by letter.
_PLURALS = {"skis": "ski"}

# The two pairs of table 3 that agree in spelling only, by WordNet's glosses of the matched synsets.
_OTHER_SENSES = {"cup": "COCO's is a vessel, ImageNet's a drink", "kite": "COCO's is a toy, ImageNet's a bird"}


def cocomagenet() -> tuple[Decision, ...]:
    """Match COCO's categories with ImageNet classes by name, as CoComageNet does.

    Appendix A says that the classes were found "by finding matches between CoCo names and ImageNet IDs understood as
    WordNet synsets", exact ones only. A category is shared here if its name is one word and a lemma of an ImageNet
    class; that gives 16 of the 17 of table 3, and the plural skis is the other. Six names of several words would match
    as well (traffic light, parking meter, hot dog, dining table, teddy bear, hair drier) but are not in the table:
    very probably because WordNet writes them with underscores. So 17 of the 80 are shared.
    """
    wordnet = load_wordnet()
    classes: dict[str, tables.ImageNetClass] = {}
    for item in tables.imagenet1k():
        for lemma in wordnet.lemmas(wordnet.row(item.wnid)):
            classes.setdefault(lemma.lower(), item)
    return tuple(_match(wordnet, name, classes) for name in sorted(category.name for category in tables.coco80()))


def _match(wordnet: WordNet, name: str, classes: dict[str, tables.ImageNetClass]) -> Decision:
    lemma = _PLURALS.get(name, name)
    item = classes.get(lemma)
    if item is None:
        return Decision(name, name, "unshared", "category_alone", f"No ImageNet class has the lemma '{name}'.")
    match = f"'{lemma}' is a lemma of the ImageNet class {', '.join(wordnet.lemmas(wordnet.row(item.wnid)))}"
    if " " in name:
        decision, rule, more = "unshared", "category_words", "; table 3 of the paper does not have it"
    elif name in _PLURALS:
        decision, rule, more = "shared", "category_plural", f", and '{name}' its plural"
    else:
        other = _OTHER_SENSES.get(name)
        decision, rule, more = "shared", "category_lemma", f", but by spelling only: {other}" if other else ""
    return Decision(name, name, decision, rule, f"{match} ({item.wnid}){more}.", keyword=lemma, matched=item.wnid)
