"""Tiny classifiers with random weights for the demo: networks that timm has for its own tests.

They guess, so hardly an image is right before its attack, and an attack hardly ever counts as a success.

Tested by `tests/builders/broad/test_demo.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from builders.generate.adversarial.autoattack import AutoAttack
from builders.generate.adversarial.generator import AttackSettings, adversarial
from builders.generate.adversarial.models import RESNET50
from builders.generate.adversarial.pgd import PGD
from builders.generate.contract import Generator
from builders.storage.files import atomic_path

_NETWORKS = ("test_resnet", "test_vit")
"""A convolutional network and a vision transformer, as in BROAD: 0.5 and 0.4 million parameters, 160 x 160 pixels."""

MAKES: Mapping[str, Generator] = {
    # The model of these is another one, whose description only timm has; the packages are the same.
    f"{attack.name}_{network}": adversarial(AttackSettings(RESNET50, attack))
    for network in _NETWORKS
    for attack in (PGD(), AutoAttack())
}
"""Generators that take the models' packages, by the names of the splits that the models make."""


def write_classifiers(folder: Path, splits: Collection[str]) -> dict[str, Any]:
    """Write the weights of both networks into a folder; what an earlier run wrote there stays.

    Returns:
        The values of the flags that give them, by the flags' names, for the attacks of some splits.
    """
    files = [folder / f"{network}.pth" for network in _NETWORKS]
    for network, file in zip(_NETWORKS, files, strict=True):
        if not file.is_file():
            _write(network, file)
    return {
        "model": tuple(f"timm:{network}" for network in _NETWORKS),
        "weights": tuple(map(str, files)),
        "attack": tuple(dict.fromkeys(MAKES[split].parameters["attack"] for split in splits)),
        "no-accuracy-check": True,
    }


def _write(network: str, file: Path) -> None:
    import timm
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = timm.create_model(network, pretrained=False)
    with atomic_path(file) as temporary:
        torch.save(module.state_dict(), temporary)
