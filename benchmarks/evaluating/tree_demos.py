"""Makes the figures of demos by two trees of this project, for `benchmarks.evaluating.trees`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import unknown_detection as ud

DIGITS = (("examples/digits.py",), ("-m", "unknown_detection", "evaluate", "demo"))
"""What makes the demo of the digits in a tree, the newer way first."""

DEMOS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "digits": ("", "", ()),
    "unified": ("cifar", "cifar", ("unknown-detection",)),
    "od-test": ("cifar", "cifar", ("od-test",)),
    "optimizers": ("cifar", "cifar", ("unknown-detection", "equal-numbers", "optimizer-robustness")),
    "facets": ("facets", "", ()),
    "broad": ("broad", "", ()),
    "openood": ("openood", "openood-imagenet1k,openood-imagenet1k-shifted", ()),
    "openood-cifar10": ("openood", "openood-cifar10", ()),
}
"""Of each demo the benchmark, the configs (empty for all), and protocols in place of those that these have."""

ROBUSTNESS, MIXTURES = "examples/papers/optimizer_robustness.py", ["mixture_mean", "mixture_variance", "robustness"]
"""The script that was the protocol `optimizer-robustness`, and the statistics of both."""

RULE_OFF = "import builders.release.duplicates as of; of.LARGEST_SHARE = 1"
"""Python that turns off the rule of near pairs that are too many to be duplicates."""


class Figures(NamedTuple):
    """The figures of a demo by two trees, and by the newer one without the rule of near pairs."""

    old: pd.DataFrame
    new: pd.DataFrame
    rule_off: pd.DataFrame | None = None


def demo(name: str, old: Path, new: Path, root: Path) -> Figures:
    """Make the figures of a demo: `new` builds the release, and both trees judge the same made-up scores."""
    benchmark, listed, protocols = DEMOS[name]
    if not benchmark:
        of_old, of_new = (figures_of(tree, root / f"digits-{side}") for tree, side in ((old, "old"), (new, "new")))
        return Figures(of_old, of_new)
    release = root / benchmark
    if not (release / "manifest.json").is_file():
        _run(new, "-m", f"builders.{benchmark}_benchmark", "--demo", "--quiet", "--out", release)
    configs = listed.split(",") if listed else [*ud.load(release).configs]
    scores: list[str | Path] = []
    for number, run in enumerate(
        ["adam-seed1", "adam-seed2", "sgd-seed1", "sgd-seed2"][: None if protocols[2:] else 1]
    ):
        file = root / name / f"{run}.parquet"
        file.parent.mkdir(exist_ok=True)
        made_up(release, configs, number).assign(seed=int(run[-1])).to_parquet(file)
        scores += ["--scores", f"{run[:-6]}={file}"]

    def judged(tree: Path, side: str, code: str = "") -> pd.DataFrame:
        words: list[str | Path] = [
            "evaluate",
            "report",
            *scores,
            "--release",
            release,
            "--splits",
            ",".join(configs),
            "--no-plots",
        ]
        for protocol in protocols:
            script = tree / "examples" / "papers" / f"{protocol.replace('-', '_')}.py"
            named = f"{script}:{protocol.replace('-', '_').upper()}" if script.is_file() else protocol
            words += ["--protocol", f"{named}={listed}"] * (script != tree / ROBUSTNESS or not script.is_file())
        start = f"{code}\nimport sys; from unknown_detection.__main__ import main; sys.exit(main())"
        _run(tree, "-c", start, *words, "--quiet", "--out", root / name / side)
        return figures_of(root / name / side, root, tree)

    return Figures(judged(old, "old"), judged(new, "new"), judged(new, "rule-off", RULE_OFF))


def figures_of(place: Path, folder: Path, tree: Path | None = None) -> pd.DataFrame:
    """Return the figures in `place`, or if it is a tree of this project, those of the digits, made in `folder`.

    With mixtures over the models as the optimizer paper prints them, which scripts of newer trees compute.
    """
    made = [at for at in (place, place / "report", folder / "report") if (at / "figures.parquet").is_file()]
    if not made:
        script, words = DIGITS
        _run(place, *(script if (place / script[0]).is_file() else words), "--out", folder)
        made = [folder / "report"]
    figures, mixing = pd.read_parquet(made[0] / "figures.parquet"), (tree or place) / ROBUSTNESS
    mixed = figures["statistic"].isin(MIXTURES)
    figures["value"] *= figures["factor"].where(mixed, 1)
    figures["factor"] = figures["factor"].where(~mixed, 1)
    figures.loc[mixed, "run"] = ""
    if mixing.is_file() and figures["variant"].nunique() > 1:
        _run(mixing.parents[2], ROBUSTNESS, made[0], "--out", folder / "mixtures.csv")
        lines = pd.read_csv(folder / "mixtures.csv", keep_default_na=False).drop(columns="statistic")
        lines = lines.melt([name for name in lines if name not in MIXTURES], MIXTURES, "statistic")
        same = {"protocol": "optimizer-robustness", "run": "", "factor": 1.0, "n_known": 0, "n_unknown": 0}
        lines = lines.assign(**same, seed=pd.NA, duplicates_sha256=figures["duplicates_sha256"].iloc[0])
        figures = pd.concat([figures, lines])
    return figures.assign(duplicates=figures["duplicates_sha256"].where(figures["rows"] == "without_duplicates", ""))


def made_up(release: Path, configs: list[str], seed: int) -> pd.DataFrame:
    """Make up scores of three detectors, one with ties, and predictions, most of which are right."""
    opened, numbers = ud.load(release), np.random.default_rng(seed)
    rows = opened.index(configs).drop_duplicates("id")
    classes = min(len(opened.label_names(config)) for config in configs)
    normal, labels = numbers.normal(size=len(rows)) + 0.7 * ~rows["known"], rows["label"]
    right = (numbers.random(len(rows)) < 0.7) & labels.between(0, classes - 1)
    predicted = labels.where(right, numbers.integers(classes, size=len(rows)))
    scores = {"good": normal, "tied": normal.round(1), "bad": -normal}
    return pd.concat(
        pd.DataFrame({"id": rows["id"].astype(str), "detector": name, "score": of, "prediction": predicted})
        for name, of in scores.items()
    )


def _run(tree: Path, *words: str | Path) -> None:
    own = {**os.environ, "PYTHONPATH": str(tree)}  # not the tree that is installed here
    subprocess.run([sys.executable, *words], cwd=tree, env=own, check=True, stdout=subprocess.DEVNULL)
