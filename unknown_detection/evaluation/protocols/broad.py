"""The protocol of BROAD: distribution shifts of many kinds, and the errors they cause.

Guille-Escuret et al., Expecting The Unexpected: Towards Broad Out-Of-Distribution Detection (2023), sections 2 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.frame import TEST, against, by_errors, by_split, known_rows, names
from unknown_detection.evaluation.metrics.ranking import NOTHING, Ranking
from unknown_detection.evaluation.protocols.protocol import Figure, Protocol, Shown, means, measure

NAME = "broad"

PAPER = {
    "novel_class": ("broad-novel-classes", ("inaturalist", "imagenet_o", "openimage_o")),
    "adversarial": ("broad-adversarial", ("pgd_resnet50", "autoattack_resnet50", "pgd_vit", "autoattack_vit")),
    "synthetic": ("broad-synthetic", ("biggan", "stable_diffusion")),
    "corruption": ("broad-corruptions", ("defocus_blur", "gaussian_noise", "snow", "brightness")),
    "multi_label": ("broad-multi-label", ("cocomagenet",)),
}
"""The kinds of shift as roles of rows, in the order of the paper's table 2, each with the config and the splits that
the table's column averages."""

KINDS = tuple(PAPER)

NOT_AVERAGED = ("cocomagenet_mono",)
"""Splits that are reported but not averaged: table 2's multi-label column is that of CoComageNet alone in table 4."""

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
"""ImageNet classes of CoComageNet's images (table 3): the in-distribution classes for multi-label images."""


def figures(rows: pd.DataFrame) -> list[Figure]:
    """Compute AUROC in two settings: each split, the mean of each kind of shift, the mean over kinds.

    DSD, distribution shift detection: shifted rows against clean ones, whatever is predicted; multi-label rows against
    clean rows of their 17 classes only (sections 2.2 and 2.5).

    ED, error detection, for the kinds of table 8:

    - attacks: rows that are classified right before and wrong after, against their originals (section 2.2);
    - corruptions: misclassified rows against correctly classified clean rows (sections 2.4 and 4), whether or not the
      model was right about the original;
    - in-distribution: misclassified clean rows against correctly classified ones (section 4).

    Clean rows are the in-distribution rows of `test`. ED needs predictions. Means are over the available figures, and
    name them.
    """
    clean, roles = known_rows(rows), names(rows, "role")
    shifted = {kind: rows[rows["role"] == kind] for kind in KINDS if kind in roles}
    if not shifted:
        raise EvaluationError(
            f"There are no shifted rows ({', '.join(KINDS)}), only {', '.join(roles)}. Score "
            "a config of shifted images, too, or choose another protocol."
        )
    detected = averaged({kind: _shifts(clean, kind, of_kind) for kind, of_kind in shifted.items()})
    if "wrong" not in rows:
        return detected
    right = clean[~clean["wrong"]]
    if not len(right):
        raise EvaluationError(
            f"None of {len(clean):,} clean rows is correctly classified. Check that the predictions are indices into "
            "the label names of the config."
        )
    errors = {"in_distribution": _auroc("ed", clean, "test, right", "test, wrong", by_errors(clean))}
    if "adversarial" in shifted:
        errors["adversarial"] = _attacks(clean, shifted["adversarial"])
    if "corruption" in shifted:
        errors["corruption"] = []
        for split, corrupted in by_split(shifted["corruption"]).items():
            ranking = against(right, corrupted[corrupted["wrong"]])
            errors["corruption"] += _auroc("ed", corrupted, "test, right", f"{split}, wrong", ranking)
    return detected + averaged(errors)


def absent(rows: pd.DataFrame) -> list[str]:
    """List in sentences the paper's splits that the rows lack, and others that are averaged with the paper's."""
    roles = names(rows, "role")
    absent_configs = ", ".join(config for kind, (config, _) in PAPER.items() if kind not in roles)
    notes = [f"There are no rows of {absent_configs}: BROAD's means are over the other kinds of shift"]
    notes *= bool(absent_configs)
    for kind, (config, splits) in PAPER.items():
        present = set(names(rows[(rows["role"] == kind) & (rows["config"] == config)], "split"))
        missing = [split for split in splits if split not in present]
        additional = sorted(present - {*splits, *NOT_AVERAGED})
        if present and missing:
            notes.append(f"{config} has no {', '.join(missing)}: its mean is over the other splits")
        if additional:
            notes.append(f"{config} has {', '.join(additional)}, which the paper has not: its mean is over these, too")
    return notes


