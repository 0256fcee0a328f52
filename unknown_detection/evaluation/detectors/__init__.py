"""Detectors, which score rows; higher scores mean more unknown.

Each declares what it is fitted on and what a search tries, takes its hyperparameters, and has `fit` and `score`:

    >>> from unknown_detection.evaluation import detectors
    >>> detectors.KNN.fits_on, detectors.KNN(k=5).clone(k=7)
    ('train', KNN(k=7))

`table()` describes all of them, and `DETECTORS` has one of each by the names of the command line. The base classes of
one's own are `Detector`, `RowDetector`, which checks and divides the rows, and `ImageDetector`, which runs the model
again.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from unknown_detection.evaluation.detectors.base import FEATURES, LOGITS, Detector
from unknown_detection.evaluation.detectors.base import RowDetector as RowDetector

# What these modules define is what one chooses from, listed in this order.
# ruff: noqa: F403, F405
# isort: off
from unknown_detection.evaluation.detectors.logits import *
from unknown_detection.evaluation.detectors.images import *
from unknown_detection.evaluation.detectors.openmax import *
from unknown_detection.evaluation.detectors.shaping import *
from unknown_detection.evaluation.detectors.penultimate import *
from unknown_detection.evaluation.detectors.subspace import *
from unknown_detection.evaluation.detectors.neighbors import *
from unknown_detection.evaluation.detectors.mahalanobis import *
from unknown_detection.evaluation.detectors.recent.weiper import *
from unknown_detection.evaluation.detectors.recent.actsub import *
from unknown_detection.evaluation.detectors.recent.nac import *
from unknown_detection.evaluation.detectors.recent.adascale import *
from unknown_detection.evaluation.detectors.recent.gram import *
from unknown_detection.evaluation.detectors.text import *
from unknown_detection.evaluation.detectors.learned import *
# isort: on

if TYPE_CHECKING:
    import pandas as pd

DETECTORS: Mapping[str, Detector] = {
    kind.name: kind()
    for kind in [*globals().values()]
    if isinstance(kind, type) and issubclass(kind, Detector) and kind.name
}
"""A detector of each kind by its name, with its defaults, in the order of the modules and within them."""


def __dir__() -> list[str]:
    """List what one chooses from and builds on, and none of what this module imports for itself."""
    kinds = {type(one).__name__ for one in DETECTORS.values()}
    return sorted({*kinds, "DETECTORS", "Detector", "ImageDetector", "ImagePass", "RowDetector", "table"})


_BESIDES = {"members": "several models", "images": "images"}
_OF_LAYERS = {
    FEATURES: "features",
    LOGITS: "logits",
    "first block": "features of blocks",
    "blocks": "features of blocks",
}


def _needs(one: Detector) -> list[str]:
    """List what a detector needs: logits, features, the head or texts, rows to fit on, images, models, and so on."""
    layers = getattr(one, "inputs", ()) or (getattr(one, "layer", "blocks"),)
    read = [_BESIDES[one.reads]] if one.reads in _BESIDES else [_OF_LAYERS[layer] for layer in layers]
    scores = [f"scores of {' '.join(one.base_methods)}"] if one.base_methods else []
    rows = [] if one.fits_on == "none" else [one.fits_on]
    head = ["text" if isinstance(one, MCM) else "head"] if one.reads_head else []
    return [*(scores or read), *head, *rows, *one.requires]


def _cost(one: Detector) -> str:
    if one.cost:
        return one.cost
    if one.reads == "images":
        return "pass"
    return "values" if getattr(one, "inputs", None) == (LOGITS,) or one.base_methods else "products"


def table() -> pd.DataFrame:
    """Describe every detector in words: its names and paper, what it needs and costs, what it is compared with."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "name": one.name,
                "class": type(one).__name__,
                "title": one.title,
                "paper": one.source,
                "year": min(re.findall(r"\b(?:19|20)\d\d\b", one.source), default=""),
                "needs": ", ".join(_needs(one)),
                "fitted on": "" if one.fits_on == "none" else one.fits_on,
                "cost": _cost(one),
                "searched": ", ".join(one.search),
                "compared with": vars(type(one)).get("compared") or "a formula of the tests",
            }
            for one in DETECTORS.values()
        ]
    )
