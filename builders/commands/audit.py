"""Audits a release for properties that make results on it mean less than they seem to."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from builders.audit.measures import has_known_test, measure_rows, sampled
from builders.audit.record import Findings, audited, paths, picture_format, record, save_picture, table_text
from builders.audit.smoothness import SEPARABLE, smoothness_lines
from builders.cli.console import aligned_lines, exit_code
from builders.cli.executor_flags import workers_option
from builders.cli.split_choice import chosen_splits, splits_option
from builders.errors import BuildError, os_errors_as_build_errors
from builders.executors.base import usable_cores
from builders.executors.local import LocalExecutor
from builders.release.entries import Manifest
from builders.release.manifest import read_manifest
from builders.release.schema import KNOWN_ROLE
from builders.storage.files import write_text
from builders.storage.paths import LOCAL, PathType
from builders.storage.scratch import scratch_folder
from unknown_detection.csv_text import csv_text
from unknown_detection.help import HelpGroup
from unknown_detection.terminal.progress import TerminalMeter, bar
from unknown_detection.words import quantity

_SHOWN = 10
"""Differences that are printed; --out has all."""

_WORKER_IMPORTS = ("builders.audit.duplicates", "builders.audit.measures", "numpy.ma")

_release = click.argument("release", metavar="RELEASE", type=PathType())
_splits = splits_option("Audit these alone; without it the whole release is.")
_dry_run = click.option("--dry-run", is_flag=True, help="Print the result, and write nothing.")
_workers = workers_option("Processes that read images.")


def _out(content: str) -> Callable[[Any], Any]:
    return click.option(
        "--out",
        type=LOCAL,
        metavar="FILE",
        help=f"Write the {content} to this file alone, and leave the release as it is.",
    )


@click.group(
    "python -m builders.commands.audit",
    cls=HelpGroup,
    examples=("python -m builders.commands.audit artifacts build/unknown-detection --splits cifar",),
)
def command() -> None:
    """Audit a release folder for properties that make its results mean less than they seem to.

    All but `smoothness`, which only prints, write a table and a picture into the release's audit/ and a line into its
    card, and list both files in its manifest. Pictures that show images are not listed, and so never published.
    """


@command.command(
    short_help="Smoothness alone against the known test images.",
    examples=("python -m builders.commands.audit smoothness build/unknown-detection --splits cifar",),
)
@_release
@_splits
@click.option(
    "--threshold",
    type=click.FloatRange(0.5, 1),
    default=SEPARABLE,
    show_default=True,
    help="AUROC, or 1 minus the AUROC, from which on a split is flagged.",
)
def smoothness(release: Path, splits: Sequence[str], threshold: float) -> None:
    """Measure how well smoothness alone, without a model, separates each unknown split from the known test images.

    AUROC 0.5 is chance. A split far from it can be detected without understanding an image: by noise, by texture, or
    by the artifacts of a bad resize. Only configs that have known test images are measured.
    """
    with os_errors_as_build_errors("read the release"):
        manifest = read_manifest(release)
        chosen = _by_config(release, manifest, splits)
        with_known = {config: names for config, names in chosen.items() if has_known_test(manifest, config)}
        if not with_known or (splits and len(with_known) < len(chosen)):
            config = next(config for config in chosen if config not in with_known)
            existing = ", ".join(sorted(manifest.configs[config].splits))
            raise BuildError(
                f"{config} in {release} has no in-distribution split `test` (splits: {existing}). Build it, or choose "
                "a config that has one with --splits."
            )
        lines = [["split", "role", "images", "variation", "AUROC", "verdict"]]
        for config, names in with_known.items():
            with _working(usable_cores()) as working:
                lines += smoothness_lines(release, manifest, config, names, threshold, *working)
    click.echo("\n".join(aligned_lines(lines)))


def _by_config(release: Path, manifest: Manifest, selection: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of the splits that `--splits` chooses, by config."""
    names_of: dict[str, list[str]] = {}
    for key in chosen_splits(selection, list(manifest.by_key()), str(release)):
        config, _, name = key.partition("/")
        names_of.setdefault(config, []).append(name)
    return names_of


