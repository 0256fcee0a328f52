"""Check every digest, count and image of a release: `python -m hf_scripts.verify DIR`, or `ORG/NAME` on the Hub."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from builders.cli.console import exit_code, json_option, print_document
from builders.cli.split_choice import splits_option
from builders.errors import NAMED, BuildError, more
from builders.executors.cores import usable_cores
from builders.executors.local import LocalExecutor
from builders.hub.repo_id import folder_or_repository
from builders.release.entries import Manifest
from builders.release.layout import Layout
from builders.release.split_entries import FileEntry
from builders.storage.parquet import read_row_count
from builders.storage.paths import LOCAL, store_of
from hf_scripts.checks import duplicates
from hf_scripts.checks import manifest as check_manifest
from hf_scripts.checks import release as check_release
from hf_scripts.checks.card import check_card, check_croissant
from hf_scripts.checks.images import Decoded, concatenate
from hf_scripts.checks.manifest import files_in
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.rows import UNREADABLE, DataTask, FileTask, IndexTask, Outcome
from hf_scripts.checks.sealed import SealedTask
from hf_scripts.checks.values import split_facts
from hf_scripts.checks.verified import Scope, Verified
from unknown_detection.help import ESSENTIALS, helpful
from unknown_detection.terminal.progress import bar, log
from unknown_detection.words import quantity

Advance = Callable[[int], object]
"""Called with the bytes checked since the last call."""

_WORKER_IMPORTS = ("builders.cli.console", "hf_scripts.checks.release", "hf_scripts.checks.rows", "numpy.ma")


def verify(
    root: Path, manifest: Manifest, scope: Scope, *, workers: int, advance: Advance
) -> tuple[Problems, list[str]]:
    """Check a release against its manifest.

    Args:
        root: the release folder.
        manifest: its manifest, as `hf_scripts.checks.manifest.load_manifest` returns it.
        scope: what is checked of it.
        workers: number of processes.
        advance: called with the bytes of every file that is checked.

    Returns:
        The problems, and notes on facts that are no problems.

    Raises:
        BuildError: a build is writing to the folder, or was when a problem was found.
    """
    _refuse_build_in_progress(root)
    problems, notes = _verify(root, manifest, scope, workers=workers, advance=advance)
    if problems.total():
        _refuse_build_in_progress(root)  # one that began meanwhile
    return problems, notes


def _refuse_build_in_progress(root: Path) -> None:
    if store_of(root).is_locked(Layout(root).lock):
        raise BuildError(f"A build is writing to {root}. Wait until it ends, and run the same command again.")


def _verify(
    root: Path, manifest: Manifest, scope: Scope, *, workers: int, advance: Advance
) -> tuple[Problems, list[str]]:
    problems = check_manifest.check_strays(root, manifest)
    tasks = _tasks(root, manifest, scope)
    outcomes = _run(tasks, workers, advance)
    for outcome in outcomes:
        problems.merge(outcome.problems)
    rows = {task.file.path: outcome.rows for task, outcome in zip(tasks, outcomes, strict=True)}
    _check_counts(manifest, rows, problems)
    problems.merge(check_release.check_excluded(root, manifest))
    problems.merge(check_card(root, manifest))
    problems.merge(check_croissant(root, manifest))
    notes = _notes(manifest)
    if all(rows[split.index.path] is not None for _, _, split in manifest.splits()):
        problems.merge(check_release.check_ids(root, manifest))
        pairs, more = duplicates.check_duplicates(root, manifest, _decoded(tasks, outcomes))
        problems.merge(pairs)
        notes += more
    else:
        notes.append("splits were not compared with each other, because an index is damaged")
    return problems, notes


def _tasks(root: Path, manifest: Manifest, scope: Scope) -> list[FileTask]:
    """Return a task for each file; a file that two configs share is checked once."""
    tasks: dict[str, FileTask] = {}
    compared = duplicates.compared_by(manifest)
    for key, config, entry in manifest.splits():
        demo, by = manifest.benchmarks[config.benchmark].demo, compared.get(key, frozenset())
        split = split_facts(key, config, entry, demo=demo, compared=by)
        index = entry.index
        values = not entry.data or key not in scope.splits
        tasks.setdefault(index.path, IndexTask(root, index, split, entry, values=values))
        if key not in scope.splits:
            continue
        for file, rows, first in _index_rows(root, index, entry.data):
            tasks.setdefault(file.path, DataTask(root, file, split, rows, first, scope.decode))
        for file, rows, first in _index_rows(root, index, entry.sealed):
            tasks.setdefault(file.path, SealedTask(root, file, split, rows, first))
    files = {file.path: file for file in files_in(manifest, scope.splits)}
    return [tasks.get(path) or FileTask(root, file) for path, file in files.items()]


def _index_rows(
    root: Path, index: FileEntry, files: Sequence[FileEntry]
) -> Iterator[tuple[FileEntry, str | None, int]]:
    """Yield each file of a split, the path of its index, and the number of the file's first row there.

    The path is None where that row is not known.
    """
    first: int | None = 0
    for file in files:
        compared = index.path if first is not None and (root / index.path).is_file() else None
        yield file, compared, first or 0
        rows = _rows(root / file.path)
        # After an unreadable file, the position in the index is unknown.
        first = None if first is None or rows is None else first + rows


def _rows(path: Path) -> int | None:
    if not path.is_file():
        return None
    try:
        return read_row_count(path)
    except UNREADABLE:
        return None


def _decoded(tasks: Sequence[FileTask], outcomes: Sequence[Outcome]) -> dict[str, Decoded]:
    """Return the decoded images of splits that were compared by them, by `config/split`, in the order of the rows."""
    parts: dict[str, list[Decoded]] = {}
    for task, outcome in zip(tasks, outcomes, strict=True):
        if isinstance(task, DataTask) and task.decode and task.split.compared:
            parts.setdefault(task.split.key, []).append(outcome.decoded)
    return {key: concatenate(shards) for key, shards in parts.items()}


def _check_counts(manifest: Manifest, rows: Mapping[str, int | None], problems: Problems) -> None:
    for key, _, split in manifest.splits():
        for kind, entries in (("shards", split.data), ("index", [split.index]), ("sealed residuals", split.sealed)):
            counts = [count for entry in entries if (count := rows.get(entry.path)) is not None]
            # An unreadable file is reported by its task.
            if entries and len(counts) == len(entries) and sum(counts) != split.rows:
                wrong = f"its {kind} has" if kind == "index" else f"its {kind} have"
                problems.add("row count", f"{key}: {wrong} {sum(counts):,} rows, not {split.rows:,}")


def _run(tasks: Sequence[FileTask], workers: int, advance: Advance) -> list[Outcome]:
    # The largest first, so that no worker is left alone with a large file.
    order = sorted(range(len(tasks)), key=lambda number: -tasks[number].file.size)
    count = max(1, min(workers, len(tasks)))
    with LocalExecutor(count, preload=_WORKER_IMPORTS, resumes=False) as executor:
        outcomes = executor.run([tasks[number] for number in order], lambda _, size: advance(size))
    return [outcome for _, outcome in sorted(zip(order, outcomes, strict=True), key=lambda pair: pair[0])]


def _notes(manifest: Manifest) -> list[str]:
    notes = []
    for name, benchmark in sorted(manifest.benchmarks.items()):
        if benchmark.demo:
            notes.append(f"{name} is built from demo sources and is not for results")
        if benchmark.limit_per_class is not None:
            notes.append(f"{name} is limited to {quantity(benchmark.limit_per_class, 'image')} of each class")
    short: dict[str, list[str]] = {}
    for key, _, split in manifest.splits():
        for sentence in split.shortfalls:
            short.setdefault(sentence, []).append(key)
    notes += _grouped(
        "sources are short in {} ways; the first (manifest.json has all)",
        [f"{', '.join(keys)} not complete: {sentence}" for sentence, keys in short.items()],
    )
    splits = list(manifest.splits())
    notes += _grouped(
        "{} splits have other numbers of rows than complete sources give; the first",
        [
            f"{key} has {split.rows:,} rows; complete sources give {split.expected:,}"
            for key, _, split in splits
            if split.rows != split.expected
        ],
    )
    index_only = [key for key, _, split in splits if not split.data]
    if index_only:
        verb = "has" if len(index_only) == 1 else "have"
        notes.append(f"{', '.join(index_only[:NAMED])}{more(index_only)} {verb} only an index here, no images")
    return notes


def _grouped(kind: str, lines: Sequence[str]) -> list[str]:
    """Return notes of one kind as one line: their number and the first; a single note as it is."""
    return [f"{kind.format(f'{len(lines):,}')}: {lines[0]}"] if len(lines) > 1 else list(lines)


@helpful(
    "python -m hf_scripts.verify",
    sections={
        ESSENTIALS: ("check", "splits", "as_json"),
        "For a release on the Hub": ("revision", "keep"),
        "How it runs": ("workers",),
    },
    examples=(
        "python -m hf_scripts.verify ORG/NAME --revision v1.0.0 --splits imagenet/test",
        "python -m hf_scripts.verify build/unknown-detection",
    ),
)
@click.argument("release", metavar="DIR|ORG/NAME")
@click.option("--revision", metavar="TAG", help="Version, branch or commit of ORG/NAME.  [default: main]")
@click.option("--keep", metavar="DIR", type=LOCAL, help="Keep the download in this folder.")
@splits_option("Read the images of these splits alone; on the Hub, download no others.")
@click.option(
    "--check",
    type=click.Choice(["fast", "decode"]),
    default="decode",
    show_default=True,
    help="fast: compare bytes and digests. decode: decode every image, too.",
)
@json_option()
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=usable_cores,
    show_default="all usable cores",
    help="Processes that read files.",
)
def command(
    release: str,
    revision: str | None,
    keep: Path | None,
    splits: Sequence[str],
    check: str,
    as_json: bool,
    workers: int,
) -> int:
    """Check that a release is complete and undamaged, down to every row and image.

    The release is the folder DIR, which may be an address such as s3://BUCKET/PREFIX, or, if there is no such folder,
    the dataset repository ORG/NAME on the Hub, which is downloaded.

    The exit code is 0 if the release has no problem, 1 if it has, and 2 if there is no release to check.
    """
    decode = check == "decode"
    folder = folder_or_repository(release, revision)
    if not isinstance(folder, str):
        if revision is not None or keep is not None:
            raise BuildError(
                f"{release} is a folder here, to which --revision and --keep do not apply. Omit them, or run from "
                "another folder to check the repository of that name."
            )
        verified = _check(folder, str(folder), Problems(), splits, decode=decode, workers=workers)
        return _print(verified, verified.document(release, None, None) if as_json else None)
    # The client takes half a second to import.
    from hf_scripts.checks.download import downloaded
    from hf_scripts.publish.access import exposure_problems

    def chosen(manifest: Manifest, name: str) -> Collection[str]:
        return Scope.of(manifest, decode=decode, splits=splits, name=name).splits

    click.echo(f"there is no folder {release}; looking for it on the Hub", err=True)
    with downloaded(release, revision or "main", keep, log, chosen) as download:
        download.problems.merge(exposure_problems(download.repository, revision or "main", download.commit))
        verified = _check(download.root, download.name, download.problems, splits, decode=decode, workers=workers)
        return _print(verified, verified.document(release, revision or "main", download.commit) if as_json else None)


def _check(
    folder: Path, name: str, problems: Problems, splits: Sequence[str], *, decode: bool, workers: int
) -> Verified:
    """Check a folder, which the result calls `name`; its problems follow the given ones."""
    notes: list[str] = []
    scope = None
    _refuse_build_in_progress(folder)  # which may not have written a manifest yet
    manifest = check_manifest.load_manifest(folder, problems)
    if manifest is not None:
        scope = Scope.of(manifest, decode=decode, splits=splits, name=name)
        size = sum(file.size for file in files_in(manifest, scope.splits))
        with bar(size, "checking", unit="B") as shown:
            new_problems, notes = verify(folder, manifest, scope, workers=workers, advance=shown.update)
        problems.merge(new_problems)
    return Verified(name, manifest, scope, decode, problems, tuple(notes))


def _print(verified: Verified, document: Mapping[str, Any] | None) -> int:
    """Print the result, or the JSON document if there is one, and return the exit code."""
    if document is not None:
        print_document("verify", document)
    else:
        for line in verified.lines():
            click.echo(line)
    return 1 if verified.problems.total() else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return exit_code(command, argv, stopped="stopped; nothing was changed.")


if __name__ == "__main__":
    sys.exit(main())
