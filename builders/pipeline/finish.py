"""Turns finished shards into a release: index, exclusions, manifest and card.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.benchmark import Benchmark, Part
from builders.duplicates.comparisons import PixelComparisons
from builders.duplicates.table import Origin, carried, complete, origin, write_table
from builders.executors.base import Meter
from builders.plan.planner import PlannedSplit
from builders.release import card
from builders.release.columns import column_entry
from builders.release.digests import file_sha256, rows_digest
from builders.release.duplicates import KEY, entries, read_pairs, summary
from builders.release.layout import Layout
from builders.release.manifest import FORMAT, file_entry, is_training, parts_of, read_manifest, sources_of
from builders.release.schema import arrow_schema
from builders.release.tables import Exclusion, write_excluded, write_index
from builders.sources import broken
from builders.writing.read_plan import Located
from builders.writing.shards import read_record


@dataclass(frozen=True)
class Finished:
    """One split of the release: its entry in the manifest, and what it leaves out."""

    config: str
    name: str
    labels: tuple[str, ...]
    entry: dict[str, Any]
    exclusions: tuple[Exclusion, ...]

    @property
    def key(self) -> str:
        """`config/split`."""
        return f"{self.config}/{self.name}"


def finish_split(
    layout: Layout,
    located: Located,
    lacking: Mapping[str, Sequence[str]],
    adopted: Mapping[str, str],
) -> Finished:
    """Write the index of a split whose shards are done and describe it.

    `lacking` says where its sources are short and `adopted` has a digest of the lists that it was adopted from, or an
    empty text, both by the keys of its parts.
    """
    config = located.config
    parts = [layout.part(config.name, located.name, i, located.shards) for i in range(located.shards)]
    records = [read_record(part) for part in parts]
    columns = arrow_schema((), config.columns, image=False).names
    rows = pa.concat_tables([pq.ParquetFile(part).read(columns) for part in parts]).replace_schema_metadata(None)
    dropped = dict(image for record in records for image in record.dropped)
    described = [
        _part(planned, dropped, lacking.get(planned.key, ()), adopted[planned.key]) for planned in located.parts
    ]
    if sum(part["rows"] for part, _ in described) != rows.num_rows:
        raise AssertionError(f"{located.key}: {rows.num_rows} rows, and not those of its parts")
    index = layout.index(config.name, located.name)
    write_index(index, rows, located.labels, config.columns)
    whole = [part for part, _ in described]
    entry = _joined(whole) if isinstance(located.parts[0].split, Part) else whole[0]
    entry |= {
        "digest": rows_digest(rows),
        "data": data_entries(layout, located),
        "index": file_entry(layout, index),
    }
    if located.making is not None:
        entry |= {"made": located.making.description, "generator": located.making.identity()}
    exclusions = tuple(exclusion for _, left_out in described for exclusion in left_out)
    return Finished(config.name, located.name, located.labels, entry, exclusions)


def _part(
    planned: PlannedSplit, dropped: Mapping[str, str], lacking: Sequence[str], adopted: str
) -> tuple[dict[str, Any], tuple[Exclusion, ...]]:
    """Describe a part of a split, or a split that has none; `dropped` has reasons by the ids of unreadable rows."""
    split = planned.split
    unreadable = _unreadable(planned, dropped)
    exclusions = (*planned.excluded, *unreadable)
    excluded = sum(exclusion.images for exclusion in exclusions)
    rows = planned.table.num_rows - len(unreadable)
    if rows + excluded != planned.available:
        raise AssertionError(f"{planned.key}: {rows} kept and {excluded} excluded of {planned.available}")
    entry = {
        "role": split.role,
        "source": split.source.key,
        "partitions": list(split.partitions),
        "rows": rows,
        "expected": planned.count.rows,
        "paper": planned.count.paper,
        "why": planned.count.why,
        "available": planned.available,
        "excluded": excluded,
        "excluded_by_rule": _by_rule(exclusions),
        "withdrawn": [
            {"id": split.row_id(e.image), "reason": e.evidence} for e in exclusions if e.rule == "withdrawn"
        ],
        "adopted": adopted,
        "shortfalls": [
            *lacking,
            *(f"{e.image} left out as unreadable ({e.evidence})" for e in unreadable if e.rule != broken.RULE),
        ],
    }
    if isinstance(split, Part):
        classes = len(planned.table["class_id"].unique())
        entry |= {
            "name": split.name,
            "labelled": planned.config.has_labels(split),
            "classes": classes,
            "paper_classes": planned.count.classes,
        }
    return entry, exclusions


def _joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Describe a split by its parts, and by what they come to together."""
    by_rule: Counter[str] = Counter()
    for part in parts:
        by_rule.update(part["excluded_by_rule"])
    entry: dict[str, Any] = {
        name: sum(part[name] for part in parts) for name in ("rows", "expected", "paper", "available", "excluded")
    }
    return entry | {
        "why": "; ".join(dict.fromkeys(part["why"] for part in parts if part["why"])),
        "excluded_by_rule": dict(sorted(by_rule.items())),
        "withdrawn": [row for part in parts for row in part.pop("withdrawn")],
        "shortfalls": list(dict.fromkeys(sentence for part in parts for sentence in part.pop("shortfalls"))),
        "parts": list(parts),
    }


