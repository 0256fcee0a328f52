"""The protocol of OpenOOD v1.5: near and far unknowns, with shifted known rows left out or counted as known.

Zhang et al., OpenOOD v1.5: Enhanced Benchmark for Out-of-Distribution Detection (2023), sections 2 and 3; open-set
classification: Dhamija, Günther and Boult, Reducing Network Agnostophobia (2018).

`openood_leaderboard.csv` has the rows of its leaderboard of July 2025 whose models are torchvision's, trained with
cross-entropy alone, named by the file of their weights, with our detector where the method is the same: the mean AUROC
over the near and over the far splits, in percent, and the accuracy on the test images. A row says what was computed
there and then. Between versions of OpenOOD the near splits changed, so a row of another version is of other images.

Tested by `tests/evaluation/protocols/test_registry.py` and `tests/evaluation/protocols/test_published.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from importlib import resources

import numpy as np
import pandas as pd

from unknown_detection.evaluation.display.tables import ResultTable, set_name
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.ranking import Ranking, rank_open_set
from unknown_detection.evaluation.protocols import pictures
from unknown_detection.evaluation.protocols.protocol import Protocol, Shown, by_detector
from unknown_detection.evaluation.protocols.results import Figure, Line, means, measure
from unknown_detection.evaluation.scoring.rows import Rows

NAME = "openood"
METRICS = ("fpr_at_95_tpr_unknown_positive", "auroc", "aupr_in_trapezoid", "aupr_out_trapezoid")
"""The columns of its tables, as its code computes them: unknown rows are positive for FPR, AUPR has trapezoids."""

UNKNOWN = ("near_ood", "far_ood", "novel_class")
"""Roles of unknown rows, each with a mean of its own. BROAD's novel classes are neither near nor far."""

SHIFTED = ("corruption",)
"""Roles of rows that are shifted, but of known classes. Images whose content is another one, as BROAD's adversarial,
synthetic and multi-label ones, are not among OpenOOD's shifts."""


def figures(rows: Rows) -> list[Figure]:
    """Compare known rows with each split of unknown ones, and average over the near, the far and the novel splits.

    Standard: the known rows are the in-distribution rows of `test`. Full spectrum: corrupted rows count as known, too.
    Both by FPR at 95 % TPR, unknown rows positive, AUROC, and AUPR with known (in) and with unknown rows (out)
    positive. Open-set recognition: as standard, by OSCR. Classification: the accuracy on the known rows of either.

    One of the configs that are evaluated together has in-distribution rows in `test`. Open-set recognition and
    accuracy need predictions, the full spectrum corrupted rows.
    """
    known = rows.known_rows("test")
    configs = list(known.by("config"))
    if len(configs) > 1:
        raise EvaluationError(
            f"{' and '.join(configs)} each have in-distribution rows in test, but {NAME} compares with those of one "
            f"config. Give it with the configs that belong to it: --protocol {NAME}={configs[0]}."
        )
    rows.unknown_splits(UNKNOWN)  # refuses rows without any
    measured = _against_each(rows, "standard", "test", METRICS, known.against)
    if rows.prediction is not None:
        measured += _against_each(rows, "open_set", "test", ("oscr",), lambda unknown: _rank_open_set(known, unknown))
        measured += _accuracy(rows, "test", known)
    shifted = np.isin(rows.role, SHIFTED) & (rows.label >= 0)
    if shifted.any():
        names = " + ".join(["test", *rows.where(shifted).by("split")])
        spectrum = rows.where(rows.known & (rows.split == "test") | shifted)
        measured += _against_each(rows, "full_spectrum", names, METRICS, spectrum.against)
        measured += [] if rows.prediction is None else _accuracy(rows, names, spectrum)
    return measured


def _against_each(
    rows: Rows, setting: str, known: str, metrics: tuple[str, ...], ranked: Callable[[Rows], Ranking]
) -> list[Figure]:
    """Measure each split of unknown rows, and average by role."""
    named = {"protocol": NAME, "config": _configs(rows), "setting": setting, "known": known}
    measured: list[Figure] = []
    for role in UNKNOWN:
        of_role = [
            figure
            for split, unknown in rows.where(rows.role == role).by("split").items()
            for figure in measure(ranked(unknown), metrics, unknown=split, **named)
        ]
        measured += of_role + means(of_role, unknown=role)
    return measured


def _accuracy(rows: Rows, names: str, known: Rows) -> list[Figure]:
    """Measure the accuracy on known rows that have labels; no figure if none has."""
    labelled = known.where(known.label >= 0)
    named = {"protocol": NAME, "config": _configs(rows), "setting": "classification"}
    sides = {"known": f"{names}, right", "unknown": f"{names}, wrong"}
    return measure(labelled.by_errors(), ["accuracy"], **named, **sides) if len(labelled) else []


def _configs(rows: Rows) -> str:
    return " + ".join(rows.where(rows.known | np.isin(rows.role, (*UNKNOWN, *SHIFTED))).by("config"))


def _rank_open_set(known: Rows, unknown: Rows) -> Ranking:
    return rank_open_set(*known.beside(unknown), np.concatenate([known.wrong, unknown.wrong]))[2]


