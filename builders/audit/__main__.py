"""Audits a release for shortcuts: `python -m builders.audit smoothness | resizes | sheet | pairs`."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from tqdm import tqdm

from builders.audit.contact_sheet import contact_sheet
from builders.audit.resizes import compare
from builders.audit.smoothness import DISTANCES, Float64, auroc, smoothness_score, total_variation
from builders.cli.runner import exit_code
from builders.cli.tables import aligned
from builders.errors import BuildError, os_errors_as_build_errors
from builders.release.duplicates import Pair, read_pairs
from builders.release.entries import Manifest, SplitEntry
from builders.release.layout import Layout
from builders.release.manifest import read_manifest
from builders.release.reader import config_of, read_images
from builders.release.schema import ROLES

SEPARABLE = 0.75
"""The AUROC from which on a split counts as separable by smoothness (ours: halfway between chance and certainty)."""

_PAIRS_IN_A_ROW = 12

_SETTINGS = {"help_option_names": ["-h", "--help"]}
_release = click.argument("release", metavar="RELEASE", type=click.Path(path_type=Path))
_config = click.argument("config", metavar="CONFIG")


@click.group(name="python -m builders.audit", context_settings=_SETTINGS)
def command() -> None:
    """Audit a release folder for properties that make its results mean less than they seem to."""


@command.command(
    context_settings=_SETTINGS, epilog="Example: python -m builders.audit smoothness build/unknown-detection cifar"
)
@_release
@_config
@click.option(
    "--threshold",
    type=click.FloatRange(0.5, 1),
    default=SEPARABLE,
    show_default=True,
    help="AUROC, or 1 minus the AUROC, from which on a split is flagged.",
)
def smoothness(release: Path, config: str, threshold: float) -> None:
    """Measure how well smoothness alone, without a model, separates each unknown split from the known test images.

    AUROC 0.5 is chance. A split far from it can be detected without understanding an image: by noise, by texture, or
    by the artifacts of a bad resize.
    """
    with os_errors_as_build_errors("read the release"):
        splits = config_of(read_manifest(release), config).splits
        if "test" not in splits or "in_distribution" not in splits["test"].roles:
            raise BuildError(
                f"{config} in {release} has no in-distribution split `test` (splits: {', '.join(sorted(splits))}). "
                "Build it, or audit the config that has one."
            )
        variations = _variations(release, config, dict(sorted(splits.items())))
    # The mean comes from other known images than those of the test split, if there are any.
    known_test = variations["test", "in_distribution"]
    mean = float(np.mean(variations.get(("validation", "in_distribution"), known_test)))
    known = smoothness_score(known_test, mean)
    lines = [["split", "role", "images", "variation", "AUROC", "verdict"]]
    lines.append(["test", "in_distribution", f"{len(known):,}", f"{np.mean(known_test):.4f}", "-", "-"])
    for name, role in sorted(variations):
        if role == "in_distribution":
            continue
        unknown = variations[name, role]
        area = auroc(known, smoothness_score(unknown, mean))
        verdict = "SEPARABLE by smoothness alone" if max(area, 1 - area) >= threshold else "not separable"
        numbers = [f"{len(unknown):,}", f"{np.mean(unknown):.4f}", f"{area:.3f}"]
        lines.append([name, role, *numbers, verdict])
    click.echo("\n".join(aligned(lines)))


@command.command(
    context_settings=_SETTINGS,
    epilog="Example: python -m builders.audit resizes build/unknown-detection cifar/far_ood_lsun_fix /data/lsun",
)
@_release
@click.argument("split", metavar="CONFIG/SPLIT")
@click.argument("originals", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--images", type=click.IntRange(1), default=4_000, show_default=True, help="Most images to resize.")
def resizes(release: Path, split: str, originals: Path, images: int) -> None:
    """Measure smoothness of a split's originals, in the source's folder DIR, resized in three ways.

    The ways are LSUN-FIX's published procedure, the one-step resize of the whole image, and one that aliases. Each is
    compared with the known test images as by `smoothness`, for the Euclidean distance between neighbours and for its
    square, because the paper does not name the distance.
    """
    with os_errors_as_build_errors("read the release and the originals"):
        found = compare(release, read_manifest(release), split, originals, images)
    lines = [["resize", "images", *(f"{word} ({name})" for name in DISTANCES for word in ("variation", "AUROC"))]]
    for way in found:
        figures = [text for name in DISTANCES for text in (f"{way.variation[name]:.4f}", f"{way.auroc[name]:.3f}")]
        lines.append([way.name, f"{way.images:,}", *figures])
    click.echo("\n".join(aligned(lines)))


@command.command(
    context_settings=_SETTINGS,
    epilog="Example: python -m builders.audit sheet build/unknown-detection cifar --out sheet.png",
)
@_release
@_config
@click.option("--out", type=click.Path(path_type=Path), default=Path("sheet.png"), show_default=True, metavar="FILE")
@click.option("--images", type=click.IntRange(1, 50), default=12, show_default=True, help="Images of each split.")
def sheet(release: Path, config: str, out: Path, images: int) -> None:
    """Draw the first images of every split into one picture.

    Rows are sorted by a keyed hash, so the first ones are a random sample.
    """
    with os_errors_as_build_errors("read the release and write the picture"):
        splits = config_of(read_manifest(release), config).splits
        rows = []
        for name in sorted(splits):
            first = itertools.islice(read_images(release, f"{config}/{name}", splits[name]), images)
            title = f"{name} ({', '.join(splits[name].roles)}, {splits[name].rows:,} rows)"
            rows.append((title, [image for _, image in first]))
        contact_sheet(rows).save(out)
    click.echo(f"wrote {out}")


@command.command(
    context_settings=_SETTINGS,
    epilog="Example: python -m builders.audit pairs build/unknown-detection cifar --out pairs.png",
)
@_release
@_config
@click.option("--out", type=click.Path(path_type=Path), default=Path("pairs.png"), show_default=True, metavar="FILE")
@click.option("--split", default="test", show_default=True, help="The split whose duplicates are drawn.")
@click.option(
    "--images", type=click.IntRange(1, 200), default=24, show_default=True, help="Pairs, the farthest first."
)
def pairs(release: Path, config: str, out: Path, split: str, images: int) -> None:
    """Draw images of a split above their duplicates in other splits or in the split itself.

    The least similar pairs come first: those are the ones to doubt.
    """
    key = f"{config}/{split}"
    with os_errors_as_build_errors("read the release and write the picture"):
        manifest = read_manifest(release)
        if split not in config_of(manifest, config).splits:
            raise BuildError(f"{config} in {release} has no split {split}; choose another --split.")
        nearest: dict[str, tuple[float, str, str]] = {}
        for pair in _pairs(release, manifest):
            for row_split, row, other in (
                (pair.split, pair.id, (pair.distance, pair.other_split, pair.other_id)),
                (pair.other_split, pair.other_id, (pair.distance, pair.split, pair.id)),
            ):
                if row_split == key:
                    nearest[row] = min(other, nearest.get(row, other))
        if not nearest:
            raise BuildError(f"{key} has no duplicates in the table of {release}; choose another --split.")
        drawn = sorted(nearest.items(), key=lambda item: (-item[1][0], item[0]))[:images]
        wanted: dict[str, set[str]] = {key: {row for row, _ in drawn}}
        for _, (_, place, partner) in drawn:
            wanted.setdefault(place, set()).add(partner)
        known = manifest.by_key()
        pictures = {place: _by_id(release, place, known[place], ids) for place, ids in wanted.items()}
        rows = []
        for start in range(0, len(drawn), _PAIRS_IN_A_ROW):
            some = drawn[start : start + _PAIRS_IN_A_ROW]
            distances = "   ".join(f"{distance:.3f}" for _, (distance, _, _) in some)
            rows.append((f"{key}, distances {distances}", [pictures[key][row] for row, _ in some]))
            others = ", ".join(sorted({place for _, (_, place, _) in some}))
            rows.append((others, [pictures[place][partner] for _, (_, place, partner) in some]))
        contact_sheet(rows).save(out)
    click.echo(f"wrote {out}")


def _pairs(release: Path, manifest: Manifest) -> list[Pair]:
    if manifest.duplicates is None:
        raise BuildError(f"{release} has no table of duplicates: an earlier version built it. Build it again.")
    return read_pairs(Layout(release).duplicates)


def _by_id(release: Path, key: str, split: SplitEntry, wanted: set[str]) -> dict[str, Any]:
    return {row["id"]: image for row, image in read_images(release, key, split) if row["id"] in wanted}


def _variations(release: Path, config: str, splits: Mapping[str, SplitEntry]) -> dict[tuple[str, str], Float64]:
    """Total variation of every image, by split and role."""
    total = sum(split.rows for split in splits.values())
    found: dict[tuple[str, str], list[float]] = {}
    # disable=None hides the bar unless stderr is a terminal.
    with tqdm(total=total, desc="measuring", unit=" images", disable=None, file=sys.stderr) as bar:
        for name, split in splits.items():
            for row, image in read_images(release, f"{config}/{name}", split):
                found.setdefault((name, ROLES[row["role"]]), []).append(total_variation(np.asarray(image)))
                bar.update()
    return {key: np.array(values) for key, values in found.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return exit_code(command, argv, stopped="stopped; nothing was changed.")


if __name__ == "__main__":
    sys.exit(main())
