"""Speed of eleven detectors on one shared forward pass, against pytorch-ood's, each with passes of its own.

Run as `python -m benchmarks.evaluating.detectors`. ResNet-18 of torchvision with random weights, a last layer of 10
classes fitted by least squares, random images of 64 x 64, 512 to fit on and 512 to score, in batches of 64. Both sides
run in turn, on one thread; the ratios are those of their medians. Five of their eleven detectors need a pass over the
images that they are fitted on, and all need one over the images that they score: 16 passes against our two. So with
equal numbers of rows to fit on and to score, sharing alone can give a ratio of 8, or 11 for scoring only. Scores are
compared too: ours are float64, theirs float32. Where float32 changes the score, in ViM's eigenvectors, theirs is run
again in float64. The fits of ViM and ReAct are also timed alone, on 4,096 random rows of 2,048 features and 1,000
classes; ReAct's beside NumPy's percentile, as OpenOOD fits it.

Mahalanobis is left out: with 512 rows of 512 features, pytorch-ood inverts a singular matrix. It has its own
benchmark, `benchmarks.evaluating.mahalanobis`.
"""

import logging
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from unittest import mock

import click
import numpy as np
import pytorch_ood.detector as theirs
import torch
import torchvision
from threadpoolctl import threadpool_limits

from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.models import preprocessing
from unknown_detection.evaluation.models.features import Features, Head
from unknown_detection.evaluation.models.layers import find_layers
from unknown_detection.evaluation.models.models import Model

CLASSES, SIDE, BATCH = 10, 64, 64


