"""Runs every step on a small release of real digits, with the actual commands: train, extract, score, report."""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import io
import multiprocessing
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.demo import model as demo_model
from evaluation.demo.model import OPTIMIZERS, Training
from evaluation.demo.release import CONFIG, KNOWN, MIXED, SHIFTS, TRAIN, make_release
from evaluation.detectors.registry import METHODS
from evaluation.errors import EvaluationError
from evaluation.progress import Log, Progress
from evaluation.protocols import broad, facets, od_test, robustness, unknown_detection
from evaluation.releases import open_release

PROTOCOLS = {
    unknown_detection.NAME: CONFIG,
    facets.NAME: MIXED,
    broad.NAME: SHIFTS,
    od_test.NAME: CONFIG,
    robustness.NAME: CONFIG,
}
"""The protocol of each config of the demo release."""

RELEASE = "digits"
"""Folder of the release, and its name in reports."""

_FOLDERS = (RELEASE, "features", "models", "report", "scores")


@dataclass(frozen=True)
class Demo:
    """A run of the demo in a folder.

    Attributes:
        out: the folder.
        quick: one optimizer and two seeds instead of two and three each, and no detector that needs a second pass over
            the images.
        workers: processes that train and score models; 1 uses the main process.
    """

    out: Path
    quick: bool = False
    workers: int = 1

    @property
    def trainings(self) -> list[Training]:
        """The models, optimizer by optimizer."""
        optimizers, seeds = (list(OPTIMIZERS)[:1], 2) if self.quick else (list(OPTIMIZERS), 3)
        return [Training(optimizer, seed) for optimizer in optimizers for seed in range(seeds)]

    @property
    def detectors(self) -> list[str]:
        """The detectors that need a single model."""
        single = [name for name, method in METHODS.items() if method.reads != "members"]
        return [name for name in single if not (self.quick and _reads_images(name))]

    def run(self, log: Log, progress: Progress) -> Path:
        """Run all steps.

        Args:
            log: receives every command and its output.
            progress: called with the number of models done.

        Returns:
            The report's folder.

        Raises:
            EvaluationError: the folder has other files, or a step fails.
        """
        _check_folder(self.out)
        make_release(self.out / RELEASE)
        log(f"wrote {self.out / RELEASE}: scikit-learn's digits, with {', '.join(KNOWN)} as in-distribution classes")
        for text in self._models():
            log(text)
            progress(1)
        for optimizer in dict.fromkeys(training.optimizer for training in self.trainings):
            log(_command("score", *self._ensemble(optimizer)))
        log(_command("report", *self._report()))
        return self.out / "report"

    def model(self, training: Training) -> str:
        """Train a model, extract its features and score them; return the commands and their output."""
        import torch

        # For such small models and images, more threads are slower.
        torch.set_num_threads(1)
        release = open_release(str(self.out / RELEASE))
        labels = torch.tensor(release.rows(TRAIN, "train")["label"].to_pylist())
        images = demo_model.batch_of(release.images(TRAIN, "train")["image"])
        model = demo_model.train(images, labels, len(KNOWN), training)
        weights = self._weights(training)
        demo_model.save_weights(model, weights)
        done = [f"trained {weights} on {len(labels)} images"]
        done += [_command("extract", *self._extract(training)), _command("score", *self._score(training))]
        return "\n".join(done)

    def _models(self) -> Iterator[str]:
        """Process every model; yield the outputs in the order of `trainings`."""
        if self.workers == 1:
            yield from map(self.model, self.trainings)
            return
        # Spawned, because threads of Arrow and torch do not survive a fork.
        context = multiprocessing.get_context("spawn")
        with _one_thread(), concurrent.futures.ProcessPoolExecutor(self.workers, mp_context=context) as pool:
            yield from pool.map(self.model, self.trainings)

    def _weights(self, training: Training) -> Path:
        return self.out / "models" / f"{training.name}.safetensors"

    def _features(self, training: Training) -> Path:
        return self.out / "features" / training.name

    def _scores(self, name: str) -> Path:
        return self.out / "scores" / f"{name}.parquet"

    def _shown(self, training: Training) -> list[object]:
        """Return the options for running a model on the release."""
        spec = f"{Path(demo_model.__file__)}:{demo_model.digits_cnn.__name__}"
        return [
            "--release",
            self.out / RELEASE,
            "--model",
            spec,
            "--weights",
            self._weights(training),
            "--device",
            "cpu",
            "--workers",
            0,  # several models share the cores, and the images are of 8 x 8 pixels
        ]

    def _extract(self, training: Training) -> list[object]:
        configs = ",".join((CONFIG, TRAIN, SHIFTS, MIXED))
        return [*self._shown(training), "--splits", configs, "--out", self._features(training)]

    def _score(self, training: Training) -> list[object]:
        images = [] if self.quick else self._shown(training)
        out = ["--seed", training.seed, "--out", self._scores(training.name)]
        return ["--features", self._features(training), *images, "--detectors", ",".join(self.detectors), *out]

    def _ensemble(self, optimizer: str) -> list[object]:
        """Score the detectors that need several models, on those of one optimizer."""
        first, *others = [training for training in self.trainings if training.optimizer == optimizer]
        members = [word for other in others for word in ("--member", self._features(other))]
        names = ",".join(name for name, method in METHODS.items() if method.reads == "members")
        out = ["--out", self._scores(f"{optimizer}-ensemble")]
        return ["--features", self._features(first), *members, "--detectors", names, *out]

    def _report(self) -> list[object]:
        optimizers = dict.fromkeys(training.optimizer for training in self.trainings)
        runs = {training.name: training.optimizer for training in self.trainings}
        runs |= {f"{optimizer}-ensemble": optimizer for optimizer in optimizers}
        scores = [word for run, optimizer in runs.items() for word in ("--scores", f"{optimizer}={self._scores(run)}")]
        asked = {name: config for name, config in PROTOCOLS.items() if name != robustness.NAME or len(optimizers) > 1}
        protocols = [word for name, config in asked.items() for word in ("--protocol", f"{name}={config}")]
        return [*scores, "--release", self.out / RELEASE, *protocols, "--out", self.out / "report"]


def _reads_images(name: str) -> bool:
    method = METHODS[name]
    return method.reads == "images" or any(_reads_images(part) for part in method.base_methods)


def _check_folder(out: Path) -> None:
    others = sorted(path.name for path in out.iterdir() if path.name not in _FOLDERS) if out.is_dir() else []
    if others or (out.exists() and not out.is_dir()):
        found = ", ".join(others) or "it is a file"
        raise EvaluationError(f"{out} has files that are not part of a demo: {found}. Choose another folder.")


def _command(name: str, *words: object) -> str:
    """Run one of our commands in this process; return the command line and its output."""
    texts = [str(word) for word in words]
    printed = io.StringIO()
    command = importlib.import_module(f"evaluation.commands.{name}").command
    with contextlib.redirect_stdout(printed):
        command.main(args=[*texts, "--quiet"], standalone_mode=False)
    return f"$ python -m evaluation {shlex.join([name, *texts])}\n{printed.getvalue()}".rstrip()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Limit new processes within the block to one thread, since several processes share the cores."""
    names: Sequence[str] = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
