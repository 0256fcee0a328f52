"""Train a classifier on a release by one of the unified benchmark's methods: plain torch in one readable file.

    python examples/train.py --release build/unknown-detection --known cifar-train --method ce --out runs/ce-0

The recipes are those of Kim, Koo and Hwang (section 4.1, table 5 and their published code) and, where these are
silent, those of each method's own paper. Images are decoded once and stay on the device as bytes. The folder `--out`
gets `log.jsonl`, one line an epoch; `checkpoint.pt`, from which the same command goes on to the same weights; and in
the end `weights.safetensors` for `unknown-detection evaluate extract --model examples/train.py:resnet18_32`.

| method | loss | source |
|---|---|---|
| `ce` | cross-entropy | the baseline, MCP |
| `crl` | cross-entropy and correctness ranking | Moon et al., ICML 2020 |
| `edl` | log loss of a Dirichlet with evidence exp(logits) | Sensoy et al., NeurIPS 2018 |
| `mcdropout` | cross-entropy of a network with dropout | Gal and Ghahramani, ICML 2016 |
| `augmix` | cross-entropy of images mixed by AugMix, without its consistency loss | Hendrycks et al., ICLR 2020 |
| `oe` | cross-entropy, and uniform outputs on external images | Hendrycks, Mazeika and Dietterich, ICLR 2019 |
| `energy` | fine-tuning with margins of energy on external images | Liu et al., NeurIPS 2020 |
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
from PIL import Image
from tqdm import tqdm

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.blueprints import make_blueprint
from unknown_detection.evaluation.models.weights import load_weights, read_state_dict
from unknown_detection.evaluation.releases import Release, load

try:
    import torch
    import torchvision
    from pytorch_ood.loss import EnergyRegularizedLoss
    from safetensors.torch import save_file
    from torch import Tensor, nn
    from torch.nn import functional as F  # noqa: N812 - as torch's own documentation names it
    from torchvision import transforms
    from torchvision.models.resnet import BasicBlock, Bottleneck
    from torchvision.transforms import functional
except ModuleNotFoundError as error:
    if __name__ != "__main__":
        raise
    click.echo(f"error: {error.name} is not installed, which training needs: pip install -e '.[train]'", err=True)
    raise SystemExit(2) from error

METHODS = ("ce", "crl", "edl", "mcdropout", "augmix", "oe", "energy")

# Abdelzad, Czarnecki and Salay (2020), table 12, in Keras' terms: there an epsilon of None is 1e-7, a decay of 0 keeps
# the rate, and momentum_decay is called schedule_decay.
KERAS = {"eps": 1e-7}
OPTIMIZERS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": partial(torch.optim.Adam, lr=0.001, betas=(0.9, 0.999), **KERAS),
    "rmsprop": partial(torch.optim.RMSprop, lr=0.001, alpha=0.9, **KERAS),
    "adamax": partial(torch.optim.Adamax, lr=0.001, betas=(0.9, 0.999), **KERAS),
    "nadam": partial(torch.optim.NAdam, lr=0.001, betas=(0.9, 0.999), momentum_decay=0.004, **KERAS),
    "sgd": partial(torch.optim.SGD, lr=0.01),
    "adagrad": partial(torch.optim.Adagrad, lr=0.01, **KERAS),
    "adadelta": partial(torch.optim.Adadelta, lr=0.1, rho=0.95, **KERAS),
}
PATIENCE = 10
"""Epochs without a lower validation loss after which it stops with --optimizer (section 4.2)."""


def default_resize(size: int) -> int:
    """Return to how many pixels the shorter side is resized before the middle is cropped: 36 for 32, 256 for 224."""
    return math.floor(size / 0.875)


def cifar(image: Image.Image) -> Tensor:
    """Normalize an image of 32 x 32; of an image of another size, take the middle."""
    if image.size != (32, 32):
        image = functional.center_crop(functional.resize(image, default_resize(32)), 32)
    # The channels of CIFAR-100's training images, as in the benchmark's code.
    return functional.normalize(functional.to_tensor(image), (0.507, 0.487, 0.441), (0.267, 0.256, 0.276))


def resnet18_32(num_classes: int) -> nn.Module:
    """Build a ResNet-18 for images of 32 x 32: the stem of He et al., section 4.2, 3 x 3 without stride or pooling."""
    model = torchvision.models.resnet18(num_classes=num_classes)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    model.preprocessing = cifar
    return model


# Means and deviations of CIFAR-10 and CIFAR-100, by their classes (OpenOOD v1.5, openood/preprocessors/transform.py).
OPENOOD = {
    10: ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    100: ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
}


def resnet18_openood(num_classes: int) -> nn.Module:
    """The ResNet-18 of `--recipe openood`: begun with torch's own initial weights, its images scaled to 32 x 32."""
    if num_classes not in OPENOOD:
        raise EvaluationError(
            f"OpenOOD has this network for CIFAR-10 and CIFAR-100, and not for {num_classes} classes."
        )
    model = resnet18_32(num_classes)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.reset_parameters()
    steps = [transforms.Resize(32), transforms.CenterCrop(32), transforms.ToTensor()]
    model.preprocessing = transforms.Compose([*steps, transforms.Normalize(*OPENOOD[num_classes])])
    return model


