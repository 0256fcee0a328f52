"""Check every digest, count and image of a release: `python -m hf_scripts.verify DIR`, or `ORG/NAME` on the Hub."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from builders.card.facts import missing_images
from builders.cli.console import aligned_lines, exit_code, json_option, print_document
from builders.cli.executor_flags import workers_option
from builders.cli.split_choice import splits_option
from builders.errors import BuildError
from builders.hub.place import folder_or_repository
from builders.release.entries import Manifest
from builders.release.loading import cached_copies, misread
from builders.storage.paths import LOCAL
from hf_scripts.checks.manifest import files_in
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.run import Verified, verify_folder
from unknown_detection.help import ESSENTIALS, helpful
from unknown_detection.terminal.progress import log
from unknown_detection.words import first_few, printable, quantity


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
@click.option(
    "--keep", metavar="DIR", type=LOCAL, help="Keep the download in this folder, and go on with an interrupted one."
)
@splits_option("Read the images of these splits alone; on the Hub, download no others.")
@click.option(
    "--check",
    type=click.Choice(["fast", "decode"]),
    default="decode",
    show_default=True,
    help="fast: compare bytes and digests. decode: decode every image, too.",
)
@json_option()
@workers_option("Processes that read files.")
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
        problems = Problems()
        if reason := misread(folder):
            problems.add("path", f"{folder}: load_dataset does not read this folder: {reason}; move it")
        found = verify_folder(folder, splits, problems, name=folder, decode=decode, workers=workers)
        name, commit, copies = str(folder), None, cached_copies(folder)
    else:
        # The client takes half a second to import.
        from hf_scripts.checks.download import downloaded
        from hf_scripts.publish.remote import exposed_images

        click.echo(f"there is no folder {release}; looking for it on the Hub", err=True)
        revision = revision or "main"
        with downloaded(release, revision, keep, splits, log) as download:
            name, commit, copies = download.name, download.commit, cached_copies(keep) if keep is not None else None
            repository = download.repository
            revisions = {revision: commit, **repository.tags()}
            for sentence in exposed_images(repository, repository.info(), revisions).values():
                download.problems.add("licence", sentence)
            found = verify_folder(download.root, splits, download.problems, name=name, decode=decode, workers=workers)
    document = _document(found, check)
    cached = [] if copies is None or found.problems.total() else [_of_cache(copies)]
    if as_json:
        document["notes"] += cached
        print_document("verify", {"release": release, "revision": revision, "commit": commit} | document)
    else:
        click.echo("\n".join([*_lines(found, name, document), *cached]))
    return 1 if found.problems.total() else 0


def _document(found: Verified, check: str) -> dict[str, Any]:
    """Return what `--json` prints; the text has the same numbers."""
    splits = [
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
    problems = [
        {"kind": kind, "count": found.problems.counts[kind], "messages": list(map(printable, messages))}
        for kind, messages in found.problems.sentences.items()
    ]
    facts = [] if found.manifest is None else _facts(found.manifest)
    notes = list(map(printable, [*facts, *found.notes]))
    return {"whole": not problems, "check": check, "splits": splits, "problems": problems, "notes": notes}


def _lines(found: Verified, name: str, document: Mapping[str, Any]) -> Iterator[str]:
    yield from found.problems.lines()
    notes, splits = [f"note: {note}" for note in document["notes"]], document["splits"]
    if found.manifest is None or found.problems.total():
        yield from (*notes, f"{name} is not whole: {quantity(found.problems.total(), 'problem')}")
        return
    lines = [["split", "rows", "digest", "files", "bytes"]]
    for split in splits:
        rows, *numbers = (f"{split[column]:,}" for column in ("rows", "files", "bytes"))
        lines.append([split["split"], rows, split["digest"][:12], *numbers])
    yield from (*aligned_lines(lines), "", *notes)
    how = ""
    if document["check"] == "fast":
        how = "; images were not decoded, nor digests over pixels computed (--check fast)"
    if not_read := len(found.manifest.by_key()) - len(splits):
        how += f"; images of {quantity(not_read, 'other split')} were not read (--splits)"
    files = files_in(found.manifest, found.splits)
    numbers_of = {
        "split": len(splits),
        "row": sum(split["rows"] for split in splits),
        "file": len(files),
        "byte": sum(file.size for file in files),
    }
    counts = ", ".join(quantity(number, name) for name, number in numbers_of.items())
    yield f"{name} is whole: {counts}, all as manifest.json lists{how}"


def _of_cache(copies: Path) -> str:
    return printable(
        f"load_dataset has copies of a folder of this name in {copies}, and returns them unchecked where the card is "
        'equal; remove them, or pass download_mode="force_redownload"'
    )


def _facts(manifest: Manifest) -> Iterator[str]:
    """Yield notes on what a manifest says of itself; of several of a kind their number and the first."""
    for name, benchmark in sorted(manifest.benchmarks.items()):
        if benchmark.demo:
            yield f"{name} is built from demo sources and is not for results"
        if benchmark.limit_per_class is not None:
            yield f"{name} is limited to {quantity(benchmark.limit_per_class, 'image')} of each class"
    splits = manifest.by_key()
    short = missing_images(manifest)
    for sentence, keys in list(short.items())[:1]:
        many = (
            f"sources are short in {len(short):,} ways; the first (manifest.json has all): " if len(short) > 1 else ""
        )
        yield f"{many}{', '.join(keys)} not complete: {sentence}"
    # What complete sources give is known of rows that are drawn, and not of somebody's lists.
    drawn = {key: split for key, split in splits.items() if not any(part.adopted for part in split.parts)}
    other = {key: split for key, split in drawn.items() if split.rows != split.expected}
    for key, split in list(other.items())[:1]:
        many = f"{len(other):,} splits have other numbers of rows than complete sources give; the first: "
        rows = f"{key} has {split.rows:,} rows; complete sources give {split.expected:,}"
        yield f"{many if len(other) > 1 else ''}{rows}"
    if index_only := [key for key, split in splits.items() if not split.data]:
        verb = "has" if len(index_only) == 1 else "have"
        yield f"{first_few(index_only)} {verb} only an index here, no images"


main = functools.partial(exit_code, command, stopped="stopped; nothing was changed.")
"""Runs the command line; returns its exit code."""


if __name__ == "__main__":
    sys.exit(main())
