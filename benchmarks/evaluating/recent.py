"""Speed of the recent detectors against pytorch-ood's of the same kind, fit and score together.

Run as `python -m benchmarks.evaluating.recent`. 20,000 random rows to fit on, 5,000 to score, one thread. Processor
time is compared, which other work on the machine hardly changes; the ratios are those of medians. NCI, VRA, GMM and
MCM are pytorch-ood's; Mahalanobis++ and RMDS++, which it has not, stand beside its Mahalanobis and RMD.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial

import click
import numpy as np
import pytorch_ood.detector as theirs
import torch
from threadpoolctl import threadpool_limits

from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.models.features import Features, Head


def processor_time(work: Callable[[], object], repeats: int) -> float:
    """Return the median processor time of a function, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def rows_of(count: int, head: Head, seed: int) -> Features:
    """Draw rows of activations above zero, a few of which are greater in each class."""
    random, (classes, width) = np.random.default_rng(seed), head.weight.shape
    labels = np.arange(count) % classes
    raised = (labels[:, None] % 7 == np.arange(width) % 7).astype(np.float32)
    z = np.maximum(random.standard_normal((count, width), np.float32) + raised, 0)
    return Features(np.arange(count).astype(str), labels, z @ head.weight.T + head.bias, z, ())


def fit_and_score(name: str, fitted: Features, tested: Features, head: Head) -> object:
    """Fit a detector of ours and score."""
    return DETECTORS[name].clone().fit(fitted, head).score(tested)


def rivals(fitted: Features, tested: Features, head: Head) -> dict[str, Callable[[], object]]:
    """Return a function for each detector of pytorch-ood, which fits it and scores."""
    linear = torch.nn.Linear(*head.weight.shape[::-1]).requires_grad_(False)
    linear.load_state_dict({"weight": torch.from_numpy(head.weight), "bias": torch.from_numpy(head.bias)})
    z, labels, scored = map(torch.from_numpy, (fitted.penultimate, fitted.labels, tested.penultimate))

    def of_features(detector: theirs.NCI | theirs.GMM) -> object:
        return detector.fit_features(z, labels).predict_features(scored)

    def of_maps() -> object:
        detector = theirs.VRA(None, lambda maps: linear(maps.flatten(1)))
        return detector.fit_feature_maps(z[..., None, None], labels).predict_feature_maps(scored[..., None, None])

    found = {"nci": lambda: of_features(theirs.NCI(None, linear, alpha=1e-4)), "vra": of_maps}
    found |= {"mcm": lambda: theirs.MCM(None, linear.weight).predict_features(scored)}
    if len(head.bias) * z.shape[1] ** 2 < 1 << 28:  # more covariances do not fit
        found |= {"gmm": lambda: of_features(theirs.GMM(None))}
        found |= {"mahalanobis_pp": lambda: of_features(theirs.Mahalanobis(None))}
        found |= {"rmds_pp": lambda: of_features(theirs.RMD(None))}
    return found


@click.command(help=__doc__)
@click.option("--repeats", default=3, show_default=True, help="Times each side runs.")
def main(repeats: int) -> None:
    """Print a line for each detector and size."""
    torch.set_num_threads(1)
    for width, classes in ((512, 10), (512, 100), (2048, 1000)):
        weight = np.random.default_rng(0).normal(size=(classes, width)).astype(np.float32) / np.float32(10)
        head = Head(weight, np.zeros(classes, np.float32), negatives=weight[:0])
        fitted, tested = rows_of(20_000, head, 1), rows_of(5_000, head, 2)
        with threadpool_limits(1):
            for name, rival in rivals(fitted, tested, head).items():
                ours = processor_time(partial(fit_and_score, name, fitted, tested, head), repeats)
                other = processor_time(rival, repeats)
                print(f"{name} of {width:,} features, {classes:,} classes: {ours:.2f} s, pytorch-ood {other:.2f} s, "
                      f"ratio {other / ours:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
