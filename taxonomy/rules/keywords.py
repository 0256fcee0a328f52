"""Keywords of a class name: the words and phrases that the far-OoD examination looks up in WordNet.

Kim, Koo & Hwang, "A Unified Benchmark for the Unknown Detection Capability of Deep Neural Networks" (Expert Systems
with Applications 229, 2023; arXiv:2112.00337), section 3.2, examine the words of a class name in their variations and
give examples (table 4), not an algorithm. This is the algorithm chosen here: every run of consecutive words, without
plural endings and with apostrophes too, as separate words and as one word.

Two variations of the paper have no rule. It also counts plurals among the keywords (cups and cakes for cup_cakes);
here none is added, for that would turn foie_gras into "grass" and leave 31 classes of Food-101 where the paper has 32.
That is the only class of the three datasets that they would change. The one abbreviation, chimp, is a lemma of the
chimpanzee already.
"""

import itertools
import re

# Words without a meaning of their own: function words, and Caltech-256's marks for classes that it shares with
# Caltech-101 ("101") and for its easy faces ("easy").
IGNORED = frozenset({"and", "of", "the", "with", "101", "easy"})

# Table 4 of the paper lists these Places365 names as examples of words written together; no rule could split them.
SPLIT_NAMES = {"barndoor": "barn door", "fishpond": "fish pond", "shopfront": "shop front"}


def variants(word: str) -> tuple[str, ...]:
    """Return the word itself, its possible singulars, and its spelling with an apostrophe before a last s.

    A wrong variant ("iri" for "iris") costs nothing, as it matches no lemma.
    """
    spellings = [word]
    if word.endswith("ies"):
        spellings.append(word[:-3] + "y")
    if word.endswith("es"):
        spellings.append(word[:-2])
    if word.endswith("s") and not word.endswith("ss"):
        spellings += [word[:-1], f"{word[:-1]}'s"]
    return tuple(spellings)


def keywords(name: str) -> tuple[str, ...]:
    """Return the keywords of a class name, sorted; words are lower-case and separated by one space.

    The name has the source's spelling, with "_", "-", "/" or spaces between its words: "cup_cakes", "head-phones".
    """
    words = [word for word in re.split(r"[_\-/ ]+", name.lower()) if word and word not in IGNORED]
    phrases = set()
    for spelled in (words, " ".join(SPLIT_NAMES.get(word, word) for word in words).split()):
        for first, last in itertools.combinations(range(len(spelled) + 1), 2):
            for run in itertools.product(*(variants(word) for word in spelled[first:last])):
                phrases |= {" ".join(run), "".join(run)}
    return tuple(sorted(phrases))
