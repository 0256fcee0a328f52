"""Scores images by smoothness alone, without a model, to find unknown splits that it separates.

Tack et al. (CSI: Novelty Detection via Contrastive Learning on Distributionally Shifted Instances, NeurIPS 2020)
showed that total variation alone separates the resized LSUN and ImageNet images in circulation, which were shrunk with
aliasing, from CIFAR; Kim et al. (section 3.1) report this and rebuild both sets for that reason.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

Float64 = npt.NDArray[np.float64]


def total_variation(image: npt.NDArray[np.uint8]) -> float:
    """Return the mean distance between a pixel and its right or lower neighbour.

    Kim et al., section 3.1: the distances between each pixel and its surrounding pixels, summed over the image. Here
    every pair of neighbours counts once, the distance is Euclidean over the channels scaled to [0, 1], and the sum is
    divided by the number of pairs, which makes images of different sizes comparable. None of the three changes the
    order of images of one size.

    Args:
        image: shape (height, width, 3).

    Returns:
        0 for an image of one colour or one pixel, at most sqrt(3).
    """
    pixels = image.astype(np.float64) / 255
    down = np.sqrt(np.square(np.diff(pixels, axis=0)).sum(axis=2))
    right = np.sqrt(np.square(np.diff(pixels, axis=1)).sum(axis=2))
    pairs = down.size + right.size
    return float((down.sum() + right.sum()) / pairs) if pairs else 0.0


def smoothness_score(variations: Float64, known_mean: float) -> Float64:
    """Return each image's distance in total variation from the known images' mean; higher = more unknown.

    Args:
        variations: n values of `total_variation`.
        known_mean: their mean over in-distribution images.

    Returns:
        n values, none negative.
    """
    scores: Float64 = np.abs(variations - known_mean)
    return scores


def auroc(known: Float64, unknown: Float64) -> float:
    """Return the probability that an unknown image scores above a known one (Mann-Whitney; ties count half).

    Args:
        known: scores of n in-distribution images.
        unknown: scores of m unknown images.

    Returns:
        0.5 for a score that does not separate the two, 1 if every unknown image scores higher.

    Raises:
        ValueError: a side is empty.
    """
    if not len(known) or not len(unknown):
        raise ValueError("AUROC needs images on both sides")
    ranks = rankdata(np.concatenate([known, unknown]))
    excess = ranks[len(known) :].sum() - len(unknown) * (len(unknown) + 1) / 2
    return float(excess / (len(known) * len(unknown)))