@command.command(
    short_help="Unknown rows whose class overlaps a known class.",
    examples=("python -m builders.commands.audit overlap build/unknown-detection",),
)
@_release
@_dry_run
def overlap(release: Path, dry_run: bool) -> None:
    """Count the unknown rows whose class overlaps a known class, by split and known class."""
    from builders.audit.overlap import count_overlap, findings

    with audited(release, dry_run=dry_run) as manifest:
        overlaps = count_overlap(release, manifest)
        lines = [["split", "rows", "overlapping", "known classes"]]
        for split in overlaps:
            known = sorted({name for name, _, _ in split.classes})
            lines.append([split.key, f"{split.rows:,}", f"{split.overlapping:,}", ", ".join(known) or "none"])
        click.echo("\n".join(aligned_lines(lines)))
        _finish(release, manifest, findings(overlaps, manifest), dry_run=dry_run)


@command.command(
    short_help="The same picture in two rows, exactly or nearly.",
    examples=("python -m builders.commands.audit duplicates build/unknown-detection",),
)
@_release
@click.option(
    "--against",
    type=PathType(),
    metavar="RELEASE",
    help="Compare with the splits of this release, and leave both as they are.",
)
@click.option("--exact", "only_exact", is_flag=True, help="Compare digests alone, and read no images.")
@_workers
@_out("table of pairs (CSV)")
@_dry_run
def duplicates(
    release: Path, against: Path | None, only_exact: bool, workers: int, out: Path | None, dry_run: bool
) -> None:
    """Find the same picture in two rows: exactly among all splits, nearly among training images and other splits."""
    from builders.audit import duplicates as audit

    # With --against or --out nothing is written into the release.
    _check_file(out, release, against)
    with audited(release, dry_run=dry_run or against is not None or out is not None) as manifest:
        parts = audit.release_splits(release, manifest)
        other_manifest = None
        if against is not None:
            with audited(against, dry_run=True) as other_manifest:
                parts |= audit.release_splits(against, other_manifest, audit.AGAINST)
        pairs = audit.Duplicates(parts, tuple(audit.exact(parts)))
        searches = [] if only_exact else audit.searches(manifest, other_manifest)
        if searches:
            with _working(workers) as (executor, meter), scratch_folder("audit") as scratch:
                pairs = audit.find_near(pairs, searches, scratch, executor, meter)
        lines = [["split", "and split", "exact", "near", "known and unknown"]]
        lines += [[*splits, *(f"{number:,}" for number in numbers)] for splits, numbers in pairs.counts().items()]
        click.echo("\n".join(aligned_lines(lines)))
        click.echo(audit.duplicates_summary(pairs))
        if out is not None and not dry_run:
            with os_errors_as_build_errors("write the table"):
                write_text(out, table_text(audit.findings(pairs)))
            click.echo(f"wrote {out}")
        elif against is None and out is None:
            _finish(release, manifest, audit.findings(pairs), dry_run=dry_run, quiet=True)


