"""Train a classifier on a release with one of the unified benchmark's methods: plain torch, one file, to be read.

    python examples/train.py --release build/unknown-detection --known cifar-train --method ce --out runs/ce-0

The recipes are those of Kim, Koo and Hwang (section 4.1 and table 5) and, where that paper refers to a method's own,
of its paper. SGD with Nesterov momentum; at 32 x 32 a ResNet-18 for 200 epochs, at 224 a ResNet-152 for 90. Images are
decoded once and kept as bytes on the device, where they are also cropped and flipped. The folder `--out` gets
`log.jsonl`, `checkpoint.pt` after every epoch, from which the same command goes on to the same weights, and in the end
`weights.safetensors` for `python -m evaluation extract --model examples/train.py:resnet18_32`.

| method | loss | source |
|---|---|---|
| `ce` | cross-entropy | the baseline |
| `crl` | with a ranking loss of confidences | Moon et al., ICML 2020 |
| `edl` | of a Dirichlet distribution, with its own head activation | Sensoy et al., NeurIPS 2018 |
| `mcdropout` | cross-entropy, with dropout behind every block | Gal and Ghahramani, ICML 2016 |
| `augmix` | cross-entropy of mixed augmentations | Hendrycks et al., ICLR 2020 |
| `oe` | with uniform outputs on external images | Hendrycks, Mazeika and Dietterich, ICLR 2019 |
| `energy` | fine-tuning with margins of energy on external images | Liu et al., NeurIPS 2020 |
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import datasets
import numpy as np
import torch
import torchvision
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as torch's own documentation names it
from tqdm import tqdm

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
METHODS = ("ce", "crl", "edl", "mcdropout", "augmix", "oe", "energy")
WITH_EXTERNAL = ("oe", "energy")
DROPOUT = 0.3  # ours: the rates are missing from the published text


# Models, as `--model examples/train.py:NAME` of the evaluation finds them.


def resnet18_32(num_classes: int, *, dropout: float = 0.0) -> nn.Module:
    """A ResNet-18 for images of 32 x 32: a stem of 3 x 3 without stride or pooling (He et al., section 4.2)."""
    model = torchvision.models.resnet18(num_classes=num_classes)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return _finished(model, 32, dropout)


def resnet18_32_dropout(num_classes: int) -> nn.Module:
    """The same with dropout behind each block and before the last layer, as `--method mcdropout` trains it."""
    return resnet18_32(num_classes, dropout=DROPOUT)


def resnet152(num_classes: int, *, dropout: float = 0.0) -> nn.Module:
    """A ResNet-152 for images of 224 x 224."""
    return _finished(torchvision.models.resnet152(num_classes=num_classes), 224, dropout)


def resnet152_dropout(num_classes: int) -> nn.Module:
    """The same with dropout."""
    return resnet152(num_classes, dropout=DROPOUT)


def _finished(model: nn.Module, size: int, dropout: float) -> nn.Module:
    if dropout:
        for layer in (model.layer1, model.layer2, model.layer3, model.layer4):
            for number, block in enumerate(layer):
                layer[number] = nn.Sequential(block, nn.Dropout(dropout))
        model.fc = nn.Sequential(nn.Dropout(dropout), model.fc)
    model.preprocessing = {"size": size, "mean": list(MEAN), "std": list(STD)}
    return model


# Losses. All compute in float32 and above, whatever precision the logits have.


def crl_loss(confidences: Tensor, correctness: Tensor) -> Tensor:
    """The correctness ranking loss of neighbours in the batch (Moon et al., equation 2).

    Args:
        confidences: greatest probabilities, shape (B,).
        correctness: share of the epochs in which each image was classified right, scaled to [0, 1], shape (B,).
    """
    confidences = confidences.to(torch.promote_types(confidences.dtype, torch.float32))
    gaps = correctness - correctness.roll(-1)
    return F.relu(gaps.abs() - gaps.sign() * (confidences - confidences.roll(-1))).mean()


def edl_loss(logits: Tensor, labels: Tensor, weight: float) -> Tensor:
    """The log loss of a Dirichlet with evidence exp(logits) (Sensoy et al., equations 3 and 5).

    Args:
        logits: shape (B, C).
        labels: shape (B,).
        weight: of the divergence that evidence for other classes is punished with, min(1, epoch / 10) in the paper.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    alpha = 1 + logits.exp()
    data = alpha.sum(dim=1).log() - alpha.gather(1, labels[:, None])[:, 0].log()
    others = alpha.scatter(1, labels[:, None], 1.0)
    total = others.sum(dim=1, keepdim=True)
    classes = torch.tensor(float(logits.shape[1]), dtype=logits.dtype, device=logits.device)
    divergence = (
        (total.lgamma()[:, 0] - classes.lgamma() - others.lgamma().sum(dim=1))
        + ((others - 1) * (others.digamma() - total.digamma())).sum(dim=1)
    )  # fmt: skip
    return (data + weight * divergence).mean()


