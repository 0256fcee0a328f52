"""What reading a photograph costs: JPEG decoders beside Pillow, digest and transform, and the way from a worker.

`python -m benchmarks.evaluating.reading PHOTOGRAPHS` decodes the JPEGs of a folder with Pillow and with what is
installed of torchvision, torchcodec and simplejpeg, compares every pixel, and prints ratios of processor time, which
other work on the machine changes least, and of seconds with one thread and with two. Without a folder the photographs
are crops of scikit-learn's two (`benchmarks.evaluating.hashing`).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torch.utils.data import DataLoader, default_collate
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms._presets import ImageClassification

Pixels = npt.NDArray[np.uint8]


def pillow(data: bytes) -> Pixels:
    """Decode as an extraction does, without the turn that EXIF may ask for."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def torchvision(data: bytes) -> Pixels:
    """Decode to channels first, as torchvision does."""
    decoded = decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)
    return np.asarray(decoded.permute(1, 2, 0).numpy())


def decoders() -> dict[str, Callable[[bytes], Pixels]]:
    """Return the decoders that are installed."""
    found = {"pillow": pillow, "torchvision": torchvision}
    with contextlib.suppress(ImportError):
        import simplejpeg

        found["simplejpeg"] = lambda data: np.asarray(simplejpeg.decode_jpeg(data, "RGB"))
    with contextlib.suppress(ImportError, RuntimeError):  # the latter without a library of FFmpeg's
        from torchcodec.decoders import decode_image

        def torchcodec(data: bytes) -> Pixels:
            decoded = decode_image(torch.frombuffer(bytearray(data), dtype=torch.uint8))
            return np.asarray(decoded.permute(1, 2, 0).numpy())

        found["torchcodec"] = torchcodec
    return found


def processor() -> float:
    """Return the processor seconds of this process and of its ended children."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return processor seconds and seconds of some work."""
    started, before = time.perf_counter(), processor()
    work()
    return processor() - before, time.perf_counter() - started


class Prepared:
    """Tensors of one batch over and over, as a preprocessing makes them."""

    def __init__(self, count: int) -> None:
        self.count, self.tensors = count, torch.rand(64, 3, 224, 224)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        return self.tensors[number % 64]


def compare(files: Sequence[bytes], repeats: int) -> None:
    """Print for each decoder how many photographs have Pillow's pixels, and what it takes beside Pillow."""
    ways = decoders()
    for name, decode in ways.items():
        equal = sum(np.array_equal(decode(data), pillow(data)) for data in files)
        click.echo(f"{name:12} {equal:,} of {len(files):,} photographs with equal pixels")
    for threads in (1, 2):
        with ThreadPool(threads) as pool:
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
            for _ in range(repeats):
                for name, decode in ways.items():
                    times[name].append(timed(partial(pool.map, decode, files)))
        medians = {name: [statistics.median(of) for of in zip(*runs, strict=True)] for name, runs in times.items()}
        for name, (cpu, seconds) in medians.items():
            ratio, faster = medians["pillow"][0] / cpu, medians["pillow"][1] / seconds
            each = f"{1000 * cpu / len(files):.2f} ms processor"
            click.echo(f"{threads} threads {name:12} {each}, {ratio:.2f} times Pillow; {faster:.2f} by clock")


def parts(files: Sequence[bytes]) -> None:
    """Print what else is done with an image before the model sees it."""
    images = [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
    transform = ImageClassification(crop_size=224)
    for name, work in {
        "SHA-256": lambda: [hashlib.sha256(data).digest() for data in files],
        "decode": lambda: [pillow(data) for data in files],
        "transform": lambda: [transform(image) for image in images],
    }.items():
        click.echo(f"{name:12} {1000 * timed(work)[0] / len(files):.2f} ms processor")
    rows: Any = Prepared(64 * 40)
    for name, collate in {"stacked, then copied": torch.stack, "made in shared memory": default_collate}.items():
        loader = DataLoader(rows, 64, num_workers=1, collate_fn=collate)
        cpu, _ = timed(partial(sum, map(torch.sum, loader)))
        click.echo(f"{name:22} {1000 * cpu / len(rows):.2f} ms processor, with the main process reading it")


@click.command(help=__doc__)
@click.argument("photographs", type=click.Path(path_type=Path, exists=True), required=False)
@click.option("--repeats", default=3, show_default=True, help="Times each side runs.")
def main(photographs: Path | None, repeats: int) -> None:
    """Print all of it."""
    torch.set_num_threads(1)
    files = [] if photographs is None else [path.read_bytes() for path in sorted(photographs.rglob("*.[jJ][pP]*[gG]"))]
    for number, pixels in enumerate(load_sample_images().images * 50 if not files else []):
        Image.fromarray(pixels[number : number + 375, number : number + 500]).save(
            encoded := io.BytesIO(), "JPEG", quality=97
        )
        files.append(encoded.getvalue())
    click.echo(f"{len(files):,} photographs of {sum(map(len, files)) / len(files) / 1000:.0f} KB")
    compare(files, repeats)
    parts(files)


if __name__ == "__main__":
    main()
