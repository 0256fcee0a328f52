"""Contact sheets of a release: the first images of every split, or images above their duplicates.

Tested by `tests/builders/audit/test_main.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from builders.audit.record import Findings
from builders.errors import BuildError
from builders.release.duplicates import Pair, read_pairs
from builders.release.entries import Manifest, SplitEntry
from builders.release.layout import Layout
from builders.release.reader import config_of, read_images

_CELL = 96
_GAP = 6
_LINE = 20
_TEXT = (20, 20, 20)
_PAPER = (255, 255, 255)
_PAIRS_IN_A_ROW = 12

_LOCAL = "The picture shows images of the sources, so it is not published."


def sheet(root: Path, manifest: Manifest, config: str, count: int) -> Findings:
    """Draw the first images of every split of a config; rows stand in keyed order, so they are a random sample.

    Raises:
        BuildError: there is no such config, or a split has no images here.
    """
    splits = config_of(manifest, config).splits
    drawn, rows = [], []
    for name in sorted(splits):
        first = list(itertools.islice(read_images(root, f"{config}/{name}", splits[name]), count))
        title = f"{name} ({', '.join(splits[name].roles)}, {splits[name].rows:,} rows)"
        drawn.append((title, [image for _, image in first]))
        rows += [(f"{config}/{name}", number, row["id"]) for number, (row, _) in enumerate(first)]
    return Findings(
        key=f"{config}/sheet",
        summary=f"Contact sheet of `{config}`: the first rows of each of its {len(splits):,} splits, {len(rows):,} "
        f"images in all. {_LOCAL}",
        splits=tuple(f"{config}/{name}" for name in sorted(splits)),
        columns=("split", "row", "id"),
        rows=rows,
        picture=contact_sheet(drawn),
    )


def pairs_sheet(root: Path, manifest: Manifest, config: str, split: str, count: int) -> Findings:
    """Draw images of a split above their nearest duplicates by the release's table, the least similar pairs first.

    Raises:
        BuildError: there is no such split, it has no duplicates, or the release has no table of them.
    """
    key, known = f"{config}/{split}", manifest.by_key()
    if split not in config_of(manifest, config).splits:
        known_names = ", ".join(sorted(config_of(manifest, config).splits))
        raise BuildError(f"{config} in {root} has no split {split}. Give one of {known_names} with --split.")
    nearest = _nearest(_table(root, manifest), key)
    if not nearest:
        raise BuildError(f"{key} has no duplicates in the table of {root}; choose another --split.")
    drawn = sorted(nearest.items(), key=lambda item: (-item[1][0], item[0]))[:count]
    wanted: dict[str, set[str]] = {key: {row for row, _ in drawn}}
    for _, (_, place, partner) in drawn:
        wanted.setdefault(place, set()).add(partner)
    pictures = {place: _by_id(root, place, known[place], ids) for place, ids in wanted.items()}
    rows = []
    for start in range(0, len(drawn), _PAIRS_IN_A_ROW):
        some = drawn[start : start + _PAIRS_IN_A_ROW]
        distances = "   ".join(f"{distance:.3f}" for _, (distance, _, _) in some)
        rows.append((f"{key}, distances {distances}", [pictures[key][row] for row, _ in some]))
        others = ", ".join(sorted({place for _, (_, place, _) in some}))
        rows.append((others, [pictures[place][partner] for _, (_, place, partner) in some]))
    return Findings(
        key=f"{config}/pairs_{split}",
        summary=f"Pairs of `{key}`: {len(drawn):,} of its {len(nearest):,} images with a duplicate in the table of "
        f"duplicates, each with the nearest; the least similar pairs are drawn first. {_LOCAL}",
        splits=tuple(sorted(wanted)),
        columns=("split", "id", "distance", "other_split", "other_id"),
        rows=[(key, row, f"{distance:.4f}", place, partner) for row, (distance, place, partner) in drawn],
        picture=contact_sheet(rows),
    )


def _nearest(pairs: Iterable[Pair], key: str) -> dict[str, tuple[float, str, str]]:
    """The nearest duplicate of each row of a split that has one, by id: distance, split and id."""
    nearest: dict[str, tuple[float, str, str]] = {}
    for pair in pairs:
        for row_split, row, other in (
            (pair.split, pair.id, (pair.distance, pair.other_split, pair.other_id)),
            (pair.other_split, pair.other_id, (pair.distance, pair.split, pair.id)),
        ):
            if row_split == key:
                nearest[row] = min(other, nearest.get(row, other))
    return nearest


def _table(root: Path, manifest: Manifest) -> list[Pair]:
    if manifest.duplicates is None:
        raise BuildError(f"{root} has no table of duplicates: an earlier version built it. Build it again.")
    return read_pairs(Layout(root).duplicates)


def _by_id(root: Path, key: str, split: SplitEntry, wanted: set[str]) -> dict[str, Image.Image]:
    return {row["id"]: image for row, image in read_images(root, key, split) if row["id"] in wanted}


def contact_sheet(rows: Sequence[tuple[str, Sequence[Image.Image]]]) -> Image.Image:
    """Draw rows of images, each with its title above.

    Args:
        rows: title and images. Small images are enlarged by a whole factor, which shows their pixels as stored; large
            ones are shrunk.

    Returns:
        One RGB picture.
    """
    columns = max((len(images) for _, images in rows), default=0)
    font = ImageFont.load_default(14)
    titles = max((font.getlength(title) for title, _ in rows), default=0)
    width = max(columns * (_CELL + _GAP), int(titles) + _GAP) + _GAP
    height = len(rows) * (_LINE + _CELL + 2 * _GAP) + _GAP
    sheet = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, (title, images) in enumerate(rows):
        top = _GAP + number * (_LINE + _CELL + 2 * _GAP)
        draw.text((_GAP, top), title, fill=_TEXT, font=font)
        for column, image in enumerate(images):
            sheet.paste(_fitted(image), (_GAP + column * (_CELL + _GAP), top + _LINE))
    return sheet


def _fitted(image: Image.Image) -> Image.Image:
    factor = _CELL // max(image.size)
    if factor >= 1:
        return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    small = image.copy()
    small.thumbnail((_CELL, _CELL))
    return small
