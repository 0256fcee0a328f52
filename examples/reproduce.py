"""Reproduce tables 6 and 7 of Kim, Koo and Hwang: train every method with several seeds, score, and compare.

    python examples/reproduce.py --release build/unknown-detection --config cifar --out runs/cifar \
        --devices cuda:0,cuda:1

Each step is a command that you could type, of `examples/train.py` or `unknown-detection evaluate`;
`OUT/logs` has each with its output. Finished steps are skipped, so the same command resumes after an interruption.
With several devices, one process works on each; with `--executor ray --devices cuda`, each training has a GPU of a Ray
cluster. The margins of energy are chosen with seed 0 from the range of Liu et al. by the AUROC of validation against
external_validation images, as `score` chooses the hyperparameters of detectors, and the objective of EDL, a method for
misclassifications, by the accuracy on validation images (section 4). `OUT/table.md` has the means over seeds beside
the published ones, and `OUT/table.csv` has both.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import itertools
import json
import queue
import shlex
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click
import pandas as pd

from builders.cli.executor_flags import ExecutorFlags
from builders.errors import BuildError
from builders.executors.base import Executor, Progress, Resources
from builders.executors.ray import RayExecutor
from unknown_detection import auroc, load
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.scoring.scores import read_scores

HERE = Path(__file__).parent
PUBLISHED = HERE / "published_unified.csv"

# The paper's rows, in its order: the training method, and the detector that scores its models.
ROWS = {
    "MCP": ("ce", "msp"),
    "CRL": ("crl", "msp"),
    "EDL": ("edl", "edl_vacuity"),
    "MCdropout": ("mcdropout", "mc_dropout"),
    "Ensemble": ("ensemble", "deep_ensemble"),
    "AugMix": ("augmix", "msp"),
    "ODIN": ("ce", "odin"),
    "OE": ("oe", "msp"),
    "Energy": ("energy", "energy"),
    "ReAct": ("ce", "react"),
    "OpenMax": ("ce", "openmax"),
}
OWN = {"edl_vacuity": f"{HERE / 'edl_vacuity.py'}:EDLVacuity"}

# Liu et al., section 4.1, where the two ranges have each other's names: known images have the lower energies.
MARGINS = tuple(itertools.product((-27, -23, -19, -15), (-5, -3, -7)))

# Table 5. Its fourth, cross-entropy, would on mean probabilities be the log loss. Of the activations, the one that the
# paper chose.
OBJECTIVES = ("log", "digamma", "mse")

Choice = tuple[float, float] | str
"""A hyperparameter that is chosen by validation: margins of energy, or an objective of EDL."""

Column = tuple[str, str, str]
"""Setting, unknown split (empty if there are several) and metric of a figure."""

TITLES = {
    "accuracy": "accuracy",
    "aurc": "AURC",
    "fpr_at_95_tpr_known_positive": "FPR at 95 % TPR",
    "auroc": "AUROC",
}
PAPERS_METRICS = {
    "misclassification_detection": ("accuracy", "aurc"),
    "unknown_detection": ("aurc",),
    "ood_detection": ("fpr_at_95_tpr_known_positive", "auroc"),
}


def execute(command: Sequence[str], log: Path) -> None:
    """Run a command with its output in a file; on Linux the command ends when the calling thread is killed.

    Raises:
        EvaluationError: it fails.
    """
    with log.open("a") as file:
        file.write(f"$ {shlex.join(command)}\n")
        file.flush()
        # A cluster starts a killed task again, and two processes would write one checkpoint.
        bound = _killed_with_parent if sys.platform == "linux" else None
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False, preexec_fn=bound).returncode
    if code:
        raise EvaluationError(f"A command ended with code {code}. {log} has what it printed; mend that and run again.")


def _killed_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG (prctl(2))


@dataclass(frozen=True)
class Grid:
    """All trainings of a config, and the folder of their results."""

    release: str
    config: str
    out: Path
    devices: tuple[str, ...]
    seeds: int = 5
    methods: tuple[str, ...] = tuple(dict.fromkeys(method for method, _ in ROWS.values() if method != "ensemble"))
    model: str = "resnet18_32"
    train_options: tuple[str, ...] = ()
    margins: tuple[tuple[float, float], ...] = MARGINS
    objectives: tuple[str, ...] = OBJECTIVES
    execute: Callable[[Sequence[str], Path], None] = execute

    def run(self, executor: Executor | None = None) -> None:
        """Train, extract and score all that is not finished, as tasks of an executor if one is given."""
        for folder in ("logs", "models", "features", "scores"):
            (self.out / folder).mkdir(parents=True, exist_ok=True)
        plain = [method for method in self.methods if method not in self._searched]
        self._work([Training(self, method, seed) for method in plain for seed in self._all], executor)
        for method, choices in self._searched.items():
            if method in self.methods:
                self._work([Training(self, method, 0, choice) for choice in choices], executor)
                chosen = self._chosen(method)
                self._work([Training(self, method, seed, chosen) for seed in self._all], executor)
        if "ce" in self.methods and self.seeds > 1:
            reference, *member_features = (str(self.out / "features" / f"ce-seed{seed}") for seed in self._all)
            members = [word for folder in member_features for word in ("--member", folder)]
            self._score("ensemble", "ensemble", ["--features", reference, *members, "--quiet"])

    @property
    def _all(self) -> range:
        return range(self.seeds)

    @property
    def _searched(self) -> Mapping[str, Sequence[Choice]]:
        """The choices for each method with a chosen hyperparameter; energy is last, as it starts from models of ce."""
        return {"edl": self.objectives, "energy": self.margins}

    def _chosen(self, method: str) -> Choice:
        """Return the best choice with seed 0: of EDL by accuracy on validation images, of energy by external ones."""
        return max(self._searched[method], key=self._validation_accuracy if method == "edl" else self._external_auroc)

    def scores(self) -> dict[str, list[Path]]:
        """Return the scores files of each training method, one for each seed; `ensemble` has a single one."""
        files = {method: [self._scores(f"{method}-seed{seed}") for seed in self._all] for method in self.methods}
        for method in self._searched:
            if method in files:
                chosen = self._chosen(method)
                files[method] = [self._scores(_name(method, seed, chosen)) for seed in self._all]
        if "ce" in files and self.seeds > 1:
            files["ensemble"] = [self._scores("ensemble")]
        return files

    def _scores(self, name: str) -> Path:
        return self.out / "scores" / f"{name}.parquet"

    def _work(self, trainings: Sequence[Training], executor: Executor | None) -> None:
        pending = [training for training in trainings if not self._scores(training.name).exists()]
        if executor is None:
            self._on_devices([training.on for training in pending])
        else:
            finished = itertools.count(1)
            executor.run(
                pending, lambda models, size: click.echo(f"{next(finished)} of {len(pending)} trained and scored")
            )

    def _on_devices(self, jobs: Sequence[Callable[[str], None]]) -> None:
        """Give every job a device of its own while it runs."""
        free: queue.Queue[str] = queue.Queue()
        for device in self.devices:
            free.put(device)

        def on_a_device(job: Callable[[str], None]) -> None:
            device = free.get()
            try:
                job(device)
            finally:
                free.put(device)

        with ThreadPoolExecutor(len(self.devices)) as threads:
            list(threads.map(on_a_device, jobs))

    def train(self, training: Training, device: str) -> None:
        """Train a model, extract its features and score them; finished steps are skipped, others resume."""
        method, seed, name = training.method, training.seed, training.name
        trained, features = self.out / "models" / name, self.out / "features" / name
        # train.py adds the dropout to the names of its own networks alone, not to a function of another file.
        model = self.model + "_dropout" * (method == "mcdropout" and ":" in self.model)
        command = ["--release", self.release, "--known", f"{self.config}-train", "--method", method]
        command += ["--seed", str(seed), "--model", model, "--device", device, "--out", str(trained)]
        if isinstance(training.choice, str):
            command += ["--objective", training.choice]
        elif training.choice is not None:
            start = self.out / "models" / f"ce-seed{seed}" / "weights.safetensors"
            command += ["--init", str(start), "--margins", *map(str, training.choice)]
        if not (trained / "weights.safetensors").exists():
            self._do(name, [str(HERE / "train.py"), *command, *self.train_options])
        spec = self.model if ":" in self.model else f"{HERE / 'train.py'}:{self.model}"
        of_model = ["--release", self.release, "--model", spec + "_dropout" * (method == "mcdropout")]
        of_model += ["--weights", str(trained / "weights.safetensors"), "--device", device, "--quiet"]
        splits = f"{self.config},{self.config}-train"
        self._do(
            name,
            ["-m", "unknown_detection", "evaluate", "extract", *of_model, "--splits", splits, "--out", str(features)],
        )
        self._score(name, method, ["--features", str(features), "--seed", str(seed), *of_model])

    def _score(self, name: str, method: str, arguments: Sequence[str]) -> None:
        if self._scores(name).exists():
            return
        detectors = [detector for trained, detector in ROWS.values() if trained == method]
        built_in = [detector for detector in detectors if detector not in OWN]
        named = ["--detectors", ",".join(built_in)] if built_in else []
        named += [word for detector in detectors if detector in OWN for word in ("--detector", OWN[detector])]
        command = ["-m", "unknown_detection", "evaluate", "score", *arguments, *named, "--splits", self.config]
        self._do(name, [*command, "--out", str(self._scores(name))])

    def _do(self, name: str, command: Sequence[str]) -> None:
        self.execute([sys.executable, *command], self.out / "logs" / f"{name}.log")

    def _validation_accuracy(self, objective: Choice) -> float:
        """Return the accuracy on the validation images after the last epoch of training with an objective."""
        lines = (self.out / "models" / _name("edl", 0, objective) / "log.jsonl").read_text(encoding="utf-8")
        return float(json.loads(lines.splitlines()[-1])["validation_accuracy"])

    def _external_auroc(self, margins: Choice) -> float:
        """Return the AUROC of validation against external_validation rows by energy after training with margins."""
        release = load(self.release)
        table, _ = read_scores(self._scores(_name("energy", 0, margins)))
        scores = dict(zip(table["id"].to_pylist(), table["score"].to_pylist(), strict=True))
        splits = [
            release.rows(self.config, split)["id"].to_pylist() for split in ("validation", "external_validation")
        ]
        ids = [id_ for split in splits for id_ in split]
        return auroc([scores[id_] for id_ in ids], [False] * len(splits[0]) + [True] * len(splits[1]))


@dataclass(frozen=True)
class Training:
    """A model of the grid, from training to scores; on a cluster it is a task, which may be killed and run again."""

    grid: Grid
    method: str
    seed: int
    choice: Choice | None = None

    @property
    def name(self) -> str:
        """The name of the model's folders and files."""
        return _name(self.method, self.seed, self.choice)

    @property
    def resources(self) -> Resources:
        """What the task occupies on a cluster, where `--devices` is one device of any node."""
        return Resources(gpus=int(self.grid.devices[0] == "cuda"))

    def on(self, device: str) -> None:
        """Train and score the model on a device."""
        self.grid.train(self, device)
        click.echo(f"{self.name}: trained and scored on {device}")

    def run(self, progress: Progress) -> None:
        """Train and score the model as a task."""
        self.grid.train(self, self.grid.devices[0])
        progress(1, 0)


