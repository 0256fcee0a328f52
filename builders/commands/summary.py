"""Writes the text that a build prints: the table of built and expected counts, and how to load a split.

Tested by `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from builders.cli.console import aligned_lines, print_document
from builders.declare.benchmark import Benchmark
from builders.declare.splits import Part, Split
from builders.pipeline.build_plan import BuildPlan
from builders.release.duplicates import doubts, pictures_of_several_classes, read_pairs
from builders.release.entries import Manifest, SplitEntry
from builders.release.layout import INDEX_SUFFIX
from builders.sources.broken import RULE
from builders.sources.sizes import estimated_bytes
from builders.storage.paths import system_path
from unknown_detection.words import byte_text, first_few

LOOK_AT_PAIRS = (
    "Look at the pairs with unknown-detection audit pairs {out}; build folder takes a smaller --near-distance, and 0 "
    "for equal pictures alone."
)


def print_result(plan: BuildPlan, manifest: Manifest | None, *, as_json: bool) -> None:
    """Print what was built, or after a dry run (no manifest) what would be."""
    if manifest is not None:
        entries = manifest.by_key()
        if kept := [key for key in plan.request.splits if entries[key].data and plan.request.index_only]:
            # Also with --quiet: it is no progress.
            click.echo(f"--index-only: {first_few(kept)} had pixels in {plan.request.out}, which stay there", err=True)
        pairs = read_pairs(plan.request.layout.duplicates)
        # Also with --quiet, as above.
        if line := pictures_of_several_classes(pairs):
            click.echo(line, err=True)
        if line := doubts(manifest):
            click.echo(f"{line} {LOOK_AT_PAIRS.format(out=plan.request.out)}", err=True)
        click.echo(built_text(plan.draws.benchmark, manifest, plan.request.out, plan.request.splits))
    elif as_json:
        print_document("build", dry_run_document(plan))
    else:
        click.echo(dry_run_text(plan))


def built_text(benchmark: Benchmark, manifest: Manifest, out: Path, splits: Sequence[str]) -> str:
    """Return the text after a build: counts, digests, and the line of Python that reads the first split."""
    entry_of, declared = manifest.by_key(), benchmark.parts
    entries = {key: entry_of[key] for key in splits}
    parts = [
        (part.key, declared[part.key], part.classes, part.rows)
        for entry in entries.values()
        if len(entry.parts) > 1
        for part in entry.parts
    ]
    counts = {key: (entry.rows, entry.digest) for key, entry in entries.items()}
    lines = [*counts_table(benchmark, counts), *parts_table(parts)]
    for key, entry in entries.items():
        if count := entry.excluded_by_rule.get(RULE, 0):
            excluded = f"excluded/{key.partition('/')[0]}.csv"
            lines.append(
                f"{key}: {count:,} broken in the owner's archive and left out ({excluded}, by the rule {RULE})"
            )
        if entry.overlaps and not benchmark.paper:  # what a paper's unknowns overlap, its page says
            lines.append(
                f"{key}: {entry.overlaps:,} of {entry.rows:,} rows are of classes that overlap known ones "
                "(id_overlap); reports have figures without them"
            )
    if without_pixels := [key for key, entry in entries.items() if not entry.data]:
        lines.append(f"{', '.join(without_pixels)}: rows without pixels; --with-images writes these, too")
    lines.append("")
    if manifest.benchmarks[benchmark.name].demo:
        lines += ["Built from demo sources: small on purpose, to try the tools and never for a result.", ""]
    elif shortfalls := sorted({sentence for entry in entries.values() for sentence in entry.shortfalls}):
        lines += [*(f"not complete: {sentence}" for sentence in shortfalls), ""]
    config, _, split = splits[0].partition("/")
    return "\n".join([*lines, f"built {out}", loading_line(out, config, split, entries[splits[0]])])


def loading_line(out: Path, config: str, split: str, entry: SplitEntry) -> str:
    """Return the line of Python that loads a built split; it names files in stores, where `datasets` reads no card."""
    if (folder := system_path(out)) is not None:
        suffix = "" if entry.data else INDEX_SUFFIX
        return f'load_dataset("{folder}", "{config}{suffix}", split="{split}")'
    files = [f"{out}/{file.path}" for file in entry.data or (entry.index,)]
    pattern = f"{out}/data/{config}/{split}-*.parquet" if len(files) > 1 else files[0]
    return f'load_dataset("parquet", data_files="{pattern}", split="train")'


def dry_run_document(plan: BuildPlan) -> dict[str, Any]:
    """Return the JSON document of a dry run: each split, and the parts of a joined split."""
    request, benchmark, splits = plan.request, plan.draws.benchmark, dict[str, dict[str, Any]]()
    for planned in plan.planned:
        key, generator, size = planned.split_key, planned.split.image_generator, 0
        left_out: Counter[str] = Counter()
        for exclusion in planned.excluded:
            left_out[exclusion.rule] += exclusion.images
        if request.has_pixels(planned.config):
            index = plan.indexes[planned.split.source.key]
            nominal = None if generator is None else generator.nominal_bytes * planned.size
            size = estimated_bytes(index, planned.rows) if nominal is None else nominal
        count = benchmark.count(key)
        entry = splits.setdefault(
            key, {"split": key, "rows": 0, "expected": count.rows, "paper": count.paper, "bytes": 0, "left_out": {}}
        )
        entry.setdefault("parts", [])
        entry["rows"] += planned.size
        entry["bytes"] += size
        entry["left_out"] = dict(sorted((Counter(entry["left_out"]) + left_out).items()))
        if isinstance(planned.split, Part):
            part = {"part": planned.key, "classes": planned.classes, "rows": planned.size, "bytes": size}
            entry["parts"].append({**part, "left_out": dict(sorted((+left_out).items()))})
    described = {"benchmark": benchmark.name, "version": plan.version, "out": str(request.out), "demo": request.demo}
    totals = {total: sum(entry[total] for entry in splits.values()) for total in ("rows", "bytes")}
    return {**described, **totals, "splits": list(splits.values())}


def dry_run_text(plan: BuildPlan) -> str:
    """Return the text of a dry run: counts, bytes, and how much each rule leaves out."""
    document, benchmark = dry_run_document(plan), plan.draws.benchmark
    lines, parts = [["split", "about", "images left out", "by rule"]], []
    for entry in document["splits"]:
        for described in entry["parts"] or [entry]:
            key, by_rule = described.get("part", entry["split"]), described["left_out"]
            rules = ", ".join(f"{rule} {images:,}" for rule, images in by_rule.items())
            lines.append([key, byte_text(described["bytes"]), f"{sum(by_rule.values()):,}", rules or "-"])
        for part in entry["parts"]:
            parts.append((part["part"], benchmark.parts[part["part"]], part["classes"], part["rows"]))
    counts = counts_table(benchmark, {entry["split"]: (entry["rows"], "") for entry in document["splits"]})
    without = not any(plan.request.has_pixels(split.config) for split in plan.planned)
    taken = "have rows without pixels" if without else f"take about {byte_text(document['bytes'])}"
    closing = f"dry run: nothing was written; the release would {taken}"
    return "\n".join([*counts, *parts_table(parts), "", *aligned_lines(lines), "", closing])


def counts_table(benchmark: Benchmark, built: Mapping[str, tuple[int, str]]) -> list[str]:
    """Return the lines of a table of rows built and expected, with digests if given, and notes on papers' counts."""
    counts = {key: benchmark.count(key) for key in built}
    published = any(count.paper for count in counts.values())  # a benchmark of somebody's own images has no paper
    digested = any(digest for _, digest in built.values())
    lines = [["split", "built", "expected", "difference", *["paper"] * published, *["digest"] * digested]]
    notes: dict[str, list[str]] = {}
    for key, (rows, digest) in built.items():
        count = counts[key]
        paper = [f"{count.paper:,}"] * published
        numbers = [f"{rows:,}", f"{count.rows:,}", _difference(rows, count.rows)]
        lines.append([key, *numbers, *paper, *[digest[:12]] * digested])
        notes.setdefault(count.why, []).append(key)
    return [*aligned_lines(lines), *(f"{', '.join(keys)}: {why}" for why, keys in notes.items() if why)]


def parts_table(parts: Sequence[tuple[str, Split, int, int]]) -> list[str]:
    """Return the lines of a table of the parts of joined splits, given as key, split, classes and rows."""
    if not parts:
        return []
    lines = [["part", "role", "source", "classes", "paper", "difference", "rows", "paper", "difference"]]
    for key, split, classes, rows in parts:
        pairs = ((classes, split.paper.classes), (rows, split.paper.rows))
        numbers = [text for ours, paper in pairs for text in (f"{ours:,}", f"{paper:,}", _difference(ours, paper))]
        lines.append([key, split.role, split.source.key, *numbers])
    return ["", *aligned_lines(lines)]


def _difference(count: int, expected: int) -> str:
    return f"{count - expected:+,}" if count != expected else "0"
