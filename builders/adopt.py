"""Adopting an existing copy of a published benchmark: its folders give the classes, its files give the images.

The authors drew classes and images in ways that no paper can reproduce. Somebody who has their archive can rebuild
exactly it from the sources, and publish ids instead of pixels. Files are matched by name where a name is unique in
the source (ILSVRC's are), by content where it is not or says nothing.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from builders.benchmark import Benchmark, Split
from builders.errors import BuildError
from builders.locate import image_sizes
from builders.plan import Adopted, label_names
from builders.sources.base import SourceIndex

# Folder names between a set and its images in the authors' archives; they are no class names.
_LABELLED = "labels"
_UNLABELLED = "no-labels"

_SHOWN = 5


@dataclass(frozen=True)
class _File:
    """One image file of the copy; `folder` is its class folder, or empty where the copy does not tell classes."""

    path: Path
    folder: str


def adopt(
    benchmark: Benchmark,
    splits: Sequence[str],
    copy: Path,
    indexes: Mapping[str, SourceIndex],
    note: Callable[[str], None],
) -> dict[str, Adopted]:
    """Read what a copy of the published benchmark says of the given splits.

    Args:
        benchmark: the declaration; `Split.published` says where the copy has a split.
        splits: names as `config/split`.
        copy: the copy's folder (`imagenet-bench/` or the folder above it), or a CSV file with the columns `split` and
            `class` that lists classes by split name or by the copy's name for the set.
        indexes: the sources.
        note: takes a line for the user.

    Returns:
        By split name; splits that the copy does not have are missing and stay drawn by rule.

    Raises:
        BuildError: nothing in the copy fits, a class is unknown, or a file matches no image of the source.
    """
    declared = benchmark.by_key()
    found: dict[str, Adopted] = {}
    lists = _class_lists(copy, benchmark) if copy.is_file() else {}
    root = copy if copy.is_file() else _root(copy, benchmark)
    for key in splits:
        config, split = declared[key]
        index = indexes[split.source.key]
        if key in lists:
            found[key] = Adopted(_class_ids(index, lists[key], copy))
        elif not copy.is_file() and (root / split.published).is_dir():
            found[key] = _adopt_folder(root / split.published, split, index)
        else:
            note(f"{key}: not in the adopted copy, so it is drawn by rule")
            continue
        if split.role == "in_distribution":
            strange = sorted(set(found[key].class_ids) - set(label_names(config.labels)))
            if strange:
                raise BuildError(
                    f"expected in-distribution classes in {split.published}, found {strange[0]} in {copy}, which is "
                    "none; "
                    "check that this is a copy of this benchmark."
                )
        images = found[key].source_ids
        what = f"{len(images):,} images" if images is not None else "all images by rule"
        note(f"{key}: adopted {len(found[key].class_ids):,} classes, {what}")
    return found


def adoption_digest(adopted: Mapping[str, Adopted]) -> str:
    """A digest of everything adopted, empty where nothing is."""
    if not adopted:
        return ""
    text = json.dumps({key: asdict(value) for key, value in sorted(adopted.items())})
    return hashlib.sha256(text.encode()).hexdigest()


def _root(copy: Path, benchmark: Benchmark) -> Path:
    published = [split.published for _, split in benchmark.splits() if split.published]
    candidates = [copy, *sorted(child for child in copy.iterdir() if child.is_dir())] if copy.is_dir() else []
    for candidate in candidates:
        if any((candidate / name).is_dir() for name in published):
            return candidate
    raise BuildError(
        f"expected a copy of the published benchmark with folders such as {published[0]}, found none at {copy}; "
        "give the folder that its archive unpacks to with --adopt."
    )


def _class_lists(path: Path, benchmark: Benchmark) -> dict[str, list[str]]:
    names = {key: key for key in benchmark.by_key()}
    names |= {split.published: key for key, (_, split) in benchmark.by_key().items() if split.published}
    lists: dict[str, list[str]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as opened:
        reader = csv.DictReader(opened)
        if not {"split", "class"} <= set(reader.fieldnames or ()):
            raise BuildError(
                f"expected the columns split and class, found {reader.fieldnames} in line 1 of {path}; add them."
            )
        for row in reader:
            if row["split"] not in names:
                raise BuildError(
                    f"expected a split such as {next(iter(names))}, found {row['split']} in line {reader.line_num} "
                    f"of {path}; "
                    "correct it."
                )
            lists[names[row["split"]]].append(row["class"])
    return lists


def _adopt_folder(folder: Path, split: Split, index: SourceIndex) -> Adopted:
    files, folders = _files(folder)
    if not files:
        return Adopted(_class_ids(index, folders, folder))
    candidates = _Candidates(index, split)
    classes = _class_lookup(index)
    matched = candidates.by_name(files, classes)
    rest = [file for file in files if file.path not in matched]
    matched |= candidates.by_content(rest)
    unmatched = [file.path for file in files if file.path not in matched]
    if unmatched:
        shown = ", ".join(path.relative_to(folder).as_posix() for path in unmatched[:_SHOWN])
        raise BuildError(
            f"{index.source.title}: expected every image of {folder} in the source, found {len(unmatched):,} that "
            "match neither "
            f"by name nor by content ({shown}); check the source's edition, or remove them from the copy."
        )
    rows = sorted(set(matched.values()))
    return Adopted(
        class_ids=tuple(sorted({candidates.class_of(row) for row in rows})),
        source_ids=tuple(candidates.ids[row] for row in rows),
    )


def _files(folder: Path) -> tuple[list[_File], list[str]]:
    """Image files below one set's folder, sorted, and the class folders, sorted."""
    files, folders = [], set()
    for path in sorted(folder.rglob("*")):
        above = path.relative_to(folder).parts
        labelled = above[0] != _UNLABELLED
        inner = above[1:] if above[0] in (_LABELLED, _UNLABELLED) else above
        if path.is_dir() and labelled and len(inner) == 1:
            folders.add(inner[0])
        elif path.is_file():
            files.append(_File(path, inner[0] if labelled and len(inner) > 1 else ""))
    return files, sorted(folders)


