"""Speed of KNN and NNGuide against faiss's flat index as OpenOOD uses it, and of Relation against torch.

Run as `python -m benchmarks.evaluating.nearest` after `pip install faiss-cpu`, which is no dependency. A slice of the
task is timed on both sides in turn, in one run: some rows to score against some of the bank, fitting included. The
other side of KNN and NNGuide is OpenOOD's (normalized float32 features in an `IndexFlatL2` or `IndexFlatIP`), that of
Relation, with power 2, which compares all pairs, is NumPy in float64. Scores of both sides are compared. The
processor's time is printed beside the wall's: on a machine that others use, it tells better what a free one would
take.
"""

import statistics
import time
from collections.abc import Callable
from unittest import mock

import click
import faiss
import numpy as np
import torch
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from unknown_detection.evaluation.detectors import DETECTORS, nearest
from unknown_detection.evaluation.models.features import Features


def make_features(rows: int, width: int, classes: int, seed: int) -> Features:
    """Draw features as the rectified layer of a network has them, by class, and logits most of which are right."""
    random = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    means = np.random.default_rng(0).standard_normal((classes, width), dtype=np.float32)
    z = np.maximum(random.standard_normal((rows, width), dtype=np.float32) + means[labels], 0)
    logits = 2 * random.standard_normal((rows, classes), dtype=np.float32)
    logits[np.arange(rows), labels] += 12
    return Features(np.array([f"{i:06d}" for i in range(rows)]), labels, logits, z, ())


def timed(work: Callable[[], np.ndarray]) -> tuple[float, float, np.ndarray]:
    """Return the wall-clock and processor seconds of a call, and its result."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - processor, result


def in_float64() -> mock._patch:
    """Disable the search in torch, so that NumPy computes in float64."""
    return mock.patch.object(nearest, "WORTH", 1 << 62)


def with_faiss(name: str, bank: Features, tested: Features) -> np.ndarray:
    """Score as OpenOOD does: KNN with k = 50, NNGuide with k = 10."""

    def unit(z: np.ndarray) -> np.ndarray:
        return z / (np.linalg.norm(z, axis=1, keepdims=True) + 1e-10)

    index = (faiss.IndexFlatL2 if name == "knn" else faiss.IndexFlatIP)(bank.penultimate.shape[1])
    energies = [1.0 if name == "knn" else logsumexp(features.logits, axis=1)[:, None] for features in (bank, tested)]
    index.add((unit(bank.penultimate) * energies[0]).astype(np.float32))
    neighbours, _ = index.search(unit(tested.penultimate), 50 if name == "knn" else 10)
    return np.sqrt(neighbours[:, -1]) if name == "knn" else -neighbours.mean(axis=1) * energies[1][:, 0]


def score_ours(name: str, bank: Features, tested: Features) -> np.ndarray:
    """Fit and score our detector."""
    return DETECTORS[name].clone(**({"power": 2.0} if name == "relation" else {})).fit(bank).score(tested)


def score_rival(name: str, bank: Features, tested: Features) -> np.ndarray:
    """Score with the rival of the detector."""
    if name != "relation":
        return with_faiss(name, bank, tested)
    with in_float64():
        return score_ours(name, bank, tested)


def compare(name: str, bank: Features, tested: Features, repeats: int) -> None:
    """Time both sides of one detector, and print the ratio of their medians."""
    times: dict[str, list[tuple[float, float]]] = {"ours": [], "other": []}
    scores: dict[str, np.ndarray] = {}
    for _ in range(repeats):
        for side, work in (("ours", score_ours), ("other", score_rival)):
            wall, processor, scores[side] = timed(lambda work=work: work(name, bank, tested))
            times[side].append((wall, processor))
    medians = {
        side: [statistics.median(column) for column in zip(*rounds, strict=True)] for side, rounds in times.items()
    }
    for side, (wall, processor) in medians.items():
        print(f"{name:10} {side:6} wall {wall:8.2f} s, processor {processor:8.2f} s")
    ratios = [rival / own for rival, own in zip(medians["other"], medians["ours"], strict=True)]
    apart = np.abs(scores["ours"] - scores["other"]).max() / np.abs(scores["other"]).max()
    print(f"{name:10} ratio {ratios[0]:.2f} (wall), {ratios[1]:.2f} (processor); {apart:.1e} of the greatest apart\n")


@click.command(epilog="Example: python -m benchmarks.evaluating.nearest --rows 4096 --bank 16384")
@click.option("--rows", default=4096, show_default=True, help="Rows to score.")
@click.option("--bank", default=16_384, show_default=True, help="Rows that they are compared with.")
@click.option("--width", default=2048, show_default=True, help="Features of a row.")
@click.option("--classes", default=1000, show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--repeats", default=3, show_default=True, help="Rounds of each side; the median counts.")
@click.option("--detectors", default="knn,nnguide,relation", show_default=True)
def main(rows: int, bank: int, width: int, classes: int, threads: int, repeats: int, detectors: str) -> None:
    """Compare the time and the scores of both sides."""
    torch.set_num_threads(threads)
    threadpool_limits(threads)
    faiss.omp_set_num_threads(threads)
    for part in (2, 1):
        fitted = make_features(bank // part, width, classes, 1)
        tested = make_features(rows, width, classes, 2)
        print(f"{rows:,} x {bank // part:,} x {width:,}")
        for name in detectors.split(","):
            compare(name, fitted, tested, repeats)


if __name__ == "__main__":
    main()
