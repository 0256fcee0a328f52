"""Reproduce OpenOOD's leaderboard on ImageNet-1k in one command: build, extract, score, and compare.

    python examples/reproduce_openood.py --out runs/openood --imagenet /data/imagenet --imagenet21k /data/imagenet21k \
        --ninco /data/ninco --inaturalist /data/inaturalist --dtd /data/dtd --openimage_o /data/openimage_o

    python examples/reproduce_openood.py --out build/reproduce-openood --demo

The model is torchvision's ResNet-50 with its first weights, which most rows of the leaderboard are of. With `--train`,
the training images are built and extracted, too, for detectors that are fitted on them; without it these are fitted on
a half of the validation images, and differ from the leaderboard's. `OUT/comparison.csv` has the published near and far
AUROC beside ours. A repeated command goes on where it was interrupted.

The demo has made-up images and a network of random weights: it shows the steps, and its figures mean nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import pandas as pd

import unknown_detection as ud
from unknown_detection.evaluation.protocols.openood import CONFIG, published

MODEL, WEIGHTS = "torchvision:resnet50.IMAGENET1K_V1", "resnet50-0676ba61.pth"
TRAIN = f"{CONFIG}-train"

DETECTORS = "msp,temperature,max_logit,energy,gen,react,ash,scale,knn,vim,mahalanobis,rmds,kl_matching,she,dice,fdbd"
UNFITTED = "msp,max_logit,energy,gen"
"""For the demo, whose validation images are too few to fit on."""

SOURCES = ("imagenet", "imagenet21k", "ninco", "inaturalist", "dtd", "openimage_o")


def random_model() -> Any:
    """Build a network with random weights and a thousand classes, small enough for any machine."""
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
        torch.nn.Linear(128, 1000),
    ).eval()  # fmt: skip


def to_tensor(image: Any) -> Any:
    """Return the input of `random_model`: the image resized to 32 x 32, from 0 to 1."""
    from torchvision.transforms import functional

    return functional.to_tensor(image.resize((32, 32)))


def compare(figures: pd.DataFrame) -> pd.DataFrame:
    """Return the means over the near and the far splits, beside the leaderboard's, in percent."""
    means = figures.pivot_table(index="detector", columns="role", values="AUROC", aggfunc="mean", sort=False) * 100
    table = means[["near_ood", "far_ood"]].rename(columns={"near_ood": "near", "far_ood": "far"})
    rows = published(CONFIG, WEIGHTS)
    for name in ("near", "far"):
        table[f"published {name}"] = table.index.map(rows[f"{name}_auroc"])
        table[f"{name} difference"] = table[name] - table[f"published {name}"]
    return table.sort_values("near", ascending=False).round(2)


@click.command(context_settings={"show_default": True})
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for all that is made.")
@click.option("--demo", is_flag=True, help="Made-up sources and a network of random weights: to try the steps.")
@click.option("--train", is_flag=True, help="Also build and extract ImageNet-1k's training images (about 150 GB).")
@click.option("--detectors", help="Detectors to score, separated by commas; without it, most of the leaderboard's.")
@click.option("--device", default="auto", help="Where the model runs: auto, cpu, cuda or cuda:N.")
@click.option("--workers", type=click.IntRange(min=1), default=8, help="Processes that build and decode images.")
def main(
    out: Path, demo: bool, train: bool, detectors: str | None, device: str, workers: int, **sources: Path | None
) -> None:
    """Build the benchmark, extract features, score, and compare with the leaderboard's figures."""
    configs = [CONFIG, TRAIN] if train else [CONFIG]
    arguments = {"demo": True} if demo else {key: path for key, path in sources.items() if path is not None}
    release = ud.build(
        "openood", out / "release", splits=configs, with_images=True, workers=workers, log=click.echo, **arguments
    )
    model: Any = random_model() if demo else MODEL
    options: dict[str, Any] = {"preprocessing": to_tensor} if demo else {"pretrained": True}
    options |= {"device": device, "quiet": False, "log": click.echo}
    features = ud.extract(model, release, configs, cache=out / "features", **options)
    chosen = detectors or (UNFITTED if demo else DETECTORS)
    scores = ud.score(features, chosen, search=not demo, quiet=False, log=click.echo)
    figures = ud.evaluate(scores, release)
    figures.to_csv(out / "figures.csv", index=False)
    table = compare(figures)
    table.to_csv(out / "comparison.csv")
    click.echo(table.to_string())
    if demo:
        click.echo("Made-up images and random weights: these figures mean nothing.")
    click.echo(f"wrote {out / 'comparison.csv'}")


for _key in SOURCES:
    main = click.option(f"--{_key}", type=click.Path(path_type=Path), help="Your copy of this source.")(main)

if __name__ == "__main__":
    sys.exit(main())
