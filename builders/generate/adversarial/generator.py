"""The generators of adversarial images: each image is attacked, rounded and classified again.

An image is stored as 8-bit PNG: an attack's result is rounded, projected to the whole number of steps that epsilon
allows, and only then classified, in float32. So the columns are about the pixels that a reader gets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError
from builders.executors.base import ONE_CORE, Resources
from builders.generate.adversarial.accuracy import AccuracyCheck
from builders.generate.adversarial.autoattack import AutoAttack
from builders.generate.adversarial.halving import Halving
from builders.generate.adversarial.models import AttackedModel
from builders.generate.adversarial.network import Network, Predictions, load_network
from builders.generate.adversarial.pgd import PGD
from builders.generate.contract import Generate, Generated, Generator, SourceImage, Weights
from builders.generate.sealed import prepare_original
from builders.release.images import TooNarrowError
from builders.release.schema import PREPARED_SHA256, Column
from builders.sources.imagenet_names import class_indices

BATCH = 32
"""Images that are attacked together unless `--attack-batch` says otherwise."""

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

_PINNED = {"torchattacks": "torchattacks==3.3.0"}
"""The version whose attacks were read and are tested; the extra `generate` has it."""


@dataclass(frozen=True)
class AttackSettings:
    """Settings of an attack on a model, without the model's weights.

    Args:
        model: the model that is attacked.
        attack: the attack.
        device: `cpu` or `cuda`.
        batch: images that are attacked together.
        accuracy_check: whether the model's accuracy is compared with its card.

    Raises:
        BuildError: epsilon is out of range, or a number is too small.
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
        """The greatest change in steps of 8-bit pixels: 12 for epsilon 0.05, since 0.05 x 255 is 12.75."""
        return math.floor(255 * self.attack.epsilon + 1e-9)


def adversarial(settings: AttackSettings, needs: str = "") -> Generator:
    """Return the generator as a benchmark declares it, without weights.

    Args:
        settings: the model, the attack and its settings.
        needs: flags that have to be given before it can generate.
    """
    model, attack = settings.model, settings.attack
    return Generator(
        name=f"{attack.name}-{model.name}",
        version=1,
        description=f"{_TITLES[attack.name]} on {model.name}, L-infinity, epsilon {attack.epsilon:g}, at "
        f"{model.size} x {model.size}",
        size=(model.size, model.size),
        start=_AttackStart(settings, ""),
        parameters={
            "attack": attack.name,
            **model.parameters(),
            "epsilon": attack.epsilon,
            "levels": settings.levels,
            **attack.parameters(),
            "device": settings.device,
            "batch": settings.batch,
            "accuracy_check": settings.accuracy_check,
        },
        columns=COLUMNS,
        resources=Resources(cpus=1, gpus=1) if settings.device == "cuda" else ONE_CORE,
        reproducible="recorded",
        together=settings.batch,
        needs=needs,
        prepared=model.size,
        sealed=model.preparation,
        requires=tuple(_PINNED.get(package, package) for package in attack.packages),
    )


def attack_with_weights(
    settings: AttackSettings, weights: Path, digest: Weights, versions: dict[str, str]
) -> Generator:
    """Return the generator with a model's weights.

    Args:
        settings: the model, the attack and its settings.
        weights: the file.
        digest: the file's digest.
        versions: the versions of the packages that the pixels depend on.
    """
    declared = adversarial(settings)
    return replace(
        declared,
        start=_AttackStart(settings, str(weights.absolute())),
        parameters={**declared.parameters, **versions},
        weights=(digest,),
    )


_TITLES = {"pgd": "projected gradient descent", "autoattack": "AutoAttack's four attacks, each on its own,"}


@dataclass(frozen=True)
class _AttackStart:
    """The `start` of a generator whose weights are in a file."""

    settings: AttackSettings
    weights: str

    def __call__(self, generator: Generator) -> Generate:
        import torch

        if self.settings.device == "cpu":
            torch.set_num_threads(1)  # every worker has a core, and sums do not depend on their number
        else:
            torch.backends.cudnn.deterministic = True  # a batch that is made again has the same pixels
        path = generator.weights[0].verified(Path(self.weights))
        network = load_network(self.settings.model, path, self.settings.device, list(class_indices()))
        return Attacker(self.settings, network)


