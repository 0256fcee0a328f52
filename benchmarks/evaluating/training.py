"""Speed of `examples/train.py` on a release as large as CIFAR-40, against a usual loop over a `DataLoader`.

`python -m benchmarks.evaluating.training --scratch DIR --device cuda` builds the release of pieces of two photographs
with random labels, which take as long as real ones, and prints images per second of each method and precision, and
hours for the recipe's epochs. The first epoch, which warms up, is not counted. External images are the near-OoD ones,
6,000.

The rival decodes and augments each image again in every epoch, in as many processes as there are cores; both train the
same ResNet-18 on the same rows with the same optimizer.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.building.cifar import write_pickles

ROOT = Path(__file__).parents[2]

METHODS = ("ce", "crl", "edl", "mcdropout", "augmix", "oe", "energy")
EPOCHS_OF_RECIPES = {"energy": 10}
"""Epochs of the recipes that have other than 200 (`examples/train.py`)."""

RIVAL = """
import json, sys, time
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from torchvision import transforms as T
from examples.train import CIFAR, resnet18_32

release, device, precision, epochs, workers, threads = sys.argv[1:]
torch.set_num_threads(int(threads))
half = getattr(torch, precision)
augment = T.Compose([
    T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(CIFAR["mean"], CIFAR["std"])
])
plain = T.Compose([T.ToTensor(), T.Normalize(CIFAR["mean"], CIFAR["std"])])

def loader(config, split, transform, shuffle):
    rows = load_dataset(release, config, split=split).select_columns(["image", "label"])
    rows = rows.with_transform(
        lambda batch: {"image": [transform(image) for image in batch["image"]], "label": batch["label"]}
    )
    return DataLoader(rows, 128, shuffle=shuffle, num_workers=int(workers), pin_memory=device != "cpu",
                      persistent_workers=int(workers) > 0)

torch.backends.cudnn.deterministic = True
torch.manual_seed(0)
train, validation = loader("cifar-train", "train", augment, True), loader("cifar", "validation", plain, False)
model = resnet18_32(40).to(device, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
for _ in range(int(epochs)):
    started, right = time.perf_counter(), 0
    model.train()
    for batch in train:
        images = batch["image"].to(device, non_blocking=True, memory_format=torch.channels_last)
        labels = batch["label"].to(device, non_blocking=True)
        with torch.autocast(torch.device(device).type, half, enabled=half != torch.float32):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for batch in validation:
            right += int((model(batch["image"].to(device)).argmax(1) == batch["label"].to(device)).sum())
    print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)
"""


@dataclass(frozen=True)
class Trained:
    """The result of one run: its options, and the seconds of each epoch after the first.

    `images` are the known images of an epoch, `epochs` those of the recipe.
    """

    name: str
    seconds: tuple[float, ...]
    images: int
    epochs: int

    @property
    def rate(self) -> float:
        """Known images per second, in the median epoch."""
        return self.images / statistics.median(self.seconds)

    @property
    def hours(self) -> float:
        """Hours for all epochs of the recipe."""
        return self.epochs * self.images / self.rate / 3600

    def line(self) -> str:
        """Return the run's line of the table."""
        return f"{self.name:32} {self.rate:10,.0f} images/s {self.hours:8.2f} h for {self.epochs} epochs"


def train_ours(
    release: Path, out: Path, device: str, epochs: int, method: str, precision: str, more: Sequence[str] = ()
) -> Trained:
    """Run `examples/train.py` with a method, whose log has the seconds of each epoch."""
    command = [sys.executable, "-m", "examples.train", "--release", str(release), "--known", "cifar-train"]
    command += ["--external", "cifar/near_ood", "--method", method, "--precision", precision, "--device", device]
    _run([*command, "--epochs", str(epochs), "--out", str(out), *more])
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    named = " ".join([method, precision, *(option.lstrip("-") for option in more if option == "--compile")])
    return Trained(named, _after_the_first(lines), _known(release), EPOCHS_OF_RECIPES.get(method, 200))


