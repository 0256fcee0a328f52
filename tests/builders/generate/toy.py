"""Benchmarks whose images are made by toy generators, which need a device. Workers import this module.

`bright-224` is exact: it enlarges a source image to 224 x 224, a model's input, and brightens it. `drawn-224` and
`redrawn-224` make images from nothing and say that they could not make the same ones again. So says `nudged-224`,
whose images are sealed against their originals.
"""

import contextlib
import dataclasses
import functools
import hashlib
import os
import signal
import uuid
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders.cli.build_options import BuildRequest
from builders.declare.benchmark import Benchmark
from builders.declare.quotas import AllImages, Total
from builders.declare.splits import AllClasses, Classes, Config, PaperCount, Split
from builders.errors import BuildError
from builders.executors.base import Resources
from builders.executors.local import LocalExecutor
from builders.generate import batches, sealed
from builders.generate.contract import Generated, Generator, Weights
from builders.generate.exact.resize import FIXED_RESIZE
from builders.pipeline.from_sources import prepare
from builders.pipeline.run import write_release
from builders.release.entries import PreparationEntry
from builders.release.schema import PREPARED_SHA256, Column
from builders.sources.datasets.caltech256 import CALTECH256
from builders.sources.made import NOISE
from tests.builders.photographs import pieces
from tests.builders.planning import QUIET

SIDE = 224
BATCH = 1 << 20
"""Bytes that a batch of the toy costs at most, so that 20 images are some batches."""

DEVICE, LOG, KILL, WEIGHTS, GPUS = "TOY_DEVICE", "TOY_LOG", "TOY_KILL", "TOY_WEIGHTS", "TOY_GPUS"
"""Environment variables: the device (`on`), a folder for what happened, the image at which the process is killed, the
file with the weights, and the GPUs that a batch needs, if they are not one."""

GAIN = bytes([3])
"""The weights: what the brightness is multiplied by."""


def write_environment(folder):
    """What a process needs to use the generators."""
    (folder / "log").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(GAIN)
    return {DEVICE: "on", LOG: str(folder / "log"), WEIGHTS: str(folder / "weights.bin")}


@contextlib.contextmanager
def with_device(folder):
    """A new worker's process, as it were, with the device; `folder` is what it writes to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builders.executors.base._worker_values", {})
        for name, value in write_environment(folder).items():
            patch.setenv(name, value)
        yield


def logged(folder, kind):
    return sorted(path.name for path in (folder / "log").glob(f"{kind}-*"))


def log(kind):
    Path(os.environ[LOG], f"{kind}-{os.getpid()}-{uuid.uuid4().hex}").touch()


def set_up(make, generator):
    if os.environ.get(DEVICE) != "on":
        raise BuildError("No toy device was found. Plug one in and run again.")
    gain = dataclasses.replace(generator.weights[0], path=Path(os.environ[WEIGHTS])).verified().read_bytes()[0]
    log("setup")
    return functools.partial(call, make, generator, gain)


def call(make, generator, gain, images):
    assert 1 <= len(images) <= generator.together
    generated = []
    for image in images:
        log("image")
        if len(list(Path(os.environ[LOG]).glob("image-*"))) == int(os.environ.get(KILL, 0)):
            os.kill(os.getpid(), signal.SIGKILL)
        generated.append(make(image, gain, generator.parameters))
    return generated


def start_bright(generator):
    return set_up(brightened, generator)


def start_drawn(generator):
    return set_up(drawn, generator)


def start_redrawn(generator):
    return set_up(redrawn, generator)


def brightened(image, gain, parameters):
    large = np.asarray(image.rgb.resize((SIDE, SIDE), Image.Resampling.NEAREST)).astype(int) + gain * parameters["by"]
    return Generated(
        np.clip(large, 0, 255).astype(np.uint8),
        {"clipped": int((large > 255).sum()), "strength": gain * parameters["by"] / 255},
    )


def drawn(image, gain, parameters):
    seed = int(hashlib.sha256(image.id.encode()).hexdigest()[:8], 16)
    assert image.image is None and image.data == b""
    pixels = np.full((SIDE, SIDE, 3), seed % 256, np.uint8)
    return Generated(pixels, {"seed": seed, "prompt": f"A picture of {image.class_name}."})


NEEDS = {
    "resources": Resources(gpus=float(os.environ.get(GPUS, "1"))),
    "weights": (Weights("gain", hashlib.sha256(GAIN).hexdigest()),),
    "together": 3,
}

BRIGHT = Generator(
    "bright-224",
    1,
    "enlarged to 224 x 224 and brightened",
    (SIDE, SIDE),
    start_bright,
    {"by": 20},
    (
        Column("clipped", "int64", "how many samples were above 255"),
        Column("strength", "float64", "what was added, of 1"),
    ),
    **NEEDS,
    prepared=SIDE,
)
SEED = Column("seed", "int64", "what the image was drawn by")
PROMPT = Column("prompt", "string", "what was asked for", absent="")
DRAWN = Generator(
    "drawn-224",
    1,
    "drawn from its prompt",
    (SIDE, SIDE),
    start_drawn,
    {"steps": 50},
    (SEED, PROMPT),
    **NEEDS,
    reproducible="recorded",
)


def redrawn(image, gain, parameters):
    made = drawn(image, gain, parameters)
    return Generated(255 - made.pixels, {"seed": made.values["seed"]})


# Has no prompt.
REDRAWN = dataclasses.replace(DRAWN, name="redrawn-224", start=start_redrawn, columns=(SEED,))


PREPARATION = PreparationEntry(SIDE, 256, "bilinear")


def start_nudged(generator):
    return set_up(nudged, generator)


def nudged(image, gain, parameters):
    """As an attack does it: at most so many steps from the prepared original."""
    prepared = sealed.prepare_original(image.rgb, PREPARATION).astype(int)
    steps = np.random.default_rng(image.seed).integers(-parameters["levels"], parameters["levels"] + 1, prepared.shape)
    return Generated((prepared + steps).clip(0, 255).astype(np.uint8), {"strength": gain / 255})


NUDGED = Generator(
    "nudged-224",
    1,
    "prepared at 224 x 224 and nudged",
    (SIDE, SIDE),
    start_nudged,
    {"levels": 12},
    (Column("strength", "float64", "what was added, of 1"), PREPARED_SHA256),
    **NEEDS,
    reproducible="recorded",
    prepared=SIDE,
    sealed=PREPARATION,
)


def sealed_benchmark(*, more=False):
    """A config with images that are sealed, and with `more` another split of them, as somebody's own model makes."""
    caltech = {"source": CALTECH256, "partitions": ("images",), "quota": AllImages(), "paper": PaperCount(0)}
    known, unknown = (Classes("caltech256", decision) for decision in ("keep", "remove"))
    splits = [Split("nudged", "adversarial", classes=known, generator=NUDGED, **caltech)]
    if more:
        other = dataclasses.replace(NUDGED, name="nudged-other-224", parameters={"levels": 3})
        splits.append(Split("nudged_other", "adversarial", classes=unknown, generator=other, **caltech))
    config = Config("toy-attacked", known, "Nudged photographs.", tuple(splits))
    return Benchmark("toy", "A toy", "1.0.0", 0, "", "@misc{toy}", (config,))


