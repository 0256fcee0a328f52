"""The protocol of BROAD: many kinds of shift, and the errors that they cause.

Guille-Escuret et al., Expecting The Unexpected: Towards Broad Out-Of-Distribution Detection (2023), sections 2 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from evaluation.errors import EvaluationError
from evaluation.metrics.ranking import Ranking
from evaluation.protocols.figures import Figure, means, measure
from evaluation.scoring.rows import Rows, against, known_rows, mistakes

NAME = "broad"
SETTINGS = {"dsd": "Distribution shift detection", "ed": "Error detection"}
WITH_PREDICTIONS = ("ed",)

KINDS = ("novel_class", "adversarial", "synthetic", "corruption", "multi_label")
"""Roles of shifted rows, in the order of the paper's table 2."""

KINDS_WITH_ERRORS = ("adversarial", "corruption")
"""Kinds that change images whose class is known; the paper gives error detection for these (section 4)."""

NOT_AVERAGED = ("cocomagenet_mono",)
"""Splits that show what a kind's figure rests on and are no part of it: table 2's column for multi-labels is that of
CoComageNet alone in table 4."""

MULTI_LABEL_CLASSES = (
    "n01608432",  # kite: the bird, as the paper matched the name
    "n02391049",  # zebra
    "n02769748",  # backpack
    "n03642806",  # laptop
    "n03761084",  # microwave
    "n03793489",  # mouse
    "n04070727",  # refrigerator
    "n04074963",  # remote control
    "n04228054",  # ski
    "n04442312",  # toaster
    "n04507155",  # umbrella
    "n04522168",  # vase
    "n07714990",  # broccoli
    "n07747607",  # orange
    "n07753592",  # banana
    "n07873807",  # pizza
    "n07930864",  # cup
)
"""The ImageNet classes that CoComageNet's images may show (table 3), the in-distribution side for multi-labels."""


def figures(rows: Rows) -> list[Figure]:
    """Judge by AUROC in two settings: every split, the mean of each kind of shift, the mean over kinds.

    DSD, distribution shift detection: shifted rows against clean ones; multi-label rows against clean rows of their
    17 classes alone. ED, error detection: rows classified right before the shift and wrong after it against all clean
    rows that are classified right, and clean rows classified wrong against the same. (Section 4 of the paper says so;
    its section 2.2 has, for attacks, the originals of just those rows on the clean side.)

    Args:
        rows: of all BROAD configs that are judged; the clean rows are the in-distribution rows of `test`.

    Returns:
        DSD, and ED where rows have predictions. Means are over what there is, and name it.

    Raises:
        EvaluationError: there are no clean rows or no shifted ones, clean rows of the 17 classes are missing, or a
            changed row is not of a clean one.
    """
    clean = known_rows(rows, "test")
    shifted = {kind: rows.where(rows.role == kind) for kind in KINDS if np.any(rows.role == kind)}
    if not shifted:
        raise EvaluationError(
            f"expected shifted rows ({', '.join(KINDS)}), found {', '.join(np.unique(rows.role).tolist())} alone; "
            "score a config of shifted images too, or name another protocol."
        )
    detected = averaged({kind: _shifts(clean, kind, of_kind) for kind, of_kind in shifted.items()})
    if rows.prediction is None:
        return detected
    right = clean.where(~clean.wrong)
    if not len(right):
        raise EvaluationError(
            f"expected clean rows that are classified right, found none of {len(clean):,}; see whether the "
            "predictions are indices into the label names of the config."
        )
    errors = {"in_distribution": _auroc("ed", clean, "test, right", "test, wrong", mistakes(clean))}
    for kind in KINDS_WITH_ERRORS:
        if kind in shifted:
            errors[kind] = _errors(right, clean, shifted[kind])
    return detected + averaged(errors)


def averaged(kinds: Mapping[str, Sequence[Figure]]) -> list[Figure]:
    """Figures of splits by kind of shift, followed by their mean for each kind and the mean over the kinds.

    Args:
        kinds: figures of one setting; those of `NOT_AVERAGED` splits stay out of means.
    """
    of_kinds = {
        kind: means([figure for figure in figures if figure.unknown not in NOT_AVERAGED])
        for kind, figures in kinds.items()
    }
    every = [mean for kind in of_kinds.values() for mean in kind]
    configs = " + ".join(sorted({mean.config for mean in every}))
    found = [figure for kind, figures in kinds.items() for figure in (*figures, *of_kinds[kind])]
    return found + means(every, unknown=" + ".join(kind for kind in of_kinds if of_kinds[kind]), config=configs)


def _shifts(clean: Rows, kind: str, shifted: Rows) -> list[Figure]:
    known = "test"
    if kind == "multi_label":
        clean, known = clean.where(np.isin(clean.class_id, MULTI_LABEL_CLASSES)), "test, the 17 classes"
        if not len(clean):
            raise EvaluationError(
                "expected clean rows of CoComageNet's 17 classes, found none by their class_id; score all of test."
            )
    return [
        figure
        for split, rows in shifted.by("split").items()
        for figure in _auroc("dsd", rows, known, split, against(clean, rows))
    ]


def _errors(right: Rows, clean: Rows, shifted: Rows) -> list[Figure]:
    found = []
    for split, rows in shifted.by("split").items():
        before = ~clean.wrong[_originals(clean, rows, split)]
        ranking = against(right, rows.where(before & rows.wrong))
        found += _auroc("ed", rows, "test, right", f"{split}, wrong since the shift", ranking)
    return found


def _auroc(setting: str, shifted: Rows, known: str, unknown: str, ranking: Ranking) -> list[Figure]:
    config = " + ".join(np.unique(shifted.config).tolist())
    return measure(ranking, ["auroc"], protocol=NAME, config=config, setting=setting, known=known, unknown=unknown)


def _originals(clean: Rows, shifted: Rows, split: str) -> npt.NDArray[np.int64]:
    """For each shifted row the number of the clean row that it was made from."""
    order = np.argsort(clean.source_id)
    names = clean.source_id[order]
    twice = names[1:][names[1:] == names[:-1]]
    if len(twice):
        raise EvaluationError(
            f"expected each image once among the clean rows, found {twice[0]} twice; score one reference config."
        )
    places = np.minimum(np.searchsorted(names, shifted.source_id), len(names) - 1)
    strangers = shifted.source_id[names[places] != shifted.source_id]
    if len(strangers):
        raise EvaluationError(
            f"expected the clean image of every row of {split} among the clean rows, found none for "
            f"{len(strangers):,}, such as {strangers[0]}; score all of test."
        )
    originals: npt.NDArray[np.int64] = order[places]
    return originals
