"""Makes the tables of `docs/scale.md` (`benchmarks.pages` writes them).

Counts follow from the declarations of the benchmarks, times and bytes from the recorded figures of our benchmarks, and
money from list prices. Nothing is measured here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figures
from benchmarks.tables import seconds, table
from builders.declare.benchmark import Benchmark
from builders.pipeline.shards import SHARD_BYTES
from builders.registry import BENCHMARKS
from builders.sources.datasets.imagenet import IMAGENET

BROAD_PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "broad.md"

LISTED = 1_000
"""Names of an answer to a LIST request (Amazon S3's API reference, ListObjectsV2)."""

PART = 16 << 20
"""Bytes of a part of a multipart upload (ours), which has one request before its parts and one behind them."""

XORB = 64 << 20
"""Upper limit on the bytes of an upload to the Hub's Xet storage (huggingface.co/docs/hub, Xet: deduplication)."""

DIGEST_BYTES = 32
"""Bytes of a SHA-256, which no compression can spare."""

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
class Costs:
    """What was measured, from which the columns follow.

    Attributes:
        plan_seconds: processor seconds of planning a name that is a row of two splits.
        start_mb: of a process after its imports.
        own_mb: of the process that plans ten million names, mapped files not counted.
        index_bytes: of a name in an index, which lies in a temporary file.
        table_bytes: of a row in the plan's tables, which lie in temporary files.
        worker_mb: of the largest process of a build.
        build_seconds: processor seconds of building a GB.
        new_version: the share of a split's bytes that a version without ten of 250,000 rows sends.
    """

    plan_seconds: float
    start_mb: float
    own_mb: float
    index_bytes: float
    table_bytes: float
    worker_mb: float
    build_seconds: float
    new_version: float

    def plan_mb(self, names: int) -> float:
        """Return the MB of memory that planning so many names takes."""
        return self.start_mb + names / 1e7 * (self.own_mb - self.start_mb)

    def build_hours(self, size: float) -> float:
        """Return the hours that one core takes to build so many bytes."""
        return size / 1e9 * self.build_seconds / 3600


def costs(recorded: Figures) -> Costs:
    """Return what was measured, from the file of figures."""
    lines, version = recorded["planning.scale"]["lines"], recorded["building.new_version"]
    most, cost = lines["10000000, 10, counted"], recorded["building.cost"]
    return Costs(
        plan_seconds=most["processor"] / most["names"],
        start_mb=lines["2000, 1, counted"]["own"],
        own_mb=most["own"],
        index_bytes=most["index"] * 1e6 / most["names"],
        table_bytes=most["tables"] * 1e6 / most["rows"],
        worker_mb=cost["medians"]["builders, tree"]["peak_mb"],
        build_seconds=cost["costs"]["builders"]["seconds a GB"],
        new_version=version["new"] / version["total"],
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


def tables(columns: Sequence[Workload], cost: Costs) -> Mapping[str, str]:
    """Return the page's tables, by name."""

    def rows(*lines: tuple[str, str, Sequence[float]]) -> list[list[str]]:
        return [[title, *(form.format(value) for value in values)] for title, form, values in lines]

    head = ["", *(column.title for column in columns)]
    gb = [column.size / 1e9 for column in columns]
    requests = [(c.lists + c.puts) / 1000 * LIST_PRICE.dollars + c.reads / 1000 * GET_PRICE.dollars for c in columns]
    hours = [cost.build_hours(column.size) for column in columns]
    core = [of + column.names * cost.plan_seconds / 3600 for of, column in zip(hours, columns, strict=True)]
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
                ("planning, seconds of a core", "{:.1f}", [c.names * cost.plan_seconds for c in columns]),
                ("planning, MB", "{:,.0f}", [cost.plan_mb(c.names) for c in columns]),
                ("building, minutes of a core", "{:.0f}", [of * 60 for of in hours]),
                (f"building on {CORES} cores, minutes", "{:.1f}", [of / CORES * 60 for of in hours]),
                ("models, hours of a GPU", "{:.0f}", gpu),
                (f"models on {GPUS} GPUs, hours", "{:.0f}", [of / GPUS for of in gpu]),
            ),
        ),
        "money": table(
            head,
            rows(
                ("requests", "{:,.2f}", requests),
                ("cores", "{:,.2f}", [of * CORE.dollars for of in core]),
                ("GPUs", "{:,.0f}", [of * GPU.dollars for of in gpu]),
                ("storage of the release, a month", "{:,.0f}", [size * STORAGE.dollars for size in gb]),
                ("sending it to the Hub from S3, once", "{:,.0f}", [size * EGRESS.dollars for size in gb]),
                (
                    "sending a version without 0.004 % of the rows",
                    "{:,.0f}",
                    [size * EGRESS.dollars * cost.new_version for size in gb],
                ),
            ),
        ),
        "growth": growth(columns, cost),
        "prices": table(["what", "US dollars", "source"], [[p.unit, f"{p.dollars:g}", p.source] for p in PRICES]),
    }


