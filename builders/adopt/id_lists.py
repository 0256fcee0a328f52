"""Adopts lists of image numbers: JSON files in which authors give the numbers of a split's images by label.

The lists of CoComageNet are of this form: `{"-1": [465926, ...]}`, or an ImageNet label with its images. Labels are
not used: an image's class is the source's.

Tested by `tests/builders/adopt/test_id_lists.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.adopt.file_listing import reading_copy
from builders.declare.benchmark import Benchmark, Split
from builders.errors import BuildError
from builders.plan.candidates import Adopted
from builders.sources.base import SourceIndex
from builders.storage.files import read_regular

SUFFIX = ".json"
"""The ending by which a split's published list is known to be one of numbers (`Split.published`)."""


def are_listed(split: Split) -> bool:
    """Whether the authors publish a split as a list of numbers."""
    return split.published.endswith(SUFFIX)


def find_lists(benchmark: Benchmark, keys: list[str], copy: Path) -> dict[str, Path]:
    """Find the lists of some splits: the file itself, or in a folder and the folders right below.

    Raises:
        BuildError: there are two lists of one split.
    """
    lists = {}
    for key in keys:
        name = benchmark.by_key()[key][1].published
        with reading_copy(copy):
            folders = [copy, *sorted(path for path in copy.iterdir() if path.is_dir())] if copy.is_dir() else []
        paths = [copy] if copy.name == name and copy.is_file() else []
        paths += [folder / name for folder in folders if (folder / name).is_file()]
        if len(paths) > 1:
            raise BuildError(f"There are two lists of {key}: {paths[0]} and {paths[1]}. Give the folder of one.")
        if paths:
            lists[key] = paths[0]
    return lists


def adopt_list(split: Split, path: Path, indexes: Mapping[str, SourceIndex]) -> Adopted:
    """Read one list, and find its images in the source.

    Raises:
        BuildError: the file is not such a list, names an image twice, or one that the source lacks.
    """
    if split.authors is None:
        raise ValueError(f"{split.name} does not say how its images are numbered")
    index = indexes[split.source.key]
    title = split.source.title
    try:
        with reading_copy(path):
            by_label = msgspec.json.decode(read_regular(path), type=dict[str, list[int]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BuildError(
            f'{path} is not a list of image numbers by label, such as {{"-1": [397, 450]}} ({error}). Give the '
            "authors' own file."
        ) from error
    numbers = [number for group in by_label.values() for number in group]
    if not numbers:
        raise BuildError(f"{path} lists no image. Give the authors' own file.")
    number, count = Counter(numbers).most_common(1)[0]
    if count > 1:
        raise BuildError(f"{path} lists the image {number} twice. Give the authors' own file.")
    ids = pa.array(sorted(map(split.authors.source_id, numbers)), pa.string())
    rows = index.find(ids)
    missing = ids.filter(pc.is_null(rows))
    if len(missing):
        raise BuildError(
            f"{title}: {index.root} lacks {len(missing):,} of the {len(ids):,} images that {path} lists, for instance "
            f"{missing[0]}. Complete the source, or remove them from the list."
        )
    class_ids = index.take(["class_id"], rows.to_numpy())["class_id"].to_pylist()
    return Adopted(tuple(np.unique(class_ids).tolist()), tuple(ids.to_pylist()))
