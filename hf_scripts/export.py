"""Write a release in the formats of other tools: `python -m hf_scripts.export DIR --format F --out OUT`."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from builders.cli.console import aligned_lines, check_json, exit_code, json_option, print_document
from builders.cli.split_choice import chosen_splits, splits_option
from builders.errors import BuildError, os_errors_as_build_errors
from builders.release.entries import Manifest, SplitEntry
from builders.release.manifest import read_manifest
from builders.release.openood_tree import LISTS
from builders.storage.files import write_text
from builders.storage.paths import LOCAL, PathType, inside
from hf_scripts.exports import readme
from hf_scripts.exports.formats import MIN_SHARD_BYTES, SHARD_BYTES, WRITERS
from hf_scripts.exports.names import class_folders
from hf_scripts.exports.rows import ImageRow, check_identity, read_image_rows
from hf_scripts.exports.state import ExportedSplit, ExportState, export_lock
from hf_scripts.exports.targets import Target
from unknown_detection.durable import TEMPORARY
from unknown_detection.help import ESSENTIALS, helpful, no_sync_option
from unknown_detection.terminal.progress import bar
from unknown_detection.words import quantity

Results = dict[str, tuple[ExportedSplit, str]]
"""The splits of an export, each with its state: `written`, `already there` or `to be written`."""


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

    def run(self, progress: Callable[[int], object], *, dry_run: bool) -> Results:
        """Write the splits that are not written yet, or with `dry_run` count the files and bytes that they would take.

        `progress` is called with the number of images processed since the last call.
        """
        self._state()  # raises before a folder is created
        results: Results = {}
        with contextlib.nullcontext() if dry_run else export_lock(self.out):
            state = self._state()
            if not dry_run and (self._outdated(state) or not all(map(state.finished, self.splits))):
                for leftover in sorted(self.out.rglob(f".*{TEMPORARY}")):  # of killed runs
                    leftover.unlink()
            for key, split in self.splits.items():
                if state.finished(key):
                    progress(split.rows)
                    results[key] = state.splits[key], "already there"
                elif dry_run:
                    results[key] = self._write(key, progress, dry_run=True), "to be written"
                else:
                    state.record(key, ExportedSplit(digest=split.digest))
                    state.record(key, self._write(key, progress, dry_run=False))
                    results[key] = state.splits[key], "written"
            if not dry_run:  # once all splits are there: until then a kill leaves these files as they were
                for path, text in self._outdated(state).items():
                    write_text(path, text)
        return results

    def _outdated(self, state: ExportState) -> dict[Path, str]:
        """Return the text of each file that depends on which splits are there, and is not as it should be."""
        done = {key: split for key, split in state.splits.items() if split.listed is not None}
        texts = readme.overall_files(self.manifest, self.format, done) if done else {}
        paths = {inside(self.out, name): text for name, text in texts.items()}
        return {path: text for path, text in paths.items() if not path.is_file() or path.read_bytes() != text.encode()}

    def _state(self) -> ExportState:
        shards = {"shard-bytes": self.shard_bytes} if self.format == "webdataset" else {}
        state = ExportState(self.out, {"format": self.format, **shards})
        state.check_release(self.root, {key: split.digest for key, _, split in self.manifest.splits()})
        return state

    def _write(self, key: str, progress: Callable[[int], object], *, dry_run: bool) -> ExportedSplit:
        split, config = self.splits[key], self.manifest.configs[key.partition("/")[0]]
        target = Target(self.out, self.shard_bytes, dry_run=dry_run, folder=class_folders(config.label_names))
        check_identity(self.root, key, config, split)
        kinds: Counter[str] = Counter()

        def rows() -> Iterator[ImageRow]:
            for row in read_image_rows(self.root, key, split):
                kinds[row.kind] += 1
                yield row
                progress(1)

        WRITERS[self.format](target, key, split.roles, rows())
        target.flush()
        return ExportedSplit(
            digest=split.digest,
            rows=kinds.total(),
            files=target.files,
            size=target.bytes,
            kinds=tuple(sorted(kinds)),
            listed={path.relative_to(self.out).as_posix(): size for path, size in target.streamed.items()},
        )


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


def _document(job: Export, results: Results, notes: Sequence[str]) -> dict[str, Any]:
    """Return what `--json` prints of a dry run; the text has the same numbers."""
    splits = [
        {"split": key, "rows": split.rows, "files": split.files, "bytes": split.size, "state": state}
        for key, (split, state) in results.items()
    ]
    totals = {name: sum(split[name] for split in splits) for name in ("rows", "files", "bytes")}  # type: ignore[misc]
    paths = {"release": str(job.root), "out": str(job.out), "format": job.format}
    return {**paths, **totals, "splits": splits, "notes": list(notes)}


def _lines(document: Mapping[str, Any], *, dry_run: bool) -> Iterator[str]:
    table = [["split", "rows", "files", "bytes", "state"]]
    for split in document["splits"]:
        table.append([split["split"], *(f"{split[name]:,}" for name in table[0][1:4]), split["state"]])
    yield from (*aligned_lines(table), "", *(f"note: {note}" for note in document["notes"]))
    counts = [(len(document["splits"]), "split"), *((document[f"{name}s"], name) for name in ("row", "file", "byte"))]
    contents = f"{', '.join(quantity(*count) for count in counts)} as {document['format']}"
    if dry_run:
        yield f"dry run: nothing was written; {document['out']} would have {contents}"
    else:
        yield f"{document['out']} has {contents}; its {readme.NAME} explains their sources and how to read them"


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
    document = _document(job, results, notes)
    if as_json:
        print_document("export", document)
    else:
        click.echo("\n".join(_lines(document, dry_run=dry_run)))


main = functools.partial(exit_code, command, stopped="stopped; run the same command again, and it resumes.")
"""Runs the command line; returns its exit code."""


if __name__ == "__main__":
    sys.exit(main())
