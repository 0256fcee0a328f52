"""Runs every step on a small release of real digits, with the actual commands: train, extract, score, report."""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import io
import multiprocessing
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from threadpoolctl import threadpool_limits

from builders.storage.files import atomic_path
from unknown_detection.evaluation.demo import model as demo_model
from unknown_detection.evaluation.demo.model import OPTIMIZERS, Training
from unknown_detection.evaluation.demo.release import CONFIG, KNOWN, MIXED, SHIFTS, TRAIN, make_release
from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.files import require_folder_of
from unknown_detection.evaluation.protocols import broad, facets, od_test, robustness, unified
from unknown_detection.evaluation.releases import load
from unknown_detection.terminal.progress import Log, Progress

PROTOCOLS = {
    unified.NAME: CONFIG,
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
    """A run of the demo in a folder, with some processes that train and score models; 1 uses the main process.

    `quick` has one optimizer and two seeds instead of two and three each, and no detector that needs a second pass
    over the images.
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
        single = [name for name, method in DETECTORS.items() if method.reads != "members"]
        return [name for name in single if not (self.quick and _reads_images(name))]

    def run(self, log: Log, progress: Progress) -> Path:
        """Run all steps, and return the report's folder.

        `log` receives every command and its output, `progress` the number of models done.
        """
        require_folder_of(self.out, "demo", _FOLDERS)
        make_release(self.out / RELEASE)
        log(f"wrote {self.out / RELEASE}: scikit-learn's digits, with {', '.join(KNOWN)} as in-distribution classes")
        with contextlib.ExitStack() as stack:
            texts: Iterator[str] = map(self.model, self.trainings)
            if self.workers > 1:  # spawned, because threads of Arrow and torch do not survive a fork
                context = multiprocessing.get_context("spawn")
                pool = concurrent.futures.ProcessPoolExecutor(self.workers, context, _use_one_thread)
                texts = stack.enter_context(pool).map(self.model, self.trainings)
            for text in texts:
                log(text)
                progress(1)
        runs = {training.name: training.optimizer for training in self.trainings}
        names = ",".join(name for name, method in DETECTORS.items() if method.reads == "members")
        for optimizer in dict.fromkeys(runs.values()):
            first, *other_features = [self._features(name) for name, its in runs.items() if its == optimizer]
            members = [word for other in other_features for word in ("--member", other)]
            runs[f"{optimizer}-ensemble"] = optimizer
            out = self._scores(f"{optimizer}-ensemble")
            log(_command("score", "--features", first, *members, "--detectors", names, "--out", out))
        arguments = [word for run, its in runs.items() for word in ("--scores", f"{its}={self._scores(run)}")]
        for name, config in PROTOCOLS.items():
            if name != robustness.NAME or not self.quick:
                arguments += ["--protocol", f"{name}={config}"]
        report = self.out / "report"
        log(_command("report", *arguments, "--release", self.out / RELEASE, "--out", report))
        return report

    def model(self, training: Training) -> str:
        """Train a model, extract its features and score them; return the commands and their output."""
        import torch
        from safetensors.torch import save_file

        release = load(str(self.out / RELEASE))
        labels = torch.tensor(release.rows(TRAIN, "train")["label"].to_pylist())
        images = demo_model.batch_of(row["image"] for row in release.images(TRAIN, "train"))
        weights = self.out / "models" / f"{training.name}.safetensors"
        with atomic_path(weights) as temporary:
            save_file(demo_model.train(images, labels, len(KNOWN), training).state_dict(), temporary)
        spec = f"{Path(demo_model.__file__)}:{demo_model.digits_cnn.__name__}"
        shown = ["--release", self.out / RELEASE, "--model", spec, "--weights", weights, "--device", "cpu"]
        shown += ["--workers", 0]  # several models share the cores, and the images are of 8 x 8 pixels
        configs = ["--splits", ",".join((CONFIG, TRAIN, SHIFTS, MIXED))]
        features, out = self._features(training.name), self._scores(training.name)
        scoring = ["--detectors", ",".join(self.detectors), "--seed", training.seed, "--out", out]
        extracted = _command("extract", *shown, *configs, "--out", features)
        scored = _command("score", "--features", features, *([] if self.quick else shown), *scoring)
        return f"trained {weights} on {len(labels)} images\n{extracted}\n{scored}"

    def _features(self, name: str) -> Path:
        return self.out / "features" / name

    def _scores(self, name: str) -> Path:
        return self.out / "scores" / f"{name}.parquet"


def _reads_images(name: str) -> bool:
    method = DETECTORS[name]
    return method.reads == "images" or any(_reads_images(part) for part in method.base_methods)


def _command(name: str, *words: object) -> str:
    """Run one of our commands in this process; return the command line and its output."""
    texts = [str(word) for word in words]
    printed = io.StringIO()
    command = importlib.import_module(f"unknown_detection.evaluation.commands.{name}").command
    with contextlib.redirect_stdout(printed):
        command.main(args=[*texts, "--quiet"], standalone_mode=False)
    return f"$ python -m unknown_detection evaluate {shlex.join([name, *texts])}\n{printed.getvalue()}".rstrip()


def _use_one_thread() -> None:
    """Limit a worker process to one thread, since several share the cores; being here, it finds BLAS imported."""
    threadpool_limits(1)
