"""Chooses the rows on which detectors are fitted and tuned, and on which their thresholds are set.

Without training rows, the in-distribution rows of validation are divided into two halves: detectors are fitted on one,
and hyperparameters and thresholds are chosen on the other. A nearest neighbour would otherwise find every tuning row
among the rows it was fitted on, at a distance of 0.

Rows to tune on serve several times: hyperparameters and OD-test's thresholds are chosen on the same rows, and methods
whose `fits_on` is "validation" are fitted on them, too. A report with such thresholds names these detectors.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.errors import EvaluationError, require_known
from unknown_detection.evaluation.releases import Key

TRAIN, VALIDATION, EXTERNAL = "train", "validation", "external_validation"

EXTERNALS = (EXTERNAL, "openimage_o_validation", "tin_validation")
"""Splits of unknown rows to tune on. The first is the papers'; OpenOOD v1.5 tunes ImageNet's configs on images of
OpenImage-O and CIFAR's on images of Tiny ImageNet, none of which are in its far or near split."""

HELD_OUT = "held_out"
"""BROAD's validation split: "a held-out validation set of 45,000 samples", on which it fits mixtures of scores
(section 3)."""

FIT_AND_TUNE_SPLITS = (*EXTERNALS, HELD_OUT, TRAIN, VALIDATION)
"""Splits for fitting and tuning; scores may omit one of them, but only as a whole."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FitSplits:
    """The splits on which detectors are fitted and tuned; None where there is none.

    Most detectors are fitted on `train`; without it, on a half of `validation`. That is the split `validation`, or
    BROAD's `held_out`: for detectors that must be fitted on rows outside the training set, and the in-distribution
    side of a search. `external` is its OoD side, and has the only unknown rows that any choice depends on.
    """

    train: Key | None
    validation: Key | None
    external: Key | None


def find_fit_splits(
    splits: Mapping[str, Sequence[str]], configs: Sequence[str], fit_configs: Sequence[str]
) -> FitSplits:
    """Choose by config the splits to fit and tune on, among those with features, for the configs to score.

    Training rows come from the fit configs, each of which must have some to fit on, else from `<config>-train`.
    """
    require_known("config with features to fit on", fit_configs, splits)
    for config in fit_configs:
        if not {TRAIN, VALIDATION, HELD_OUT} & set(splits[config]):
            raise EvaluationError(
                f"{config} has no features of train, validation or held_out to fit on, only of "
                f"{', '.join(splits[config])}. Extract one of them."
            )

    def first(split: str, where: Iterable[str]) -> Key | None:
        return next(((config, split) for config in where if split in splits.get(config, ())), None)

    training = [*configs, *(f"{config}-train" for config in configs)]
    validation = first(VALIDATION, [*fit_configs, *configs]) or first(HELD_OUT, [*fit_configs, *configs])
    external = next(filter(None, (first(name, configs) for name in EXTERNALS)), None)
    return FitSplits(first(TRAIN, fit_configs or training), validation, external)


def in_fit_half(ids: Sequence[str], labels: npt.NDArray[np.int64]) -> Mask:
    """Return which rows are in the fit half of a split: every other in-distribution row of each class.

    The rows of a class, sorted by the SHA-256 of their ids, go to the fit half and to the tune half in turn. The
    halves depend on nothing but ids and labels, so a report finds the same ones.
    """
    ranks = [hashlib.sha256(f"fit half\t{id_}".encode()).digest() for id_ in ids]
    order = sorted(range(len(ids)), key=lambda row: (int(labels[row]), ranks[row]))
    sorted_labels = labels[order]
    place = np.arange(len(order)) - np.searchsorted(sorted_labels, sorted_labels)
    fits = np.zeros(len(order), dtype=np.bool_)
    fits[order] = (place % 2 == 0) & (sorted_labels >= 0)
    return fits
