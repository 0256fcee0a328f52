"""The protocol of OpenOOD v1.5: near and far unknowns, with shifted known rows left out or counted as known.

Zhang et al., OpenOOD v1.5: Enhanced Benchmark for Out-of-Distribution Detection (2023), sections 2 and 3; open-set
classification: Dhamija, Günther and Boult, Reducing Network Agnostophobia (2018).

`openood_published.csv` has the rows of its leaderboards of July 2025 whose models were trained with cross-entropy
alone, with our detector where the method is the same: the mean AUROC over the near and over the far splits, in
percent, and the accuracy on the test images. On ImageNet-1k these are torchvision's models, named by the file of their
weights; on CIFAR a ResNet-18 that was trained for 100 epochs, three times as a rule, with means over the trainings and
their deviations, 0 where there was one. A row says what was computed there and then. Between versions of OpenOOD the
near splits changed: CombOOD's row is of those of 1.0, as its maintainers found (issue 235); one who computed it again
on those of 1.5 was 13 to 22 points below (issue 307).

Tested by `tests/evaluation/protocols/test_registry.py` and `tests/evaluation/protocols/test_published.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

import pandas as pd

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.frame import TEST, by_errors, known_rows, names, unknown_splits
from unknown_detection.evaluation.protocols.protocol import Figure, Protocol, Shown, measure, measure_roles

NAME = "openood"
METRICS = ("fpr_at_95_tpr_unknown_positive", "auroc", "aupr_in_trapezoid", "aupr_out_trapezoid")
"""The columns of its tables, as its code computes them: unknown rows are positive for FPR, AUPR has trapezoids."""

UNKNOWN = ("near_ood", "far_ood", "novel_class")
"""Roles of unknown rows, each with a mean of its own. BROAD's novel classes are neither near nor far."""

SHIFTED = ("corruption",)
"""Roles of rows that are shifted, but of known classes. Images whose content is another one, as BROAD's adversarial,
synthetic and multi-label ones, are not among OpenOOD's shifts."""


def figures(rows: pd.DataFrame) -> list[Figure]:
    """Compare known rows with each split of unknown ones, and average over the near, the far and the novel splits.

    Standard: the known rows are the in-distribution rows of `test`. Full spectrum: corrupted rows count as known, too.
    Both by FPR at 95 % TPR, unknown rows positive, AUROC, and AUPR with known (in) and with unknown rows (out)
    positive. Open-set recognition: as standard, by OSCR. Classification: the accuracy on the known rows of either.

    One of the configs that are evaluated together has in-distribution rows in `test`. Open-set recognition and
    accuracy need predictions, the full spectrum corrupted rows.
    """
    known = known_rows(rows)
    configs = names(known, "config")
    if len(configs) > 1:
        raise EvaluationError(
            f"{' and '.join(configs)} each have in-distribution rows in test, but {NAME} compares with those of one "
            f"config. Give it with the configs that belong to it: --protocol {NAME}={configs[0]}."
        )
    unknown_splits(rows, UNKNOWN)  # refuses rows without any
    each = measure_roles(rows, known, UNKNOWN, (*METRICS, "oscr"), setting="standard", known=TEST)
    measured = [figure for figure in each if figure["metric"] != "oscr"]
    measured += [figure | {"setting": "open_set"} for figure in each if figure["metric"] == "oscr"]
    measured += _accuracy(TEST, known)
    shifted = rows["role"].isin(SHIFTED) & (rows["label"] >= 0)
    if shifted.any():
        spectrum = rows[rows.index.isin(known.index) | shifted]
        of_spectrum = " + ".join([TEST, *names(rows[shifted], "split")])
        measured += measure_roles(rows, spectrum, UNKNOWN, METRICS, setting="full_spectrum", known=of_spectrum)
        measured += _accuracy(of_spectrum, spectrum)
    return measured


