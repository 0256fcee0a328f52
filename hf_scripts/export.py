"""Write a release in the formats of other tools: `python -m hf_scripts.export DIR --format F --out OUT`."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click

from builders.cli.console import aligned_lines, check_json, exit_code, json_option, print_document
from builders.cli.split_choice import chosen_splits, splits_option
from builders.errors import BuildError, os_errors_as_build_errors
from builders.release.entries import Manifest
from builders.release.manifest import read_manifest
from builders.release.openood_tree import LISTS
from builders.release.split_entries import SplitEntry
from builders.storage.files import write_text
from builders.storage.paths import LOCAL, PathType
from hf_scripts.exports import readme
from hf_scripts.exports.formats import MIN_SHARD_BYTES, SHARD_BYTES, WRITERS, SplitOutput
from hf_scripts.exports.rows import ImageRow, check_identity, read_image_rows
from hf_scripts.exports.state import ExportedSplit, ExportState, Settings, export_lock, remove_temporary_files
from hf_scripts.exports.targets import Target
from unknown_detection.help import ESSENTIALS, helpful, no_sync_option
from unknown_detection.terminal.progress import bar
from unknown_detection.words import quantity

Progress = Callable[[int], object]
"""Called with the number of images processed since the last call."""


class SplitResult(NamedTuple):
    """A split of an export, and its state: `written`, `already there` or `to be written`."""

    split: ExportedSplit
    state: str


@dataclass(frozen=True)
class Export:
    """An export of splits (by `config/split`) of the release in `root` to the folder `out`.

    `shard_bytes` is the maximum size of a tar.
    """

    root: Path
    manifest: Manifest
    splits: Mapping[str, SplitEntry]
    out: Path
    format: str
    shard_bytes: int = SHARD_BYTES

    @property
    def settings(self) -> Settings:
        """The settings that all files depend on."""
        return {"format": self.format} | ({"shard-bytes": self.shard_bytes} if self.format == "webdataset" else {})

    def run(self, progress: Progress, *, dry_run: bool) -> dict[str, SplitResult]:
        """Write the splits that are not written yet, or with `dry_run` count the files and bytes that they would take.

        Raises:
            BuildError: the folder has other content, or the release is damaged.
        """
        self._state()  # raises before a folder is created
        results: dict[str, SplitResult] = {}
        with contextlib.nullcontext() if dry_run else export_lock(self.out):
            state = self._state()
            if not dry_run and not all(map(state.finished, self.splits)):
                remove_temporary_files(self.out)
            for key, split in self.splits.items():
                if state.finished(key):
                    progress(split.rows)
                    results[key] = SplitResult(state.splits[key], "already there")
                elif dry_run:
                    results[key] = SplitResult(self._write(key, Target(None), progress), "to be written")
                else:
                    state.begin(key, split.digest)
                    state.finish(key, self._write(key, Target(self.out), progress))
                    results[key] = SplitResult(state.splits[key], "written")
                if not dry_run:
                    self._write_readme(state)
        return results

    def _state(self) -> ExportState:
        state = ExportState(self.out, self.settings)
        digests = {key: split.digest for key, _, split in self.manifest.splits()}
        state.check_release(self.root, digests)
        return state

    def _write(self, key: str, target: Target, progress: Progress) -> ExportedSplit:
        split = self.splits[key]
        config, _, name = key.partition("/")
        check_identity(self.root, key, self.manifest.configs[config], split)
        kinds: Counter[str] = Counter()

        def rows() -> Iterator[ImageRow]:
            for row in read_image_rows(self.root, key, split):
                kinds[row.kind] += 1
                yield row
                progress(1)

        output = SplitOutput(self.out, config, name, split.roles, self.shard_bytes)
        WRITERS[self.format](output, rows(), target)
        target.flush()
        return ExportedSplit(
            digest=split.digest,
            rows=kinds.total(),
            files=target.files,
            size=target.bytes,
            kinds=tuple(sorted(kinds)),
            listed={path.relative_to(self.out).as_posix(): size for path, size in target.streamed.items()},
        )

    def _write_readme(self, state: ExportState) -> None:
        path = self.out / readme.NAME
        finished = {key: split for key, split in state.splits.items() if split.listed is not None}
        text = readme.readme(self.manifest, self.format, finished)
        if not path.is_file() or path.read_bytes() != text.encode():
            write_text(path, text)


def _selected_splits(
    root: Path, manifest: Manifest, requested: Sequence[str], chosen_format: str
) -> dict[str, SplitEntry]:
    """Return the requested splits, sorted; without a request all, or for `openood-tree` all that OpenOOD lists."""
    splits = manifest.by_key()
    selected = {key: splits[key] for key in chosen_splits(requested, list(splits), str(root))}
    if chosen_format == "openood-tree":
        unlisted = [key for key in selected if key not in LISTS]
        if unlisted and (requested or len(unlisted) == len(selected)):
            raise BuildError(
                f"OpenOOD has no list of {unlisted[0]}, and so no place for it in its folders. Leave it out with "
                "--splits, or choose --format openood."
            )
        selected = {key: split for key, split in selected.items() if key not in unlisted}
    for key, split in selected.items():
        if not split.data:
            raise BuildError(
                f"{root} has no images of {key}, only its index. Build it without --index-only, or leave it out with "
                "--splits."
            )
    return selected


def _table(results: Mapping[str, SplitResult]) -> list[str]:
    lines = [["split", "rows", "files", "bytes", "state"]]
    for key, (split, state) in results.items():
        lines.append([key, f"{split.rows:,}", f"{split.files:,}", f"{split.size:,}", state])
    return aligned_lines(lines)


def _totals(results: Mapping[str, SplitResult]) -> dict[str, int]:
    splits = [split for split, _ in results.values()]
    return {
        "rows": sum(split.rows for split in splits),
        "files": sum(split.files for split in splits),
        "bytes": sum(split.size for split in splits),
    }


def _summary(job: Export, results: Mapping[str, SplitResult], *, dry_run: bool) -> str:
    rows, files, size = _totals(results).values()
    counts = ((len(results), "split"), (rows, "row"), (files, "file"), (size, "byte"))
    contents = f"{', '.join(quantity(*count) for count in counts)} as {job.format}"
    if dry_run:
        return f"dry run: nothing was written; {job.out} would have {contents}"
    return f"{job.out} has {contents}; its {readme.NAME} explains their sources and how to read them"


def _document(job: Export, results: Mapping[str, SplitResult], notes: Sequence[str]) -> dict[str, Any]:
    """Return what `--json` prints of a dry run."""
    splits = [
        {"split": key, "rows": split.rows, "files": split.files, "bytes": split.size, "state": state}
        for key, (split, state) in results.items()
    ]
    paths = {"release": str(job.root), "out": str(job.out), "format": job.format}
    return {**paths, **_totals(results), "splits": splits, "notes": list(notes)}


@helpful(
    "python -m hf_scripts.export",
    sections={ESSENTIALS: ("chosen_format", "out", "splits", "dry_run")},
    examples=(
        "python -m hf_scripts.export build/unknown-detection --format imagefolder --out build/images "
        "--splits imagenet/test",
        "python -m hf_scripts.export build/unknown-detection --format openood --out build/openood",
    ),
)
@click.argument("folder", metavar="DIR", type=PathType())
@click.option(
    "--format",
    "chosen_format",
    type=click.Choice(list(WRITERS)),
    required=True,
    help="openood: images and image lists. openood-tree: OpenOOD's own folders and lists. imagefolder: class folders "
    "and metadata. webdataset: tars.",
)
@click.option(
    "--out",
    type=LOCAL,
    required=True,
    help="Folder of the export. Later runs can add splits in the same format.",
)
@splits_option("Export only these.")
@click.option(
    "--shard-bytes",
    type=click.IntRange(min=MIN_SHARD_BYTES),
    metavar="N",
    show_default=f"{SHARD_BYTES:,}",
    help="Maximum bytes of a tar (webdataset). A larger sample gets a tar of its own.",
)
@click.option(
    "--dry-run", is_flag=True, help="Read everything and print files and bytes of each split, but write nothing."
)
@json_option(only="--dry-run")
@no_sync_option
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    folder: Path,
    chosen_format: str,
    out: Path,
    splits: Sequence[str],
    shard_bytes: int | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write the splits of the release in DIR in the format of another tool.

    After an interruption, run the same command again: finished splits are kept.
    """
    check_json(as_json=as_json, dry_run=dry_run)
    if shard_bytes is not None and chosen_format != "webdataset":
        raise BuildError(
            f"--shard-bytes does not apply to --format {chosen_format}, only to webdataset. Leave it out."
        )
    with os_errors_as_build_errors(f"read the release and write the export to {out}"):
        manifest = read_manifest(folder)
        if folder.resolve() in (out.resolve(), *out.resolve().parents):
            raise BuildError(
                f"{out} lies inside the release {folder}, and would be published with it. Give another --out."
            )
        selected = _selected_splits(folder, manifest, splits, chosen_format)
        job = Export(folder, manifest, selected, out, chosen_format, shard_bytes or SHARD_BYTES)
        rows = sum(split.rows for split in job.splits.values())
        with bar(rows, "counting" if dry_run else "exporting", quiet=quiet) as shown:
            results = job.run(shown.update, dry_run=dry_run)
    mixed = readme.mixed({key: split for key, (split, _) in results.items()}) if chosen_format == "webdataset" else ()
    notes = [f"images of several formats in {text}; {readme.NAME} says how `datasets` reads them" for text in mixed]
    if as_json:
        print_document("export", _document(job, results, notes))
        return
    click.echo("\n".join([*_table(results), ""]))
    for note in notes:
        click.echo(f"note: {note}")
    click.echo(_summary(job, results, dry_run=dry_run))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    stopped = "stopped; run the same command again, and it resumes."
    return exit_code(command, argv, stopped=stopped)


if __name__ == "__main__":
    sys.exit(main())
