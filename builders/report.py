"""What a build tells a person: the table of built and expected counts, and how to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builders.benchmark import Benchmark, Split
from builders.build import Prepared
from builders.command import aligned
from builders.locate import estimated_bytes
from builders.release import INDEX_SUFFIX


def built_text(benchmark: Benchmark, manifest: dict[str, Any], out: Path, splits: Sequence[str]) -> str:
    """What is printed after a build: counts, digests, and the line of Python that reads the first split."""
    entries = {key: _entry(manifest, key) for key in splits}
    rows = {key: entry["rows"] for key, entry in entries.items()}
    table = counts_table(benchmark, rows, {key: entry["digest"] for key, entry in entries.items()})
    config, split = splits[0].split("/")
    suffix = "" if entries[splits[0]]["data"] else INDEX_SUFFIX
    lacking = sorted({sentence for entry in entries.values() for sentence in entry["shortfalls"]})
    lines = [table, ""]
    if manifest["benchmarks"][benchmark.name]["demo"]:
        lines += ["Built from demo sources: small on purpose, to try the tools and never for a result.", ""]
    elif lacking:
        lines += [f"not complete: {sentence}" for sentence in lacking] + [""]
    return "\n".join([*lines, f"built {out}", f'load_dataset("{out}", "{config}{suffix}", split="{split}")'])


def dry_run_text(benchmark: Benchmark, prepared: Prepared) -> str:
    """What is printed instead of a build: counts, bytes, and how much each rule leaves out."""
    rows = {split.key: len(split.rows) for split in prepared.planned}
    lines = [["split", "about", "images left out", "by rule"]]
    total = 0
    for split in prepared.planned:
        making = split.split.making
        index = prepared.indexes[split.split.source.key]
        size = estimated_bytes(index, split.rows) if making is None else making.nominal_bytes * len(split.rows)
        total += size
        by_rule: dict[str, int] = {}
        for exclusion in split.excluded:
            by_rule[exclusion.rule] = by_rule.get(exclusion.rule, 0) + exclusion.images
        rules = ", ".join(f"{rule} {images:,}" for rule, images in sorted(by_rule.items()) if images)
        lines.append([split.key, _size(size), f"{sum(by_rule.values()):,}", rules or "-"])
    closing = f"dry run: nothing was written; the release would take about {_size(total)}"
    return "\n".join([counts_table(benchmark, rows), "", *aligned(lines), "", closing])


def counts_table(benchmark: Benchmark, built: Mapping[str, int], digests: Mapping[str, str] | None = None) -> str:
    """Rows built beside rows expected, for each split; a line below for each that the paper's table counts otherwise.

    Args:
        benchmark: the declaration.
        built: rows by `config/split`.
        digests: split digests by `config/split`, when there are any yet.
    """
    head = ["split", "built", "expected", "difference", "paper"] + (["digest"] if digests else [])
    lines = [head]
    declared = benchmark.by_key()
    for key, rows in built.items():
        count = declared[key][1].count
        numbers = [
            f"{rows:,}",
            f"{count.rows:,}",
            f"{rows - count.rows:+,}" if rows != count.rows else "0",
            f"{count.paper:,}",
        ]
        lines.append([key, *numbers] + ([digests[key][:12]] if digests else []))
    return "\n".join([*aligned(lines), *_notes({key: declared[key][1] for key in built})])


def _entry(manifest: Mapping[str, Any], key: str) -> dict[str, Any]:
    config, split = key.split("/")
    entry: dict[str, Any] = manifest["configs"][config]["splits"][split]
    return entry


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def _notes(splits: Mapping[str, Split]) -> list[str]:
    return [f"{key}: {split.count.why}" for key, split in splits.items() if split.count.why]