def oe_loss(known: Tensor, labels: Tensor, external: Tensor, weight: float = 0.5) -> Tensor:
    """Cross-entropy and the one to the uniform distribution on outliers, each over its own rows (section 3)."""
    known, external = (part.to(torch.promote_types(part.dtype, torch.float32)) for part in (known, external))
    return F.cross_entropy(known, labels) - weight * F.log_softmax(external, dim=1).mean()


def energy_loss(known: Tensor, labels: Tensor, external: Tensor, margins: tuple[float, float]) -> Tensor:
    """Cross-entropy and squared hinges of the energies of both sides (Liu et al., eqs. 7 to 9), with pytorch-ood."""
    from pytorch_ood.loss import EnergyRegularizedLoss

    logits = torch.cat([known, external])
    outliers = labels.new_full((len(external),), -1)
    loss = EnergyRegularizedLoss(alpha=0.1, margin_in=margins[0], margin_out=margins[1])
    return loss(logits.to(torch.promote_types(logits.dtype, torch.float32)), torch.cat([labels, outliers]))


# Images.


@dataclass
class Images:
    """Pixels (N, 3, S, S) as bytes and labels (N,), on one device."""

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


def load_images(release: str, config: str, split: str, side: int, device: str) -> Images:
    """Decode a split; images of another size get their shorter side resized and their centre cropped."""
    rows = datasets.load_dataset(release, config, split=split)

    def decoded(number: int) -> np.ndarray:
        image = rows[number]["image"].convert("RGB")
        if image.size != (side, side):
            ratio = side / min(image.size)
            image = image.resize(
                [max(side, round(ratio * length)) for length in image.size], Image.Resampling.BILINEAR
            )
            left, top = ((length - side) // 2 for length in image.size)
            image = image.crop((left, top, left + side, top + side))
        return np.asarray(image)

    pixels = torch.empty(len(rows), 3, side, side, dtype=torch.uint8)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for number, array in enumerate(tqdm(threads.map(decoded, range(len(rows))), f"{config}/{split}", len(rows))):
            pixels[number] = torch.from_numpy(array).permute(2, 0, 1)
    return Images(pixels.to(device), torch.tensor(rows["label"], device=device))


def cropped(pixels: Tensor, drawn: torch.Generator) -> Tensor:
    """Shift each image by up to four pixels over black, and mirror half of them; (B, 3, S, S), bytes."""
    count, _, side, _ = pixels.shape
    padded = F.pad(pixels, (4, 4, 4, 4))
    offsets = torch.randint(0, 9, (2, count, 1), generator=drawn).to(pixels.device)
    rows, columns = offsets + torch.arange(side, device=pixels.device)
    mirrored = torch.rand(count, generator=drawn).to(pixels.device) < 0.5
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    images = torch.arange(count, device=pixels.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[images, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def resized_crops(pixels: Tensor, side: int, drawn: torch.Generator) -> Tensor:
    """Crop 8 to 100 % of each image, 3:4 to 4:3, scale it to `side` and mirror half; (B, 3, side, side), bytes."""
    count = len(pixels)
    area = torch.empty(count).uniform_(0.08, 1.0, generator=drawn)
    ratio = torch.exp(torch.empty(count).uniform_(np.log(3 / 4), np.log(4 / 3), generator=drawn))
    lengths = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()]).clamp(max=1.0)  # width, height
    centres = (torch.rand(2, count, generator=drawn) * 2 - 1) * (1 - lengths)
    mirror = torch.where(torch.rand(count, generator=drawn) < 0.5, -1.0, 1.0)
    zero = torch.zeros(count)
    places = [torch.stack([lengths[0] * mirror, zero, centres[0]]), torch.stack([zero, lengths[1], centres[1]])]
    grid = F.affine_grid(torch.stack(places).permute(2, 0, 1), [count, 3, side, side], align_corners=False)
    found = F.grid_sample(pixels.float(), grid.to(pixels.device), align_corners=False, padding_mode="reflection")
    return found.round().clamp(0, 255).to(torch.uint8)


def normalized(pixels: Tensor) -> Tensor:
    """Bytes as float32 with the mean and deviation that the models expect."""
    mean, std = (torch.tensor(values, device=pixels.device).reshape(3, 1, 1) for values in (MEAN, STD))
    return (pixels.float() / 255 - mean) / std


# Training.


@dataclass
class Settings:
    """What a run depends on. Numbers left at None follow from method and size (`recipe`)."""

    release: str
    known: str
    method: str = "ce"
    external: str = ""
    validation: str = ""
    size: int = 32
    seed: int = 0
    epochs: int | None = None
    batch: int | None = None
    rate: float | None = None
    margins: tuple[float, float] = (-23.0, -5.0)  # of Liu et al., section 4.1: m_in and m_out for CIFAR
    init: str = ""
    precision: str = "float32"
    milestones: list[int] = field(default_factory=list)

    def recipe(self) -> Settings:
        """Fill in the papers' numbers."""
        small, tuned = self.size == 32, self.method == "energy"
        epochs = self.epochs or (10 if tuned else 200 if small else 90)
        cuts = [] if tuned else [0.6, 0.8] if small else [1 / 3, 2 / 3]  # 120 and 160 of 200; 30 and 60 of 90
        values = asdict(self) | {
            "epochs": epochs,
            "batch": self.batch or (128 if small else 256),
            "rate": self.rate or (0.001 if tuned else 0.1),
            "milestones": [round(cut * epochs) for cut in cuts],
        }
        return Settings(**values)


class Training:
    """A model, its optimizer and what a method remembers of earlier epochs."""

    def __init__(self, settings: Settings, known: Images, external: Images | None, device: str) -> None:
        torch.manual_seed(settings.seed)
        self.settings, self.known, self.external, self.device = settings, known, external, device
        make = resnet18_32 if settings.size == 32 else resnet152
        classes = int(known.labels.max()) + 1
        model = make(classes, dropout=DROPOUT if settings.method == "mcdropout" else 0.0)
        if settings.init:
            model.load_state_dict(load_file(settings.init))
        self.model = model.to(device, memory_format=torch.channels_last)
        decay = 5e-4 if settings.size == 32 else 1e-4
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), settings.rate, momentum=0.9, weight_decay=decay, nesterov=settings.size == 32
        )
        half = settings.precision == "float16" and device != "cpu"
        self.scaler = torch.amp.GradScaler(device.partition(":")[0], enabled=half)
        self.correct = torch.zeros(len(known), device=device)
        self.run: Callable[[Tensor], Tensor] = self.model
        self.augmix = torchvision.transforms.AugMix(severity=3, mixture_width=3)
        self.epoch = 0

    def state(self) -> dict[str, Any]:
        """All that an epoch leaves."""
        parts = {"model": self.model, "optimizer": self.optimizer, "scaler": self.scaler}
        state = {name: part.state_dict() for name, part in parts.items()}
        return state | {"correct": self.correct, "epoch": self.epoch, "settings": asdict(self.settings)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to where a run was."""
        for name in ("model", "optimizer", "scaler"):
            getattr(self, name).load_state_dict(state[name])
        self.correct, self.epoch = state["correct"].to(self.device), state["epoch"]

    def one_epoch(self, advance: Callable[[int], Any]) -> dict[str, float]:
        """Train for an epoch, all of whose random numbers follow from the seed and its number."""
        settings, started = self.settings, time.perf_counter()
        torch.manual_seed(settings.seed * 1_000_003 + self.epoch)
        drawn = torch.Generator().manual_seed(settings.seed * 1_000_003 + self.epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = settings.rate * 0.1 ** sum(self.epoch >= cut for cut in settings.milestones)
        self.model.train()
        total, right = 0.0, 0
        right_now = torch.zeros(len(self.known), device=self.device)
        for rows, others in self._batches(drawn):
            labels = self.known.labels[rows]
            loss, logits = self._loss(rows, labels, others, drawn)
            self.optimizer.zero_grad(set_to_none=True)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            right_now[rows] = (logits.detach().argmax(dim=1) == labels).float()
            total += float(loss.detach()) * len(rows)
            advance(len(rows))
        self.correct += right_now
        right = int(right_now.sum())
        self.epoch += 1
        return {
            "epoch": self.epoch,
            "loss": total / len(self.known),
            "train_accuracy": right / len(self.known),
            "rate": self.optimizer.param_groups[0]["lr"],
            "seconds": round(time.perf_counter() - started, 2),
        }

    def _batches(self, drawn: torch.Generator) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Rows of known images, all once, and twice as many of external ones."""
        order = torch.randperm(len(self.known), generator=drawn).to(self.device)
        for rows in order.split(self.settings.batch):
            if self.external is None:
                yield rows, None
            else:
                yield rows, torch.randint(len(self.external), (2 * len(rows),), generator=drawn).to(self.device)

    def _prepared(self, pixels: Tensor, drawn: torch.Generator) -> Tensor:
        small = self.settings.size == 32
        pixels = cropped(pixels, drawn) if small else resized_crops(pixels, self.settings.size, drawn)
        if self.settings.method == "augmix":
            # One draw of operations for eight images, which torchvision then mixes with weights of their own.
            pixels = torch.cat([self.augmix(some) for some in pixels.split(8)])
        return normalized(pixels).contiguous(memory_format=torch.channels_last)

    def _loss(
        self, rows: Tensor, labels: Tensor, others: Tensor | None, drawn: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and the logits of its known images."""
        settings = self.settings
        inputs = self._prepared(self.known.pixels[rows], drawn)
        if others is not None and self.external is not None:
            inputs = torch.cat([inputs, self._prepared(self.external.pixels[others], drawn)])
        kind = getattr(torch, settings.precision)
        with torch.autocast(self.device.partition(":")[0], kind, enabled=kind != torch.float32):
            logits = self.run(inputs)
        logits, external = logits[: len(rows)], logits[len(rows) :]
        if settings.method == "crl":
            confidences = logits.float().softmax(dim=1).max(dim=1).values
            return F.cross_entropy(logits.float(), labels) + crl_loss(confidences, self._correctness(rows)), logits
        if settings.method == "edl":
            return edl_loss(logits, labels, min(1.0, self.epoch / 10)), logits
        if settings.method == "oe":
            return oe_loss(logits, labels, external), logits
        if settings.method == "energy":
            return energy_loss(logits, labels, external, settings.margins), logits
        return F.cross_entropy(logits.float(), labels), logits

    def _correctness(self, rows: Tensor) -> Tensor:
        """How often images were right, between the least and the greatest count of all (Moon et al., section 3.3)."""
        least, greatest = self.correct.min(), self.correct.max()
        return (self.correct[rows] - least) / (greatest - least).clamp(min=1)

    @torch.no_grad()
    def accuracy(self, images: Images) -> float:
        """Share of images that are classified right."""
        self.model.eval()
        side, right = self.settings.size, 0
        edge = (images.pixels.shape[-1] - side) // 2
        for rows in torch.arange(len(images), device=self.device).split(512):
            pixels = images.pixels[rows][..., edge : edge + side, edge : edge + side]
            right += int((self.model(normalized(pixels)).argmax(dim=1) == images.labels[rows]).sum())
        return right / len(images)


def train(settings: Settings, out: Path, *, device: str, compiled: bool = False) -> dict[str, float]:
    """Train to the end, from the last checkpoint if there is one; returns the last line of the log."""
    settings = settings.recipe()
    side = 32 if settings.size == 32 else 256
    known = load_images(settings.release, settings.known, "train", side, device)
    external = None
    if settings.method in WITH_EXTERNAL:
        external = load_images(settings.release, settings.external, "train", side, device)
    validation = load_images(settings.release, settings.validation, "validation", side, device)
    torch.backends.cudnn.deterministic = True
    training = Training(settings, known, external, device)
    out.mkdir(parents=True, exist_ok=True)
    checkpoint, log = out / "checkpoint.pt", out / "log.jsonl"
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        if state["settings"] != json.loads(json.dumps(asdict(settings))):
            raise click.ClickException(f"{out} holds a run with other settings. Give another --out.")
        training.restore(state)
    if compiled:
        training.run = torch.compile(training.model)
    lines = log.read_text().splitlines()[: training.epoch] if log.exists() else []
    log.write_text("".join(f"{line}\n" for line in lines))
    last: dict[str, float] = json.loads(lines[-1]) if lines else {}
    with tqdm(desc=settings.method, total=settings.epochs * len(known), initial=training.epoch * len(known)) as bar:
        while training.epoch < settings.epochs:
            last = training.one_epoch(bar.update)
            last["validation_accuracy"] = training.accuracy(validation)
            bar.set_postfix(loss=f"{last['loss']:.3f}", accuracy=f"{last['validation_accuracy']:.3f}")
            state = training.state() | {"settings": json.loads(json.dumps(asdict(settings)))}
            torch.save(state, out / "checkpoint.tmp")
            (out / "checkpoint.tmp").replace(checkpoint)
            with log.open("a") as file:
                file.write(json.dumps(last) + "\n")
    weights = {name: value.contiguous().cpu() for name, value in training.model.state_dict().items()}
    save_file(weights, out / "weights.safetensors")
    return last


@click.command(epilog="Example: python examples/train.py --release build/cifar --known cifar-train --out runs/ce-0")
@click.option("--release", required=True, help="A release folder, or ORG/NAME on the Hub.")
@click.option("--known", required=True, help="Config with the training images, such as cifar-train.")
@click.option("--validation", help="Config with the split validation.  [default: --known without -train]")
@click.option("--external", help="Config with external images, for oe and energy.  [default: ...-external]")
@click.option("--method", type=click.Choice(METHODS), default="ce", show_default=True)
@click.option("--size", type=click.Choice([32, 224]), default=32, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--epochs", type=click.IntRange(1), help="Instead of the recipe's; the rate falls in proportion.")
@click.option("--batch", type=click.IntRange(1))
@click.option("--rate", type=float, help="Learning rate at the start.")
@click.option("--margins", type=(float, float), default=(-23.0, -5.0), show_default=True, help="Of energy: in, out.")
@click.option("--init", default="", help="Weights to start from; needed for energy.")
@click.option("--precision", type=click.Choice(["float32", "bfloat16", "float16"]), default="float32")
@click.option("--device", default="cuda" if torch.cuda.is_available() else "cpu", show_default=True)
@click.option("--compile", "compiled", is_flag=True, help="Compile the model (torch.compile).")
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(out: Path, device: str, compiled: bool, validation: str | None, external: str | None, **values: Any) -> None:
    """Train a classifier on a release."""
    if values["method"] == "energy" and not values["init"]:
        raise click.UsageError("energy fine-tunes a model. Give its weights with --init.")
    base = values["known"].removesuffix("-train")
    settings = Settings(**values, validation=validation or base, external=external or f"{base}-external")
    last = train(settings, out, device=device, compiled=compiled)
    click.echo(f"{out / 'weights.safetensors'}: validation accuracy {last['validation_accuracy']:.4f}")


if __name__ == "__main__":
    main()
