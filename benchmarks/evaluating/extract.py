"""The cost of an extraction against a bare loop over torch's DataLoader, with the same model and images.

`python -m benchmarks.evaluating.extract --scratch DIR` writes releases of crops of scikit-learn's two photographs
(`benchmarks.evaluating.hashing`), and runs a ResNet-18 of random weights over them on the CPU. The loop opens the
release's images, decodes and transforms them in as many processes, and keeps the logits alone: it neither probes the
model nor looks at digests, stores nothing, and does not pad its last batch.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import timm
import torch
from torch.utils.data import DataLoader, Dataset

import unknown_detection as ud
from benchmarks.evaluating.hashing import BATCH, CLASSES, write_photographs
from benchmarks.rivals import Run, interleave, report
from unknown_detection.evaluation.features.runner import default_workers
from unknown_detection.evaluation.images import SplitImages


class Photographs(Dataset[torch.Tensor]):
    """The images of the split, with timm's transform."""

    def __init__(self, images: SplitImages, model: torch.nn.Module) -> None:
        self.images = images
        self.transform = timm.data.create_transform(**timm.data.resolve_data_config({}, model=model))

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, number: int) -> torch.Tensor:
        transformed: torch.Tensor = self.transform(self.images.image(number))
        return transformed


@click.command(epilog="Example: python -m benchmarks.evaluating.extract --scratch /tmp/extract")
@click.option("--scratch", type=click.Path(path_type=Path), required=True, help="A folder to be made and emptied.")
@click.option("--images", "counts", multiple=True, default=(450, 3000), show_default=True)
@click.option("--repeats", default=3, show_default=True)
def main(scratch: Path, counts: tuple[int, ...], repeats: int) -> None:
    """Print the seconds of an extraction and of the loop, and their ratio."""
    torch.manual_seed(0)
    model = timm.create_model("resnet18", num_classes=len(CLASSES)).eval()
    scratch.mkdir(parents=True)
    try:
        for count in counts:
            size = write_photographs(scratch / str(count), count)
            click.echo(f"{count:,} images of {size / 1000:.0f} KB")

            def extract(count: int = count) -> float:
                ud.extract(model, scratch / str(count), cache=scratch / "features", device="cpu", quiet=True)
                return 0.0

            def loop(count: int = count) -> float:
                images = ud.load(scratch / str(count)).images("photographs", "test")
                with torch.inference_mode():
                    for batch in DataLoader(Photographs(images, model), BATCH, num_workers=default_workers()):
                        model(batch).numpy()
                return 0.0

            def clean() -> None:
                shutil.rmtree(scratch / "features", ignore_errors=True)

            report(
                interleave({"extraction": Run(clean, extract), "bare loop": Run(clean, loop)}, repeats), "bare loop"
            )
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