def _name(method: str, seed: int, choice: Choice | None) -> str:
    label = f"-{choice}" if isinstance(choice, str) else "{:g}{:g}".format(*choice) if choice is not None else ""
    return f"{method}{label}-seed{seed}"


def report(grid: Grid) -> dict[tuple[str, Column], list[float]]:
    """Write a report of all scores; returns the figures in each of the paper's rows and columns, run by run."""
    folder, config = grid.out / "report", grid.config
    scores = [f"--scores={method}={path}" for method, paths in grid.scores().items() for path in paths]
    command = [
        "-m",
        "unknown_detection",
        "evaluate",
        "report",
        "--release",
        grid.release,
        f"--protocol=unknown-detection={config}",
        *scores,
    ]
    grid._do("report", [*command, "--no-plots", "--quiet", "--out", str(folder)])
    names = {value: name for name, value in ROWS.items()}
    values: dict[tuple[str, Column], list[float]] = {}
    for line in pd.read_parquet(folder / "figures.parquet").to_dict("records"):
        name = names.get((line["variant"], line["detector"]))
        compared = line["metric"] in PAPERS_METRICS.get(line["setting"], ()) and not line["statistic"]
        if name is None or not compared or line["rows"] != "as_published":
            continue
        split = line["unknown"] if line["setting"] == "ood_detection" else ""
        values.setdefault((name, (line["setting"], split, line["metric"])), []).append(line["value"] * line["factor"])
    return values


