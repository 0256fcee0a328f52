"""Figures of OpenOOD's leaderboard for published weights on ImageNet-1k.

`openood_leaderboard.csv` has the rows of July 2025 whose models are torchvision's, trained with cross-entropy alone,
named by the file of their weights, with our detector where the method is the same: the mean AUROC over the near and
over the far splits, in percent, and the accuracy on the test images. A row says what was computed there and then.
Between versions of OpenOOD the near splits changed, so a row of another version is of other images.

Tested by `tests/evaluation/protocols/test_published.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

import pandas as pd

CONFIG = "openood-imagenet1k"
"""The config whose `test`, near and far splits have exactly the leaderboard's images."""

_IMAGES = {"near_ood": 49_000 + 5_879, "far_ood": 10_000 + 5_160 + 15_869}
"""Unknown rows that the leaderboard's means are over (OpenOOD v1.5's lists)."""

OTHER_VERSION: Mapping[str, str] = {
    "CombOOD": "computed on the near splits of OpenOOD 1.0, as its maintainers found (issue 235); one who computed it "
    "again on those of 1.5 was 13 to 22 points below (issue 307)"
}
"""Rows that are of other images than the leaderboard says, with what is known of them."""

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
