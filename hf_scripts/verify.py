"""Check every digest, count and image of a release: `python -m hf_scripts.verify DIR`, or `ORG/NAME` on the Hub."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from builders.cli.console import aligned_lines, exit_code, json_option, print_document
from builders.cli.split_choice import splits_option
from builders.errors import NAMED, BuildError, more
from builders.executors.base import usable_cores
from builders.hub.place import folder_or_repository
from builders.release.entries import Manifest
from builders.storage.paths import LOCAL
from hf_scripts.checks.manifest import files_in
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.run import Verified, verify_folder
from unknown_detection.help import ESSENTIALS, helpful
from unknown_detection.terminal.progress import log
from unknown_detection.words import printable, quantity


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
        found = verify_folder(folder, splits, Problems(), name=folder, decode=decode, workers=workers)
        name, commit = str(folder), None
    else:
        # The client takes half a second to import.
        from hf_scripts.checks.download import downloaded
        from hf_scripts.publish.remote import exposed_images

        click.echo(f"there is no folder {release}; looking for it on the Hub", err=True)
        revision = revision or "main"
        with downloaded(release, revision, keep, splits, log) as download:
            name, commit = download.name, download.commit
            repository = download.repository
            revisions = {revision: commit, **repository.tags()}
            for sentence in exposed_images(repository, repository.info(), revisions).values():
                download.problems.add("licence", sentence)
            found = verify_folder(download.root, splits, download.problems, name=name, decode=decode, workers=workers)
    if as_json:
        origin = {"release": release, "revision": revision, "commit": commit}
        print_document("verify", origin | _document(found, check))
    else:
        click.echo("\n".join(_lines(found, name, decode=decode)))
    return 1 if found.problems.total() else 0


def _splits(found: Verified) -> list[dict[str, Any]]:
    """Return the checked splits, as `--json` has them."""
    return [
        {
            "split": key,
            "rows": entry.rows,
            "digest": entry.digest,
            "files": len(entry.files),
            "bytes": sum(file.size for file in entry.files),
        }
        for key, entry in (found.manifest.by_key() if found.manifest else {}).items()
        if key in found.splits
    ]


def _document(found: Verified, check: str) -> dict[str, Any]:
    kinds = found.problems.sentences.items()
    return {
        "whole": not found.problems.total(),
        "check": check,
        "splits": _splits(found),
        "problems": [
            {"kind": kind, "count": found.problems.counts[kind], "messages": list(map(printable, messages))}
            for kind, messages in kinds
        ],
        "notes": _notes(found),
    }


def _lines(found: Verified, name: str, *, decode: bool) -> Iterator[str]:
    yield from found.problems.lines()
    notes = [f"note: {note}" for note in _notes(found)]
    if found.manifest is None or found.problems.total():
        yield from (*notes, f"{name} is not whole: {quantity(found.problems.total(), 'problem')}")
        return
    splits, files = _splits(found), files_in(found.manifest, found.splits)
    lines = [["split", "rows", "digest", "files", "bytes"]]
    for split in splits:
        rows, *numbers = (f"{split[column]:,}" for column in ("rows", "files", "bytes"))
        lines.append([split["split"], rows, split["digest"][:12], *numbers])
    yield from (*aligned_lines(lines), "", *notes)
    how = "" if decode else "; images were not decoded, nor digests over pixels computed (--check fast)"
    if not_read := len(found.manifest.by_key()) - len(splits):
        how += f"; images of {quantity(not_read, 'other split')} were not read (--splits)"
    rows_and_bytes = sum(split["rows"] for split in splits), sum(file.size for file in files)
    counts = zip((len(splits), rows_and_bytes[0], len(files), rows_and_bytes[1]), _COUNTED, strict=True)
    yield f"{name} is whole: {', '.join(quantity(*count) for count in counts)}, all as manifest.json lists{how}"


_COUNTED = ("split", "row", "file", "byte")


def _notes(found: Verified) -> list[str]:
    facts = [] if found.manifest is None else _facts(found.manifest)
    return list(map(printable, [*facts, *found.notes]))


def _facts(manifest: Manifest) -> Iterator[str]:
    """Yield notes on what a manifest says of itself; of several of a kind their number and the first."""
    for name, benchmark in sorted(manifest.benchmarks.items()):
        if benchmark.demo:
            yield f"{name} is built from demo sources and is not for results"
        if benchmark.limit_per_class is not None:
            yield f"{name} is limited to {quantity(benchmark.limit_per_class, 'image')} of each class"
    splits = manifest.by_key()
    short: dict[str, list[str]] = {}
    for key, split in splits.items():
        for sentence in split.shortfalls:
            short.setdefault(sentence, []).append(key)
    fewer = [
        f"{key} has {split.rows:,} rows; complete sources give {split.expected:,}"
        for key, split in splits.items()
        if split.rows != split.expected
    ]
    for kind, lines in (
        (
            f"sources are short in {len(short):,} ways; the first (manifest.json has all): ",
            [f"{', '.join(keys)} not complete: {sentence}" for sentence, keys in short.items()],
        ),
        (f"{len(fewer):,} splits have other numbers of rows than complete sources give; the first: ", fewer),
    ):
        yield from (f"{kind if len(lines) > 1 else ''}{line}" for line in lines[:1])
    if index_only := [key for key, split in splits.items() if not split.data]:
        verb = "has" if len(index_only) == 1 else "have"
        yield f"{', '.join(index_only[:NAMED])}{more(index_only)} {verb} only an index here, no images"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return exit_code(command, argv, stopped="stopped; nothing was changed.")


if __name__ == "__main__":
    sys.exit(main())
