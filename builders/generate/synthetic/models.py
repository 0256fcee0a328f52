"""What generative models share: the column of seeds, weights in folders and errors of memory.

Tested by `tests/builders/generate/synthetic/test_biggan.py`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from builders.errors import BuildError
from builders.executors.base import ONE_CORE, Resources
from builders.generate.contract import Generate, Generator, Weights
from builders.generate.flags import chosen_device
from builders.release.schema import Column

SEED = Column("seed", "int64", "seed of the image's random numbers: the first 63 bits of the SHA-256 of the row's id")


@dataclass(frozen=True)
class ModelStart:
    """Loads the model of a folder onto a device; a worker does this once for equal values.

    A generator that a benchmark declares has no folder yet, and is not started.
    """

    load: Callable[[Path, Generator, str], Generate]
    folder: str = ""
    device: str = "cpu"

    def __call__(self, generator: Generator) -> Generate:
        """Verify the files and load the model."""
        import torch

        if self.device == "cpu":
            torch.set_num_threads(1)  # a worker has one core
        for weights in generator.weights:
            weights.verified(Path(self.folder, weights.name.partition("/")[2]))
        with memory_errors_as_build_errors():
            return self.load(Path(self.folder), generator, self.device)


def with_folder(
    declared: Generator,
    load: Callable[[Path, Generator, str], Generate],
    folder: Path,
    files: Mapping[str, str],
    *,
    device: str,
    advice: str,
) -> Generator:
    """Return a generator with the weights of a folder.

    `load` loads the model of a folder onto `cpu` or `cuda`; a module-level function. `files` has the names of the
    weights, as `model/<path in the folder>`, and that path. `device` is `auto`, `cpu` or `cuda`.

    Raises:
        BuildError: there is no such device, or a file cannot be read; ends with `advice`.
    """
    import torch

    chosen = chosen_device(device)
    versions = {name: importlib.metadata.version(name) for name in declared.requires}
    name = str(torch.cuda.get_device_name()) if chosen == "cuda" else chosen
    return replace(
        declared,
        needs="",
        start=ModelStart(load, str(folder), chosen),
        parameters={**declared.parameters, "dtype": "float32", "device": name, **versions},
        weights=tuple(Weights.of(name, folder / file, advice) for name, file in files.items()),
        resources=Resources(cpus=1, gpus=1) if chosen == "cuda" else ONE_CORE,
    )


@contextmanager
def memory_errors_as_build_errors() -> Iterator[None]:
    """Turn a GPU's lack of memory into a `BuildError`."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        raise BuildError(
            "The GPU has too little free memory for the model and its images. End other programs that use it, or give "
            "--device cpu in another --out; on this GPU the same command goes on where it stopped."
        ) from error