@command.command(
    short_help="A downloaded OpenOOD tree against the release.",
    examples=("python -m builders.commands.audit openood build/unknown-detection OpenOOD/data",),
)
@_release
@click.argument("copy", metavar="COPY", type=LOCAL)
@_splits
@_out("table of differences (CSV)")
def openood(release: Path, copy: Path, splits: Sequence[str], out: Path | None) -> int:
    """Compare COPY, the folder that OpenOOD's downloads filled, with the release: each image and each line of a list.

    COPY has `benchmark_imglist` and `images_largescale`. Nothing is written but --out; the exit code is 1 if something
    differs.
    """
    from builders.audit import openood as audit
    from builders.release.openood_tree import LISTS

    _check_file(out, release)
    with os_errors_as_build_errors("compare the copy"):
        manifest = read_manifest(release)
        listed = [key for key in manifest.by_key() if key in LISTS]
        if not listed:
            raise BuildError(
                f"{release} has no split that OpenOOD has a list of. "
                "Build one with `python -m builders.openood_benchmark`."
            )
        keys = chosen_splits(splits, listed, f"{release}, of those that OpenOOD has lists of")
        if not any((copy / folder).is_dir() for folder in ("images_largescale", "images_classic")):
            raise BuildError(
                f"{copy} is no copy of OpenOOD's images: it has no folder images_largescale. Name the folder that "
                "OpenOOD's downloads filled, usually OpenOOD/data."
            )
        with bar(sum(manifest.by_key()[key].rows for key in keys), "compare") as shown:
            compared = [audit.compare_split(release, manifest, key, copy, shown.update) for key in keys]
        lines = [["split", "rows", "equal", audit.MISSING, audit.OTHER, "list"]]
        for split in compared:
            missing, other = (split.counts[kind] for kind in (audit.MISSING, audit.OTHER))
            of_list = split.counts.total() - missing - other
            says = f"{quantity(of_list, 'difference')}" if of_list else "equal"
            numbers = (split.rows, split.rows - missing - other, missing, other)
            lines.append([split.key, *(f"{number:,}" for number in numbers), says if split.listed else "none"])
        click.echo("\n".join(aligned_lines(lines)))
        rows = [(split.key, path, kind) for split in compared for path, kind in split.differences]
        for key, path, kind in rows[:_SHOWN]:
            click.echo(f"{key}: {path}: {kind}")
        if len(rows) > _SHOWN:
            click.echo(f"and {len(rows) - _SHOWN:,} more; --out FILE has all")
        if out is not None:
            write_text(out, csv_text([("split", "path", "difference"), *rows]))
            click.echo(f"wrote {out}")
    return 1 if rows else 0


@command.command(
    short_help="Single numbers of an image that separate splits.",
    examples=("python -m builders.commands.audit artifacts build/unknown-detection --splits cifar",),
)
@_release
@_splits
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Rows of each role in a split that are measured: the first ones, which are a random sample.",
)
@_workers
@_dry_run
def artifacts(release: Path, splits: Sequence[str], sample: int, workers: int, dry_run: bool) -> None:
    """Tell how well one number of an image (its size, encoding, mean colour, ...) separates splits from known images.

    Each number is a detector of its own. The AUROC is that of the better direction; 0.5 is chance.
    """
    from builders.audit import artifacts as audit

    with audited(release, dry_run=dry_run) as manifest:
        for config, names in _by_config(release, manifest, splits).items():
            reference = audit.known_test(manifest, config)
            keys = [f"{config}/{name}" for name in names]
            chosen = sampled(release, manifest, sorted({*keys, reference}), sample)
            chosen = {
                rows: numbers
                for rows, numbers in chosen.items()
                if rows.split in keys or (rows.split, rows.role) == (reference, KNOWN_ROLE)
            }
            with _working(workers) as working:
                measured = measure_rows(release, manifest, chosen, *working)
            separations = audit.separations(measured, reference)
            click.echo("\n".join(aligned_lines(list(audit.separation_lines(separations)))))
            findings = audit.findings(config, separations, reference, sample)
            manifest = _finish(release, manifest, findings, dry_run=dry_run)


@command.command(
    short_help="A picture of the first images of splits.",
    examples=("python -m builders.commands.audit sheet build/unknown-detection --splits cifar --out sheet.png",),
)
@_release
@_splits
@_out("picture (.png or .jpg)")
@click.option(
    "--images", type=click.IntRange(1, 48), default=12, show_default=True, help="Images of each role in a split."
)
@_dry_run
def sheet(release: Path, splits: Sequence[str], out: Path | None, images: int, dry_run: bool) -> None:
    """Draw the first images of every split, by role and class, into one picture for each config.

    Rows are sorted by a keyed hash (SHA-256 of seed, config, split and id), so the first are a random sample.
    Images of unknown classes have a frame.
    """
    from builders.audit.contact_sheet import contact_sheet

    _check_file(out, release, picture=True)
    with audited(release, dry_run=dry_run or out is not None) as manifest:
        chosen = _by_config(release, manifest, splits)
        drawn = (contact_sheet(release, manifest, config, names, images) for config, names in chosen.items())
        _keep_pictures(release, manifest, drawn, len(chosen), out, dry_run=dry_run)


