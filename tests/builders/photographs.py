"""Pieces of real photographs, for what only shows on pictures with the statistics of the world."""

import functools

import numpy as np
from PIL import Image


@functools.cache
def photographs():
    """The two photographs that scikit-learn ships, 640 x 427."""
    from sklearn.datasets import load_sample_images  # here, since its import takes a second in every worker of the toy

    return [Image.fromarray(image) for image in load_sample_images().images]


def pieces(count, side, seed):
    """Square pieces of the photographs, cut at random places and turned at random; they may overlap."""
    generator = np.random.default_rng(seed)
    cut = []
    for _ in range(count):
        photograph = photographs()[generator.integers(2)]
        left, top = (int(generator.integers(size - side)) for size in photograph.size)
        piece = photograph.crop((left, top, left + side, top + side))
        cut.append(piece.rotate(90 * int(generator.integers(4))))
    return cut
