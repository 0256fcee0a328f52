"""The flags of adversarial images: the generators that their values make, and tiny models for the demo.

Tested by `tests/builders/generate/adversarial/test_flags.py` and `tests/builders/test_broad_demo.py`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from builders.errors import BuildError
from builders.generate.adversarial.attacks import PGD, AutoAttack
from builders.generate.adversarial.generator import BATCH, Attack, AttackSettings, adversarial
from builders.generate.adversarial.network import MODELS, RESNET50, model_named
from builders.generate.contract import Generator, Weights, check_installed
from builders.generate.flags import DEVICE, Flag, chosen_device
from builders.storage.files import atomic_path

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
    """Return the generators that the benchmark declares, by split name; they have no weights yet."""
    return {
        f"{attack.name}_{model.name}": adversarial(
            AttackSettings(model, attack), needs=f"--model {model.name} --weights FILE"
        )
        for model in MODELS.values()
        for attack in (PGD(), AutoAttack())
    }


def generators(values: Mapping[str, Any]) -> dict[str, Generator]:
    """Make the generators that the values of the flags ask for, by split name."""
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
    named: dict[str, str] = {}
    for name, file in zip(models, files, strict=True):
        model = model_named(name)
        if (other := named.get(model.split_name)) is not None:
            raise BuildError(
                f"--model {other} and --model {name} make splits of the same names (..._{model.split_name}). Build "
                "one of them here, and the other into another --out."
            )
        named[model.split_name] = name
        weights = Weights.of(model.name, Path(file), "Weights are never downloaded: give the file with --weights.")
        if check and not model.accuracy:
            raise BuildError(
                f"The accuracy of {name} is not known here, so its weights cannot be checked. Add --no-accuracy-check."
            )
        for attack in attacks:
            settings = AttackSettings(model, attack, device, values["attack-batch"], check)
            # Pillow decodes and prepares the originals, and whoever opens the residuals has to get the same pixels.
            packages = [*(package.partition("==")[0] for package in attack.packages), "pillow"]
            versions = {package: importlib.metadata.version(package) for package in packages}
            attack_generators[f"{attack.name}_{model.split_name}"] = adversarial(
                settings, weights=(weights,), versions=versions
            )
    return attack_generators


def _attacks(values: Mapping[str, Any]) -> list[Attack]:
    epsilon, step_size = values["epsilon"], values["pgd-step-size"]
    if not 0 < step_size <= 1:
        raise BuildError(f"--pgd-step-size {step_size:g} is out of range. Give a number above 0 and up to 1.")
    attacks: tuple[Attack, ...] = (PGD(epsilon, values["pgd-steps"], step_size), AutoAttack(epsilon))
    return [attack for attack in attacks if not values["attack"] or attack.name in values["attack"]]


_NETWORKS = ("test_resnet", "test_vit")
"""The demo's models with random weights, which timm has for its own tests: a convolutional network and a vision
transformer, as in BROAD, of 0.5 and 0.4 million parameters for 160 x 160 pixels. They guess, so hardly an image is
right before its attack, and an attack hardly ever counts as a success."""

DEMO_MAKES: Mapping[str, Generator] = {
    # The model of these is another one, whose description only timm has; the packages are the same.
    f"{attack.name}_{network}": adversarial(AttackSettings(RESNET50, attack))
    for network in _NETWORKS
    for attack in (PGD(), AutoAttack())
}
"""Generators that take the models' packages, by the names of the splits that the models make."""


def write_classifiers(folder: Path, splits: Collection[str]) -> dict[str, Any]:
    """Write the weights of both networks into a folder; what an earlier run wrote there stays.

    Returns the values of the flags that give them, by the flags' names, for the attacks of some splits.
    """
    import timm
    import torch

    files = [folder / f"{network}.pth" for network in _NETWORKS]
    for network, file in zip(_NETWORKS, files, strict=True):
        if file.is_file():
            continue
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = timm.create_model(network, pretrained=False)
        with atomic_path(file) as temporary, temporary.open("wb") as opened:
            # Into the file of a name, torch writes the name, and so another file for each process.
            torch.save(module.state_dict(), opened)
    return {
        "model": tuple(f"timm:{network}" for network in _NETWORKS),
        "weights": tuple(map(str, files)),
        "attack": tuple(dict.fromkeys(DEMO_MAKES[split].parameters["attack"] for split in splits)),
        "no-accuracy-check": True,
    }