class _Candidates:
    """The images of a source that a split may hold, found by name or by content."""

    def __init__(self, index: SourceIndex, split: Split) -> None:
        self.index = index
        partitions = index.table["partition"].to_pylist()
        ids = index.table["source_id"].to_pylist()
        self.rows = [row for row, partition in enumerate(partitions) if partition in split.partitions]
        self.ids = {row: ids[row] for row in self.rows}
        self.classes = index.table["class_id"]
        self.named: dict[str, list[int]] = defaultdict(list)
        for row in self.rows:
            self.named[self.ids[row].rpartition("/")[2]].append(row)

    def class_of(self, row: int) -> str:
        return str(self.classes[row].as_py())

    def by_name(self, files: Sequence[_File], classes: Mapping[str, str]) -> dict[Path, int]:
        found = {}
        for file in files:
            rows = self.named.get(file.path.name, [])
            class_id = classes.get(_plain(file.folder)) if file.folder else None
            if class_id is not None:
                rows = [row for row in rows if self.class_of(row) == class_id]
            if len(rows) == 1:
                found[file.path] = rows[0]
        return found

    def by_content(self, files: Sequence[_File]) -> dict[Path, int]:
        """Compare SHA-256, and only of source images that have the size of some file."""
        if not files:
            return {}
        sizes, read = image_sizes(self.index, np.array(self.rows, dtype=np.int64))
        wanted = {file.path: file.path.stat().st_size for file in files}
        possible = [i for i, size in enumerate(sizes.tolist()) if size in set(wanted.values())]
        by_digest = {hashlib.sha256(read(i)).hexdigest(): self.rows[i] for i in possible}
        digests = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in wanted}
        return {path: by_digest[digest] for path, digest in digests.items() if digest in by_digest}


def _class_lookup(index: SourceIndex) -> dict[str, str]:
    """Class ids by every plain spelling that only one class has."""
    spellings: dict[str, set[str]] = defaultdict(set)
    for class_id, name in index.source.classes().items():
        for spelling in (class_id, name):
            spellings[_plain(spelling)].add(class_id)
    return {spelling: next(iter(ids)) for spelling, ids in spellings.items() if len(ids) == 1}


def _class_ids(index: SourceIndex, names: Sequence[str], where: Path) -> tuple[str, ...]:
    lookup = _class_lookup(index)
    unknown = [name for name in names if _plain(name) not in lookup]
    if unknown:
        raise BuildError(
            f"{index.source.title}: expected names of its classes, found {unknown[0]} in {where}; "
            "check the spelling and that the set belongs to this source."
        )
    return tuple(sorted({lookup[_plain(name)] for name in names}))


def _plain(name: str) -> str:
    """A class name without what differs between copies: Caltech's number, the Places letter, case and separators."""
    name = re.sub(r"^(\d{3}\.|/[a-z]/)", "", name)
    return re.sub(r"[/_\s-]+", "_", name).casefold()
