"""Runs all checks of a release: one task per file, then the checks that compare several files.

Tested by `tests/hf_scripts/test_verify.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from builders.cli.split_choice import chosen_splits
from builders.duplicates.pixels import require_pixel_space
from builders.errors import BuildError
from builders.executors.base import Executor
from builders.executors.local import LocalExecutor
from builders.release.entries import SIMILARITY, FileEntry, Manifest
from builders.release.layout import Layout
from builders.storage.locks import is_locked
from builders.storage.parquet import UNREADABLE, open_parquet
from builders.storage.scratch import scratch_folder
from hf_scripts.checks.duplicates import check_duplicates, compared_by
from hf_scripts.checks.images import Decoded, concatenate
from hf_scripts.checks.manifest import check_file, check_strays, files_in, load_manifest
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.release import check_card, check_excluded, check_ids
from hf_scripts.checks.rows import (
    PART_BYTES,
    WHOLE,
    DataTask,
    FilesTask,
    FileTask,
    IndexTask,
    Outcome,
    SealedTask,
    ShardPart,
    joined_outcome,
    parts_of,
)
from hf_scripts.checks.values import split_facts
from unknown_detection.terminal.progress import bar

_WORKER_IMPORTS = ("builders.cli.console", "hf_scripts.checks.release", "hf_scripts.checks.rows", "numpy.ma")
_DECODING_IMPORTS = ("builders.duplicates.stored",)

_PARTS = 8
"""Parts of files for each worker at least, if they are large enough, so that all end at about the same time (ours)."""

_FILE_BYTES = 1 << 20
"""What a file counts beside its bytes where tasks are made equal: opening it takes some milliseconds (ours)."""

_IMAGE_BYTES = 32
"""Bytes of an image at least, so that a damaged manifest does not have us ask for any space (ours)."""


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
    with contextlib.ExitStack() as stack:
        scratch = _scratch(stack, manifest, splits) if decode else None
        files = _tasks(root, manifest, splits, workers, decode=decode, scratch=scratch)
        tasks = _together(files, _PARTS * workers)
        count = max(1, min(workers, len(tasks)))
        preload = (*_WORKER_IMPORTS, *(_DECODING_IMPORTS if decode else ()))
        executor = stack.enter_context(LocalExecutor(count, preload=preload, resumes=False))
        outcomes = _run(tasks, executor)
        for outcome in outcomes.values():
            problems.merge(outcome.problems)
        rows = {path: outcome.rows for path, outcome in outcomes.items()}
        _check_counts(manifest, rows, problems)
        disjoint = check_excluded(root, manifest, problems)
        check_card(root, manifest, problems)
        for field, described in manifest.descriptions().items():
            if field != "card":
                problems.merge(check_file(root, described))
        if all(rows[split.index.path] is not None for _, _, split in manifest.splits()):
            check_ids(root, manifest, disjoint, problems)
            notes = check_duplicates(root, manifest, _decoded(files, outcomes), problems, executor)
        else:
            notes = ["splits were not compared with each other, because an index is damaged"]
    if problems.total():
        _refuse_build_in_progress(root)  # one that began meanwhile
    return Verified(problems, manifest, splits, (*unfinished, *notes))


def _refuse_build_in_progress(root: Path) -> None:
    if is_locked(Layout(root).lock):
        raise BuildError(f"A build is writing to {root}. Wait until it ends, and run the same command again.")


def _scratch(stack: contextlib.ExitStack, manifest: Manifest, splits: Collection[str]) -> Path | None:
    """Make a temporary folder for the scaled images of splits that were compared by similarity, if there are any."""
    compared, entries = compared_by(manifest), manifest.by_key()
    of_similarity = [entries[key] for key in splits if SIMILARITY in compared.get(key, ())]
    if not of_similarity:
        return None
    rows = sum(min(entry.rows, sum(file.size for file in entry.data) // _IMAGE_BYTES) for entry in of_similarity)
    folder = stack.enter_context(scratch_folder("verify"))
    require_pixel_space(folder, rows)
    return folder


def _tasks(
    root: Path, manifest: Manifest, splits: Collection[str], workers: int, *, decode: bool, scratch: Path | None
) -> list[FileTask]:
    """Return tasks for each file, those of parts of one in their order; a file that two configs share is checked once.

    Images that are to be compared are scaled into files in `scratch`.
    """
    tasks: dict[str, list[FileTask]] = {}
    compared = compared_by(manifest)
    files = {file.path: file for file in files_in(manifest, splits)}
    part = max(PART_BYTES, sum(file.size for file in files.values()) // (_PARTS * workers))
    for key, config, entry in manifest.splits():
        demo = manifest.benchmarks[config.benchmark].demo
        by = compared.get(key, frozenset())
        split = split_facts(key, config, entry, demo=demo, compared=by)
        tasks.setdefault(entry.index.path, [IndexTask(root, entry.index, split, entry)])
        if key in splits:
            for file, index, first, parts in _index_rows(root, entry.index, entry.data, part):
                of_parts = [DataTask(root, file, split, index, first, decode, of_file) for of_file in parts]
                if scratch is not None and SIMILARITY in by:
                    names = (scratch / f"{len(tasks)}-{number}.rgb" for number in range(len(parts)))
                    of_parts = [replace(task, into=into) for task, into in zip(of_parts, names, strict=True)]
                tasks.setdefault(file.path, [*of_parts])
            for file, index, first, _ in _index_rows(root, entry.index, entry.sealed, part):
                tasks.setdefault(file.path, [SealedTask(root, file, split, index, first)])
    return [task for path, file in files.items() for task in tasks.get(path) or [FileTask(root, file)]]


def _index_rows(
    root: Path, index: FileEntry, files: Sequence[FileEntry], part: int
) -> Iterator[tuple[FileEntry, str | None, int, list[ShardPart]]]:
    """Yield each file of a split, the path of its index, the number of its first row there, and its parts.

    Parts have `part` bytes or a little more.

    The path is None where that row is not known: behind an unreadable file, or without an index.
    """
    first: int | None = 0 if (root / index.path).is_file() else None
    for file in files:
        rows, parts = None, [WHOLE]
        with contextlib.suppress(*UNREADABLE):
            if (root / file.path).is_file():
                with open_parquet(root / file.path) as opened:
                    rows, parts = opened.metadata.num_rows, parts_of(opened.metadata, file.size, part)
        yield file, None if first is None else index.path, first or 0, parts
        first = None if first is None or rows is None else first + rows


def _together(tasks: Sequence[FileTask], count: int) -> list[FilesTask]:
    """Put files that follow each other together, into about `count` tasks or fewer besides those of large files.

    So an index is read as often as there are tasks, however many shards its split has.
    """
    least = sum(task.size + _FILE_BYTES for task in tasks) // count
    together, last, held = list[FilesTask](), list[FileTask](), 0
    for task in tasks:
        last.append(task)
        held += task.size + _FILE_BYTES
        if held >= least:
            together.append(FilesTask(tuple(last)))
            last, held = [], 0
    return [*together, FilesTask(tuple(last))] if last else together


def _run(tasks: Sequence[FilesTask], executor: Executor) -> dict[str, Outcome]:
    """Run the tasks; returns the outcome of each file, in their order."""
    # The largest first, so that no worker is left alone with a large part.
    order = sorted(range(len(tasks)), key=lambda number: -tasks[number].size)
    with bar(sum(task.size for task in tasks), "checking", unit="B") as shown:
        ran = executor.run([tasks[number] for number in order], lambda _, size: shown.update(size))
    parts: dict[str, list[Outcome]] = {}
    for number, outcomes in sorted(zip(order, ran, strict=True), key=lambda pair: pair[0]):
        for task, outcome in zip(tasks[number].tasks, outcomes, strict=True):
            parts.setdefault(task.file.path, []).append(outcome)
    return {path: joined_outcome(outcomes) for path, outcomes in parts.items()}


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


def _decoded(tasks: Sequence[FileTask], outcomes: Mapping[str, Outcome]) -> dict[str, Decoded]:
    """Return the decoded images of splits that were compared by them, by `config/split`, in the order of the rows."""
    files: dict[str, dict[str, Decoded]] = {}
    for task in tasks:
        if isinstance(task, DataTask) and task.decode and task.split.compared:
            files.setdefault(task.split.key, {})[task.file.path] = outcomes[task.file.path].decoded
    return {key: concatenate([*shards.values()]) for key, shards in files.items()}
