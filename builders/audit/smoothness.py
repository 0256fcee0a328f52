"""Scores images by smoothness alone, without a model, to find unknown splits that smoothness gives away.

Tack et al. (CSI: Novelty Detection via Contrastive Learning on Distributionally Shifted Instances, NeurIPS 2020)
showed that total variation alone separates the resized LSUN and ImageNet images in circulation from CIFAR. Kim et al.
(section 3.1) report this, lay it to "inappropriate image processing", and rebuild both sets for that reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from builders.audit.measures import (
    NUMBERS,
    Float64,
    RoleRows,
    known_rows,
    mann_whitney_auroc,
    measure_rows,
    sampled,
)
from builders.executors.base import Executor, Meter
from builders.release.entries import Manifest
from builders.release.schema import KNOWN_ROLE

SEPARABLE = 0.75
"""The AUROC from which on a split counts as separable by smoothness (ours: halfway between chance and certainty)."""

_VARIATION = NUMBERS.index("total_variation")


def smoothness_score(variations: Float64, known_mean: float) -> Float64:
    """Return how far each image's total variation is from the known images' mean; higher = more unknown.

    Kim et al. take the difference and say nothing of its sign; that both directions count as unknown is ours.
    """
    return np.abs(variations - known_mean)


def smoothness_lines(
    root: Path,
    manifest: Manifest,
    config: str,
    names: Sequence[str],
    threshold: float,
    executor: Executor,
    meter: Meter,
) -> Iterator[list[str]]:
    """Yield the table's lines for a config: its known test images, and each unknown role of the named splits.

    A split counts as separable from an AUROC of `threshold` on, or of 1 minus it.
    """
    test, validation = f"{config}/test", f"{config}/validation"
    keys = {test, *(f"{config}/{name}" for name in names), *({validation} & manifest.by_key().keys())}
    measured = measure_rows(root, manifest, sampled(root, manifest, sorted(keys), None), executor, meter)
    known_test = known_rows(measured, test)[:, _VARIATION]
    # The mean comes from other known images than those of the test split, if there are any.
    reference = measured.get(RoleRows(validation, KNOWN_ROLE))
    mean = float(np.mean(known_test if reference is None else reference[:, _VARIATION]))
    known = smoothness_score(known_test, mean)
    yield [test, KNOWN_ROLE, f"{len(known):,}", f"{np.mean(known_test):.4f}", "-", "-"]
    for rows, numbers in sorted(measured.items()):
        if rows.role == KNOWN_ROLE or rows.split.partition("/")[2] not in names:
            continue
        unknown = numbers[:, _VARIATION]
        area = mann_whitney_auroc(known, smoothness_score(unknown, mean))
        verdict = "SEPARABLE by smoothness alone" if max(area, 1 - area) >= threshold else "not separable"
        yield [rows.split, rows.role, f"{len(unknown):,}", f"{np.mean(unknown):.4f}", f"{area:.3f}", verdict]
