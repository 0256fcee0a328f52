"""Writes MNIST's or Fashion-MNIST's idx files, and noise, as folders of PNGs for `unknown-detection build folder`.

    python examples/mnist_folders.py --idx mnist-files --out build/mnist --noise build/noise

Each dataset has four files, such as `train-images-idx3-ubyte.gz` (with or without `.gz`), at its owner's address and
at many others. The images go to `OUT/train/CLASS/NUMBER.png` and `OUT/test/CLASS/NUMBER.png`. `--noise` writes the two
noises of Abdelzad, Czarnecki and Salay (2020, section 4.1), as many images as there are test images.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]

_PARTS = {"train": "train", "test": "t10k"}
"""Partitions, with the first word of their files' names."""


def read_idx(folder: Path, name: str, dimensions: int) -> Pixels:
    """Read an array of bytes in the format of yann.lecun.com/exdb/mnist, with or without `.gz`.

    Raises:
        click.UsageError: there is no such file, or it is no array of bytes with so many dimensions.
    """
    path = next((file for file in (folder / name, folder / f"{name}.gz") if file.is_file()), None)
    if path is None:
        raise click.UsageError(f"There is no {name} or {name}.gz in {folder}. Put the dataset's four files there.")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError) as error:
        raise click.UsageError(f"{path} is damaged: {error}. Get it again.") from error
    start = 4 + 4 * dimensions
    shape = np.frombuffer(content[4:start].ljust(4 * dimensions, b"\0"), ">u4").astype(int)
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) != start + shape.prod():
        raise click.UsageError(f"{path} is no idx file of bytes with {dimensions} dimensions. Get it again.")
    return np.frombuffer(content[start:], np.uint8).reshape(shape)


def save(path: Path, pixels: Pixels) -> None:
    """Write a grey image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def noise(kind: str, number: int) -> Pixels:
    """Draw one image of 28 x 28: values from the normal distribution of mean 0.5 and deviation 1, clipped, or uniform.

    An image depends on nothing but its kind and number.
    """
    drawn = np.random.default_rng([number, len(kind)])
    values = drawn.normal(0.5, 1.0, (28, 28)).clip(0, 1) if kind == "gaussian" else drawn.random((28, 28))
    return (values * 255).round().astype(np.uint8)


@click.command()
@click.option("--idx", type=click.Path(path_type=Path), required=True, help="Folder with the dataset's four files.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for train and test.")
@click.option("--noise", "noisy", type=click.Path(path_type=Path), help="Folder for the noises gaussian and uniform.")
def main(idx: Path, out: Path, noisy: Path | None) -> None:
    """Write the images of idx files as PNGs in class folders."""
    partitions = {}
    for part, stem in _PARTS.items():
        images, labels = read_idx(idx, f"{stem}-images-idx3-ubyte", 3), read_idx(idx, f"{stem}-labels-idx1-ubyte", 1)
        if len(images) != len(labels):
            raise click.UsageError(
                f"{idx} has {len(images):,} {part} images and {len(labels):,} labels. Get it again."
            )
        partitions[part] = images, labels
    for part, (images, labels) in partitions.items():
        for number, (pixels, label) in enumerate(zip(images, labels.tolist(), strict=True)):
            save(out / part / str(label) / f"{number:05d}.png", pixels)
    if noisy is not None:
        for kind in ("gaussian", "uniform"):
            for number in range(len(partitions["test"][0])):
                save(noisy / kind / f"{number:05d}.png", noise(kind, number))
    click.echo(f"{len(partitions['train'][0]):,} training and {len(partitions['test'][0]):,} test images are in {out}")


if __name__ == "__main__":
    main()
