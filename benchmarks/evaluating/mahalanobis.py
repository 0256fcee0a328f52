"""Speed of Mahalanobis distances and OpenMax against pytorch-ood's, at ImageNet's size.

Run as `python -m benchmarks.evaluating.mahalanobis`. Mahalanobis: 50,000 rows of 2,048 features and 1,000 classes,
fitted and then scored. Ours scores all rows. pytorch-ood fits all rows but scores only a sample, because all would
take hours: it computes one matrix product with the D x D precision per class, so its time is proportional to the rows,
as two samples of different size show. OpenMax: both fit the logits of 50,000 rows; scores of a few rows are compared.
"""

import statistics
import time
from collections.abc import Callable

import click
import numpy as np
import pytorch_ood.detector as theirs
import torch

from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.models.features import Features

COMPARED = 20


def seconds(work: Callable[[], object]) -> float:
    """Time `work` once."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def make_features(rows: int, classes: int, width: int) -> Features:
    """Draw features around class means, correlated as a layer's, and logits most of which are right."""
    random = np.random.default_rng(0)
    labels = np.arange(rows) % classes
    mix = random.normal(size=(width, width)).astype(np.float32) / np.float32(np.sqrt(width))
    means = random.normal(size=(classes, width)).astype(np.float32)
    z = random.standard_normal(size=(rows, width), dtype=np.float32) @ mix + means[labels]
    logits = 2 * random.standard_normal(size=(rows, classes), dtype=np.float32)
    logits[np.arange(rows), labels] += 12
    return Features(np.array([f"{i:06d}" for i in range(rows)]), labels, logits, z, ())


def report(name: str, times: list[float]) -> float:
    """Print the median and every time, and return the median."""
    print(f"{name:40} median {statistics.median(times):9.3f} s  ({' '.join(f'{value:.3f}' for value in times)})")
    return statistics.median(times)


def run_mahalanobis(features: Features, scored: int, repeats: int) -> None:
    """Time both sides in turn and print their ratio, per row scored."""
    z, labels = torch.from_numpy(features.penultimate), torch.from_numpy(features.labels)
    ours_fit, ours_score, their_fit, their_score, their_part = [], [], [], [], []
    for _ in range(repeats):
        started = time.perf_counter()
        detector = DETECTORS["mahalanobis"].clone().fit(features)
        ours_fit.append(time.perf_counter() - started)
        ours_score.append(seconds(lambda detector=detector: detector.score(features)))
        other = theirs.Mahalanobis(None)
        their_fit.append(seconds(lambda other=other: other.fit_features(z, labels)))
        their_part.append(seconds(lambda other=other: other.predict_features(z[: scored // 4])))
        their_score.append(seconds(lambda other=other: other.predict_features(z[:scored])))
    own = report("ours, fit", ours_fit) + report(f"ours, {len(features):,} rows", ours_score)
    fit = report("pytorch-ood, fit", their_fit)
    sample_rate = report(f"pytorch-ood, {scored // 4:,} rows", their_part) / (scored // 4)
    rate = report(f"pytorch-ood, {scored:,} rows", their_score) / scored
    print(f"pytorch-ood, seconds a row: {sample_rate:.4f} and {rate:.4f}")
    rival = fit + min(sample_rate, rate) * len(features)
    print(f"Mahalanobis: {own:.1f} s against {rival:,.0f} s at the lower of these rates: {rival / own:.0f} times\n")
    compare_mahalanobis(features)


def compare_mahalanobis(features: Features) -> None:
    """Compare scores of a few rows with theirs in doubles: theirs are halved and not divided by the rows."""
    z, labels = torch.from_numpy(features.penultimate), torch.from_numpy(features.labels)
    sample = features.take(slice(0, len(features), len(features) // COMPARED))
    scores = DETECTORS["mahalanobis"].clone().fit(features).score(sample)
    for kind in (torch.float32, torch.float64):
        torch.set_default_dtype(kind)
        other = theirs.Mahalanobis(None).fit_features(z.to(kind), labels)
        expected = 2 * len(features) * other.predict_features(torch.from_numpy(sample.penultimate).to(kind)).numpy()
        print(f"scores of {len(sample)} rows beside theirs in {kind}: {np.abs(scores / expected - 1).max():.1e} apart")
    torch.set_default_dtype(torch.float32)


def run_openmax(features: Features, repeats: int, with_theirs: bool) -> None:
    """Time both fits and print the ratio."""
    times = [seconds(lambda: DETECTORS["openmax"].clone().fit(features)) for _ in range(repeats)]
    own = report("ours, OpenMax fit", times)
    if with_theirs:
        logits, labels = torch.from_numpy(features.logits), torch.from_numpy(features.labels)
        rival = report("pytorch-ood, OpenMax fit", [seconds(lambda: theirs.OpenMax(None).fit_logits(logits, labels))])
        print(f"OpenMax: {rival / own:.0f} times")


@click.command(epilog="Example: python -m benchmarks.evaluating.mahalanobis --scored 200")
@click.option("--rows", default=50_000, show_default=True, help="Rows to fit on and to score.")
@click.option("--classes", default=1000, show_default=True)
@click.option("--width", default=2048, show_default=True, help="Features of a row.")
@click.option("--scored", default=400, show_default=True, help="Rows that pytorch-ood scores with Mahalanobis.")
@click.option("--repeats", default=3, show_default=True, help="Rounds of each; the median counts.")
@click.option("--openmax/--no-openmax", default=True, help="Whether pytorch-ood fits OpenMax, once: minutes.")
def main(rows: int, classes: int, width: int, scored: int, repeats: int, openmax: bool) -> None:
    """Compare the time and the scores of both detectors with pytorch-ood's."""
    features = make_features(rows, classes, width)
    run_mahalanobis(features, scored, repeats)
    run_openmax(features, repeats, openmax)


if __name__ == "__main__":
    main()
