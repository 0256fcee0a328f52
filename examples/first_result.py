"""The first real result: OpenOOD's CIFAR benchmark from its sources to a table beside the published one.

    python examples/first_result.py --out runs/first
    python examples/first_result.py --out build/first --demo

Five steps, each of which is skipped where it is done, so that the same command goes on after an interruption: get the
sources (2.1 GB; of Places365 the validation images alone), build the benchmark, train a ResNet-18 by OpenOOD's recipe,
extract and score, and compare with OpenOOD's leaderboard. The folder of a training in OUT gets
its weights, a report, and `comparison.csv`: our near and far AUROC, and the published means and deviations of each
detector that both have. `--weights` takes a checkpoint that OpenOOD published in place of the training, and
`--dry-run` says what there is to do.

The demo has made-up images and a tiny network: it shows the steps, and its figures mean nothing.
"""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pandas as pd

import unknown_detection as ud
from unknown_detection.evaluation.protocols.openood import published as published_rows

EPOCHS = 100
RESNET = f"{Path(__file__).with_name('train.py')}:resnet18_openood"
NEEDED = ("torch", "torchvision", "safetensors", "pytorch_ood")
"""Packages of the extras train and evaluate that the last steps import."""

SOURCES = ("cifar10", "cifar100", "tiny_imagenet", "mnist", "svhn", "dtd")
PLACES = "places365-val"
"""The sources that `sources get` downloads from their owners, and Places365's validation images."""

DETECTORS = "msp,temperature,max_logit,energy,gen,odin,openmax,react,ash,scale,dice,knn,vim,mahalanobis,rmds"
DETECTORS += ",kl_matching,she,gradnorm,rankfeat,relation,fdbd"
OF_DEMO = "msp,temperature,max_logit,energy,gen"
"""Those that need no training images, of which the demo has ten a class."""

REASONS = """\
Why ours may differ from the leaderboard's:
- it has means over three trainings, as a rule, and this is one: a deviation or two is no difference;
- MNIST's and SVHN's images are the owners' pixels here, and OpenOOD's copies are JPEGs that somebody made of them;
- hyperparameters are chosen on the same images, among values of our own;
- float32 sums have another order on another device, and trainings end in other weights."""


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def tiny(num_classes: int) -> Any:
    """A network for the demo, which any machine trains in seconds."""
    import torch
    from torchvision import transforms

    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
        torch.nn.Linear(128, num_classes),
    )  # fmt: skip
    steps = [transforms.Resize(32), transforms.CenterCrop(32), transforms.ToTensor()]
    model.preprocessing = transforms.Compose([*steps, transforms.Normalize((0.5,) * 3, (0.25,) * 3)])
    return model


def of_openood(checkpoint: Path, out: Path) -> Path:
    """Write OpenOOD's checkpoint with torchvision's names: a block's shortcut is its downsample there."""
    from safetensors.torch import save_file

    from unknown_detection.evaluation.models.weights import read_state_dict

    named = {name.replace(".shortcut.", ".downsample."): of for name, of in read_state_dict(checkpoint).items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: of.contiguous() for name, of in named.items()}, out)
    return out


def compare(figures: pd.DataFrame, config: str) -> pd.DataFrame:
    """Return our means over the near and the far splits beside the leaderboard's, in percent."""
    each = figures[figures["split"] != "mean"]
    means = each.pivot_table(index="detector", columns="role", values="AUROC", aggfunc="mean") * 100
    published = published_rows(config)
    table = pd.DataFrame(index=[name for name in published.index if name in means.index])
    table.index.name = "detector"
    for name in ("near", "far"):
        table[name] = means[f"{name}_ood"]
        table[f"published {name}"] = published[f"{name}_auroc"]
        table[f"{name} deviation"] = published[f"{name}_deviation"]
        table[f"{name} difference"] = table[name] - table[f"published {name}"]
    return table.sort_values("published near", ascending=False).round(2)


def accuracy(features: Any, key: str) -> float:
    """Return the share of a split's rows that are classified right, in percent."""
    rows = features[key]
    return 100 * float((rows.logits.argmax(axis=1) == rows.labels).mean())


def seconds_per_image(device: str, classes: int) -> float:
    """Measure how long a step of training takes per image, on random images."""
    import torch

    from unknown_detection.evaluation.models.blueprints import make_blueprint
    from unknown_detection.evaluation.models.models import pick_device

    where = pick_device(device)
    model = make_blueprint(RESNET, classes, pretrained=False).module.to(where)
    images, labels = torch.rand(64, 3, 32, 32, device=where), torch.zeros(64, dtype=torch.long, device=where)
    begun = 0.0
    for number in range(4):  # the first is slower
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        loss.item()  # waits for the device
        begun = begun if number else time.perf_counter()
    return (time.perf_counter() - begun) / (3 * 64)


def is_built(release: Path, configs: Sequence[str]) -> bool:
    """Whether a finished release has the configs."""
    try:
        return {*configs} <= {*ud.load(release).configs}
    except ud.EvaluationError:  # no release yet
        return False


def require(detectors: str, device: str) -> None:
    """Refuse what the last steps would refuse, after the download and the training."""
    for package in NEEDED:
        if find_spec(package) is None:
            raise click.UsageError(
                f"{package} is not installed, which training and scoring need: pip install -e '.[train,evaluate]'"
            )
    from unknown_detection.evaluation.detectors.choice import choose
    from unknown_detection.evaluation.models.models import pick_device

    choose(detectors)
    pick_device(device)


def run(title: str, *words: object) -> None:
    """Run a step, a command that one could type; its failure ends the script."""
    command = [*map(str, words)]
    click.echo(f"{title}: {shlex.join(['python', *command])}", err=True)
    if code := subprocess.run([sys.executable, *command], check=False).returncode:
        raise SystemExit(code)


