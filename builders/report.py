"""What a build tells a person: the table of built and expected counts, and how to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builders.benchmark import Benchmark, Split
from builders.plan import PlannedSplit


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
    return "\n".join([*_aligned(lines), *_notes({key: declared[key][1] for key in built})])


def plan_summary(planned: Sequence[PlannedSplit]) -> str:
    """What each split would leave out, by rule; for a dry run."""
    lines = [["split", "images left out", "by rule"]]
    for split in planned:
        by_rule: dict[str, int] = {}
        for exclusion in split.excluded:
            by_rule[exclusion.rule] = by_rule.get(exclusion.rule, 0) + exclusion.images
        rules = ", ".join(f"{rule} {images:,}" for rule, images in sorted(by_rule.items()) if images)
        lines.append([split.key, f"{sum(by_rule.values()):,}", rules or "-"])
    return "\n".join(_aligned(lines))


def how_to_load(manifest: dict[str, Any], out: Path, built: Sequence[str]) -> str:
    """The line of Python that reads a split that was just built."""
    config, split = built[0].split("/")
    suffix = "" if manifest["configs"][config]["splits"][split]["data"] else "-index"
    return f'load_dataset("{out}", "{config}{suffix}", split="{split}")'


def _notes(splits: Mapping[str, Split]) -> list[str]:
    return [f"{key}: {split.count.why}" for key, split in splits.items() if split.count.why]


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side: words to the left, numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    numeric = [all(_is_number(line[i]) for line in lines[1:]) for i in range(len(widths))]
    return [
        "  ".join(
            cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    ]


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").lstrip("+-").isdigit()
