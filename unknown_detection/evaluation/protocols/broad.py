"""The protocol of BROAD: distribution shifts of many kinds, and the errors they cause.

Guille-Escuret et al., Expecting The Unexpected: Towards Broad Out-Of-Distribution Detection (2023), sections 2 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from unknown_detection.evaluation.display.tables import ResultTable, set_name
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.ranking import NOTHING, Ranking
from unknown_detection.evaluation.protocols import pictures
from unknown_detection.evaluation.protocols.protocol import Protocol, Shown, by_detector
from unknown_detection.evaluation.protocols.results import Figure, Line, means, measure
from unknown_detection.evaluation.scoring.rows import Rows

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


def figures(rows: Rows) -> list[Figure]:
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
    clean = rows.known_rows("test")
    shifted = {kind: rows.where(rows.role == kind) for kind in KINDS if np.any(rows.role == kind)}
    if not shifted:
        raise EvaluationError(
            f"There are no shifted rows ({', '.join(KINDS)}), only {', '.join(np.unique(rows.role).tolist())}. Score "
            "a config of shifted images, too, or choose another protocol."
        )
    detected = averaged({kind: _shifts(clean, kind, of_kind) for kind, of_kind in shifted.items()})
    if rows.prediction is None:
        return detected
    right = clean.where(~clean.wrong)
    if not len(right):
        raise EvaluationError(
            f"None of {len(clean):,} clean rows is correctly classified. Check that the predictions are indices into "
            "the label names of the config."
        )
    errors = {"in_distribution": _auroc("ed", clean, "test, right", "test, wrong", clean.by_errors())}
    if "adversarial" in shifted:
        errors["adversarial"] = _attacks(clean, shifted["adversarial"])
    if "corruption" in shifted:
        errors["corruption"] = []
        for split, corrupted in shifted["corruption"].by("split").items():
            ranking = right.against(corrupted.where(corrupted.wrong))
            errors["corruption"] += _auroc("ed", corrupted, "test, right", f"{split}, wrong", ranking)
    return detected + averaged(errors)


def absent(rows: Rows) -> list[str]:
    """List in sentences which of the paper's sets are not among the rows, and which others are averaged with them."""
    absent_configs = ", ".join(config for kind, (config, _) in PAPER.items() if not np.any(rows.role == kind))
    notes = [f"There are no rows of {absent_configs}: BROAD's means are over the other kinds of shift"]
    notes *= bool(absent_configs)
    for kind, (config, splits) in PAPER.items():
        present = set(rows.split[(rows.role == kind) & (rows.config == config)].tolist())
        missing = [split for split in splits if split not in present]
        additional = sorted(present - {*splits, *NOT_AVERAGED})
        if present and missing:
            notes.append(f"{config} has no {', '.join(missing)}: its mean is over the other splits")
        if additional:
            notes.append(f"{config} has {', '.join(additional)}, which the paper has not: its mean is over these, too")
    return notes


def averaged(kinds: Mapping[str, Sequence[Figure]]) -> list[Figure]:
    """Add to the figures of splits the mean of each kind of shift and the mean over kinds, of one setting.

    Splits in `NOT_AVERAGED` do not enter means.
    """
    means_by_kind = {
        kind: means([figure for figure in figures if figure.unknown not in NOT_AVERAGED])
        for kind, figures in kinds.items()
    }
    kind_means = [mean for kind in means_by_kind.values() for mean in kind]
    configs = " + ".join(sorted({mean.config for mean in kind_means}))
    with_means = [figure for kind, figures in kinds.items() for figure in (*figures, *means_by_kind[kind])]
    unknown = " + ".join(kind for kind in means_by_kind if means_by_kind[kind])
    return with_means + means(kind_means, unknown=unknown, config=configs)


def _shifts(clean: Rows, kind: str, shifted: Rows) -> list[Figure]:
    known = "test"
    if kind == "multi_label":
        clean, known = clean.where(np.isin(clean.class_id, MULTI_LABEL_CLASSES)), "test, the 17 classes"
        if not len(clean):
            raise EvaluationError(
                "There are no clean rows of CoComageNet's 17 classes, by their class_id. Score all of test, or leave "
                "the multi-label config out with --protocol broad=CONFIG,CONFIG."
            )
    return [
        figure
        for split, rows in shifted.by("split").items()
        for figure in _auroc("dsd", rows, known, split, clean.against(rows))
    ]


