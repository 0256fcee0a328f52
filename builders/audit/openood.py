"""Compares a copy of OpenOOD's folders with a release, image by image and line by line.

Tested by `tests/builders/audit/test_openood.py`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from builders.release import images
from builders.release.entries import Manifest
from builders.release.openood_tree import LISTS, openood_path
from builders.release.reader import read_index
from builders.release.remarks import collect_remarks
from builders.storage.paths import inside
from builders.storage.text_files import read_text_lines

EQUAL, MISSING, OTHER = "equal", "missing", "other content"
UNLISTED, STRANGE, RELABELLED = "not in the list", "in the list alone", "other label in the list"

_TOGETHER = 4096
"""Rows whose files are read before the next are begun, which bounds what waits."""


@dataclass
class SplitComparison:
    """The comparison of one split (`config/split`) with a copy: which paths of the copy differ, and how.

    `listed`: the copy has the list of the split.
    """

    key: str
    rows: int
    listed: bool
    differences: list[tuple[str, str]] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        """The number of differences of each kind."""
        return Counter(kind for _, kind in self.differences)


def compare_split(
    root: Path, manifest: Manifest, key: str, copy: Path, advance: Callable[[int], object]
) -> SplitComparison:
    """Compare the images and the list of a split with those of a copy, the folder that OpenOOD's downloads filled.

    Images are equal if their bytes are, or if they are after the same metadata is removed that the release removed;
    those of arrays, if their pixels are.
    """
    columns = ("source", "source_id", "class_id", "label", "content_sha256", "stored")
    index = read_index(root, manifest.by_key()[key], list(columns))
    rows = list(zip(*(index[name].to_pylist() for name in columns), strict=True))
    places = [openood_path(*image) for *image, _, _, _ in rows]
    paths = ["/".join(place) for place in places]
    listed = _labels(copy / LISTS[key])
    comparison = SplitComparison(key, len(rows), listed is not None)
    with collect_remarks(), ThreadPoolExecutor() as threads:  # hashing and reading leave the interpreter
        for start in range(0, len(rows), _TOGETHER):
            batch, batch_paths = rows[start : start + _TOGETHER], paths[start : start + _TOGETHER]
            files = [inside(copy, path) for path in batch_paths]
            states = threads.map(_state, files, [digest for *_, digest, _ in batch], [stored for *_, stored in batch])
            for path, state in zip(batch_paths, states, strict=True):
                if state != EQUAL:
                    comparison.differences.append((path, state))
                advance(1)
    if listed is not None:
        labels = {path: label for (_, path), (*_, label, _, _) in zip(places, rows, strict=True)}
        comparison.differences += _list_differences(listed, labels)
    return comparison


def _state(path: Path, digest: str, stored: str) -> str:
    """Compare a file with a row's content digest."""
    if not path.is_file():  # a pipe would never end
        return MISSING
    data = path.read_bytes()
    try:
        if images.content_sha256(stored, data) == digest:
            return EQUAL
        if stored != "metadata_removed":
            return OTHER
        mended = images.check_image(data)
    except images.UnreadableImageError:
        return OTHER
    return EQUAL if mended is not None and hashlib.sha256(mended).hexdigest() == digest else OTHER


def _labels(path: Path) -> dict[str, str] | None:
    """Read the label of each path in a list; None where there is no list."""
    if not path.is_file():
        return None
    lines = read_text_lines(path, "Download OpenOOD's lists again.")
    return {line.partition(" ")[0]: line.partition(" ")[2].strip() for line in lines if line}


def _list_differences(listed: dict[str, str], labels: dict[str, int]) -> Iterator[tuple[str, str]]:
    for path in sorted(labels.keys() - listed.keys()):
        yield path, UNLISTED
    for path in sorted(listed.keys() - labels.keys()):
        yield path, STRANGE
    for path in sorted(labels.keys() & listed.keys()):
        if listed[path] != str(labels[path]):
            yield path, RELABELLED