def growth(columns: Sequence[Workload], cost: Costs) -> str:
    """Return the table of what memory and bytes grow with, in MB."""
    lines = [
        ("a worker's memory", "nothing", [cost.worker_mb for _ in columns]),
        ("bytes that a killed worker does again", "nothing", [SHARD_BYTES / 1e6 for _ in columns]),
        ("planning, at most", "names", [cost.plan_mb(c.names) for c in columns]),
        ("temporary files of sources", "names", [c.names * cost.index_bytes / 1e6 for c in columns]),
        ("temporary files of tables", "rows of a run", [c.rows * cost.table_bytes / 1e6 for c in columns]),
        ("indexes on disk, at least", "rows", [c.rows * DIGEST_BYTES / 1e6 for c in columns]),
    ]
    rows = [[quantity, factor, *(f"{value:,.0f}" for value in values)] for quantity, factor, values in lines]
    return table(["MB", "grows with", *(column.title for column in columns)], rows)


SHAPES = {
    "rows": "{:,} rows",
    "classes": "{:,} classes of an image each",
    "shards": "{:,} shards of two images each",
    "shards, near": "the same, all images decoded and compared",
    "empty": "{:,} empty class folders, which are refused",
}
"""What is many, in words."""


COMMANDS = {"build": "build folder", "verify": "verify"}
SHORT = {"build": " --no-near-duplicates", "verify": " --check fast"}
"""What the commands leave out where images are not compared."""


def shapes(recorded: Figures) -> str:
    """Return the table of builds in which something is many."""
    rows = []
    for shape, title in SHAPES.items():
        of = recorded.get(f"building.shapes, {shape}")
        for name, exponent in of["exponents"].items() if of else ():
            by_size = sorted(of["sizes"].items(), key=lambda item: int(item[0]))
            medians = [by_size[place][1][name] for place in (0, -1)]
            rows.append(
                [
                    title.format(int(by_size[-1][0])) if name == "build" else "",
                    f"`{COMMANDS[name]}{SHORT[name] if 'near' not in shape else ''}`",
                    *(seconds(median["processor"]) for median in medians),
                    f"{medians[-1]['peak_mb']:,}",
                    f"{exponent:.2f}",
                ]
            )
    return table(["what is many", "", "a tenth of it", "all", "MB", "exponent"], rows, text=2)


def building(recorded: Figures) -> str:
    """Return the paragraph on what the minutes follow from."""
    cost, load = costs(recorded), recorded["building.cost"]["measured"]["load"]
    return (
        "Planning and its memory are measured for ten million names that are each a row of two splits "
        "(`python -m benchmarks.planning.scale`),\nand the columns scale them by names. Building is "
        f"{cost.build_seconds:.2f} s of processor time a GB (`python -m benchmarks.building.cost`): reading, "
        "checking, both\ndigests and writing, without the search for near-duplicates. When that was measured "
        f"{load:.0f} processes ran or waited on the machine's two cores,\nand a second of processor time did less "
        "than on a free one."
    )


def planning(recorded: Figures) -> str:
    """Return the paragraph on the memory of planning."""
    lines = recorded["planning.scale"]["lines"]
    titles = {"10000000, 10, counted": "ten partitions", "10000000, 1, counted": "one"}
    parts = " and ".join(
        f"{lines[key]['own']:,.0f} MB without mapped files in {title}, {lines[key]['peak']:,.0f} MB with them"
        for key, title in titles.items()
        if key in lines
    )
    return (
        f"Ten million names, each a row of two splits, take {parts}, Python and\nimports included "
        "(`python -m benchmarks.planning.scale`)."
    )


def blocks(recorded: Figures) -> dict[str, str]:
    """Return the page's blocks by name."""
    return {
        **tables(workloads(), costs(recorded)),
        "building": building(recorded),
        "planning": planning(recorded),
        "shapes": shapes(recorded),
    }