class Attacker:
    """Attacks images on a loaded model.

    Args:
        settings: the attack and its settings.
        network: the model.
    """

    def __init__(self, settings: AttackSettings, network: Network) -> None:
        self.settings, self.network = settings, network
        self.check = AccuracyCheck(settings.model) if settings.accuracy_check else None
        self.halving = Halving(settings.batch)

    def __call__(self, images: Sequence[SourceImage]) -> list[Generated]:
        """Attack images.

        Raises:
            BuildError: the model is less accurate than its card, or memory does not suffice for one image.
        """
        originals = [self._prepare(image) for image in images]
        rows = [row for row, original in enumerate(originals) if not isinstance(original, Generated)]
        attacked = iter(self._attack_rows(images, originals, rows) if rows else [])
        return [original if isinstance(original, Generated) else next(attacked) for original in originals]

    def _prepare(self, image: SourceImage) -> npt.NDArray[np.uint8] | Generated:
        try:
            return prepare_original(image.rgb, self.settings.model.preparation)
        except TooNarrowError as error:
            return Generated(None, reason=str(error))

    def _attack_rows(
        self, images: Sequence[SourceImage], prepared: Sequence[Any], rows: Sequence[int]
    ) -> list[Generated]:
        labels = np.array([class_indices()[images[row].class_id] for row in rows])
        originals, seeds = np.stack([prepared[row] for row in rows]), [images[row].seed for row in rows]
        before = self._judge(originals, labels)
        if self.check is not None:
            self.check.add(len(labels), int((before.predictions == labels).sum()))

        def attack(rows: slice) -> list[Generated]:
            return self._attack(originals[rows], labels[rows], seeds[rows], before.rows(rows))

        return [generated for batch in self.halving.map(len(rows), attack) for generated in batch]

    def _judge(self, originals: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64]) -> Predictions:
        batches = self.halving.map(len(labels), lambda rows: self.network.judge(originals[rows], labels[rows]))
        return Predictions(*(np.concatenate(column) for column in zip(*batches, strict=True)))

    def _attack(
        self,
        originals: npt.NDArray[np.uint8],
        labels: npt.NDArray[np.int64],
        seeds: Sequence[int],
        before: Predictions,
    ) -> list[Generated]:
        import torch

        network, attack = self.network, self.settings.attack
        images, classes = network.pixels(originals), torch.from_numpy(labels).to(network.device)
        best = _Best(originals, before)
        for part, attacked in attack.candidates(network, images, classes, seeds):
            pixels = stored_pixels(attacked, originals, self.settings.levels)
            best.take(part, pixels, network.judge(pixels, labels), labels)
        return [self._generated(row, before, best, int(label)) for row, label in enumerate(labels)]

    def _generated(self, row: int, before: Predictions, best: _Best, label: int) -> Generated:
        attack = self.settings.attack
        prediction_before, prediction = int(before.predictions[row]), int(best.predictions[row])
        return Generated(
            best.pixels[row],
            {
                "attack": attack.name,
                "part": best.parts[row],
                "model": self.settings.model.name,
                "epsilon": attack.epsilon,
                "steps": attack.steps,
                "step_size": attack.step_size,
                "prediction_before": prediction_before,
                "confidence_before": float(before.confidences[row]),
                "prediction": prediction,
                "confidence": float(best.confidences[row]),
                "success": prediction_before == label and prediction != label,
            },
        )


class _Best:
    """Keeps each image's best result: the misclassification with the highest confidence.

    Of results that are all classified right, it keeps the one with the lowest probability of the image's class.
    """

    def __init__(self, originals: npt.NDArray[np.uint8], before: Predictions) -> None:
        self.pixels = originals.copy()
        self.predictions, self.confidences = before.predictions.copy(), before.confidences.copy()
        self.parts = [""] * len(originals)
        self._scores = np.full(len(originals), -np.inf)

    def take(
        self, part: str, pixels: npt.NDArray[np.uint8], judged: Predictions, labels: npt.NDArray[np.int64]
    ) -> None:
        """Keep the results of a part that are better than those before."""
        scores = np.where(judged.predictions != labels, judged.confidences, -judged.own)
        better = scores > self._scores
        self.pixels[better] = pixels[better]
        self.predictions[better] = judged.predictions[better]
        self.confidences[better] = judged.confidences[better]
        self._scores[better] = scores[better]
        for row in np.flatnonzero(better):
            self.parts[row] = part


def stored_pixels(attacked: Any, originals: npt.NDArray[np.uint8], levels: int) -> npt.NDArray[np.uint8]:
    """Round attacked images to 8 bits, and project them to at most `levels` steps from the originals.

    Args:
        attacked: a tensor with pixels in [0, 1], (n, 3, size, size).
        originals: shape (n, size, size, 3).
        levels: the greatest difference of a channel.
    """
    rounded = np.rint(attacked.cpu().numpy().transpose(0, 2, 3, 1) * 255).astype(np.int16)
    near = originals.astype(np.int16)
    projected: npt.NDArray[np.uint8] = rounded.clip(near - levels, near + levels).clip(0, 255).astype(np.uint8)
    return projected
