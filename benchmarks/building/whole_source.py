"""Build all training images of an ImageNet tree into one split: `python -m benchmarks.building.whole_source TREE OUT`.

With `--resize` every image is shrunk by the fixed resize. `--one-worker` writes all shards in this process.
"""

from __future__ import annotations

import sys
from pathlib import Path

from builders.cli.build_options import BuildRequest
from builders.declare.benchmark import Benchmark
from builders.declare.quotas import AllImages
from builders.declare.splits import AllClasses, Classes, Config, PaperCount, Split
from builders.executors.base import usable_cores, without_pandas
from builders.executors.local import LocalExecutor
from builders.generate.contract import Generator
from builders.generate.exact.resize import FIXED_RESIZE
from builders.pipeline.build_plan import BuildPlan
from builders.pipeline.run import write_release
from builders.plan.candidates import Draws
from builders.plan.planner import plan
from builders.sources.datasets.imagenet import IMAGENET
from builders.sources.opening import open_source
from builders.storage.paths import as_path
from unknown_detection.terminal.progress import TerminalMeter

SPLIT = "everything/train"


def everything(generator: Generator | None) -> Benchmark:
    """Return a benchmark of one split that has every training image."""
    split = Split(
        name="train",
        role="external",
        source=IMAGENET,
        partitions=("train",),
        classes=AllClasses("the whole source is built"),
        quota=AllImages(),
        paper=PaperCount(0),
        generator=generator,
    )
    labels = Classes("imagenet", "in_distribution")
    config = Config(name="everything", labels=labels, description="Every class.", splits=(split,))
    return Benchmark(
        name="everything",
        title="All of ImageNet's training images",
        version="1.0.0",
        seed=0,
        paper="",
        citation="",
        configs=(config,),
    )


def main() -> None:
    """Build."""
    tree, out = Path(sys.argv[1]), as_path(sys.argv[2])
    benchmark = everything(FIXED_RESIZE if "--resize" in sys.argv else None)
    meter = TerminalMeter(quiet=True)
    with LocalExecutor(1 if "--one-worker" in sys.argv else usable_cores()) as executor:
        indexes = {"imagenet": open_source(IMAGENET, tree, ("train",))}
        draws = Draws(benchmark, 0)
        planned = plan(draws, indexes, splits=[SPLIT])
        request = BuildRequest(out, (SPLIT,), allow_partial=True, demo=True)
        labels = {config.name: draws.label_names(config) for config in benchmark.configs}
        build = BuildPlan(request, benchmark.version, indexes, draws, tuple(planned), labels, {SPLIT: ""})
        write_release(build, executor, meter)


if __name__ == "__main__":
    without_pandas()
    main()