@dataclass(frozen=True)
class Task:
    """A model for our side, its two parts for the other side, and labelled images to fit on and to score."""

    model: Model
    encoder: torch.nn.Module
    head: torch.nn.Linear
    fitted: torch.utils.data.DataLoader
    tested: torch.utils.data.DataLoader

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Run the entire model."""
        return self.head(self.encoder(images))


def make_task(rows: int) -> Task:
    """Draw images of ten patterns in noise, and fit the last layer of a random ResNet-18 to them."""
    torch.manual_seed(0)
    module = torchvision.models.resnet18(num_classes=CLASSES).eval().requires_grad_(False)
    encoder = torch.nn.Sequential(*list(module.children())[:-1], torch.nn.Flatten())
    patterns = torch.randn(CLASSES, 3, SIDE, SIDE)
    loaders = []
    for _ in range(2):
        labels = torch.arange(rows) % CLASSES
        images = torch.utils.data.TensorDataset(patterns[labels] + torch.randn(rows, 3, SIDE, SIDE), labels)
        loaders.append(torch.utils.data.DataLoader(images, batch_size=BATCH))
    z = torch.cat([encoder(images) for images, _ in loaders[0]])
    targets = 10 * torch.nn.functional.one_hot(torch.arange(rows) % CLASSES, CLASSES).float()
    # A little ridge: 512 rows have 512 features.
    weight = torch.linalg.solve(z.T @ z + torch.eye(z.shape[1]), z.T @ targets).T
    module.fc.load_state_dict({"weight": weight, "bias": torch.full((CLASSES,), 0.1)})
    layers = find_layers(module, torch.randn(2, 3, SIDE, SIDE), declared=None, name="resnet18")
    prepared = preprocessing.of_torchvision(torchvision.models.ResNet18_Weights.DEFAULT.transforms())
    return Task(Model("resnet18", module, prepared, layers, "", "cpu"), encoder, module.fc, *loaders)


def extract(task: Task, loader: torch.utils.data.DataLoader) -> Features:
    """Extract features as `python -m unknown_detection evaluate extract` does, and keep them in memory."""
    batches = [(task.model.forward(images), labels) for images, labels in loader]
    labels = torch.cat([labels for _, labels in batches]).numpy()
    return Features(
        ids=np.array([f"{i:04d}" for i in range(len(labels))]),
        labels=labels,
        logits=torch.cat([outputs.logits for outputs, _ in batches]).numpy(),
        penultimate=torch.cat([outputs.penultimate for outputs, _ in batches]).numpy(),
        blocks=tuple(
            torch.cat([outputs.blocks[key] for outputs, _ in batches]).numpy() for key in task.model.layers.blocks
        ),
    )


def their_detectors(task: Task) -> dict[str, tuple[object, Callable[[torch.Tensor], torch.Tensor]]]:
    """Return pytorch-ood's detectors by our names, with our hyperparameters, and the functions that score images."""

    def head_of_maps(maps: torch.Tensor) -> torch.Tensor:
        return task.head(maps.flatten(1))

    def encoder_to_maps(images: torch.Tensor) -> torch.Tensor:
        return task.encoder(images)[:, :, None, None]

    weight, bias = task.head.weight, task.head.bias
    gradnorm = theirs.GradNorm(task.head, param_filter=lambda name: name == "weight")
    detectors = {
        "msp": theirs.MaxSoftmax(task.logits),
        "max_logit": theirs.MaxLogit(task.logits),
        "energy": theirs.EnergyBased(task.logits),
        "entropy": theirs.Entropy(task.logits),
        "react": theirs.ReAct(encoder_to_maps, head_of_maps, percentile=0.9),
        "dice": theirs.DICE(task.encoder, weight, bias, p=0.9),
        "ash": theirs.ASH(encoder_to_maps, head_of_maps, variant="ash-s", percentile=0.9),
        "she": theirs.SHE(task.encoder, task.head),
        "vim": theirs.ViM(task.encoder, weight.shape[1] // 2, weight, bias),
        "knn": theirs.KNN(task.encoder, k=50),
    }
    scoring = {name: (detector, detector.predict) for name, detector in detectors.items()}
    return scoring | {"gradnorm": (gradnorm, lambda images: gradnorm.predict(task.encoder(images)))}


@dataclass
class Side:
    """The times of one side, and its last scores.

    Attributes:
        rounds: of each round an array (fit or score, by the wall's or the processor's clock), in seconds.
        scores: by the detector's name.
    """

    rounds: list[np.ndarray] = field(default_factory=list)
    scores: dict[str, np.ndarray] = field(default_factory=dict)

    def times(self) -> dict[str, np.ndarray]:
        """The seconds of each round, by the step measured; shape (rounds,)."""
        rounds = np.array(self.rounds)
        parts = {"fit": rounds[:, 0], "score": rounds[:, 1], "fit and score": rounds.sum(axis=1)}
        return {
            f"{part}, {clock}": seconds[:, number]
            for number, clock in enumerate(("wall", "processor"))
            for part, seconds in parts.items()
        }


def clocks() -> np.ndarray:
    """Return wall time and CPU time; other work on the machine disturbs CPU time less."""
    return np.array([time.perf_counter(), time.process_time()])


def run_theirs(task: Task, side: Side) -> None:
    """Fit and score with each of pytorch-ood's detectors in turn, without gradients where none are needed."""
    detectors = their_detectors(task)
    started = clocks()
    with torch.no_grad():
        for detector, _ in detectors.values():
            if detector.requires_fit:
                detector.fit(task.fitted)
    fitted = clocks()
    with torch.no_grad():
        for name, (_, predict) in detectors.items():
            side.scores[name] = torch.cat([predict(images) for images, _ in task.tested]).numpy()
    side.rounds.append(np.stack([fitted - started, clocks() - fitted]))


def run_ours(task: Task, names: list[str], side: Side) -> None:
    """Run the model once over each split, then fit and score."""
    started = clocks()
    features = extract(task, task.fitted)
    detectors = {name: DETECTORS[name].clone().fit(features, task.model.head) for name in names}
    fitted = clocks()
    tested = extract(task, task.tested)
    side.scores = {name: detector.score(tested) for name, detector in detectors.items()}
    side.rounds.append(np.stack([fitted - started, clocks() - fitted]))


def compare(name: str, scores: np.ndarray, expected: np.ndarray) -> None:
    """Print the greatest difference of two scores, absolute and relative to the greatest score."""
    difference = np.abs(scores - expected).max()
    print(f"{name:22} differs by at most {difference:.1e}, {difference / np.abs(expected).max():.1e} of the greatest")


def their_vim_in_doubles(task: Task) -> np.ndarray:
    """Score shared features with pytorch-ood's ViM, in float64 in place of float32."""
    fitted, tested = extract(task, task.fitted), extract(task, task.tested)
    with mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        detector = theirs.ViM(None, task.head.weight.shape[1] // 2, task.head.weight, task.head.bias)
        detector.fit_features(torch.from_numpy(fitted.penultimate), torch.from_numpy(fitted.labels))
        scores: np.ndarray = detector.predict_features(torch.from_numpy(tested.penultimate)).numpy()
    return scores


def time_fits(repeats: int) -> None:
    """Print the ratios of the times in which both sides fit ViM and ReAct to random features."""
    random = np.random.default_rng(0)
    rows, width, classes = 4096, 2048, 1000
    z = np.maximum(random.standard_normal((rows, 64)) @ random.standard_normal((64, width)), 0)
    z = (z + random.random(z.shape)).astype(np.float32)
    head = Head(0.03 * random.standard_normal((classes, width), dtype=np.float32), np.full(classes, 0.1, np.float32))
    labels = np.arange(rows) % classes
    features = Features(np.arange(rows).astype(str), labels, z @ head.weight.T + head.bias, z, ())
    weight, bias, *fitted_on = map(torch.from_numpy, (head.weight, head.bias, z, labels))
    rivals = {
        "vim": lambda: theirs.ViM(None, width // 2, weight, bias).fit_features(*fitted_on),
        "react": lambda: np.percentile(z.flatten(), 90),  # as OpenOOD and the authors fit it
    }
    for name, rival in rivals.items():
        hyperparameters = {"dimension": width // 2} if name == "vim" else {}
        times = []
        for _ in range(repeats):
            started = clocks()
            DETECTORS[name].clone(**hyperparameters).fit(features, head)
            fitted = clocks()
            rival()
            times.append((fitted - started, clocks() - fitted))
        ours, other = np.median(times, axis=0)
        for clock, their_seconds, seconds in zip(("wall", "processor"), other, ours, strict=True):
            ratio = their_seconds / seconds
            print(f"fit of {name} alone, {clock}: {ratio:.2f} times; seconds {their_seconds:.2f}/{seconds:.2f}")


@click.command(epilog="Example: python -m benchmarks.evaluating.detectors")
@click.option("--rows", default=512, show_default=True, help="Images to fit on, and as many to score.")
@click.option("--repeats", default=3, show_default=True, help="Rounds of each side; the median counts.")
def main(rows: int, repeats: int) -> None:
    """Compare the time of one shared pass with that of a pass for each detector, and the scores."""
    # On a shared machine more threads wait for each other, and longer on the side with the smaller computations.
    torch.set_num_threads(1)
    threadpool_limits(1)
    logging.getLogger("pytorch_ood").setLevel(logging.ERROR)  # it warns of running on the CPU, which is intended
    task = make_task(rows)
    names = list(their_detectors(task))
    own, rival = Side(), Side()
    for _ in range(repeats):
        run_ours(task, names, own)
        run_theirs(task, rival)
    for (part, seconds), their_seconds in zip(own.times().items(), rival.times().values(), strict=True):
        ratio = statistics.median(their_seconds) / statistics.median(seconds)
        by_round = " ".join(f"{a:.1f}/{b:.1f}" for a, b in zip(their_seconds, seconds, strict=True))
        print(f"{part:25} {ratio:5.1f} times; seconds of pytorch-ood/ours by round: {by_round}")
    for name in names:
        # Theirs is -max p where ours is 1 - max p.
        compare(name, own.scores[name] - (name == "msp"), rival.scores[name])
    compare("vim, theirs in doubles", own.scores["vim"], their_vim_in_doubles(task))
    time_fits(repeats)


if __name__ == "__main__":
    main()
