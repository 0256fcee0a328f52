"""`python -m unknown_detection evaluate extract`: extracts features of a release with a model.

Tested by `tests/evaluation/features/test_extract.py`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import click

from builders.cli.executor_flags import ExecutorFlags
from builders.executors.ray import RayExecutor
from unknown_detection.commands import as_started
from unknown_detection.evaluation.commands import options
from unknown_detection.evaluation.releases import load
from unknown_detection.help import ESSENTIALS, helpful


@helpful(
    "extract",
    sections={ESSENTIALS: ("release", "model", "out")},
    examples=(
        "python -m unknown_detection evaluate extract --release build/unknown-detection --splits imagenet "
        "--model timm:resnet50.a1_in1k --pretrained --out build/features",
    ),
)
@options.release(required=True)
@options.splits("Configs or single splits to extract; their configs must have the same classes. Default: all.")
@options.model(required=True)
@click.option(
    "--published-accuracy",
    "accuracy",
    metavar="PERCENT",
    type=click.FloatRange(0, 100),
    help="Published top-1 accuracy of the weights. Default: what torchvision says of its own.",
)
@click.option(
    "--out",
    type=options.FOLDER,
    required=True,
    help="Folder for the features; later runs on the same model and release add splits to it.",
)
@options.texts
@options.run_options
@options.cluster_options
@click.option(
    "--share",
    metavar="K/N",
    help="Compute every N-th part of the images, from the K-th on: N machines that see one disk fill one folder. The "
    "same command without it comes last: it finds all there, and checks the accuracy.",
)
@click.option("--dry-run", is_flag=True, help="Check the inputs and print what would be extracted; write nothing.")
def command(
    release: str,
    revision: str | None,
    splits: str | None,
    model: str,
    pretrained: str | None,
    out: Path,
    executor: str,
    ray_address: str | None,
    **flags: Any,
) -> None:
    """Extract features of a release with a model, in one forward pass per image.

    Stores each image's logits, penultimate features (the input of the last linear layer) and pooled block outputs. An
    interrupted run resumes. Images that the release says are prepared for a model's input are used as they are stored
    if the model has this input, and resized otherwise. Known test images come first: the model's accuracy on them is
    printed beside the published one, and a difference of over one point and chance ends the run. On a running Ray
    cluster (--executor ray) tasks share the images, each with a GPU if --device is cuda.
    """
    ExecutorFlags(executor, ray_address=ray_address, dry_run=flags["dry_run"]).check()
    from unknown_detection.evaluation.features.extract import extract

    note = options.notes(False, **flags)
    tasks = RayExecutor(ray_address) if executor == "ray" and not flags["dry_run"] else contextlib.nullcontext()
    with tasks as entered:
        extract(
            options.model_name(model, pretrained),
            load(release, revision),
            splits,
            cache=out,
            pretrained=pretrained is not None,
            executor=entered,
            log=note,
            **flags,
        )
    if flags["dry_run"]:
        note("nothing was written")
    else:
        score = as_started("python -m unknown_detection evaluate score")
        note(f"features are in {out}; {score} --features {out} comes next")