def _attacks(clean: Rows, shifted: Rows) -> list[Figure]:
    measured = []
    for split, rows in shifted.by("split").items():
        originals = _originals(clean, rows, split)
        succeeded = ~clean.wrong[originals] & rows.wrong
        before = clean.where(np.isin(np.arange(len(clean)), originals[succeeded]))
        ranking = before.against(rows.where(succeeded)) if succeeded.any() else NOTHING
        measured += _auroc("ed", rows, "test, the originals", f"{split}, wrong since the attack", ranking)
    return measured


def _auroc(setting: str, shifted: Rows, known: str, unknown: str, ranking: Ranking) -> list[Figure]:
    config = " + ".join(np.unique(shifted.config).tolist())
    return measure(ranking, ["auroc"], protocol=NAME, config=config, setting=setting, known=known, unknown=unknown)


def _originals(clean: Rows, shifted: Rows, split: str) -> npt.NDArray[np.intp]:
    """Return the position among the clean rows of each shifted row's original."""
    names = pd.Index(clean.source_id)
    if not names.is_unique:
        repeated = names[names.duplicated()][0]
        raise EvaluationError(f"{repeated} appears twice among the clean rows; score one reference config only.")
    places: npt.NDArray[np.intp] = names.get_indexer(pd.Index(shifted.source_id))
    without_original = shifted.source_id[places < 0]
    if len(without_original):
        raise EvaluationError(
            f"Rows of {split} lack their clean original among the clean rows: {len(without_original):,}, such as "
            f"{without_original[0]}. Score all of test."
        )
    return places


def tables(lines: pd.DataFrame) -> Iterator[ResultTable]:
    """Lay out tables 2 and 8, the means by kind of shift, and tables 9 to 15, each set of shifted rows."""
    for setting, group in lines.groupby("setting", sort=False):
        title, note = f"{PROTOCOL.title}: {PROTOCOL.settings[setting]}", "AUROC in percent."
        averages = group[group["statistic"] != ""]
        if len(averages):  # CoComageNet-mono alone has none
            # The mean over kinds is last; it names the kinds in the order of their own means.
            *sets, kinds = averages["unknown"].unique().tolist()
            titles = {**dict(zip(sets, map(set_name, kinds.split(" + ")), strict=True)), kinds: "average"}
            average_first = pd.concat([averages[averages["unknown"] == kinds], averages[averages["unknown"] != kinds]])
            yield by_detector((NAME, setting), title, note, average_first, partial(_titled, titles))
        yield by_detector((NAME, setting, "splits"), f"{title}, each split", note, group, _split, shown=False)


def _titled(titles: Mapping[str, str], line: Line) -> tuple[str, str]:
    return "", titles[line["unknown"]]


def _split(line: Line) -> tuple[str, str] | None:
    return None if line["statistic"] else ("", set_name(line["unknown"].partition(",")[0]))


_MEAN_OVER_KINDS = {"statistic": "mean", "unknown": "({0})( \\+ ({0}))*".format("|".join((*KINDS, "in_distribution")))}

PROTOCOL = Protocol(
    name=NAME,
    title="BROAD",
    paper="Guille-Escuret et al., Expecting The Unexpected: Towards Broad Out-Of-Distribution Detection (2023)",
    settings={"dsd": "Distribution shift detection", "ed": "Error detection"},
    with_predictions=("ed",),
    judge=figures,
    absent=absent,
    each_config=False,
    summary=(
        Shown("Shifts, mean", {"setting": "dsd", **_MEAN_OVER_KINDS}),
        Shown("Errors, mean", {"setting": "ed", **_MEAN_OVER_KINDS}),
    ),
    tables=tables,
    # Figures 2 and 3 of the paper; by its figure 3 it chose the parts of Ens-V and Ens-R.
    pictures=(
        pictures.changes,
        partial(pictures.heatmap, setting="dsd"),
        lambda scene: pictures.densities(scene.where(lambda rows: ~np.isin(rows.split, pictures.HELD_OUT_SPLITS))),
        pictures.correlations,
    ),
)