def _accuracy(of_known: str, known: pd.DataFrame) -> list[Figure]:
    """Measure the accuracy on known rows that have labels; no figure without predictions or labels."""
    named = {"setting": "classification", "known": f"{of_known}, right", "unknown": f"{of_known}, wrong"}
    return measure(ranking, ["accuracy"], **named) if "wrong" in known and len(ranking := by_errors(known)) else []


PROTOCOL = Protocol(
    name=NAME,
    title="OpenOOD v1.5",
    paper="Zhang et al., OpenOOD v1.5: Enhanced Benchmark for Out-of-Distribution Detection (2023)",
    settings={
        "standard": "Standard",
        "open_set": "Open-set recognition",
        "full_spectrum": "Full spectrum",
        "classification": "Classification",
    },
    judge=figures,
    each_config=False,
    shows=tuple(
        Shown("{set} mean", {"setting": "standard", "statistic": "mean", "metric": metric})
        for metric in ("auroc", "fpr_.*")
    ),
    tables_by=("config", "setting", "known"),
    note="Unknown rows are positive for FPR@95%TPR; AUPR is by trapezoids.",
    plots=("roc",),
    drawn=lambda rows: rows["known"] | rows["role"].isin(UNKNOWN),
)


CONFIG = "openood-imagenet1k"
"""The config whose `test`, near and far splits have exactly the leaderboard's images."""

_IMAGES = {"near_ood": 49_000 + 5_879, "far_ood": 10_000 + 5_160 + 15_869}
"""Unknown rows that the leaderboard's means are over (OpenOOD v1.5's lists)."""

TURNED = "Photographs that their EXIF says lie on their side are turned here and not by OpenOOD."
"""What differs between the images as `datasets` decodes them and as OpenOOD does (`imglist_dataset.py`)."""

_DEVIATIONS = ("near_deviation", "far_deviation", "accuracy_deviation")

_SAME = {"resnet50.tv_in1k": "resnet50-0676ba61.pth"}
"""Files of torchvision that timm publishes under a name of its own (its `default_cfgs` name the address)."""


@functools.cache
def published(config: str, weights: str = "") -> pd.DataFrame:
    """Return the published rows of a config by our names of detectors.

    On ImageNet-1k they are of weights, by torchvision's name of their file or timm's of the model; on CIFAR of
    networks that were trained. A row has `near_auroc`, `far_auroc` and `accuracy` in percent, each with its deviation
    (`near_deviation`) over trainings, and the leaderboard's name, `postprocessor`.
    """
    with resources.files(__package__).joinpath("openood_published.csv").open(encoding="utf-8") as file:
        rows = pd.read_csv(file, keep_default_na=False, na_values={name: [""] for name in _DEVIATIONS})
    rows = rows[(rows["config"] == config) & (rows["weights"] == _SAME.get(weights, weights))]
    return rows[rows["detector"] != ""].set_index("detector")


def beside_published(figures: pd.DataFrame, weights: Mapping[str, str]) -> pd.DataFrame:
    """Add the published figures of the same images, weights and detector to the means of a report.

    A line for each run, detector and `unknown` (near_ood or far_ood), with `here` and `published` in percent.
    """
    fields = {"protocol": NAME, "setting": "standard", "metric": "auroc", "statistic": "mean", "rows": "as_published"}
    chosen = figures[(figures[[*fields]] == [*fields.values()]).all(axis=1)]
    all_images = chosen["n_unknown"] == chosen["unknown"].map(_IMAGES)
    chosen = chosen[all_images & chosen["config"].str.startswith(CONFIG)]
    facts = pd.concat({run: published(CONFIG, of) for run, of in weights.items()}, names=["run"])
    facts = facts.rename(columns={"near_auroc": "near_ood", "far_auroc": "far_ood"})[[*_IMAGES]]
    facts = facts.stack().rename("published").rename_axis(["run", "detector", "unknown"]).reset_index()
    merged = chosen.assign(here=100 * chosen["value"]).merge(facts, on=["run", "detector", "unknown"])
    return merged[["run", "detector", "unknown", "here", "published"]]
