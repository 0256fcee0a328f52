"""Checks every digest, count and image of a release: `python -m hf_scripts.verify DIR`, or `ORG/NAME` on the Hub."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click
import pyarrow.parquet as pq

from builders.cli.runner import exit_code
from builders.cli.tables import aligned
from builders.errors import BuildError, printable
from builders.executors.cores import usable_cores
from builders.executors.local import LocalExecutor
from builders.release.entries import FileEntry, Manifest
from builders.release.layout import Layout
from builders.storage.locks import is_held
from hf_scripts.checks import duplicates
from hf_scripts.checks import manifest as check_manifest
from hf_scripts.checks import release as check_release
from hf_scripts.checks.card import check_card, check_croissant
from hf_scripts.checks.problems import SHOWN, Problems
from hf_scripts.checks.rows import UNREADABLE, FileTask, IndexTask, Outcome, PlainTask, ShardTask
from hf_scripts.checks.sealed import SealedTask
from hf_scripts.checks.values import split_of
from hf_scripts.hub.repo_id import is_repository

Advance = Callable[[int], object]
"""Called with the bytes checked since the last call."""

_WORKER_IMPORTS = ("builders.cli.runner", "hf_scripts.checks.release", "hf_scripts.checks.rows", "numpy.ma")


def verify(
    root: Path, manifest: Manifest, *, decode: bool, workers: int, advance: Advance
) -> tuple[Problems, list[str]]:
    """Check a release against its manifest.

    Args:
        root: the release folder.
        manifest: its manifest, as `hf_scripts.checks.manifest.load` returns it.
        decode: decode every image; otherwise only bytes are compared.
        workers: number of processes.
        advance: called with the bytes of every file that is checked.

    Returns:
        The problems, and notes on facts that are no problems.

    Raises:
        BuildError: a build is writing to the folder, or was when a problem was found.
    """
    _refuse_build_in_progress(root)
    problems, notes = _verify(root, manifest, decode=decode, workers=workers, advance=advance)
    if problems.total():
        _refuse_build_in_progress(root)  # one that began meanwhile
    return problems, notes


def _refuse_build_in_progress(root: Path) -> None:
    if is_held(Layout(root).lock):
        raise BuildError(f"A build is writing to {root}. Wait until it ends, and run the same command again.")


def _verify(
    root: Path, manifest: Manifest, *, decode: bool, workers: int, advance: Advance
) -> tuple[Problems, list[str]]:
    files = manifest.files()
    problems = check_manifest.check_strays(root, manifest)
    tasks = _tasks(root, manifest, files, decode=decode)
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
        problems.merge(check_release.check_audit(root, manifest))
        problems.merge(check_release.check_parts(root, manifest))
        problems.merge(check_release.check_overlaps(root, manifest))
        problems.merge(check_release.check_ids(root, manifest))
        decoded = {
            (task.split.key, row_id): image
            for task, outcome in zip(tasks, outcomes, strict=True)
            if isinstance(task, ShardTask)
            for row_id, image in outcome.decoded.items()
        }
        pairs, more = duplicates.check_duplicates(root, manifest, decoded)
        problems.merge(pairs)
        notes += more
    else:
        notes.append("splits were not compared with each other, because an index is damaged")
    return problems, notes


def _tasks(root: Path, manifest: Manifest, files: Sequence[FileEntry], *, decode: bool) -> list[FileTask]:
    """One task per file; a file that two configs share is checked once."""
    tasks: dict[str, FileTask] = {}
    wanted = duplicates.named_rows(root, manifest) if decode else {}
    for key, config, entry in manifest.splits():
        split = split_of(key, config, entry)
        index = entry.index
        tasks.setdefault(index.path, IndexTask(root, index, split, entry.digest, values=not entry.data))
        named = wanted.get(key, frozenset())
        for file, compared, first in _places(root, index, entry.data):
            tasks.setdefault(file.path, ShardTask(root, file, split, compared, first, decode, named))
        for file, compared, first in _places(root, index, entry.sealed):
            tasks.setdefault(file.path, SealedTask(root, file, split, compared, first))
    return [tasks.get(path) or PlainTask(root, file) for path, file in {file.path: file for file in files}.items()]


def _places(root: Path, index: FileEntry, files: Sequence[FileEntry]) -> Iterator[tuple[FileEntry, str | None, int]]:
    """Each file of a split, the index to compare it with if its rows are known there, and the first of them."""
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
        return int(pq.read_metadata(path).num_rows)
    except UNREADABLE:
        return None


def _check_counts(manifest: Manifest, rows: Mapping[str, int | None], problems: Problems) -> None:
    for key, _, split in manifest.splits():
        for kind, entries in (("shards", split.data), ("index", [split.index]), ("sealed residuals", split.sealed)):
            counts = [count for entry in entries if (count := rows[entry.path]) is not None]
            # An unreadable file is reported by its task.
            if entries and len(counts) == len(entries) and sum(counts) != split.rows:
                wrong = f"its {kind} has" if kind == "index" else f"its {kind} have"
                problems.add("row count", f"{key}: {wrong} {sum(counts):,} rows, not {split.rows:,}")


def _run(tasks: Sequence[FileTask], workers: int, advance: Advance) -> list[Outcome]:
    # The largest first, so that no worker is left alone with a large file.
    ordered = sorted(tasks, key=lambda task: -task.file.size)
    count = max(1, min(workers, len(tasks)))
    with LocalExecutor(count, preload=_WORKER_IMPORTS, resumes=False) as executor:
        outcomes = dict(zip(ordered, executor.run(ordered, lambda _, size: advance(size)), strict=True))
    return [outcomes[task] for task in tasks]


def _notes(manifest: Manifest) -> list[str]:
    notes = []
    for name, benchmark in sorted(manifest.benchmarks.items()):
        if benchmark.demo:
            notes.append(f"{name} is built from demo sources and is not for results")
        if benchmark.limit_per_class is not None:
            notes.append(f"{name} is limited to {benchmark.limit_per_class:,} images of each class")
    short: dict[str, list[str]] = {}
    for key, _, split in manifest.splits():
        for sentence in split.shortfalls:
            short.setdefault(sentence, []).append(key)
    lines = [f"{', '.join(keys)} not complete: {sentence}" for sentence, keys in short.items()]
    notes += lines[:SHOWN]
    if len(lines) > SHOWN:
        notes.append(f"and {len(lines) - SHOWN:,} more such shortfalls in manifest.json")
    for key, _, split in manifest.splits():
        if split.rows != split.expected:
            notes.append(f"{key} has {split.rows:,} rows; complete sources give {split.expected:,}")
        if not split.data:
            notes.append(f"{key} has only an index here, no images")
    return notes


def _table(manifest: Manifest) -> list[str]:
    lines = [["split", "rows", "digest", "files", "bytes"]]
    for key, _, split in manifest.splits():
        files = split.files
        size = sum(file.size for file in files)
        lines.append([key, f"{split.rows:,}", split.digest[:12], f"{len(files):,}", f"{size:,}"])
    return aligned(lines)


def _summary(name: object, manifest: Manifest, *, decode: bool) -> str:
    files = manifest.files()
    entries = [split for _, _, split in manifest.splits()]
    rows = sum(split.rows for split in entries)
    size = sum(file.size for file in files)
    how = "" if decode else "; images were not decoded, nor digests over pixels computed (--quick)"
    return (
        f"{name} is whole: {len(entries):,} splits, {rows:,} rows, {len(files):,} files, {size:,} bytes, all as "
        f"manifest.json lists{how}"
    )


@click.command(
    name="python -m hf_scripts.verify",
    epilog="Example: python -m hf_scripts.verify build/unknown-detection",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("release", metavar="DIR|ORG/NAME")
@click.option("--revision", metavar="TAG", help="Version, branch or commit of ORG/NAME.  [default: main]")
@click.option("--keep", metavar="DIR", type=click.Path(path_type=Path), help="Keep the download in this folder.")
@click.option("--quick", is_flag=True, help="Compare bytes and digests without decoding images.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=usable_cores,
    show_default="all usable cores",
    help="Processes that read files.",
)
def command(release: str, revision: str | None, keep: Path | None, quick: bool, workers: int) -> int:
    """Check that a release is complete and undamaged, down to every row and image.

    The release is the folder DIR or, if there is no such folder, the dataset repository ORG/NAME on the Hub, which is
    downloaded.

    The exit code is 0 if the release has no problem, 1 if it has, and 2 if there is no release to check.
    """
    folder = Path(release)
    # Anything that cannot be a repository's name is treated as a folder, and reported as missing.
    if folder.exists() or not is_repository(release):
        if revision is not None or keep is not None:
            raise BuildError(
                f"{release} is a folder here, to which --revision and --keep do not apply. Omit them, or run from "
                "another folder to check the repository of that name."
            )
        return _check(folder, folder, Problems(), quick=quick, workers=workers)
    # The client takes half a second to import.
    from hf_scripts.hub.download import downloaded
    from hf_scripts.publish.access import exposure_problems

    click.echo(f"there is no folder {release}; looking for it on the Hub", err=True)
    with downloaded(release, revision or "main", keep, lambda line: click.echo(line, err=True)) as found:
        found.problems.merge(exposure_problems(found.repository, revision or "main", found.commit))
        return _check(found.root, found.name, found.problems, quick=quick, workers=workers)


def _check(folder: Path, name: object, problems: Problems, *, quick: bool, workers: int) -> int:
    """Check a folder, print the given and the new problems under its name, and return the exit code."""
    from tqdm import tqdm

    notes: list[str] = []
    _refuse_build_in_progress(folder)  # which may not have written a manifest yet
    manifest = check_manifest.load(folder, problems)
    if manifest is not None:
        size = sum(file.size for file in manifest.files())
        # disable=None hides the bar where stderr is no terminal.
        with tqdm(total=size, desc="checking", unit="B", unit_scale=True, disable=None, file=sys.stderr) as bar:
            found, notes = verify(folder, manifest, decode=not quick, workers=workers, advance=bar.update)
        problems.merge(found)
    for line in problems.lines():
        click.echo(line)
    whole = manifest if problems.total() == 0 else None
    if whole is not None:
        click.echo("\n".join([*_table(whole), ""]))
    for note in notes:
        click.echo(f"note: {printable(note)}")
    if whole is None:
        plural = "" if problems.total() == 1 else "s"
        click.echo(f"{name} is not whole: {problems.total():,} problem{plural}")
        return 1
    click.echo(_summary(name, whole, decode=not quick))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return exit_code(command, argv, stopped="stopped; nothing was changed.")


if __name__ == "__main__":
    sys.exit(main())
