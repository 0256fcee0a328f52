"""`python -m unknown_detection evaluate extract`: extracts features of a release with a model.

Tested by `tests/evaluation/features/test_extract.py`.
"""

from __future__ import annotations

import contextlib
from typing import Any

import click

from builders.cli.executor_flags import ExecutorFlags
from builders.executors.ray import RayExecutor
from unknown_detection.commands import as_started
from unknown_detection.evaluation.commands import options
from unknown_detection.help import ESSENTIALS, helpful


@helpful(
    "extract",
    sections={ESSENTIALS: ("release", "model", "cache")},
    examples=(
        "python -m unknown_detection evaluate extract --release build/unknown-detection --splits imagenet "
        "--model timm:resnet50.a1_in1k --pretrained --out build/features",
    ),
)
@options.release(required=True)
@options.splits("Configs or single splits to extract; their configs must have the same classes. Default: all.")
@options.model(required=True)
@options.of(options.EXTRACT, "--published-accuracy", "accuracy", metavar="PERCENT", type=click.FloatRange(0, 100))
@options.of(options.EXTRACT, "--out", "cache", type=options.FOLDER, required=True)
@options.texts
@options.run_options
@options.cluster_options
@options.of(options.EXTRACT, "--share", metavar="K/N")
@options.of(options.EXTRACT, "--dry-run", is_flag=True)
def command(executor: str, ray_address: str | None, **flags: Any) -> None:
    """Extract features of a release with a model.

    One forward pass per image stores its logits, penultimate features (the input of the last linear layer) and pooled
    block outputs. An interrupted run resumes. Images that the release says are prepared for a model's input are used
    as they are stored if the model has this input, and resized otherwise. Known test images come first: the model's
    accuracy on them is printed beside the published one, and a difference of over one point and chance ends the run.
    On a running Ray cluster (--executor ray) tasks share the images, each with a GPU if --device is cuda.
    """
    ExecutorFlags(executor, ray_address=ray_address, dry_run=flags["dry_run"]).check()
    from unknown_detection.evaluation.features.extract import extract

    note = options.notes(False, **flags)
    tasks = RayExecutor(ray_address) if executor == "ray" and not flags["dry_run"] else contextlib.nullcontext()
    with tasks as entered:
        extract(**options.given(flags), executor=entered, log=note)
    if flags["dry_run"]:
        note("nothing was written")
    elif flags["share"]:
        note(f"share {flags['share']} is in {flags['cache']}; after the others run the same command without --share")
    else:
        score = as_started("python -m unknown_detection evaluate score")
        note(f"features are in {flags['cache']}; {score} --features {flags['cache']} comes next")
