"""Chooses negative labels for a text model by NegMining, and lists them in the folder of its features."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from builders.storage.files import write_text
from taxonomy.rules.negatives import negative_words
from unknown_detection.csv_text import csv_text
from unknown_detection.evaluation.features.store import NEGATIVES, FeatureStore
from unknown_detection.evaluation.features.table import write_columns
from unknown_detection.evaluation.models.features import Floats
from unknown_detection.evaluation.models.models import Model
from unknown_detection.terminal.progress import Log, bar
from unknown_detection.words import first_few

SHARE, QUANTILE = 0.15, 0.95
"""Words that are taken, and the share of the classes that a word is to be unlike: those of the authors' code; a
distance's 0.05-quantile in the paper is a similarity's 0.95-quantile."""

_AT_ONCE = 2048
"""Words between two steps of the progress bar; ours."""

_NEAR, _DIGITS = 1e-5, 12
"""How far a similarity in float32 may be from its value, and the digits of one in float64 that are compared: batches,
threads and devices move them by less than a tenth of that; ours."""


def write_negatives(store: FeatureStore, model: Model, log: Log, *, quiet: bool) -> None:
    """Write the negative labels of a text model, unless they are there already, with what they were chosen by.

    Formula: the words w with the least 0.95-quantile over classes c of cos(t(w), t(c)), as many as are 0.15 of all, of
    equal ones the first in code points. Near the last of these, float64 decides, so that the list is the same on other
    devices and with other numbers of threads.
    Source: NegMining, algorithm 1 of Jiang et al., Negative Label Guided OOD Detection with Pretrained Vision-Language
    Models, ICLR 2024, and the authors' code. Words are WordNet 3.0's nouns, without adjectives, and without the
    classes and their kinds (`taxonomy.rules.negatives`), which NegLabel takes as they come.
    """
    if (store.root / NEGATIVES).exists():
        return
    embed, names = model.module.embed, model.module.names
    found = negative_words(dict(zip(store.identity.label_names, names, strict=True)))
    words = np.array([*found.words], dtype=np.str_)
    parts, classes = [], embed(names).numpy()
    with bar(len(words), "negative labels", quiet=quiet, unit=" nouns") as shown:
        for some in np.array_split(words, 1 + len(words) // _AT_ONCE):
            parts.append(embed(some.tolist()).numpy())
            shown.update(len(some))
    embedded, similar = np.concatenate(parts), np.concatenate([_similar(part, classes) for part in parts])
    count = int(len(words) * SHARE)
    last = np.partition(similar, count - 1)[count - 1]
    sure, near = np.flatnonzero(similar < last - _NEAR), np.flatnonzero(np.abs(similar - last) <= _NEAR)
    exact = _similar(embed(words[near].tolist(), exact=True).numpy(), embed(names, exact=True).numpy()).round(_DIGITS)
    chosen = np.sort([*sure, *near[np.lexsort((words[near], exact))][: count - len(sure)]])
    excluded = [(word, *why) for word, why in found.excluded.items()]
    listed = [(word, found.words[word]) for word in words[chosen].tolist()]
    write_text(store.root / "negatives.csv", csv_text([("word", "wnid"), *listed]))
    write_text(store.root / "excluded.csv", csv_text([("word", "wnid", "class"), *excluded]))
    columns = {"word": words[chosen], "similarity": similar[chosen], "embedding": embedded[chosen]}
    write_columns(store.root / NEGATIVES, columns, store.of)
    log(f"negatives {len(chosen):,} words unlike the classes; {len(excluded):,} name a class or a kind of one")
    if found.unknown:
        log(f"negatives {first_few(found.unknown)} are no nouns of WordNet 3.0: kinds of them are not left out")


def _similar(words: Floats, classes: Floats) -> npt.NDArray[np.float64]:
    return np.quantile(words.astype(np.float64) @ classes.T.astype(np.float64), QUANTILE, axis=1)
