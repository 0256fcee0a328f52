"""What generators with models share: flags, devices, weights, the column of seeds, and errors for lack of memory.

Tested by `tests/builders/generate/adversarial/test_flags.py` and `tests/builders/generate/synthetic/test_biggan.py`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from builders.errors import BuildError
from builders.executors.base import ONE_CORE, Resources
from builders.generate.contract import Generator, Weights
from builders.release.schema import Column


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

SEED = Column("seed", "int64", "seed of the image's random numbers: the first 63 bits of the SHA-256 of the row's id")


def chosen_device(device: str) -> str:
    """Return `cpu` or `cuda`; `auto` is the GPU if torch finds one. `BuildError` if `cuda` is not available."""
    import torch

    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise BuildError("torch finds no CUDA device on this machine. Leave --device out, or give --device cpu.")
    return "cuda" if device != "cpu" and has_gpu else "cpu"


def resources_on(device: str) -> Resources:
    """Return the cores and GPUs that a batch on `cpu` or `cuda` occupies."""
    return Resources(cpus=1, gpus=1) if device == "cuda" else ONE_CORE


def with_files(declared: Generator, files: Mapping[str, Path], *, device: str, advice: str) -> Generator:
    """Return a generator with weights from files, given by name, on the device `auto`, `cpu` or `cuda`.

    Raises:
        BuildError: there is no such device, or a file cannot be read; ends with `advice`.
    """
    import torch

    chosen = chosen_device(device)
    versions = {name: importlib.metadata.version(name) for name in declared.requires}
    device_name = str(torch.cuda.get_device_name()) if chosen == "cuda" else chosen
    return replace(
        declared,
        needs="",
        parameters={**declared.parameters, "dtype": "float32", "device": device_name, **versions},
        weights=tuple(Weights.of(name, file, advice) for name, file in files.items()),
        resources=resources_on(chosen),
    )


def set_up_device(generator: Generator) -> str:
    """Verify a generator's weights and set up torch in a worker; returns the device, `cpu` or `cuda`."""
    import torch

    for weights in generator.weights:
        weights.verified()
    if generator.resources.gpus:
        return "cuda"
    torch.set_num_threads(1)  # a worker has one core, and sums do not depend on their number
    return "cpu"


@contextmanager
def memory_errors_as_build_errors() -> Iterator[None]:
    """Turn a GPU's error for lack of memory into a `BuildError`."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        raise BuildError(
            "The GPU has too little free memory for the model and its images. End other programs that use it, or give "
            "--device cpu in another --out; on this GPU the same command goes on where it stopped."
        ) from error