def toy_benchmark(bright=BRIGHT):
    """Configs with images that are made of a source's, and with images that are made from nothing."""
    paper = PaperCount(0)
    caltech = {"source": CALTECH256, "partitions": ("images",), "quota": AllImages(), "paper": paper}
    noise = {"source": NOISE, "partitions": ("images",), "classes": AllClasses("a toy"), "paper": paper}
    known, unknown = (Classes("caltech256", decision) for decision in ("keep", "remove"))
    attacked = (
        Split("attacked", "adversarial", classes=known, generator=bright, **caltech),
        Split("corrupted", "corruption", classes=unknown, generator=bright, **caltech),
    )
    synthetic = (
        Split("drawn", "synthetic", quota=Total(7), generator=DRAWN, **noise),
        Split("redrawn", "synthetic", quota=Total(3), generator=REDRAWN, **noise),
    )
    plain = (Split("small", "external", classes=known, generator=FIXED_RESIZE, **caltech),)
    configs = (
        Config("toy", known, "Brightened photographs.", attacked),
        Config("toy-synthetic", known, "Drawn pictures.", synthetic),
        Config("toy-plain", known, "Small photographs.", plain),
    )
    return Benchmark("toy", "A toy", "1.0.0", 0, "", "@misc{toy}", configs)


def write_photographs(root, images=10):
    """Pieces of photographs in the layout of Caltech-256: a class that is kept and one that is not."""
    for folder, seed in (("133.lightning", 1), ("003.backpack", 2)):
        place = root / "256_ObjectCategories" / folder
        place.mkdir(parents=True)
        for number, piece in enumerate(pieces(images, 48, seed), start=1):
            piece.save(place / f"{folder[:3]}_{number:04d}.jpg", quality=95)
    return root


def build_toy(photographs, out, *, splits=(), workers=1, benchmark=None, executor=None, **changes):
    """Build the toy, on this machine's cores if no executor is given; returns the manifest."""
    benchmark = benchmark or toy_benchmark()
    keys = [key for key in benchmark.splits if not splits or key in splits or key.split("/")[0] in splits]
    request = BuildRequest(out, **({"splits": tuple(keys), "allow_partial": True, "demo": True} | changes))
    before = batches._BATCH_BYTES
    batches._BATCH_BYTES = BATCH
    try:
        with executor or LocalExecutor(workers) as executor:
            plan = prepare(benchmark, request, {"caltech256": photographs}, QUIET)
            return write_release(plan, executor, QUIET)
    finally:
        batches._BATCH_BYTES = before
