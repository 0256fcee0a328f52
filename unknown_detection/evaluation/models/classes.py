"""Label maps: the logits that are a release's classes, for a model of more classes than the release."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from unknown_detection.evaluation.errors import EvaluationError, first_line, one_line
from unknown_detection.evaluation.files import require_regular

_COLUMNS = ["class", "index"]
_LONGEST = 1 << 22
"""Bytes of a label map: a thousand times those of ImageNet-1k's."""


def read_classes(path: Path, names: Sequence[str], width: int) -> tuple[int, ...]:
    """Read a label map: a CSV file with the columns `class` (of the release) and `index` (of the logit).

    Classes that are not in `names`, the release's, are ignored; `width` is the number of logits.

    Raises:
        EvaluationError: the file cannot be read, has other columns, lacks a class or has one twice, or an index is no
            logit or that of another class.
    """
    require_regular(path)
    where = one_line(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = list(csv.reader(file.read(_LONGEST).splitlines(), strict=True))
    except (OSError, ValueError, csv.Error) as error:
        raise EvaluationError(f"Cannot read {where}: {first_line(error)}. Write it as CSV again.") from error
    if not lines or lines[0] != _COLUMNS or any(len(line) != len(_COLUMNS) for line in lines):
        raise EvaluationError(f"{where} must have the two columns class,index, named in its first line. Rewrite it.")
    indices: dict[str, int] = {}
    known = set(names)
    for number, (name, index) in enumerate(lines[1:], 2):
        if name not in known:
            continue
        if not (index.isascii() and index.isdigit() and len(index) < 10 and int(index) < width):
            raise EvaluationError(
                f"Line {number} of {where} has the index {one_line(index, 40)!r}, but the model's logits are 0 to "
                f"{width - 1:,}. Correct it."
            )
        if name in indices or int(index) in indices.values():
            raise EvaluationError(f"Line {number} of {where} repeats a class or an index ({name}, {index}). Keep one.")
        indices[name] = int(index)
    missing = [name for name in names if name not in indices]
    if missing:
        raise EvaluationError(
            f"{where} lacks {len(missing):,} of the release's {len(names):,} classes, such as {missing[0]}. Add them."
        )
    return tuple(indices[name] for name in names)


def of_wnids(names: Sequence[str], width: int) -> tuple[int, ...] | None:
    """Return the logits of classes named by their wnids, in a head for ImageNet-1k or a larger set that timm knows.

    None if a class is no wnid of this set, or no set has `width` classes.
    """
    from timm.data import ImageNetInfo, infer_imagenet_subset

    subset = infer_imagenet_subset({"num_classes": width})
    if subset is None:
        return None
    places = {wnid: index for index, wnid in enumerate(ImageNetInfo(subset).label_names())}
    return tuple(places[name] for name in names) if set(names) <= places.keys() else None
