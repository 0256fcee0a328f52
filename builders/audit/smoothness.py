"""Scores images by smoothness alone, without a model, to find unknown splits that it separates.

Tack et al. (CSI: Novelty Detection via Contrastive Learning on Distributionally Shifted Instances, NeurIPS 2020)
showed that total variation alone separates the resized LSUN and ImageNet images in circulation from CIFAR. Kim et al.
(section 3.1) report this, lay it to "inappropriate image processing", and rebuild both sets for that reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError
from builders.release.entries import Manifest
from builders.release.reader import read_index, rgb_images
from builders.release.schema import ROLES
from unknown_detection.terminal.progress import bar

Float64 = npt.NDArray[np.float64]

SEPARABLE = 0.75
"""The AUROC from which on a split counts as separable by smoothness (ours: halfway between chance and certainty)."""


def total_variation(image: npt.NDArray[np.uint8]) -> float:
    """Return the mean distance between a pixel and its right or lower neighbour.

    Kim et al., section 3.1: the distances between each pixel and its surrounding pixels, summed over the image. They
    name neither the distance nor how far the surroundings reach. Ours are the Euclidean distance, over the channels
    scaled to [0, 1], and the pixels to the left and right, above and below. Both change which of two images has more:
    squared distances would weigh a few sharp edges more than much faint texture. To count each pair of neighbours once
    instead of twice, and to divide by the number of pairs, which makes images of different sizes comparable, changes
    no order of images of one size.

    Args:
        image: shape (height, width, 3).

    Returns:
        0 for an image of one colour or one pixel, at most sqrt(3).
    """
    pixels = image.astype(np.float64) / 255
    down, right = (np.sqrt(np.square(np.diff(pixels, axis=axis)).sum(axis=2)) for axis in (0, 1))
    pairs = down.size + right.size
    return float((down.sum() + right.sum()) / pairs) if pairs else 0.0


def smoothness_score(variations: Float64, known_mean: float) -> Float64:
    """Return each image's distance in total variation from the known images' mean; higher = more unknown.

    Kim et al. take the difference and say nothing of its sign; that both directions count as unknown is ours.

    Args:
        variations: n values of `total_variation`.
        known_mean: their mean over in-distribution images.

    Returns:
        n values, none negative.
    """
    scores: Float64 = np.abs(variations - known_mean)
    return scores


def mann_whitney_auroc(known: Float64, unknown: Float64) -> float:
    """Return the probability that an unknown image scores above a known one (Mann-Whitney; ties count half).

    Args:
        known: scores of n in-distribution images.
        unknown: scores of m unknown images.

    Returns:
        0.5 for a score that does not separate the two, 1 if every unknown image scores higher.
    """
    from scipy.stats import mannwhitneyu  # half a second, for which --help should not wait

    return float(mannwhitneyu(unknown, known, method="asymptotic").statistic / (len(known) * len(unknown)))


def has_known_test(manifest: Manifest, config: str) -> bool:
    """Whether a config has in-distribution images in its split `test`."""
    test = manifest.configs[config].splits.get("test")
    return test is not None and "in_distribution" in test.roles


def smoothness_lines(
    release: Path, manifest: Manifest, config: str, names: Sequence[str], threshold: float
) -> Iterator[list[str]]:
    """Yield the table's lines for one config: its known test images, and each unknown role of the named splits.

    Args:
        release: the release's folder.
        manifest: its manifest.
        config: a config with known test images.
        names: its splits to compare with them.
        threshold: the AUROC, or 1 minus it, from which on a split counts as separable.

    Raises:
        BuildError: the release has no known test images, or a file cannot be read.
    """
    splits = manifest.configs[config].splits
    measured = sorted({*names, "test", *(["validation"] if "validation" in splits else [])})
    variations = _variations(release, manifest, [f"{config}/{name}" for name in measured])
    # The mean comes from other known images than those of the test split, if there are any.
    known_test = variations.get((f"{config}/test", "in_distribution"))
    if known_test is None:
        raise without_known(f"{config}/test")
    mean = float(np.mean(variations.get((f"{config}/validation", "in_distribution"), known_test)))
    known = smoothness_score(known_test, mean)
    yield [f"{config}/test", "in_distribution", f"{len(known):,}", f"{np.mean(known_test):.4f}", "-", "-"]
    for key, role in sorted(variations):
        if role == "in_distribution" or key.partition("/")[2] not in names:
            continue
        unknown = variations[key, role]
        area = mann_whitney_auroc(known, smoothness_score(unknown, mean))
        verdict = "SEPARABLE by smoothness alone" if max(area, 1 - area) >= threshold else "not separable"
        yield [key, role, f"{len(unknown):,}", f"{np.mean(unknown):.4f}", f"{area:.3f}", verdict]


def without_known(key: str) -> BuildError:
    """Return the error for a split of known test images that has none, whatever the manifest says of it."""
    return BuildError(
        f"{key} has no rows of the role in_distribution to compare others with. Check the release with python -m "
        "hf_scripts.verify."
    )


def _variations(release: Path, manifest: Manifest, keys: Sequence[str]) -> dict[tuple[str, str], Float64]:
    """Measure the total variation of every image of some splits, by split (`config/split`) and role."""
    entries = manifest.by_key()
    variations: dict[tuple[str, str], list[float]] = {}
    total = sum(entries[key].rows for key in keys)
    with bar(total, "measuring") as progress:
        for key in keys:
            roles = read_index(release, entries[key], ["role"])["role"].to_pylist()
            images = rgb_images(release, key, entries[key], np.arange(len(roles)))
            for role, image in zip(roles, images, strict=True):
                variations.setdefault((key, ROLES[role]), []).append(total_variation(np.asarray(image)))
                progress.update()
    return {key: np.array(values) for key, values in variations.items()}
