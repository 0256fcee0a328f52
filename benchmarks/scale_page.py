"""Print the tables of `docs/scale.md`: `python -m benchmarks.scale_page`.

Counts follow from the declarations of the benchmarks, times from measurements of our benchmarks, and money from list
prices. Nothing is measured here; a test compares the tables with the page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.declare.benchmark import Benchmark
from builders.pipeline.shards import SHARD_BYTES
from builders.registry import BENCHMARKS
from builders.sources.imagenet import IMAGENET

BROAD_PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "broad.md"

LISTED = 1_000
"""Names of an answer to a LIST request (Amazon S3's API reference, ListObjectsV2)."""

PART = 16 << 20
"""Bytes of a part of a multipart upload (ours), which has one request before its parts and one behind them."""

XORB = 64 << 20
"""Upper limit on the bytes of an upload to the Hub's Xet storage (huggingface.co/docs/hub, Xet: deduplication)."""

PLAN_SECONDS = 3.07e-6
"""Processor seconds of planning a name that is a row of two splits (`benchmarks.planning.scale`, ten million counted
names in ten partitions)."""

START_MB, OWN_MB = 78, 927
"""MB of a process after its imports, and of the one that plans ten million names, mapped files not counted."""

INDEX_BYTES, TABLE_BYTES = 108, 143
"""Bytes of a name in an index, and of a row in the tables, which are mapped from temporary files: `disk` there."""

WORKER_MB = 190
"""MB of a process that builds; `benchmarks.building.release`."""

DIGEST_BYTES = 32
"""Bytes of a SHA-256, which no compression can spare."""

BUILD_SECONDS = 2.77
"""Processor seconds of building a GB; `benchmarks.building.cost`."""

NEW_VERSION = 0.010
"""Share of a split's bytes that a version without ten of 250,000 rows sends; `benchmarks.building.new_version`."""

GPUS, CORES = 8, 16
"""Devices and cores of the columns of minutes (ours)."""


@dataclass(frozen=True)
class Price:
    """A list price in dollars, with its source."""

    unit: str
    dollars: float
    source: str


LIST_PRICE, GET_PRICE, STORAGE, EGRESS, CORE, GPU = PRICES = (
    Price("1,000 PUT, POST or LIST requests", 0.005, "Amazon S3 Standard, us-east-1 (aws.amazon.com/s3/pricing)"),
    Price("1,000 GET requests", 0.0004, "the same"),
    Price("a GB stored for a month", 0.023, "the same, up to 50 TB"),
    Price("a GB sent to the internet", 0.09, "the same, up to 10 TB a month; to machines of the region it is free"),
    Price("an hour of a core", 0.0408, "half of an m7g.large with two, on demand, us-east-1, June 2026"),
    Price(
        "an hour of an H100", 3.00, "between 2.49 and 3.99, what four clouds asked in early 2026 (pricegpu.pages.dev)"
    ),
)


@dataclass(frozen=True)
class Workload:
    """The size of a build: names and LIST requests of its sources, rows, rows read, bytes, and GPU hours."""

    title: str
    names: int
    lists: int
    rows: int
    reads: int
    size: float
    gpu_hours: float = 0.0

    @property
    def shards(self) -> int:
        """The number of Parquet files with images."""
        return math.ceil(self.size / SHARD_BYTES)

    @property
    def puts(self) -> int:
        """The number of requests by which the shards are written to a store."""
        return self.shards * (SHARD_BYTES // PART + 2)

    @property
    def build_hours(self) -> float:
        """The hours that one core takes for the build."""
        return self.size / 1e9 * BUILD_SECONDS / 3600

    @property
    def plan_mb(self) -> float:
        """The MB of memory that planning takes, which grow with the names."""
        return START_MB + self.names / 1e7 * (OWN_MB - START_MB)


def mean_bytes() -> float:
    """Return the mean bytes of an image of ILSVRC2012, from the size of its owner's archives."""
    archives = [file.size for file in IMAGENET.obtain.files if file.name.startswith("ILSVRC2012_img")]  # type: ignore[union-attr]
    return sum(archives) / sum(expected.total for expected in IMAGENET.expected().values())


def declared(benchmark: Benchmark, title: str, gpu_hours: float = 0.0) -> Workload:
    """Return the workload of all splits of a benchmark, taking images of all sources as large as ImageNet's."""
    names = lists = rows = reads = 0
    size = 0.0
    for source, partitions in benchmark.partitions(benchmark.parts).items():
        for partition in partitions if source.on_disk else ():
            total, classes = source.expected()[partition].total, len(source.classes())
            names += total
            lists += classes * math.ceil(total / classes / LISTED)
    for key, split in benchmark.parts.items():
        count = benchmark.count(key).rows
        rows += count
        reads += count if split.source.on_disk else 0
        generator = split.image_generator
        size += count * (mean_bytes() if generator is None else generator.nominal_bytes)
    return Workload(title, names, lists, rows, reads, size, gpu_hours)


def made_up(images: int, classes: int, partitions: int) -> Workload:
    """Return the workload of a made-up benchmark that takes all images of its source."""
    lists = partitions * classes * math.ceil(images / partitions / classes / LISTED)
    title, size = f"{images // 10**6} million images", images * mean_bytes()
    return Workload(title, images, lists, images, images, size)


def broad_gpu_hours(page: str) -> float:
    """Return the hours of one GPU for BROAD's images that models make or attack, from the tables of its page."""
    counted = {row[0]: row[1:4] for row in _rows(page, "| | images | forward | backward |")}
    measured = {row[0]: row[1:3] for row in _rows(page, "| | forward | backward | 1 device |")}
    if not counted or counted.keys() != measured.keys():
        raise ValueError("the two tables of BROAD's page name different work")
    seconds = 0.0
    for title, (images, *passes) in counted.items():
        for count, cost in zip(passes, measured[title], strict=True):
            seconds += images * count * cost
    return seconds / 3600


def _rows(page: str, head: str) -> list[tuple[str, *tuple[float, ...]]]:
    """Return the rows of a Markdown table by its head: the first cell, and the others as numbers, 0 for none."""
    below = page[page.index(head) :].splitlines()[2:]
    rows = []
    for line in below:
        if not line.startswith("|"):
            break
        title, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append((title, *(float(number.replace(",", "")) for cell in cells for number in [_number(cell)])))
    return rows


def _number(cell: str) -> str:
    match = re.match(r"[\d,.]+", cell)
    return match[0] if match else "0"


def workloads() -> tuple[Workload, ...]:
    """Return the workloads that are columns of the page."""
    hours = broad_gpu_hours(BROAD_PAGE.read_text(encoding="utf-8"))
    return (
        declared(BENCHMARKS["imagenet"], "ImageNet scale"),
        declared(BENCHMARKS["broad"], "BROAD", hours),
        made_up(100_000_000, 1_000, 100),
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with a first column of text and other columns of numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables(columns: Sequence[Workload]) -> Mapping[str, str]:
    """Return the page's tables, by name."""

    def rows(*lines: tuple[str, str, Sequence[float]]) -> list[list[str]]:
        return [[title, *(form.format(value) for value in values)] for title, form, values in lines]

    head = ["", *(column.title for column in columns)]
    gb = [column.size / 1e9 for column in columns]
    requests = [(c.lists + c.puts) / 1000 * LIST_PRICE.dollars + c.reads / 1000 * GET_PRICE.dollars for c in columns]
    core = [column.build_hours + column.names * PLAN_SECONDS / 3600 for column in columns]
    gpu = [column.gpu_hours for column in columns]
    return {
        "bytes": table(
            head,
            rows(
                ("names listed", "{:,}", [c.names for c in columns]),
                ("rows", "{:,}", [c.rows for c in columns]),
                ("GB", "{:,.0f}", gb),
                ("shards of 512 MiB", "{:,}", [c.shards for c in columns]),
            ),
        ),
        "requests": table(
            head,
            rows(
                ("LIST of the sources", "{:,}", [c.lists for c in columns]),
                ("GET of images", "{:,}", [c.reads for c in columns]),
                ("PUT of shards", "{:,}", [c.puts for c in columns]),
                ("Hub: commits", "{:,}", [1 for _ in columns]),
                ("Hub: uploads of 64 MiB", "{:,}", [math.ceil(c.size / XORB) for c in columns]),
            ),
        ),
        "time": table(
            head,
            rows(
                ("planning, seconds of a core", "{:.1f}", [c.names * PLAN_SECONDS for c in columns]),
                ("planning, MB", "{:,.0f}", [c.plan_mb for c in columns]),
                ("building, minutes of a core", "{:.0f}", [c.build_hours * 60 for c in columns]),
                (f"building on {CORES} cores, minutes", "{:.1f}", [c.build_hours / CORES * 60 for c in columns]),
                ("models, hours of a GPU", "{:.0f}", gpu),
                (f"models on {GPUS} GPUs, hours", "{:.0f}", [hours / GPUS for hours in gpu]),
            ),
        ),
        "money": table(
            head,
            rows(
                ("requests", "{:,.2f}", requests),
                ("cores", "{:,.2f}", [hours * CORE.dollars for hours in core]),
                ("GPUs", "{:,.0f}", [hours * GPU.dollars for hours in gpu]),
                ("storage of the release, a month", "{:,.0f}", [size * STORAGE.dollars for size in gb]),
                ("sending it to the Hub from S3, once", "{:,.0f}", [size * EGRESS.dollars for size in gb]),
                (
                    "sending a version without 0.004 % of the rows",
                    "{:,.0f}",
                    [size * EGRESS.dollars * NEW_VERSION for size in gb],
                ),
            ),
        ),
        "growth": growth(columns),
        "prices": table(["what", "US dollars", "source"], [[p.unit, f"{p.dollars:g}", p.source] for p in PRICES]),
    }


def growth(columns: Sequence[Workload]) -> str:
    """Return the table of what memory and bytes grow with, in MB."""
    lines = [
        ("a worker's memory", "nothing", [WORKER_MB for _ in columns]),
        ("bytes that a killed worker does again", "nothing", [SHARD_BYTES / 1e6 for _ in columns]),
        ("planning, at most", "names", [c.plan_mb for c in columns]),
        ("temporary files of sources", "names", [c.names * INDEX_BYTES / 1e6 for c in columns]),
        ("temporary files of tables", "rows of a run", [c.rows * TABLE_BYTES / 1e6 for c in columns]),
        ("indexes on disk, at least", "rows", [c.rows * DIGEST_BYTES / 1e6 for c in columns]),
    ]
    rows = [[quantity, factor, *(f"{value:,.0f}" for value in values)] for quantity, factor, values in lines]
    return table(["MB", "grows with", *(column.title for column in columns)], rows)


def main() -> None:
    """Print the tables."""
    for name, text in tables(workloads()).items():
        print(f"{name}\n\n{text}\n")


if __name__ == "__main__":
    main()
