"""What an extraction costs with and without comparing each image with its digest.

`python -m benchmarks.evaluating.hashing --scratch DIR` writes releases of crops of scikit-learn's two photographs, as
JPEGs of some 110 KB, which is what ImageNet's have, and extracts features with a ResNet-18 of random weights on the
CPU. Both sides run in turn; the rival's check of content is replaced by one that lets everything pass. Processor time
tells most, with that of the worker processes: other work on the machine changes it least. What the check costs is less
than two extractions differ by, so its parts are also timed alone: digests of bytes and of pixels, decoding, the model.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import timm
import torch
from msgspec import to_builtins
from PIL import Image
from sklearn.datasets import load_sample_images

import unknown_detection as ud
from benchmarks.rivals import Run, interleave, report
from builders.release.digests import rows_digest
from builders.release.entries import FORMAT
from builders.release.layout import Layout
from builders.release.manifest import file_entry
from builders.release.schema import ROLES, arrow_schema
from builders.release.tables import write_index
from unknown_detection.evaluation import images

WIDTH, HEIGHT, QUALITY = 500, 375, 97
CLASSES = [f"class {number}" for number in range(10)]
BATCH, GROUP = 64, 150
"""Images of a batch, and of a row group: some 16 MB, as in a build."""


def write_photographs(root: Path, count: int) -> int:
    """Write a release of one split, `photographs/test`; return the mean bytes of an image."""
    photographs = [Image.fromarray(pixels) for pixels in load_sample_images().images]
    drawn, rows = np.random.default_rng(0), []
    for number in range(count):
        photograph = photographs[number % 2]
        left, top = (
            int(drawn.integers(whole - part + 1)) for whole, part in zip(photograph.size, (WIDTH, HEIGHT), strict=True)
        )
        photograph.crop((left, top, left + WIDTH, top + HEIGHT)).save(encoded := io.BytesIO(), "JPEG", quality=QUALITY)
        digest, name = hashlib.sha256(encoded.getvalue()).hexdigest(), f"{number:05d}.jpg"
        texts = {"id": f"photographs/{name}", "source_id": name, "content_sha256": digest, "stored": "source"}
        texts |= {"class_id": CLASSES[number % 10], "class_name": CLASSES[number % 10], "source": "photographs"}
        numbers = {"label": number % 10, "role": ROLES.index("in_distribution")}
        rows.append({"image": {"bytes": encoded.getvalue(), "path": name}, **numbers, **texts})
    table, layout, key = pa.Table.from_pylist(rows, arrow_schema(CLASSES)), Layout(root), "photographs/test"
    shard, index = layout.shard("data", key, 0, 1), layout.index(key)
    shard.parent.mkdir(parents=True)
    pq.write_table(table, shard, row_group_size=GROUP, compression="none")
    write_index(index, table, CLASSES)
    files = {"index": file_entry(layout, index), "data": [file_entry(layout, shard)]}
    split = {"digest": rows_digest(table), **to_builtins(files)}
    manifest = {"format": FORMAT, "configs": {"photographs": {"label_names": CLASSES, "splits": {"test": split}}}}
    (root / "manifest.json").write_text(json.dumps(manifest))
    return sum(len(row["image"]["bytes"]) for row in rows) // count


def print_parts(model: torch.nn.Module, release: Path) -> None:
    """Print the processor milliseconds per image of each part, on one thread."""
    opened = ud.load(release).images("photographs", "test")
    shown = [opened._bytes(number) for number in range(min(len(opened), BATCH))]
    decoded, inputs = [images.decode(data) for data in shown], torch.randn(len(shown), 3, 224, 224)
    parts: dict[str, Callable[[], object]] = {
        "digest of bytes": lambda: [hashlib.sha256(data).hexdigest() for data in shown],
        "digest of pixels": lambda: [images.pixel_sha256(image) for image in decoded],
        "decoding": lambda: [images.decode(data) for data in shown],
        "forward pass": lambda: model(inputs),
    }
    torch.set_num_threads(1)
    with torch.inference_mode():
        times = {name: min(_processor_seconds(part) for _ in range(5)) / len(shown) for name, part in parts.items()}
    for name, seconds in times.items():
        share = f"{100 * seconds / times['forward pass']:.2f} % of a forward pass"
        click.echo(f"{name:28} {1000 * seconds:8.3f} ms an image, {share}")
    torch.set_num_threads(os.cpu_count() or 1)


def _processor_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


@click.command(epilog="Example: python -m benchmarks.evaluating.hashing --scratch /tmp/hashing")
@click.option("--scratch", type=click.Path(path_type=Path), required=True, help="A folder to be made and emptied.")
@click.option("--images", "counts", multiple=True, default=(450, 3000), show_default=True)
@click.option("--repeats", default=3, show_default=True)
def main(scratch: Path, counts: tuple[int, ...], repeats: int) -> None:
    """Print the seconds of an extraction with and without the comparison, and their ratio."""
    torch.manual_seed(0)
    model = timm.create_model("resnet18", num_classes=len(CLASSES))
    scratch.mkdir(parents=True)
    try:
        for count in counts:
            size = write_photographs(scratch / str(count), count)
            click.echo(f"{count:,} images of {size / 1000:.0f} KB")
            print_parts(model.eval(), scratch / str(count))

            def work(count: int = count) -> float:
                ud.extract(model, scratch / str(count), cache=scratch / "features", device="cpu")
                return 0.0

            def unchecked() -> float:
                def decoded(split: images.SplitImages, number: int) -> Image.Image:
                    return images.decode(split._bytes(number))

                with mock.patch.object(images.SplitImages, "image", decoded):
                    return work()

            def clean() -> None:
                shutil.rmtree(scratch / "features", ignore_errors=True)

            runs = {"each image hashed": Run(clean, work), "not hashed": Run(clean, unchecked)}
            report(interleave(runs, repeats), "not hashed")
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
