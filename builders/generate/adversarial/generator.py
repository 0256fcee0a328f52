"""Generates adversarial images: each image is attacked, rounded and classified again.

An image is stored as 8-bit PNG: an attack's result is rounded, projected to the whole number of steps that epsilon
allows, and only then classified, in float32. So the columns are about the pixels that a reader gets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click
import numpy as np
import numpy.typing as npt

from builders.errors import BuildError
from builders.generate.adversarial.attacks import PGD, AutoAttack
from builders.generate.adversarial.network import AttackedModel, Network, Predictions, load_network
from builders.generate.contract import NOT_FINITE, Generate, Generated, Generator, SourceImage, Weights
from builders.generate.flags import resources_on, set_up_device
from builders.generate.sealed import prepare_original
from builders.release.images import TooNarrowError
from builders.release.schema import PREPARED_SHA256, Column, Value
from builders.sources.datasets.imagenet import class_indices

Result = TypeVar("Result")
Pixels = npt.NDArray[np.uint8]

BATCH = 32
"""Images that are attacked together unless `--attack-batch` says otherwise."""

RARE = 1e-6
"""Probability below which a count of right images is not put down to chance. The count is checked after every batch,
of which a build has a few hundred, so that a right model is refused less than once in a thousand builds."""

COLUMNS = (
    Column("attack", "string", "the attack: pgd or autoattack"),
    Column("part", "string", "which of AutoAttack's four attacks the image is from; empty for PGD"),
    Column("model", "string", "the model that was attacked"),
    Column("epsilon", "float64", "the greatest change of a channel that the attack may make, of pixels in [0, 1]"),
    Column("steps", "int64", "steps of the attack"),
    Column("step_size", "float64", "length of a step; 0 if the attack chooses it"),
    Column("prediction_before", "int64", "the class that the model gives the original, prepared at its size"),
    Column("confidence_before", "float64", "the probability of that class"),
    Column("prediction", "int64", "the class that the model gives the stored image"),
    Column("confidence", "float64", "the probability of that class"),
    Column("success", "bool", "whether the model took the original for its class, and the stored image for another"),
    PREPARED_SHA256,
)

Attack = PGD | AutoAttack

_TITLES = {"pgd": "projected gradient descent", "autoattack": "AutoAttack's four attacks, each on its own,"}


@dataclass(frozen=True)
class AttackSettings:
    """Settings of an attack on a model; the `start` of its generator.

    `device` is `cpu` or `cuda`; `batch` images are attacked together; with `accuracy_check` the model's accuracy is
    compared with its card. `BuildError` if epsilon is out of range.
    """

    model: AttackedModel
    attack: Attack
    device: str = "cpu"
    batch: int = BATCH
    accuracy_check: bool = True

    def __post_init__(self) -> None:
        if not 1 / 255 <= self.attack.epsilon <= 1:
            raise BuildError(
                f"--epsilon {self.attack.epsilon:g} is out of range: pixels are in [0, 1] and stored in steps of "
                "1/255. Give a number from 0.004 to 1; BROAD's is 0.05."
            )

    @property
    def levels(self) -> int:
        """The greatest change of a pixel in 8-bit levels: 12 for epsilon 0.05, since 0.05 x 255 is 12.75."""
        return math.floor(255 * self.attack.epsilon + 1e-9)

    def __call__(self, generator: Generator) -> Generate:
        """Load the generator's weights in a worker."""
        import torch

        device = set_up_device(generator)
        torch.backends.cudnn.deterministic = True  # a batch that is made again has the same pixels
        return Attacker(self, load_network(self.model, generator.weights[0].path, device, list(class_indices())))


def adversarial(
    settings: AttackSettings,
    *,
    needs: str = "",
    weights: tuple[Weights, ...] = (),
    versions: Mapping[str, str] | None = None,
) -> Generator:
    """Return the generator of an attack; without weights, `needs` names the flags that it still needs.

    `versions` are those of the packages that the pixels depend on.
    """
    model, attack = settings.model, settings.attack
    return Generator(
        name=f"{attack.name}-{model.name}",
        version=1,
        description=f"{_TITLES[attack.name]} on {model.name}, L-infinity, epsilon {attack.epsilon:g}, at "
        f"{model.size} x {model.size}",
        size=(model.size, model.size),
        start=settings,
        parameters={
            "attack": attack.name,
            **model.parameters(),
            "epsilon": attack.epsilon,
            "levels": settings.levels,
            **attack.parameters(),
            "device": settings.device,
            "batch": settings.batch,
            "accuracy_check": settings.accuracy_check,
            **(versions or {}),
        },
        columns=COLUMNS,
        resources=resources_on(settings.device),
        weights=weights,
        reproducible="recorded",
        together=settings.batch,
        needs=needs,
        prepared=model.size,
        sealed=model.preparation,
        requires=attack.packages,
    )


