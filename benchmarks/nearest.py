"""Speed of nearest neighbours, NNGuide and Relation at ImageNet's size: searched by torch against NumPy in float64.

Run as `python -m benchmarks.nearest`. A slice of the task is timed on both sides in turn, in one run: some rows to
score against some of the bank. The time of both is proportional to rows times bank, as slices of two sizes show, so
that of all 50,000 rows against 254,000 is a multiple of it. Scores of both sides are compared. The processor's time is
printed beside the wall's: on a machine that others use, it tells better what a free one would take. Relation is that
with power 2, which compares all pairs; with power 1 and rectified features no pair is compared.
"""

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from unittest import mock

import click
import numpy as np
import torch
from threadpoolctl import threadpool_limits

from unknown_detection.evaluation.detectors import nearest
from unknown_detection.evaluation.detectors.registry import METHODS
from unknown_detection.evaluation.models.features import Features

WHOLE = 50_000 * 254_000


def make_features(rows: int, width: int, classes: int, seed: int) -> Features:
    """Draw features of classes as a rectified layer has them, and logits of which most are right."""
    random = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    means = np.random.default_rng(0).standard_normal((classes, width), dtype=np.float32)
    z = np.maximum(random.standard_normal((rows, width), dtype=np.float32) + means[labels], 0)
    logits = 2 * random.standard_normal((rows, classes), dtype=np.float32)
    logits[np.arange(rows), labels] += 12
    return Features(np.array([f"{i:06d}" for i in range(rows)]), labels, logits, z, ())


def timed(work: Callable[[], np.ndarray]) -> tuple[float, float, np.ndarray]:
    """Return the wall's and the processor's seconds, and the result."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - processor, result


def in_float64() -> mock._patch:
    """Keep torch out."""
    return mock.patch.object(nearest, "WORTH", 1 << 62)


def compare(name: str, bank: Features, tested: Features, repeats: int, threads: int) -> None:
    """Time both sides of one detector and print their ratio, and what the whole task takes."""
    times: dict[str, list[tuple[float, float]]] = {"float64": [], "torch": []}
    scores: dict[str, np.ndarray] = {}
    detector = METHODS[name](**({"power": 2.0} if name == "relation" else {})).fit(bank)
    for _ in range(repeats):
        for side in times:
            with in_float64() if side == "float64" else nullcontext():
                wall, processor, scores[side] = timed(lambda: detector.score(tested))
            times[side].append((wall, processor))
    factor = WHOLE / (len(bank) * len(tested))
    for side, taken in times.items():
        wall, processor = (statistics.median(column) for column in zip(*taken, strict=True))
        print(
            f"{name:10} {side:8} wall {wall:8.2f} s, processor {processor:8.2f} s; 50,000 x 254,000: wall "
            f"{wall * factor / 60:6.1f} min, processor / {threads} {processor * factor / threads / 60:6.1f} min"
        )
    apart = np.abs(scores["torch"] - scores["float64"]) / np.abs(scores["float64"]).max()
    print(f"{name:10} scores are at most {apart.max():.1e} apart, of the greatest\n")


@click.command(epilog="Example: python -m benchmarks.nearest --rows 4096 --bank 16384")
@click.option("--rows", default=4096, show_default=True, help="Rows to score.")
@click.option("--bank", default=16_384, show_default=True, help="Rows that they are compared with.")
@click.option("--width", default=2048, show_default=True, help="Features of a row.")
@click.option("--classes", default=1000, show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--repeats", default=3, show_default=True, help="Rounds of each side; the median counts.")
@click.option("--detectors", default="knn,nnguide,relation", show_default=True)
def main(rows: int, bank: int, width: int, classes: int, threads: int, repeats: int, detectors: str) -> None:
    """Compare the time and the scores of searches in float32 and in float64."""
    torch.set_num_threads(threads)
    threadpool_limits(threads)
    for part in (2, 1):
        fitted = make_features(bank // part, width, classes, 1)
        tested = make_features(rows, width, classes, 2)
        print(f"{rows:,} x {bank // part:,} x {width:,}")
        for name in detectors.split(","):
            compare(name, fitted, tested, repeats, threads)


if __name__ == "__main__":
    main()