def resnet152(num_classes: int) -> nn.Module:
    """Build a ResNet-152 for images of 224 x 224."""
    model = torchvision.models.resnet152(num_classes=num_classes)
    model.preprocessing = torchvision.models.ResNet152_Weights.IMAGENET1K_V1
    return model


def resnet18_32_dropout(num_classes: int) -> nn.Module:
    """Build the small network with dropout, for `--method mcdropout`."""
    return _with_dropout(resnet18_32(num_classes))


def resnet152_dropout(num_classes: int) -> nn.Module:
    """Build the large network with dropout, for `--method mcdropout`."""
    return _with_dropout(resnet152(num_classes))


def _with_dropout(model: nn.Module, rate: float = 0.1) -> nn.Module:
    """Add dropout behind each convolution of a block and before the last layer, as in the benchmark's code.

    There the last layer's rate is 0.1, and the others' an option without a stated value: 0.1 for all is ours.
    """
    for block in model.modules():
        if isinstance(block, (BasicBlock, Bottleneck)):
            for name in [name for name, _ in block.named_children() if name.startswith("bn")]:
                setattr(block, name, nn.Sequential(getattr(block, name), nn.Dropout(rate)))
    model.fc = nn.Sequential(nn.Dropout(rate), model.fc)
    return model


def _at_least_float32(values: Tensor) -> Tensor:
    """Convert logits of lower precision to float32 for a loss; float64 stays."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def crl_loss(confidences: Tensor, correctness: Tensor) -> Tensor:
    """Correctness ranking loss over pairs of neighbours in the batch (Moon et al., equation 2).

    A pair's loss is max(0, |c_i - c_j| - sign(c_i - c_j) (k_i - k_j)), with k the greatest probabilities, shape (B,),
    and c the shares of past epochs in which the images were classified right. The last row's neighbour is the first.
    """
    confidences = _at_least_float32(confidences)
    gaps = correctness - correctness.roll(-1)
    return F.relu(gaps.abs() - gaps.sign() * (confidences - confidences.roll(-1))).mean()


OBJECTIVES = ("log", "digamma", "mse")
"""Losses of Sensoy et al., equations 3, 4 and 5; the benchmark chose the first (table 5)."""


def edl_loss(logits: Tensor, labels: Tensor, weight: float, objective: str = "log") -> Tensor:
    """Loss of Dirichlet distributions and a penalty on false evidence (Sensoy et al., section 4).

    The loss is -log E[p_y] (`log`), -E[log p_y] (`digamma`) or E[|y - p|^2] (`mse`), under the distribution. Evidence
    is exp(logit), with logits, shape (B, C), clamped to [-10, 10] as in the benchmark's code. The penalty is the
    divergence of the Dirichlet distribution without the label's evidence from the uniform one.
    """
    alpha = 1 + _at_least_float32(logits).clamp(-10, 10).exp()
    strength, own = alpha.sum(dim=1), alpha.gather(1, labels[:, None])[:, 0]
    if objective == "mse":
        mean = alpha / strength[:, None]
        far = (F.one_hot(labels, logits.shape[1]) - mean).square()
        loss = (far + mean * (1 - mean) / (strength[:, None] + 1)).sum(dim=1)
    else:
        loss = strength.digamma() - own.digamma() if objective == "digamma" else strength.log() - own.log()
    false_alpha = alpha.scatter(1, labels[:, None], 1.0)
    total = false_alpha.sum(dim=1, keepdim=True)
    divergence = total.lgamma()[:, 0] - math.lgamma(logits.shape[1]) - false_alpha.lgamma().sum(dim=1)
    divergence = divergence + ((false_alpha - 1) * (false_alpha.digamma() - total.digamma())).sum(dim=1)
    return (loss + weight * divergence).mean()


def oe_loss(known: Tensor, labels: Tensor, external: Tensor, weight: float = 0.5) -> Tensor:
    """Cross-entropy, plus that of external rows with the uniform distribution; each is a mean over its own rows.

    Source: Hendrycks et al., section 3; the weight is theirs for images (section 4.3).
    """
    uniform = -F.log_softmax(_at_least_float32(external), dim=1).mean()
    return F.cross_entropy(_at_least_float32(known), labels) + weight * uniform


def energy_loss(known: Tensor, labels: Tensor, external: Tensor, margins: tuple[float, float]) -> Tensor:
    """Cross-entropy, plus squared hinges of energies on the wrong side of their margins, for known and external rows.

    Source: Liu et al., equations 6 to 9; by pytorch-ood. Known rows should lie below, external rows above.
    """
    loss = EnergyRegularizedLoss(alpha=0.1, margin_in=margins[0], margin_out=margins[1])
    outliers = labels.new_full((len(external),), -1)
    return loss(_at_least_float32(torch.cat([known, external])), torch.cat([labels, outliers]))


def load_images(release: Release, split: str, size: int, resize: int | None, device: str) -> tuple[Tensor, Tensor]:
    """Decode a split, CONFIG/SPLIT; returns pixels (N, 3, S, S) as bytes, and labels (N,).

    With `resize`, the shorter side gets this length and the middle square is kept. Without, images of another size are
    resized and cropped to `size` x `size`, as when the model is evaluated.
    """
    images = release.images(*split.split("/"))
    side, shorter = resize or size, resize or default_resize(size)

    def decoded(number: int) -> np.ndarray:
        image = images.image(number).convert("RGB")
        if resize or image.size != (side, side):
            lengths = [max(shorter, round(shorter * length / min(image.size))) for length in image.size]
            left, top = ((length - side) // 2 for length in lengths)
            image = image.resize(lengths, Image.Resampling.BILINEAR).crop((left, top, left + side, top + side))
        return np.array(image)

    pixels = torch.empty(len(images), 3, side, side, dtype=torch.uint8)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for number, array in enumerate(threads.map(decoded, range(len(images)))):
            pixels[number] = torch.from_numpy(array).permute(2, 0, 1)
    return pixels.to(device), torch.tensor(images.rows["label"].to_numpy(), device=device)


def random_crops(pixels: Tensor, drawn: torch.Generator) -> Tensor:
    """Move each image by up to an eighth of its side (4 pixels of 32) over black, and mirror half of them; bytes."""
    count, _, side, _ = pixels.shape
    edge = side // 8
    padded = F.pad(pixels, (edge, edge, edge, edge)).permute(0, 2, 3, 1)
    offsets = torch.randint(0, 2 * edge + 1, (2, count, 1), generator=drawn).to(pixels.device)
    rows, columns = offsets + torch.arange(side, device=pixels.device)
    mirrored = (torch.rand(count, 1, generator=drawn) < 0.5).to(pixels.device)
    columns = torch.where(mirrored, columns.flip(1), columns)
    images = torch.arange(count, device=pixels.device)[:, None, None]
    return padded[images, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def random_resized_crops(pixels: Tensor, side: int, drawn: torch.Generator) -> Tensor:
    """Scale 8 to 100 % of each image, at aspects of 3:4 to 4:3, to `side` x `side`, and mirror half of them; bytes."""
    count = len(pixels)
    area = torch.empty(count).uniform_(0.08, 1.0, generator=drawn)
    ratio = torch.empty(count).uniform_(math.log(3 / 4), math.log(4 / 3), generator=drawn).exp()
    width, height = (area * ratio).sqrt().clamp(max=1.0), (area / ratio).sqrt().clamp(max=1.0)
    x, y = (torch.rand(2, count, generator=drawn) * 2 - 1) * (1 - torch.stack([width, height]))
    mirror = torch.where(torch.rand(count, generator=drawn) < 0.5, -1.0, 1.0)
    zero = torch.zeros(count)
    places = torch.stack([torch.stack([width * mirror, zero, x]), torch.stack([zero, height, y])]).permute(2, 0, 1)
    grid = F.affine_grid(places, [count, 3, side, side], align_corners=False).to(pixels.device)
    crops = F.grid_sample(pixels.float(), grid, align_corners=False, padding_mode="reflection")
    return crops.round().clamp(0, 255).to(torch.uint8)


class Training:
    """A model, its optimizer, and a method's state over epochs.

    `settings` has all that the weights depend on: the options of `main` from --known to --precision, and the digest of
    the release. Where one is None, the recipe's number is taken.
    """

    def __init__(self, settings: SimpleNamespace, release: Release, device: str, images_on: str) -> None:
        torch.manual_seed(settings.seed)
        self.settings, self.device = settings, device
        spec = settings.model if ":" in settings.model else f"{Path(__file__)}:{settings.model}"
        classes = release.label_names(settings.known.partition("/")[0])
        blueprint = make_blueprint(spec, len(classes), pretrained=False)
        if settings.init:
            path = Path(settings.init)
            load_weights(blueprint.module, read_state_dict(path), name=settings.model, path=path)
        self.run = self.model = blueprint.module.to(device, memory_format=torch.channels_last)
        preprocessing = blueprint.preprocessing
        constants = [preprocessing.of_channels(name) for name in ("mean", "std")]
        self.mean, self.std = torch.tensor(constants, device=device)[..., None, None]
        self.size = preprocessing.size[0]
        resize, names = preprocessing.description.get("resize_size", [None])[0], ["known", "validation"]
        names += ["external"] if settings.method in ("oe", "energy") else []
        splits = {name: getattr(settings, name) for name in names}
        self.images = {name: load_images(release, at, self.size, resize, images_on) for name, at in splits.items()}
        # The recipe: the benchmark's for CIFAR, and for large images that of torch's ImageNet example, as there.
        large, tuned, openood = self.size > 64, settings.method == "energy", settings.recipe == "openood"
        self.epochs = settings.epochs or (10 if tuned else 90 if large else 100 if openood else 200)
        self.batch = settings.batch or (256 if large else 128)
        self.first_rate = settings.rate or (0.001 if tuned else 0.1)
        self.cuts = [1 / 3, 2 / 3] if large else [0.6, 0.8]  # epochs 30 and 60 of 90; 120 and 160 of 200
        decay = 1e-4 if large else 5e-4
        if settings.optimizer:  # the optimizer paper's, each with its own constant rate and no augmentation (ours)
            self.epochs = settings.epochs or 1000
            self.optimizer = OPTIMIZERS[settings.optimizer](self.model.parameters())
        else:
            options: Any = {"lr": self.first_rate, "momentum": 0.9, "weight_decay": decay, "nesterov": not large}
            self.optimizer = torch.optim.SGD(self.model.parameters(), **options)
        self.scaler = torch.amp.GradScaler(torch.device(device).type, enabled=settings.precision == "float16")
        # The benchmark's code draws strengths up to 3 tenths (CIFAR) or 1, torchvision one of so many ninths from 0.
        self.augmix = torchvision.transforms.AugMix(severity=2 if large else 4, all_ops=False)
        self.correct = torch.zeros(len(self.images["known"][1]), device=device)
        self.log: list[dict[str, float]] = []
        self.best: dict[str, Tensor] = {}

    @property
    def finished(self) -> bool:
        """Whether all epochs are done or, with --optimizer, `PATIENCE` epochs have not lowered the validation loss."""
        losses = [entry["validation_loss"] for entry in self.log if self.settings.optimizer]
        waited = len(losses) - 1 - losses.index(min(losses)) if losses else 0
        return waited >= PATIENCE or len(self.log) >= self.epochs

    def state(self) -> dict[str, Any]:
        """Return everything on which later epochs depend."""
        parts = {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "scaler")}
        return parts | {"correct": self.correct, "log": self.log, "best": self.best, "settings": vars(self.settings)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the state of an earlier run."""
        for name in ("model", "optimizer", "scaler"):
            getattr(self, name).load_state_dict(state[name])
        self.correct, self.log, self.best = state["correct"], state["log"], state.get("best", {})

    def one_epoch(self, advance: Callable[[int], Any]) -> None:
        """Train for one epoch, whose random numbers all follow from the seed and the number of the epoch."""
        started, epoch = time.perf_counter(), len(self.log)
        torch.manual_seed(self.settings.seed * 1_000_003 + epoch)
        drawn = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + epoch)
        self.model.train()
        total = torch.zeros((), device=self.device)
        right = torch.zeros_like(self.correct)
        labels = self.images["known"][1].to(self.device)
        for progress, rows, external_rows in self._batches(drawn):
            if not self.settings.optimizer:
                self.optimizer.param_groups[0]["lr"] = self._rate(epoch + progress)
            inputs = self._inputs("known", rows, drawn)
            if external_rows is not None:
                inputs = torch.cat([inputs, self._inputs("external", external_rows, drawn)])
            half = getattr(torch, self.settings.precision)
            with torch.autocast(torch.device(self.device).type, half, enabled=half != torch.float32):
                logits, external = self.run(inputs).split([len(rows), len(inputs) - len(rows)])
            rows = rows.to(self.device)
            loss = self._loss(logits, labels[rows], external, rows)
            self.optimizer.zero_grad(set_to_none=True)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            right[rows] = (logits.detach().argmax(dim=1) == labels[rows]).float()
            total += loss.detach() * len(rows)
            advance(len(rows))
        self.correct += right
        entry = {"epoch": epoch + 1, "loss": float(total) / len(right), "train_accuracy": float(right.mean())}
        if not math.isfinite(entry["loss"]):
            raise EvaluationError(f"The loss is {entry['loss']} in epoch {epoch + 1}. Give a smaller --rate.")
        loss, accuracy = self.validation()
        entry |= {"validation_loss": loss, "validation_accuracy": accuracy}
        entry["rate"] = self.optimizer.param_groups[0]["lr"]
        self.log.append(entry | {"seconds": round(time.perf_counter() - started, 2)})
        if self.keeps_best and self.kept is self.log[-1]:
            self.best = {name: values.clone() for name, values in self.model.state_dict().items()}

    @property
    def keeps_best(self) -> bool:
        """Whether the weights of one epoch are kept: with --optimizer and in OpenOOD's recipe."""
        return bool(self.settings.optimizer or self.settings.recipe)

    @property
    def kept(self) -> dict[str, float]:
        """The epoch whose weights are kept: the last, or the first of the least loss or the last of the best accuracy.

        Loss and accuracy are those of the validation images; the latter is OpenOOD's (`recorders/base_recorder.py`).
        """
        if self.settings.optimizer:
            return min(self.log, key=lambda epoch: epoch["validation_loss"])
        if self.settings.recipe:
            return max(reversed(self.log), key=lambda epoch: epoch["validation_accuracy"])
        return self.log[-1]

    def _rate(self, epochs: float) -> float:
        """Return the learning rate: in steps of a tenth; Liu et al.'s and OpenOOD's is a cosine to 1e-6."""
        if self.settings.method == "energy" or self.settings.recipe:
            return 1e-6 + (self.first_rate - 1e-6) * (1 + math.cos(math.pi * epochs / self.epochs)) / 2
        return self.first_rate * 0.1 ** sum(epochs >= round(cut * self.epochs) for cut in self.cuts)

    def _batches(self, drawn: torch.Generator) -> Iterator[tuple[float, Tensor, Tensor | None]]:
        """Yield the finished share of the epoch, rows of known images, each once, and twice as many external rows."""
        count = len(self.correct)
        order, external = torch.randperm(count, generator=drawn), None
        if "external" in self.images:
            number = len(self.images["external"][1])
            external = torch.cat([torch.randperm(number, generator=drawn) for _ in range(-(-2 * count // number))])
        for start in range(0, count, self.batch):
            rows = order[start : start + self.batch]
            yield start / count, rows, None if external is None else external[2 * start : 2 * (start + len(rows))]

    def _inputs(self, name: str, rows: Tensor, drawn: torch.Generator) -> Tensor:
        """Return training images, augmented and normalized."""
        stored = self.images[name][0]
        pixels = stored[rows.to(stored.device)].to(self.device)
        if self.settings.optimizer:
            return self._normalized(pixels)
        large = pixels.shape[-1] != self.size
        pixels = random_resized_crops(pixels, self.size, drawn) if large else random_crops(pixels, drawn)
        if self.settings.method == "augmix":  # eight images share a draw of operations, for speed (ours)
            pixels = torch.cat([self.augmix(chunk) for chunk in pixels.split(8)])
        return self._normalized(pixels)

    def _normalized(self, pixels: Tensor) -> Tensor:
        return ((pixels.float() / 255 - self.mean) / self.std).contiguous(memory_format=torch.channels_last)

    def _loss(self, logits: Tensor, labels: Tensor, external: Tensor, rows: Tensor) -> Tensor:
        method, epoch = self.settings.method, len(self.log)
        if method == "edl":
            annealed = min(1.0, epoch / 10)  # as by Sensoy et al., section 4
            return edl_loss(logits, labels, annealed, self.settings.objective or OBJECTIVES[0])
        if method == "oe":
            return oe_loss(logits, labels, external)
        if method == "energy":
            return energy_loss(logits, labels, external, self.settings.margins)
        loss = F.cross_entropy(_at_least_float32(logits), labels)
        if method == "crl":
            confidences = _at_least_float32(logits).softmax(dim=1).amax(dim=1)
            loss = loss + crl_loss(confidences, self.correct[rows] / max(1, epoch))
        return loss

    def validation(self) -> tuple[float, float]:
        """Return the cross-entropy and accuracy on the validation images, without augmentation."""
        self.model.eval()
        loss, right, (pixels, labels) = 0.0, 0, self.images["validation"]
        edge = (pixels.shape[-1] - self.size) // 2
        for chunk, chunk_labels in zip(pixels.split(512), labels.to(self.device).split(512), strict=True):
            middle = chunk[..., edge : edge + self.size, edge : edge + self.size].to(self.device)
            with torch.no_grad():
                logits = self.model(self._normalized(middle))
            loss += float(F.cross_entropy(_at_least_float32(logits), chunk_labels, reduction="sum"))
            right += int((logits.argmax(dim=1) == chunk_labels).sum())
        return loss / len(labels), right / len(labels)


def train(
    settings: SimpleNamespace, release: Release, out: Path, *, device: str, images_on: str | None, compiled: bool
) -> None:
    """Train until finished, from the last checkpoint if there is one."""
    torch.backends.cudnn.deterministic = True
    training = Training(settings, release, device, images_on or device)
    training.run = torch.compile(training.model) if compiled else training.model
    out.mkdir(parents=True, exist_ok=True)
    if (out / "checkpoint.pt").exists():
        state = torch.load(out / "checkpoint.pt", map_location=device, weights_only=True)
        if other := [name for name, value in vars(settings).items() if state["settings"].get(name) != value]:
            raise EvaluationError(f"{out} holds a run with another {', '.join(other)}. Give another --out.")
        training.restore(state)
    count = len(training.correct)
    with tqdm(desc=out.name, total=training.epochs * count, initial=len(training.log) * count) as bar:
        while not training.finished:
            training.one_epoch(bar.update)
            bar.set_postfix({name: f"{training.log[-1][name]:.3f}" for name in ("loss", "validation_accuracy")})
            torch.save(training.state(), out / "checkpoint.tmp")
            (out / "checkpoint.tmp").replace(out / "checkpoint.pt")
            (out / "log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in training.log))
    state_dict = training.best or training.model.state_dict()
    weights = {name: value.contiguous().cpu() for name, value in state_dict.items()}
    save_file(weights, out / "weights.tmp")
    (out / "weights.tmp").replace(out / "weights.safetensors")
    click.echo(f"{out / 'weights.safetensors'}: validation accuracy {training.kept['validation_accuracy']:.4f}")


@click.command()
@click.option("--release", required=True, help="A release folder, or ORG/NAME on the Hub.")
@click.option("--known", required=True, help="Config with the training images, such as cifar-train.")
@click.option("--external", help="CONFIG[/SPLIT] of external images, for oe and energy.  [default: ...-external]")
@click.option("--method", type=click.Choice(METHODS), default="ce", show_default=True)
@click.option("--model", default="resnet18_32", show_default=True, help="Or resnet152, FILE.py:FUNCTION, timm:NAME.")
@click.option("--optimizer", type=click.Choice(list(OPTIMIZERS)), help="The optimizer paper's, with early stopping.")
@click.option("--recipe", type=click.Choice(["openood"]), help="OpenOOD's for CIFAR: 100 epochs, a cosine.")
@click.option("--seed", default=0, show_default=True)
@click.option("--epochs", type=click.IntRange(1), help="Instead of the recipe's; the rate falls in proportion.")
@click.option("--batch", type=click.IntRange(1), help="Known images in a batch.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Learning rate at the start.")
@click.option("--margins", type=(float, float), default=(-27.0, -5.0), show_default=True, help="Of energy: in, out.")
@click.option("--objective", type=click.Choice(OBJECTIVES), help="Of edl.  [default: log]")
@click.option("--init", default="", help="Weights to start from; energy needs them.")
@click.option("--precision", type=click.Choice(["float32", "bfloat16", "float16"]), default="float32")
@click.option("--device", default="cuda" if torch.cuda.is_available() else "cpu", show_default=True)
@click.option("--images-on", help="Device that holds the images, cpu where the GPU is too small.  [default: --device]")
@click.option("--compile", "compiled", is_flag=True, help="Compile the model (torch.compile).")
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(release: str, out: Path, device: str, images_on: str | None, compiled: bool, **options: Any) -> None:
    """Train a classifier on a release."""
    settings = SimpleNamespace(**options)
    base = settings.known.removesuffix("-train")
    external = settings.external or f"{base}-external"
    settings.external = external if "/" in external else f"{external}/train"
    settings.known, settings.validation = f"{settings.known}/train", f"{base}/validation"
    if settings.method == "mcdropout" and ":" not in settings.model:
        settings.model += "_dropout"
    if settings.optimizer and (settings.method != "ce" or settings.rate):
        raise click.UsageError("--optimizer is a recipe of its own, with a rate. Leave out --method and --rate.")
    if settings.recipe and (settings.method != "ce" or settings.optimizer):
        raise click.UsageError("--recipe openood is one of cross-entropy. Leave out --method and --optimizer.")
    if settings.method == "energy" and not settings.init:
        raise click.UsageError("energy fine-tunes a model. Give its weights with --init.")
    try:
        opened = load(release)
        settings.digest = opened.digest
        train(settings, opened, out, device=device, images_on=images_on, compiled=compiled)
    except EvaluationError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