def tables(lines: pd.DataFrame) -> Iterator[ResultTable]:
    """Lay out each setting: the means over near, far and novel splits, accuracy, and each split."""
    accurate = lines["metric"] == "accuracy"
    for (config, setting, known), group in lines[~accurate].groupby(["config", "setting", "known"], sort=False):
        name, title = (NAME, config, setting), f"{PROTOCOL.title} on {config}: {PROTOCOL.settings[setting]}"
        note = f"In percent; unknown rows are positive for FPR@95%TPR, AUPR is by trapezoids. Known rows: {known}."
        # OSCR has the accuracy in it.
        of = accurate & (lines["config"] == config) & (lines["known"] == f"{known}, right") & (setting != "open_set")
        yield by_detector(name, title, note, pd.concat([group, lines[of]]), _mean)
        yield by_detector((*name, "splits"), f"{title}, each split", note, group, _split, shown=False)


def _mean(line: Line) -> str | None:
    if line["metric"] == "accuracy":
        return ""
    return f"{set_name(line['unknown'])} mean" if line["statistic"] else None


def _split(line: Line) -> str | None:
    return None if line["statistic"] else set_name(line["unknown"])


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
    with_predictions=("open_set", "classification"),
    judge=figures,
    each_config=False,
    summary=tuple(
        Shown("{set} mean", {"setting": "standard", "statistic": "mean", "metric": metric})
        for metric in ("auroc", "fpr_.*")
    ),
    tables=tables,
    pictures=(pictures.changes, pictures.roc_curves),
    drawn=lambda rows: rows.known | np.isin(rows.role, UNKNOWN),
)


CONFIG = "openood-imagenet1k"
"""The config whose `test`, near and far splits have exactly the leaderboard's images."""

_IMAGES = {"near_ood": 49_000 + 5_879, "far_ood": 10_000 + 5_160 + 15_869}
"""Unknown rows that the leaderboard's means are over (OpenOOD v1.5's lists)."""

OTHER_VERSION: Mapping[str, str] = {
    "CombOOD": "computed on the near splits of OpenOOD 1.0, as its maintainers found (issue 235); one who computed it "
    "again on those of 1.5 was 13 to 22 points below (issue 307)"
}
"""Rows that are of other images than the leaderboard says, with what is known of them."""

TURNED = "Photographs that their EXIF says lie on their side are turned here and not by OpenOOD."
"""What differs between the images as `datasets` decodes them and as OpenOOD does (`imglist_dataset.py`)."""

_SAME = {"resnet50.tv_in1k": "resnet50-0676ba61.pth"}
"""Files of torchvision that timm publishes under a name of its own (its `default_cfgs` name the address)."""


def published(weights: str) -> pd.DataFrame:
    """Return the leaderboard's rows of a model, by our names of detectors.

    Weights have the file name of torchvision's, or the name of timm's model. A row has `near_auroc`, `far_auroc` and
    `accuracy` in percent, and the leaderboard's name, `postprocessor`.
    """
    rows = _rows(weights)
    return rows[rows["detector"] != ""].set_index("detector")


def of_other_version(weights: str) -> pd.DataFrame:
    """Return the leaderboard's rows of a model that `OTHER_VERSION` names, by the leaderboard's name."""
    rows = _rows(weights)
    return rows[rows["postprocessor"].isin(OTHER_VERSION.keys())].set_index("postprocessor")


def compare_with_leaderboard(figures: pd.DataFrame, weights: Mapping[str, str]) -> pd.DataFrame:
    """Pair the means of a report with those of the leaderboard's rows of the same images, weights and detector.

    A line for each run and detector, best near AUROC first: `run`, `detector`, then in percent `near`, `published
    near`, `far` and `published far`. None unless all of the leaderboard's images were judged.
    """
    fields = {"protocol": "openood", "setting": "standard", "metric": "auroc", "statistic": "mean"}
    fields["rows"] = "as_published"
    chosen = figures[(figures[[*fields]] == [*fields.values()]).all(axis=1)]
    all_images = chosen["n_unknown"] == chosen["unknown"].map(_IMAGES)
    chosen = chosen[all_images & chosen["config"].str.startswith(CONFIG)]
    ours = chosen.pivot(index=["run", "detector"], columns="unknown", values="value").reindex(columns=[*_IMAGES])
    ours = (100 * ours).set_axis(["near", "far"], axis=1).dropna()
    theirs = pd.concat({run: published(of) for run, of in weights.items()}, names=["run"])
    names = {"near_auroc": "published near", "far_auroc": "published far"}
    joined = ours.join(theirs.rename(columns=names), how="inner")
    columns = ["run", "detector", "near", "published near", "far", "published far"]
    return joined.reset_index()[columns].sort_values("near", ascending=False, ignore_index=True)


@functools.cache
def _rows(weights: str) -> pd.DataFrame:
    with resources.files(__package__).joinpath("openood_leaderboard.csv").open(encoding="utf-8") as file:
        rows = pd.read_csv(file, keep_default_na=False)
    return rows[rows["weights"] == _SAME.get(weights, weights)]