@command.command(
    short_help="A picture of images above their duplicates.",
    examples=("python -m builders.commands.audit pairs build/unknown-detection --splits cifar/test --out pairs.png",),
)
@_release
@_splits
@_out("picture (.png or .jpg)")
@click.option(
    "--images", type=click.IntRange(1, 200), default=24, show_default=True, help="Pairs, the least similar first."
)
@_dry_run
def pairs(release: Path, splits: Sequence[str], out: Path | None, images: int, dry_run: bool) -> None:
    """Draw images of each split above their duplicates in other splits or in the split itself, with the distance.

    The least similar pairs come first: those are the ones to doubt. Of configs that are named as a whole, the splits
    that have duplicates are drawn.
    """
    from builders.audit.contact_sheet import listed_pairs, pairs_sheet

    _check_file(out, release, picture=True)
    with audited(release, dry_run=dry_run or out is not None) as manifest:
        keys = chosen_splits(splits, list(manifest.by_key()), str(release))
        listed = listed_pairs(release, manifest)
        chosen = sorted({split for pair in listed for split in pair.splits}.intersection(keys)) or keys[:1]  # refused
        drawn = (pairs_sheet(release, manifest, listed, key, images) for key in chosen)
        _keep_pictures(release, manifest, drawn, len(chosen), out, dry_run=dry_run)


def _keep_pictures(
    release: Path, manifest: Manifest, drawn: Iterator[Findings], pictures: int, out: Path | None, *, dry_run: bool
) -> None:
    """Record pictures in the release, or write the only one to `out`."""
    if out is not None and pictures > 1:
        raise BuildError(f"--out {out} names one file for {pictures} pictures. Choose one with --splits.")
    for findings in drawn:
        if out is None or dry_run:
            manifest = _finish(release, manifest, findings, dry_run=dry_run, quiet=out is not None)
            continue
        with os_errors_as_build_errors("write the picture"):
            save_picture(findings.picture, out)
        click.echo(f"wrote {out}")


def _check_file(out: Path | None, *releases: Path | None, picture: bool = False) -> None:
    """Refuse an `--out` that cannot be a file, lies inside a release or is no picture, before any work."""
    if out is None:
        return
    for release in releases:
        if release is not None and release.resolve() in out.resolve().parents:
            raise BuildError(
                f"--out {out} lies inside the release {release}, whose files its manifest lists. Give another place."
            )
    if out.is_dir():
        raise BuildError(f"--out {out} is a folder. Give the name of a file in it.")
    inside = next((parent for parent in out.parents if parent.exists()), out)
    if not inside.is_dir():
        raise BuildError(f"--out {out} cannot be written: {inside} is a file. Give a file in a folder.")
    if picture:
        picture_format(out)


def _finish(release: Path, manifest: Manifest, findings: Findings, *, dry_run: bool, quiet: bool = False) -> Manifest:
    """Record an audit, or print what would be written; returns the manifest as it is then."""
    if not quiet:
        click.echo(findings.summary)
    if dry_run:
        click.echo(f"would write {', '.join(paths(findings))} in {release} (--dry-run)")
        return manifest
    manifest = record(release, manifest, findings)
    click.echo(f"wrote {', '.join(paths(findings))} in {release}")
    return manifest


@contextmanager
def _working(workers: int) -> Iterator[tuple[LocalExecutor, TerminalMeter]]:
    with LocalExecutor(workers, preload=_WORKER_IMPORTS, resumes=False) as executor:
        yield executor, TerminalMeter(quiet=False)


main = functools.partial(exit_code, command, stopped="stopped; nothing was changed.")
"""Runs the command line; returns its exit code."""


if __name__ == "__main__":
    sys.exit(main())
