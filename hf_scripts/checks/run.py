"""Runs all checks of a release: one task per file, then the checks that compare several files.

Tested by `tests/hf_scripts/test_verify.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.cli.split_choice import chosen_splits
from builders.errors import BuildError
from builders.executors.local import LocalExecutor
from builders.release.entries import FileEntry, Manifest
from builders.release.layout import Layout
from builders.storage.locks import is_locked
from builders.storage.parquet import UNREADABLE, read_row_count
from hf_scripts.checks.duplicates import check_duplicates, compared_by
from hf_scripts.checks.images import Decoded, concatenate
from hf_scripts.checks.manifest import check_file, check_strays, files_in, load_manifest
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.release import check_card, check_excluded, check_ids
from hf_scripts.checks.rows import DataTask, FileTask, IndexTask, Outcome, SealedTask
from hf_scripts.checks.values import split_facts
from unknown_detection.terminal.progress import bar

_WORKER_IMPORTS = ("builders.cli.console", "hf_scripts.checks.release", "hf_scripts.checks.rows", "numpy.ma")


@dataclass(frozen=True)
class Verified:
    """The result of verifying a release: problems, and notes, which report facts that are no problems.

    `manifest` is None if it is not valid; `splits` are those whose images were read.
    """

    problems: Problems
    manifest: Manifest | None = None
    splits: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def verify_folder(
    root: Path, requested: Sequence[str], problems: Problems, *, name: object, decode: bool, workers: int
) -> Verified:
    """Check a release folder against its manifest.

    `requested`: values of `--splits`: the splits whose images are read. Indexes, tables and the card always are.
    `problems`: those that are known already.
    `name`: what messages call the release.
    `decode`: decode every image; otherwise only bytes are compared.
    """
    _refuse_build_in_progress(root)  # which may not have written a manifest yet
    manifest = load_manifest(root, problems)
    if manifest is None:
        return Verified(problems)
    splits = frozenset(chosen_splits(requested, list(manifest.by_key()), str(name)))
    unfinished = check_strays(root, manifest, problems)
    tasks = _tasks(root, manifest, splits, decode=decode)
    with bar(sum(task.file.size for task in tasks), "checking", unit="B") as shown:
        outcomes = _run(tasks, workers, shown.update)
    for outcome in outcomes:
        problems.merge(outcome.problems)
    rows = {task.file.path: outcome.rows for task, outcome in zip(tasks, outcomes, strict=True)}
    _check_counts(manifest, rows, problems)
    disjoint = check_excluded(root, manifest, problems)
    check_card(root, manifest, problems)
    if manifest.croissant is not None:
        problems.merge(check_file(root, manifest.croissant))
    if all(rows[split.index.path] is not None for _, _, split in manifest.splits()):
        check_ids(root, manifest, disjoint, problems)
        notes = check_duplicates(root, manifest, _decoded(tasks, outcomes), problems)
    else:
        notes = ["splits were not compared with each other, because an index is damaged"]
    if problems.total():
        _refuse_build_in_progress(root)  # one that began meanwhile
    return Verified(problems, manifest, splits, (*unfinished, *notes))


def _refuse_build_in_progress(root: Path) -> None:
    if is_locked(Layout(root).lock):
        raise BuildError(f"A build is writing to {root}. Wait until it ends, and run the same command again.")


def _tasks(root: Path, manifest: Manifest, splits: Collection[str], *, decode: bool) -> list[FileTask]:
    """Return a task for each file; a file that two configs share is checked once."""
    tasks: dict[str, FileTask] = {}
    compared = compared_by(manifest)
    for key, config, entry in manifest.splits():
        demo = manifest.benchmarks[config.benchmark].demo
        split = split_facts(key, config, entry, demo=demo, compared=compared.get(key, frozenset()))
        tasks.setdefault(entry.index.path, IndexTask(root, entry.index, split, entry))
        if key in splits:
            for file, index, first in _index_rows(root, entry.index, entry.data):
                tasks.setdefault(file.path, DataTask(root, file, split, index, first, decode))
            for file, index, first in _index_rows(root, entry.index, entry.sealed):
                tasks.setdefault(file.path, SealedTask(root, file, split, index, first))
    files = {file.path: file for file in files_in(manifest, splits)}
    return [tasks.get(path) or FileTask(root, file) for path, file in files.items()]


def _index_rows(
    root: Path, index: FileEntry, files: Sequence[FileEntry]
) -> Iterator[tuple[FileEntry, str | None, int]]:
    """Yield each file of a split, the path of its index, and the number of the file's first row there.

    The path is None where that row is not known: behind an unreadable file, or without an index.
    """
    first: int | None = 0 if (root / index.path).is_file() else None
    for file in files:
        yield file, None if first is None else index.path, first or 0
        try:
            rows = read_row_count(root / file.path) if (root / file.path).is_file() else None
        except UNREADABLE:
            rows = None
        first = None if first is None or rows is None else first + rows


def _run(tasks: Sequence[FileTask], workers: int, advance: Callable[[int], object]) -> list[Outcome]:
    # The largest first, so that no worker is left alone with a large file.
    order = sorted(range(len(tasks)), key=lambda number: -tasks[number].file.size)
    count = max(1, min(workers, len(tasks)))
    with LocalExecutor(count, preload=_WORKER_IMPORTS, resumes=False) as executor:
        outcomes = executor.run([tasks[number] for number in order], lambda _, size: advance(size))
    return [outcome for _, outcome in sorted(zip(order, outcomes, strict=True), key=lambda pair: pair[0])]


def _check_counts(manifest: Manifest, rows: Mapping[str, int | None], problems: Problems) -> None:
    for key, _, split in manifest.splits():
        for kind, entries in (("shards", split.data), ("index", [split.index]), ("sealed residuals", split.sealed)):
            counts = [count for entry in entries if (count := rows.get(entry.path)) is not None]
            if not entries or len(counts) < len(entries):  # an unreadable file is reported by its task
                continue
            if (read := sum(counts)) != split.rows:
                wrong = f"its {kind} has" if kind == "index" else f"its {kind} have"
                problems.add("row count", f"{key}: {wrong} {read:,} rows, not {split.rows:,}")
            if (indexed := rows.get(split.index.path) or 0) > read:
                left = f"rows {read:,} to {indexed - 1:,} are" if indexed - read > 1 else f"row {read:,} is"
                problems.add("row of no shard", f"{split.index.path}: {left} in none of the {kind}")


def _decoded(tasks: Sequence[FileTask], outcomes: Sequence[Outcome]) -> dict[str, Decoded]:
    """Return the decoded images of splits that were compared by them, by `config/split`, in the order of the rows."""
    parts: dict[str, list[Decoded]] = {}
    for task, outcome in zip(tasks, outcomes, strict=True):
        if isinstance(task, DataTask) and task.decode and task.split.compared:
            parts.setdefault(task.split.key, []).append(outcome.decoded)
    return {key: concatenate(shards) for key, shards in parts.items()}