def train_rival(release: Path, device: str, epochs: int, precision: str) -> Trained:
    """Run the loop over a `DataLoader`."""
    cores = os.cpu_count() or 1
    # On the CPU the loader's processes and the network share the cores.
    workers, threads = (0, cores) if device == "cpu" else (cores, 1)
    arguments = [str(release), device, precision, str(epochs), str(workers), str(threads)]
    printed = _run([sys.executable, "-c", RIVAL, *arguments])
    lines = [json.loads(line) for line in printed.splitlines()]
    return Trained(f"DataLoader, ce {precision}", _after_the_first(lines), _known(release), 200)


def build_release(scratch: Path, limit: int | None) -> Path:
    """Build CIFAR-40/60 of pieces of photographs, with at most `limit` images of each class."""
    release, source = scratch / "release", scratch / "source"
    write_pickles(source)
    flags = ["--splits", "cifar/validation,cifar/near_ood,cifar-train", "--quiet", "--out", str(release)]
    flags += [] if limit is None else ["--limit-per-class", str(limit)]
    _run([sys.executable, "-m", "benchmarks.building.cifar_without_duplicates", "--cifar100", str(source), *flags])
    return release


def _known(release: Path) -> int:
    from unknown_detection.evaluation.releases import load

    return len(load(str(release)).rows("cifar-train", "train")["id"])


def _after_the_first(lines: Sequence[dict[str, float]]) -> tuple[float, ...]:
    return tuple(line["seconds"] for line in lines[1:])


def _run(command: Sequence[str]) -> str:
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise RuntimeError(f"{command[:3]} ended with {completed.returncode}: {completed.stderr[-2000:]}")
    return completed.stdout


@click.command(epilog="Example: python -m benchmarks.evaluating.training --scratch /tmp/training --device cuda")
@click.option("--scratch", type=click.Path(path_type=Path), required=True, help="A folder to be made and emptied.")
@click.option("--device", default="cuda", show_default=True)
@click.option("--epochs", default=4, show_default=True, help="Of each run; the first is not counted.")
@click.option("--methods", default=",".join(METHODS), show_default=True)
@click.option("--precisions", default="float32,bfloat16,float16", show_default=True)
@click.option("--limit-per-class", "limit", type=click.IntRange(1), help="For a quick look on a CPU.  [default: all]")
@click.option("--repeats", default=3, show_default=True, help="Runs of ce and of its rival in turn.")
def main(
    scratch: Path, device: str, epochs: int, methods: str, precisions: str, limit: int | None, repeats: int
) -> None:
    """Print images per second of each method and precision, and the ratio to the rival."""
    selected = precisions.split(",")
    scratch.mkdir(parents=True)
    try:
        release, runs = build_release(scratch, limit), scratch / "runs"
        own, rivals = [], []
        for number in range(repeats):
            own.append(train_ours(release, runs / f"round{number}", device, epochs, "ce", selected[0]))
            rivals.append(train_rival(release, device, epochs, selected[0]))
        click.echo(f"{device}, {own[0].images:,} known images of 32 x 32, ResNet-18, batch 128")
        rates = [statistics.median(run.rate for run in trained) for trained in (own, rivals)]
        rival_rate = f"{rates[0]:,.0f} images/s; {rivals[0].name}: {rates[1]:,.0f}"
        click.echo(f"{own[0].name}: {rival_rate}; ours is {rates[0] / rates[1]:.2f} times as fast")
        init = ["--init", str(runs / "round0" / "weights.safetensors")]
        for precision in selected:
            for method in methods.split(","):
                more = init if method == "energy" else []
                run = train_ours(release, runs / f"{method}-{precision}", device, epochs, method, precision, more)
                click.echo(run.line())
            if device != "cpu":
                compiled = train_ours(
                    release, runs / f"ce-{precision}-c", device, epochs, "ce", precision, ["--compile"]
                )
                click.echo(compiled.line())
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
