"""The whole way on real digits: a release, trained models, their features, scores of every detector, and a report.

    python examples/digits.py --out build/digits-demo

It takes some minutes on a CPU and downloads nothing; `--quick` takes half a minute, with fewer models and without the
detectors that look at the images again. No result can be drawn from it: it shows what the steps are and what comes
out. `OUT/report/report.html` is the page to open.
"""

from __future__ import annotations

from pathlib import Path

import click
from digits_cnn import OPTIMIZERS, train
from digits_release import write_release
from tqdm import tqdm

import unknown_detection as ud

CONFIGS = "digits,digits-train,broad-digits,facets-digits"

PROTOCOLS = ["unknown-detection=digits", "facets=facets-digits", "broad=broad-digits", "od-test=digits"]
"""The papers' ways of computing figures, each with the config of the release that it is for."""

OF_SEVERAL_MODELS = ["mutual_information", "deep_ensemble"]
"""The detectors that score an ensemble."""


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for everything that is made.")
@click.option("--quick", is_flag=True, help="Two models, and no detector that looks at the images again.")
def main(out: Path, quick: bool) -> None:
    """Build, train, extract, score and report."""
    # 1. A release is a folder of rows and images, each split with a role: in_distribution, near_ood, far_ood, ...
    release = ud.load(write_release(out / "digits"))

    # 2. Models of two training methods, with three seeds each. One pass over the images gives the features that
    #    detectors read; scores are a table with a line for each image and detector, higher = more unknown.
    optimizers, seeds = (["adam"], 2) if quick else ([*OPTIMIZERS], 3)
    features, scores = {}, []
    for optimizer in optimizers:
        for seed in tqdm(range(seeds), f"models trained with {optimizer}"):
            folder = out / "features" / f"{optimizer}-{seed}"
            features[optimizer, seed] = ud.extract(
                train(release, optimizer, seed), release, CONFIGS, cache=folder, quiet=True
            )
            file = out / "scores" / f"{optimizer}-{seed}.parquet"
            # Features that were read from a folder have no model with them to look at the images again.
            ud.score(folder if quick else features[optimizer, seed], seed=seed, out=file, quiet=True)
            scores.append(f"{optimizer}={file}")

        # 3. Some detectors score the models of all seeds together.
        file = out / "scores" / f"{optimizer}-ensemble.parquet"
        ensemble = [features[optimizer, seed] for seed in range(seeds)]
        ud.score(ensemble, OF_SEVERAL_MODELS, out=file, quiet=True)
        scores.append(f"{optimizer}={file}")

    # 4. The figures of several papers, with means and deviations over seeds.
    report = ud.report(scores, release, out / "report", protocols=PROTOCOLS, quiet=False)
    click.echo(report)


if __name__ == "__main__":
    main()