def print_plan(
    folder: Path, names: Sequence[str], classes: int, epochs: int, device: str, *, built: bool, trained: bool
) -> None:
    """Print the steps with their bytes and times, and which of them are done."""
    if built:
        click.echo("get, build: done")
    else:
        click.echo(f"get: {', '.join(names)}")
        run("", "-m", "builders.commands.sources", "get", *names, "--into", folder, "--dry-run")
        click.echo("build: about 214,000 images, 1.4 GB")
    if trained:
        click.echo("train: not needed")
    else:
        each = seconds_per_image(device, classes)
        hours = each * 50_000 * epochs / 3600
        click.echo(
            f"train: {epochs} of {EPOCHS} epochs of 50,000 images, about {hours:.1f} h at {1 / each:.0f} a second"
        )
    click.echo("score: about 214,000 images once, in about the time of two epochs; some detectors read them again")
    click.echo("dry run: nothing was made")


@click.command(context_settings={"show_default": True})
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for all that is made.")
@click.option("--benchmark", type=click.Choice(["cifar10", "cifar100"]), default="cifar10", help="What is known.")
@click.option("--sources", type=click.Path(path_type=Path), help="Folder of the sources.  [default: OUT/sources]")
@click.option("--places365", help="Your copy of Places365, or hf://datasets/..., in place of the owners' files.")
@click.option("--weights", type=FILE, help="A checkpoint of OpenOOD's, instead of a training.")
@click.option("--epochs", type=click.IntRange(1), default=EPOCHS, help="Fewer are quicker, and no result.")
@click.option("--seed", type=int, default=0, help="Of the training.")
@click.option("--detectors", help="Detectors to score, separated by commas; without it, all that both have.")
@click.option("--device", default="auto", help="Where the network runs: auto, cpu, cuda or cuda:N.")
@click.option("--workers", type=click.IntRange(min=1), default=2, help="Processes that build and decode images.")
@click.option("--demo", is_flag=True, help="Made-up sources and a tiny network: to try the steps.")
@click.option("--dry-run", is_flag=True, help="Say what there is to do, and how much it is.")
def main(
    out: Path, benchmark: str, sources: Path | None, places365: str | None, weights: Path | None, epochs: int,
    seed: int, detectors: str | None, device: str, workers: int, demo: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Get, build, train, evaluate, and set the figures beside OpenOOD's leaderboard."""
    if demo and weights:
        raise click.UsageError("The demo has a network of its own. Leave out --weights.")
    config, folder = f"openood-{benchmark}", sources or out / "sources"
    configs = [config, f"{config}-train"]
    names = SOURCES if places365 else (*SOURCES, PLACES)
    release = out / ("demo-release" if demo else "release")
    epochs = 2 if demo else epochs
    name = "tiny" if demo else f"resnet18-{epochs}-epochs-seed-{seed}"
    if weights:  # OpenOOD calls each of its checkpoints best.ckpt
        name = f"published-{weights.stem}-{hashlib.sha256(weights.read_bytes()).hexdigest()[:8]}"
    trained = out / f"{name}-on-{benchmark}"
    at, built = trained / "weights.safetensors", is_built(release, configs)
    network, detectors = f"{Path(__file__)}:tiny" if demo else RESNET, detectors or (OF_DEMO if demo else DETECTORS)
    require(detectors, device)
    if dry_run:
        classes = int(benchmark.removeprefix("cifar"))
        print_plan(folder, names, classes, epochs, device, built=built, trained=bool(weights) or at.exists())
        return
    if not built:
        flags: list[object] = ["--demo"]
        if not demo:
            if places365 and not places365.startswith("hf:") and not Path(places365).exists():
                raise click.UsageError(
                    f"There is no {places365}. Give the folder of Places365's validation images and file lists with "
                    f"--places365, or leave it out and they are downloaded from their owners."
                )
            run("get", "-m", "builders.commands.sources", "get", *names, "--into", folder)
            flags = [flag for key in SOURCES for flag in (f"--{key}", folder / key)]
            flags += ["--places365", places365 or folder / "places365"]
        flags += ["--splits", ",".join(configs), "--out", release, "--workers", workers]
        run("build", "-m", "builders.openood_benchmark", *flags)
    if weights:
        of_openood(weights, at)
    elif not at.exists():
        options = ["--release", release, "--known", configs[1], "--model", network, "--recipe", "openood"]
        options += ["--seed", seed, "--epochs", epochs, "--out", trained]
        options += [] if device == "auto" else ["--device", device]
        run("train", Path(__file__).with_name("train.py"), *options)
    done = ud.run(
        network, release, detectors, trained / "evaluation", splits=configs,
        weights=at, device=device, workers=workers, log=click.echo,
    )  # fmt: skip
    table = compare(done.figures, config)
    table.to_csv(trained / "comparison.csv")
    right, published = accuracy(done.features, f"{config}/test"), published_rows(config).loc["msp"]
    click.echo(table.to_string())
    click.echo(
        f"accuracy on test: {right:.2f}, published {published['accuracy']:.2f} ± {published['accuracy_deviation']:.2f}"
    )
    click.echo(REASONS)
    if demo:
        click.echo("Made-up images and a tiny network: these figures mean nothing.")
    elif not weights and epochs < EPOCHS:
        click.echo(f"- {epochs} of {EPOCHS} epochs: these figures show that all steps work, and are no result.")
    click.echo(f"wrote {trained / 'comparison.csv'}")


if __name__ == "__main__":
    try:
        main()
    except ud.EvaluationError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