def data_entries(layout: Layout, located: Located) -> list[dict[str, Any]]:
    """The finished shards of a split that have pixels, as the manifest lists them."""
    names = (located.config.name, located.name)
    entries = []
    for shard in range(located.shards):
        path = layout.data(*names, shard, located.shards)
        if path.exists():
            record = read_record(layout.part(*names, shard, located.shards))
            entries.append({"path": layout.relative(path), "bytes": record.bytes, "sha256": record.sha256})
    return entries


def finish_release(
    layout: Layout, benchmark: Benchmark, finished: Sequence[Finished], choices: Mapping[str, Any], meter: Meter
) -> dict[str, Any]:
    """Write exclusions, the table of duplicates, manifest and card; what other runs put into the folder stays.

    Args:
        layout: the release folder.
        benchmark: the declaration.
        finished: the splits of this run.
        choices: those that change rows, by name.
        meter: shows progress.

    Returns:
        The manifest.
    """
    manifest: dict[str, Any] = read_manifest(layout.root) if layout.manifest.exists() else {"format": FORMAT}
    origins = earlier_tables(layout)
    benchmarks, configs = manifest.setdefault("benchmarks", {}), manifest.setdefault("configs", {})
    sources = manifest.setdefault("sources", {})
    benchmarks[benchmark.name] = {
        "title": benchmark.title,
        "paper": benchmark.paper,
        "citation": benchmark.citation,
        **choices,
    }
    if benchmark.roles_by_config:
        benchmarks[benchmark.name]["roles_by_config"] = True
    for config in benchmark.configs:
        mine = [split for split in finished if split.config == config.name]
        if not mine:
            continue
        entry = configs.setdefault(config.name, {"splits": {}})
        entry |= {
            "benchmark": benchmark.name,
            "description": config.description,
            "label_names": list(mine[0].labels),
            "columns": [column_entry(column) for column in config.columns],
        }
        entry["splits"] |= {split.name: split.entry for split in mine}
        path = layout.excluded(config.name)
        keys = [key for split in mine for key in parts_of(split.key, split.entry)]
        write_excluded(path, [e for split in mine for e in split.exclusions], keys)
        entry["excluded"] = file_entry(layout, path)
    for source in benchmark.sources():
        if any(source.key in sources_of(split.entry) for split in finished):
            sources[source.key] = {
                "title": source.title,
                "edition": source.edition,
                "licence": dataclasses.asdict(source.licence),
                "citation": source.citation,
            }
    finish_duplicates(layout, benchmark, manifest, origins, meter)
    card.seal(layout, manifest)
    return manifest


def earlier_tables(layout: Layout) -> list[Origin]:
    """The table of duplicates that a release folder has from earlier runs, where it is as its manifest lists it."""
    manifest = read_manifest(layout.root) if layout.manifest.exists() else {}
    if KEY not in manifest or not layout.duplicates.is_file():
        return []
    if file_sha256(layout.duplicates) != manifest[KEY]["sha256"]:
        return []  # written by a run that was killed before its manifest was; all is looked for again
    return [origin(manifest, layout.duplicates)]


def finish_duplicates(
    layout: Layout, benchmark: Benchmark, manifest: dict[str, Any], origins: Sequence[Origin], meter: Meter
) -> None:
    """Write the table of duplicates of all splits in `manifest`, list it there, and say how many pairs it has."""
    found = PixelComparisons(layout, manifest, benchmark, meter).table(carried(origins, manifest))
    known = entries(manifest)
    table = complete(manifest, lambda key: layout.root / known[key]["index"]["path"], origins, found)
    manifest[KEY] = write_table(layout, table)
    training = {key for key, entry in known.items() if is_training(key, entry)}
    meter.note(summary(read_pairs(layout.duplicates), training))


def _by_rule(exclusions: Sequence[Exclusion]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for exclusion in exclusions:
        if exclusion.images:
            counts[exclusion.rule] = counts.get(exclusion.rule, 0) + exclusion.images
    return dict(sorted(counts.items()))


def _unreadable(planned: PlannedSplit, dropped: Mapping[str, str]) -> list[Exclusion]:
    if not dropped:
        return []
    rows = planned.table.filter(pc.is_in(planned.table["id"], value_set=pa.array(dropped, pa.string())))
    return [_unreadable_image(planned.key, row, dropped[row["id"]]) for row in rows.to_pylist()]


def _unreadable_image(key: str, row: Mapping[str, Any], reason: str) -> Exclusion:
    known = broken.broken().get(f"{row['source']}/{row['source_id']}")
    rule, evidence = ("unreadable", reason) if known is None else (broken.RULE, f"{reason}; {known}")
    return Exclusion(key, row["source"], "", row["class_id"], row["class_name"], row["source_id"], 1, rule, evidence)
