"""Memory and processor time of planning up to ten million names.

`python -m benchmarks.planning.scale` plans a made-up source of 1,000 classes whose index is generated: names are made
class by class, and there are no files. Each line is a process of its own, Python and imports included: `peak` is its
largest resident set, and `own` the largest part of it that is no mapped file, which the system cannot drop. `disk` are
the bytes of the index and of the tables, of which large ones lie in temporary files. `counted` names are ImageNet's
(`train0/n01440764/n01440764_1002.JPEG`); `random` ones end in 16 random hexadecimal digits. Every name is a row of two
splits, whose tables are made. Linux only: the kernel's /proc says what is mapped.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import io
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import figures
from builders.cli.build_options import BuildRequest
from builders.commands.summary import dry_run_text
from builders.declare.benchmark import Benchmark
from builders.declare.quotas import AllImages, PerClass, Rest
from builders.declare.splits import AllClasses, ClassesOf, Config, PaperCount, Split
from builders.pipeline.from_sources import prepare
from builders.sources.base import CopyLayout, Expected, Licence, PartitionIndex, Source, partition_table
from unknown_detection.terminal.progress import TerminalMeter

CLASSES = tuple(f"n{1440764 + 97 * number:08d}" for number in range(1000))

SIZES = (
    (2_000, 1),
    (1_000_000, 1),
    (10_000_000, 10),
    (10_000_000, 1),
    (30_000_000, 30),
)
"""Names and partitions of each line (ours); the first measures the start of the process."""


KINDS = ("counted", "random")


@dataclass(frozen=True)
class Generated:
    """A made-up source whose partitions have `names` images in all."""

    names: int
    partitions: int
    random: bool

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the partitions."""
        return tuple(f"train{number}" for number in range(self.partitions))

    @property
    def per_class(self) -> int:
        """The number of images of each class in a partition, at least 1."""
        return max(1, self.names // self.partitions // len(CLASSES))

    def _piece(self, partition: str) -> PartitionIndex:
        ids = pa.chunked_array([self._names(partition, class_id) for class_id in CLASSES])
        codes = np.repeat(np.arange(len(CLASSES), dtype=np.int32), self.per_class)
        classes = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(CLASSES))
        # ImageNet's mean, as there are no files.
        sizes = pa.repeat(pa.scalar(110_000, pa.int64()), len(ids))
        return PartitionIndex(partition, "generated", "made", partition_table(classes, ids, ids, sizes=sizes))

    def _names(self, partition: str, class_id: str) -> pa.Array:
        if self.random:
            seed = hashlib.sha256(f"{partition}{class_id}".encode()).digest()
            digits = np.frombuffer(hashlib.shake_128(seed).hexdigest(8 * self.per_class).encode(), "S16")
            numbers = pa.array(np.sort(digits).astype(str))
        else:
            numbers = pa.array(np.arange(self.per_class)).cast(pa.string())
        before, after = pa.scalar(f"{partition}/{class_id}/{class_id}_"), pa.scalar(".JPEG")
        return pc.binary_join_element_wise(before, numbers, after, pa.scalar(""))

    def source(self) -> Source:
        """Return the source's declaration."""
        expected = {
            key: Expected(self.per_class * len(CLASSES), dict.fromkeys(CLASSES, self.per_class)) for key in self.keys
        }
        return Source(
            key="generated",
            title="Generated",
            edition="",
            licence=Licence("none", "", "open", "There are no images."),
            citation="",
            obtain=None,
            classes=_classes,
            expected=lambda: expected,
            accepted=(CopyLayout("nothing is needed", lambda home: self._piece(home.partition)),),
        )

    def benchmark(self) -> Benchmark:
        """Return a config per partition: 50 validation images a class, the rest to train on, and all images again."""
        source = self.source()
        configs = []
        for key in self.keys:
            split = functools.partial(
                Split,
                role="in_distribution",
                source=source,
                partitions=(key,),
                classes=AllClasses("names are planned"),
                paper=PaperCount(0),
            )
            validation = split(name="validation", quota=PerClass(50, half=True))
            train, everything = (
                split(name="train", quota=Rest(f"{key}/validation")),
                split(name="everything", quota=AllImages()),
            )
            configs.append(Config(key, ClassesOf(source), "Generated.", (validation, train, everything)))
        return Benchmark("generated", "Generated names", "1.0.0", 0, "", "", tuple(configs))


def _classes() -> dict[str, str]:
    return dict(zip(CLASSES, CLASSES, strict=True))


def plan_once(generated: Generated) -> dict[str, float]:
    """Plan in this process; returns rows, seconds, processor seconds and MB of memory."""
    benchmark = generated.benchmark()
    started, before = time.perf_counter(), time.process_time()
    meter = TerminalMeter(quiet=True)
    with contextlib.redirect_stderr(io.StringIO()):
        planned = prepare(benchmark, BuildRequest(Path("nowhere"), tuple(benchmark.splits)), {}, meter)
        dry_run_text(planned)
    index = planned.indexes["generated"]
    return {
        "names": index.num_rows,
        "rows": sum(split.table.num_rows for split in planned.planned),
        "index": sum(partition.table.nbytes for partition in index.partitions) / 1e6,
        "tables": sum(split.table.nbytes for split in planned.planned) / 1e6,
        "seconds": time.perf_counter() - started,
        "processor": time.process_time() - before,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=10_000_000, help="the most names to plan")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        names, partitions, kind = args.child
        print(json.dumps(plan_once(Generated(int(names), int(partitions), kind == "random"))))
        return
    print("     names partitions    kind        rows  peak MB   own MB  disk MB  cpu s      s")
    lines: dict[str, dict[str, float]] = {}
    for kind in args.kinds:
        for names, partitions in SIZES:
            if names <= args.most:
                one = measured("--child", str(names), str(partitions), kind)
                lines[f"{names}, {partitions}, {kind}"] = {key: round(value, 2) for key, value in one.items()}
                print(
                    f"{one['names']:10,} {partitions:10} {kind:>7} {one['rows']:11,} {one['peak']:8,.0f} "
                    f"{one['own']:8,.0f} {one['index'] + one['tables']:8,.0f} {one['processor']:6.1f} "
                    f"{one['seconds']:6.1f}"
                )
                figures.record("planning.scale", {"lines": lines})


def measured(*arguments: str) -> dict[str, float]:
    """Run this module in a process of its own; returns its output and its peak memory in MB without mapped files."""
    own = 0
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.planning.scale", *arguments], stdout=subprocess.PIPE
    ) as child:
        while child.poll() is None:
            status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
            own = max([own, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))])
            time.sleep(0.02)
        output = child.stdout.read() if child.stdout else b""
    if child.returncode:
        raise SystemExit(child.returncode)
    return {**json.loads(output), "own": own * 1024 / 1e6}


if __name__ == "__main__":
    main()
