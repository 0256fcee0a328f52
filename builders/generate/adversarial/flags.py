"""The flags of adversarial images, and the generators that are made from their values."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from builders.errors import BuildError
from builders.generate.adversarial.autoattack import AutoAttack
from builders.generate.adversarial.generator import BATCH, Attack, AttackSettings, adversarial
from builders.generate.adversarial.models import MODELS, RESNET50, model_named
from builders.generate.adversarial.pgd import PGD
from builders.generate.contract import Generator, Weights
from builders.generate.extra import check_installed
from builders.generate.flags import DEVICE, Flag, chosen_device

FLAGS = (
    Flag("model", "Attack this model; as often as --weights.", metavar="resnet50|vit|timm:NAME", multiple=True),
    Flag("weights", "The weights of that --model: a file of torch.save.", metavar="FILE", multiple=True),
    Flag("attack", "Make only this attack's images; both without it.", ("pgd", "autoattack"), multiple=True),
    DEVICE,
    Flag("epsilon", "Greatest change of a channel by an attack, of pixels in [0, 1].", default=PGD.epsilon),
    Flag("pgd-steps", "Steps of PGD.", default=PGD.steps, least=1),
    Flag("pgd-step-size", "Length of PGD's step.", default=PGD.step_size),
    Flag("attack-batch", "Images that are attacked together.", default=BATCH, least=1),
    Flag("no-accuracy-check", "Do not compare the models' accuracy with that of their weights' cards.", default=False),
)


def declared_generators() -> dict[str, Generator]:
    """Return the generators that the benchmark declares, by the name of their split; they lack weights."""
    return {
        f"{attack.name}_{model.name}": adversarial(
            AttackSettings(model, attack), needs=f"--model {model.name} --weights FILE"
        )
        for model in MODELS.values()
        for attack in (PGD(), AutoAttack())
    }


def generators(values: Mapping[str, Any]) -> dict[str, Generator]:
    """Make the generators for the values of the flags, given by the flags' names, by the name of their split.

    Raises:
        BuildError: models and weights are not as many, the extra or a device is missing, or a value is out of range.
    """
    models, files = values["model"], values["weights"]
    if len(models) != len(files):
        raise BuildError(
            f"--model was given {len(models)} times and --weights {len(files)} times. Give each model its weights: "
            "--model resnet50 --weights FILE."
        )
    if not models:
        return {}
    attacks = _attacks(values)
    # Before timm is asked for a model; what is required does not depend on it.
    check_installed({attack.name: adversarial(AttackSettings(RESNET50, attack)) for attack in attacks})
    device, check = chosen_device(values["device"]), not values["no-accuracy-check"]
    attack_generators = {}
    for name, file in zip(models, files, strict=True):
        model, path = model_named(name), Path(file)
        weights = (Weights.of(model.name, path, "Weights are never downloaded: give the file with --weights."),)
        if check and not model.accuracy:
            raise BuildError(
                f"The accuracy of {name} is not known here, so its weights cannot be checked. Add --no-accuracy-check."
            )
        for attack in attacks:
            settings = AttackSettings(model, attack, device, values["attack-batch"], check)
            packages = [package.partition("==")[0] for package in attack.packages]
            versions = {package: importlib.metadata.version(package) for package in packages}
            attack_generators[f"{attack.name}_{model.split_name}"] = adversarial(
                settings, path=path, weights=weights, versions=versions
            )
    return attack_generators


def _attacks(values: Mapping[str, Any]) -> list[Attack]:
    epsilon, step_size = values["epsilon"], values["pgd-step-size"]
    if not 0 < step_size <= 1:
        raise BuildError(f"--pgd-step-size {step_size:g} is out of range. Give a number above 0 and up to 1.")
    attacks: tuple[Attack, ...] = (PGD(epsilon, values["pgd-steps"], step_size), AutoAttack(epsilon))
    return [attack for attack in attacks if not values["attack"] or attack.name in values["attack"]]