def published(config: str) -> dict[tuple[str, Column], tuple[str, str]]:
    """Return mean and standard deviation in the paper's tables, as printed; an ensemble has no deviation."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        return {
            (row["method"], (row["setting"], row["unknown"], row["metric"])): (row["mean"], row["std"])
            for row in csv.DictReader(file)
            if row["config"] == config
        }


def write_tables(
    out: Path,
    figures: Mapping[tuple[str, Column], Sequence[float]],
    published_figures: Mapping[tuple[str, Column], tuple[str, str]],
) -> None:
    """Write `table.csv` and `table.md`: mean and deviation over seeds, with the published ones in parentheses."""
    columns = list(dict.fromkeys(column for _, column in (*published_figures, *figures)))
    titles = [
        " ".join(filter(None, (setting.replace("_", " "), split, TITLES[metric])))
        for setting, split, metric in columns
    ]
    text = ["| method | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(columns)]
    with (out / "table.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["method", "setting", "unknown", "metric", "mean", "std", "runs", "published", "published_std"]
        )
        for method in ROWS:
            cells = []
            for column in columns:
                values, printed = figures.get((method, column), ()), published_figures.get((method, column), ("", ""))
                mean = f"{statistics.fmean(values):.2f}" if values else ""
                std = f"{statistics.stdev(values):.2f}" if len(values) > 1 else ""
                writer.writerow([method, *column, mean, std, len(values), *printed])
                shown = [" ± ".join(filter(None, pair)) or "-" for pair in ((mean, std), printed)]
                cells.append(f"{shown[0]} ({shown[1]})")
            text.append(f"| {method} | " + " | ".join(cells) + " |")
    (out / "table.md").write_text("\n".join([*text, "", "In parentheses: as published.", ""]), encoding="utf-8")


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--release", required=True, help="A release folder, or ORG/NAME on the Hub.")
@click.option("--config", default="cifar", show_default=True, help="cifar, imagenet, or one of your own.")
@click.option("--model", default="resnet18_32", show_default=True, help="As for train.py; resnet152 for imagenet.")
@click.option("--methods", default=",".join(Grid.methods), show_default=True, help="What is trained.")
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True, help="Trainings of each method.")
@click.option("--devices", default="cpu", show_default=True, help="Such as cuda:0,cuda:1: a process on each.")
@click.option("--executor", type=click.Choice(["local", "ray"]), default="local", help="ray: tasks of a Ray cluster.")
@click.option("--ray-address", metavar="HOST:PORT", help="The cluster. [default: the variable RAY_ADDRESS]")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of all that is made.")
@click.argument("train_options", nargs=-1, type=click.UNPROCESSED)
def main(
    release: str,
    config: str,
    model: str,
    methods: str,
    seeds: int,
    devices: str,
    executor: str,
    ray_address: str | None,
    out: Path,
    train_options: tuple[str, ...],
) -> None:
    """Train every method with several seeds, score the models, and compare with the published figures.

    Other options, such as --compile and --precision bfloat16, are passed to train.py.
    """
    selected = tuple(method for method in Grid.methods if method in methods.split(","))
    if unknown := sorted({*methods.split(",")} - {*selected}):
        raise click.UsageError(f"{', '.join(unknown)} is no method. Choose among {', '.join(Grid.methods)}.")
    if "energy" in selected and "ce" not in selected:
        raise click.UsageError("energy fine-tunes the models of ce. Add ce to --methods.")
    if executor == "ray" and devices not in ("cpu", "cuda"):
        raise click.UsageError("A cluster gives each training a device of its own. Give --devices cuda, or cpu.")
    grid = Grid(release, config, out, tuple(devices.split(",")), seeds, selected, model, train_options)
    try:
        ExecutorFlags(executor, ray_address=ray_address).check()
        with RayExecutor(ray_address) if executor == "ray" else contextlib.nullcontext() as tasks:
            grid.run(tasks)
        write_tables(out, report(grid), published(config))
    except (EvaluationError, BuildError) as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(2) from error
    click.echo((out / "table.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
