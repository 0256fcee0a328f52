"""`python -m evaluation extract`: extracts features of a release with a model.

Tested by `tests/evaluation/features/test_extract.py`.
"""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands import options
from evaluation.progress import bar
from evaluation.releases import open_release
from terminal.interrupts import stopping_says
from unknown_detection.commands import as_started


@click.command(
    epilog="Example: python -m evaluation extract --release build/unknown-detection --config cifar --model "
    "timm:resnet18 --weights resnet18.safetensors --out build/features"
)
@options.release(required=True)
@click.option(
    "--config",
    "configs",
    metavar="CONFIG",
    multiple=True,
    required=True,
    help="A config of the release; may be repeated.",
)
@click.option("--splits", metavar="NAMES", help="Comma-separated splits. Default: all splits of each config.")
@options.model(required=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for the features; later runs on the same model and release add splits to it.",
)
@options.run_options
@click.option("--dry-run", is_flag=True, help="Check the inputs and print what would be extracted; write nothing.")
def command(
    release: str,
    revision: str | None,
    configs: tuple[str, ...],
    splits: str | None,
    model: str,
    weights: Path,
    out: Path,
    device: str,
    batch_size: int,
    workers: int,
    quiet: bool,
    dry_run: bool,
) -> None:
    """Extract features of a release with a model, in one forward pass per image.

    Stores each image's logits, penultimate features (the input of the last linear layer) and pooled block outputs. An
    interrupted run resumes. Images that the release says are prepared for a model's input are used as they are stored
    if the model has this input, and resized otherwise. A folder with features of another release or model is refused.
    """
    from evaluation.features.extract import Runner, bytes_a_row, extract, identity
    from evaluation.features.store import Store
    from evaluation.models.models import open_model

    opened = open_release(release, revision)
    chosen = options.choose_splits(opened, configs, options.parse_list(splits))
    classes = options.one_label_set(opened, configs)
    ready = open_model(model, weights, len(classes), device=device)
    whose = identity(opened, ready, classes)
    there = Store.check(out, whose)
    click.echo(f"release  {opened.name}, digest {opened.digest[:12]}")
    click.echo(f"model    {ready.name} on {ready.device}, digest {ready.digest[:12]}")
    head = ready.head.weight.shape
    click.echo(f"features {head[0]} logits from {head[1]} of {ready.layers.head}; blocks {', '.join(whose.blocks)}")
    if ready.layers.skipped:
        click.echo(
            f"no block features of {', '.join(ready.layers.skipped)}, which do not run or give no features per image; "
            "name blocks in the model's attribute `feature_blocks`"
        )
    if ready.dropout.always:
        click.echo(
            "dropout  drops values in eval mode, too; features are without it, and mc_dropout draws its own masks"
        )
    for config, split in chosen:
        if way := whose.prepared.get(f"{config}/{split}"):
            click.echo(f"{config}/{split}: images of {way}")
    if dry_run:
        size = bytes_a_row(ready)
        for config, split in chosen:
            rows = len(opened.rows(config, split))
            done = there is not None and there.row_blocks(config, split).is_sound()
            what = "there already" if done else f"{rows:,} images, {rows * size:,} bytes"
            click.echo(f"{config}/{split}: {what}")
        click.echo("nothing was written")
        return
    store = Store.begin(out, whose, ready.head)
    runner = Runner(opened, ready, batch_size, workers)
    with store.writing(), stopping_says("stopped; finished splits are kept. Run the same command again to continue."):
        store.expect(chosen)
        for config, split in chosen:
            rows = len(opened.rows(config, split))
            with bar(rows, f"{config}/{split}", quiet=quiet) as progress:
                new = extract(runner, store, config, split, progress.update)
            what = f"{new.computed:,} of {rows:,} images" if new.computed else f"there already, {rows:,} images"
            if new.reused:
                what = f"{new.computed:,} of {rows:,} images; other splits have {new.reused:,} of the rest"
            click.echo(f"{config}/{split}: {what}")
    score = as_started("python -m evaluation score")
    click.echo(f"features are in {out}; {score} --features {out} comes next")
