"""Command-line flags whose values make generators, and the devices that `--device` selects.

Tested by `tests/builders/generate/adversarial/test_flags.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from builders.errors import BuildError


@dataclass(frozen=True)
class Flag:
    """The flag `--<name> VALUE` of a benchmark's command line, or `--<name>` if its default is False.

    `choices` are all values that it may have; empty if others may be given. The type of `default` is that of all
    values; None for a text without a default. `metavar` stands for the value in the help. A flag that can be given
    several times (`multiple`) has a tuple as its value. `least` is the least number.
    """

    name: str
    help: str
    choices: tuple[str, ...] = ()
    default: str | int | float | bool | None = None
    metavar: str = ""
    multiple: bool = False
    least: int | None = None


DEVICE = Flag("device", "Where models compute; auto takes the GPU if there is one.", ("auto", "cpu", "cuda"), "auto")


def chosen_device(device: str) -> str:
    """Return `cpu` or `cuda`; `auto` is the GPU where torch finds one.

    Raises:
        BuildError: the device is `cuda`, and torch finds no GPU.
    """
    import torch

    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise BuildError("torch finds no CUDA device on this machine. Leave --device out, or give --device cpu.")
    return "cuda" if device != "cpu" and has_gpu else "cpu"