class Attacker:
    """Attacks images on a loaded model."""

    def __init__(self, settings: AttackSettings, network: Network) -> None:
        self.settings, self.network = settings, network
        self.accuracy = AccuracyCheck(settings.model)
        self.halving = Halving(settings.batch)

    def __call__(self, images: Sequence[SourceImage]) -> list[Generated]:
        """Attack images; `BuildError` if the model is less accurate than its card, or one image is too much."""
        results: dict[int, Generated] = {}
        prepared: dict[int, Pixels] = {}
        for number, image in enumerate(images):
            try:
                prepared[number] = prepare_original(image.rgb, self.settings.model.preparation)
            except TooNarrowError as error:
                results[number] = Generated(None, reason=str(error))
        if prepared:
            attacked = self._attack_all([images[number] for number in prepared], np.stack(list(prepared.values())))
            results |= zip(prepared, attacked, strict=True)
        return [results[number] for number in range(len(images))]

    def _attack_all(self, images: Sequence[SourceImage], originals: Pixels) -> list[Generated]:
        labels = np.array([class_indices()[image.class_id] for image in images])
        judged = self.halving.map(len(labels), lambda rows: self.network.judge(originals[rows], labels[rows]))
        before = Predictions(*(np.concatenate(column) for column in zip(*judged, strict=True)))
        if self.settings.accuracy_check:
            self.accuracy.add(len(labels), int((before.predictions == labels).sum()))

        def attack(rows: slice) -> list[Generated]:
            judged = Predictions(before.predictions[rows], before.confidences[rows], before.own[rows])
            return self._attack(images[rows], originals[rows], labels[rows], judged)

        return [generated for batch in self.halving.map(len(labels), attack) for generated in batch]

    def _attack(
        self, images: Sequence[SourceImage], originals: Pixels, labels: npt.NDArray[np.int64], before: Predictions
    ) -> list[Generated]:
        """Keep each image's best result: the misclassification with the highest confidence.

        Of results that are all classified right, keep the one with the lowest probability of the image's class.
        Results without finite pixels or probabilities are none, nor are those of an original without them.
        """
        import torch

        network, attack = self.network, self.settings.attack
        pixels, classes = network.pixels(originals), torch.from_numpy(labels).to(network.device)
        best, best_scores = dict[int, Generated](), np.full(len(labels), -np.inf)
        for part, attacked in attack.candidates(network, pixels, classes, [image.seed for image in images]):
            finite = attacked.isfinite().flatten(1).all(dim=1).cpu().numpy() & np.isfinite(before.confidences)
            stored = stored_pixels(attacked.nan_to_num(0, 0, 0), originals, self.settings.levels)
            judged = network.judge(stored, labels)
            scores = np.where(judged.predictions != labels, judged.confidences, -judged.own)
            scores[~(finite & np.isfinite(judged.confidences))] = -np.inf
            for row in np.flatnonzero(scores > best_scores).tolist():
                before_class, after_class = int(before.predictions[row]), int(judged.predictions[row])
                values: dict[str, Value] = {
                    "attack": attack.name,
                    "part": part,
                    "model": self.settings.model.name,
                    "epsilon": attack.epsilon,
                    "steps": attack.steps,
                    "step_size": attack.step_size,
                    "prediction_before": before_class,
                    "confidence_before": float(before.confidences[row]),
                    "prediction": after_class,
                    "confidence": float(judged.confidences[row]),
                    "success": before_class == int(labels[row]) != after_class,
                }
                best[row] = Generated(stored[row], values)
            best_scores = np.maximum(best_scores, scores)
        return [best.get(row, Generated(None, reason=NOT_FINITE)) for row in range(len(labels))]


def stored_pixels(attacked: Any, originals: Pixels, levels: int) -> Pixels:
    """Round attacked images to 8 bits, and project them to at most `levels` steps from the originals.

    `attacked` is a tensor with pixels in [0, 1], (n, 3, size, size); `originals` has the shape (n, size, size, 3).
    """
    rounded = np.rint(attacked.cpu().numpy().transpose(0, 2, 3, 1) * 255).astype(np.int16)
    near = originals.astype(np.int16)
    projected: Pixels = rounded.clip(near - levels, near + levels).clip(0, 255).astype(np.uint8)
    return projected


class AccuracyCheck:
    """Counts how many originals a model classifies right, and refuses a count that its accuracy makes improbable.

    The tolerance follows from the number n of images so far: the count is binomial with n and the card's accuracy. It
    is 4.9 standard errors of a large n: 21 points at 100 images, 3 at 5,000. A model that guesses is refused after
    10 images or fewer.
    """

    def __init__(self, model: AttackedModel) -> None:
        self.model = model
        self.images = self.right = 0

    def add(self, images: int, right: int) -> None:
        """Count more images; `BuildError` if too few or too many of all images so far were right."""
        from scipy.stats import binom

        self.images += images
        self.right += right
        expected = binom(self.images, self.model.accuracy)
        if min(expected.cdf(self.right), expected.sf(self.right - 1)) < RARE:
            raise BuildError(
                f"{self.model.name} classifies {self.right:,} of {self.images:,} originals right "
                f"({100 * self.right / self.images:.1f} %), and {self.model.card} has {100 * self.model.accuracy:.2f} "
                "%. Check --weights and the source's images, or skip this with --no-accuracy-check."
            )


class Halving:
    """Works on images in batches, and halves the batch size for good when a GPU lacks memory for a batch."""

    def __init__(self, batch: int) -> None:
        self.batch = batch

    def map(self, images: int, work: Callable[[slice], Result]) -> list[Result]:
        """Return the result of `work` for each batch of rows; a batch that lacks memory is halved and tried again."""
        import torch

        results: list[Result] = []
        first = 0
        while first < images:
            rows = slice(first, min(first + self.batch, images))
            try:
                results.append(work(rows))
            except torch.OutOfMemoryError:
                failed = rows.stop - first
            else:
                first = rows.stop
                continue
            # Outside of the handler, which keeps the tensors of the failed batch alive.
            if failed == 1:
                raise BuildError(
                    "The device has too little memory to attack a single image. Free some, or use another one."
                )
            self.batch = failed // 2
            click.echo(f"memory ran out with {failed} images at a time; going on with {self.batch}", err=True)
            torch.cuda.empty_cache()
        return results