def averaged(kinds: Mapping[str, Sequence[Figure]]) -> list[Figure]:
    """Add to the figures of one setting's splits the mean of each kind of shift, and the mean over kinds.

    Splits in `NOT_AVERAGED` do not enter means.
    """
    means_by_kind = {
        kind: means([figure for figure in figures if figure["unknown"] not in NOT_AVERAGED])
        for kind, figures in kinds.items()
    }
    kind_means = [mean for kind in means_by_kind.values() for mean in kind]
    configs = " + ".join(sorted({mean["config"] for mean in kind_means}))
    with_means = [figure for kind, figures in kinds.items() for figure in (*figures, *means_by_kind[kind])]
    unknown = " + ".join(kind for kind in means_by_kind if means_by_kind[kind])
    return with_means + means(kind_means, unknown=unknown, config=configs)


def _shifts(clean: pd.DataFrame, kind: str, shifted: pd.DataFrame) -> list[Figure]:
    known = TEST
    if kind == "multi_label":
        clean, known = clean[clean["class_id"].isin(MULTI_LABEL_CLASSES)], "test, the 17 classes"
        if not len(clean):
            raise EvaluationError(
                "There are no clean rows of CoComageNet's 17 classes, by their class_id. Score all of test, or leave "
                "the multi-label config out with --protocol broad=CONFIG,CONFIG."
            )
    return [
        figure
        for split, rows in by_split(shifted).items()
        for figure in _auroc("dsd", rows, known, split, against(clean, rows))
    ]


def _attacks(clean: pd.DataFrame, shifted: pd.DataFrame) -> list[Figure]:
    measured = []
    for split, rows in by_split(shifted).items():
        originals = _originals(clean, rows, split)
        succeeded = ~clean["wrong"].to_numpy()[originals] & rows["wrong"].to_numpy()
        before = clean[np.isin(np.arange(len(clean)), originals[succeeded])]
        ranking = against(before, rows[succeeded]) if succeeded.any() else NOTHING
        measured += _auroc("ed", rows, "test, the originals", f"{split}, wrong since the attack", ranking)
    return measured


def _auroc(setting: str, shifted: pd.DataFrame, known: str, unknown: str, ranking: Ranking) -> list[Figure]:
    config = " + ".join(names(shifted, "config"))
    return measure(ranking, ["auroc"], config=config, setting=setting, known=known, unknown=unknown)


def _originals(clean: pd.DataFrame, shifted: pd.DataFrame, split: str) -> npt.NDArray[np.intp]:
    """Return the position among the clean rows of each shifted row's original."""
    sources = pd.Index(clean["source_id"].cat.codes)
    if not sources.is_unique:
        repeated = clean["source_id"][sources.duplicated()].iloc[0]
        raise EvaluationError(f"{repeated} appears twice among the clean rows; score one reference config only.")
    places: npt.NDArray[np.intp] = sources.get_indexer(pd.Index(shifted["source_id"].cat.codes))
    without_original = shifted["source_id"][places < 0]
    if len(without_original):
        raise EvaluationError(
            f"Rows of {split} lack their clean original among the clean rows: {len(without_original):,}, such as "
            f"{without_original.iloc[0]}. Score all of test."
        )
    return places


_MEAN_OVER_KINDS = {"statistic": "mean", "unknown": "({0})( \\+ ({0}))*".format("|".join((*KINDS, "in_distribution")))}

PROTOCOL = Protocol(
    name=NAME,
    title="BROAD",
    paper="Guille-Escuret et al., Expecting The Unexpected: Towards Broad Out-Of-Distribution Detection (2023)",
    settings={"dsd": "Distribution shift detection", "ed": "Error detection"},
    judge=figures,
    absent=absent,
    each_config=False,
    shows=(
        Shown("Shifts, mean", {"setting": "dsd", **_MEAN_OVER_KINDS}),
        Shown("Errors, mean", {"setting": "ed", **_MEAN_OVER_KINDS}),
    ),
    tables_by=("setting",),
    note="Tables 2, 4 and 8 to 15 of the paper: each split, the mean of each kind of shift, and the mean over kinds.",
    plots=("densities", "heatmap"),
)
