"""Adopts text lists, with which authors publish the images of a split without pixels.

A line is `oodness dataset class_index path`: the distance of the class from the in-distribution ones, a word for a
source and one of its partitions (`Benchmark.index_words`), the class's index in the source's own order, and the
image's path in the authors' copy, of which only the file name is used. The lists of FACETS are the dataset
GrainsPolito/FACETS_Datasets on the Hub; the declaration has their names (`Split.published`), as stored copies of that
repository's pages list them.

The script that wrote them calls 0 in-distribution and 1 out-of-distribution, and so are 0 and 1 read in a list that
has no other values. In any other list the values are grades or distances, and the declaration's limit divides them.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.adopt.file_listing import Log, reading_copy
from builders.declare.benchmark import Benchmark, Split
from builders.errors import NAMED, BuildError, more, one_line
from builders.plan.candidates import Adopted
from builders.sources.base import SourceIndex
from builders.storage.text_files import read_text_lines

_FORM = "oodness dataset class_index path"


@dataclass(frozen=True)
class Line:
    """One parsed line of a list; `number` counts from 1, `name` is the image's file name."""

    number: int
    oodness: float
    dataset: str
    class_index: int
    name: str


def adopt_indexes(
    benchmark: Benchmark, parts: Sequence[str], copy: Path, indexes: Mapping[str, SourceIndex], log: Log
) -> dict[str, Adopted]:
    """Read the images of some splits from the authors' lists.

    Args:
        benchmark: the declaration; `Split.published` is the name of a split's list.
        parts: keys of the parts that are built.
        copy: one list, or a folder with lists at any depth.
        indexes: the sources.
        log: prints a line for the user.

    Returns:
        The adopted images by part, for every part of each split that has a list, even if the list has no image of that
        part. Splits without a list are drawn by rule.

    Raises:
        BuildError: there is no list of a chosen split, a line is malformed or names an image that the source lacks,
            or two lists share an image.
    """
    keys = dict.fromkeys(key for key, names in benchmark.parts().items() if set(names) & set(parts))
    lists = _find(copy, {key: name for key, name in benchmark.published().items() if key in keys}, benchmark)
    _refuse_half(keys, lists, copy)
    finders: dict[tuple[str, str], _Finder] = {}
    adopted: dict[str, Adopted] = {}
    for key in keys:
        if key not in lists:
            log(f"{key}: no list in the adopted copy, so it is drawn by rule")
            continue
        reader = _ListReader(benchmark, key, lists[key], indexes, finders)
        of_parts = reader.adopt()
        adopted |= of_parts
        images = sum(len(part.source_ids or ()) for part in of_parts.values())
        paper = benchmark.count(key).paper
        difference = f" (the paper: {paper:,})" * (images != paper)
        log(f"{key}: adopted {images:,} images from {lists[key]}{difference}")
    _refuse_shared(benchmark, adopted, lists)
    return adopted


def _find(copy: Path, names: Mapping[str, str], benchmark: Benchmark) -> dict[str, Path]:
    """Find the lists: path by split, for the splits that have one."""
    with reading_copy(copy):
        files = [copy] if copy.is_file() else sorted(path for path in copy.rglob("*.txt") if path.is_file())
    by_name: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        by_name[path.name].append(path)
    paths_of = {key: by_name[name] for key, name in names.items() if name in by_name}
    for key, paths in paths_of.items():
        if len(paths) > 1:
            raise BuildError(
                f"There are two lists of {key}: {paths[0]} and {paths[1]}. Give the folder of one of them."
            )
    if not paths_of:
        published = dict.fromkeys(benchmark.published().values())
        expected = ", ".join(f"{name} for {key}" for key, name in names.items()) or ", ".join(published)
        raise BuildError(
            f"{copy} has no list of the chosen splits ({expected}), but "
            f"{', '.join(path.name for path in files[:NAMED]) or 'no text file'}{more(files)}. Give the lists these "
            "names, choose other --splits, or build without --adopt."
        )
    return {key: paths[0] for key, paths in paths_of.items()}


def _refuse_half(keys: Mapping[str, None], lists: Mapping[str, Path], copy: Path) -> None:
    """Refuse to draw one split of a config by rule if another one is adopted: they would share images."""
    adopted = {key.partition("/")[0]: key for key in lists}
    for key in keys:
        config = key.partition("/")[0]
        if key not in lists and config in adopted:
            raise BuildError(
                f"{copy} has a list of {adopted[config]} but none of {key}. Add it, or build only {adopted[config]} "
                "with --splits."
            )


def _refuse_shared(benchmark: Benchmark, adopted: Mapping[str, Adopted], lists: Mapping[str, Path]) -> None:
    """Refuse two lists of one config that share an image."""
    declared = benchmark.by_key()
    key_of: dict[tuple[str, str, str], str] = {}
    for key in lists:
        for part in benchmark.parts()[key]:
            config, split = declared[part]
            for source_id in adopted[part].source_ids or ():
                other_key = key_of.setdefault((config.name, split.source.key, source_id), key)
                if other_key != key:
                    raise BuildError(
                        f"{other_key} and {key} must not share images, but {source_id} of {split.source.title} is in "
                        f"{lists[other_key]} and {lists[key]}. Give lists that belong together."
                    )


def read_list(path: Path) -> Iterator[Line]:
    """Yield the parsed lines of a list; blank lines are skipped.

    Raises:
        BuildError: a line is malformed.
    """
    form = re.compile(r"(\S+) (\S+) (\d{1,9}) (\S.*)", re.ASCII)
    for number, text in enumerate(read_text_lines(path, "Give the authors' list, a text in UTF-8."), start=1):
        if not (line := text.strip()):
            continue
        match = form.fullmatch(line)
        oodness = _number(match[1]) if match else None
        if match is None or oodness is None:
            raise BuildError(
                f"Line {number} of {path} is not `{_FORM}`, such as "
                f"`0 places_val 165 Places365_val_00000067.jpg`: {one_line(repr(line))}. Correct it."
            )
        yield Line(number, oodness, match[2], int(match[3]), re.split(r"[/\\]", match[4])[-1])


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


class _ListReader:
    """Reads the list of one split and divides it among the split's parts."""

    def __init__(
        self,
        benchmark: Benchmark,
        key: str,
        path: Path,
        indexes: Mapping[str, SourceIndex],
        finders: dict[tuple[str, str], _Finder],
    ) -> None:
        declared = benchmark.by_key()
        self.words = benchmark.index_words
        self.key, self.path, self.indexes, self.finders = key, path, indexes, finders
        self.parts = {part: declared[part][1] for part in benchmark.parts()[key]}

    def adopt(self) -> dict[str, Adopted]:
        lines = list(read_list(self.path))
        if not lines:
            raise BuildError(f"{self.path} has no lines of `{_FORM}`. Give a whole list.")
        binary = all(line.oodness in (0, 1) for line in lines)
        by_part: dict[str, list[Line]] = defaultdict(list)
        for line in lines:
            by_part[self._part(line, binary=binary)].append(line)
        return {part: self._adopted(split, by_part[part]) for part, split in self.parts.items()}

    def _part(self, line: Line, *, binary: bool) -> str:
        """Return the key of the part that a line belongs to."""
        if line.dataset not in self.words:
            raise self._wrong(line, f"unknown dataset {one_line(line.dataset)} (known: {', '.join(self.words)})")
        source, partition = self.words[line.dataset]
        fitting = {
            part: split
            for part, split in self.parts.items()
            if split.source.key == source and partition in split.partitions
        }
        if not fitting:
            words = [word for word, source_partition in self.words.items() if self._has(*source_partition)]
            raise self._wrong(line, f"{self.key} does not draw from {line.dataset}, but from {', '.join(words)}")
        for part, split in fitting.items():
            limit = 0.0 if binary or split.oodness is None else split.oodness.known
            if (line.oodness <= limit) == (split.role == "in_distribution"):
                return part
        roles = " or ".join(split.role for split in fitting.values())
        raise self._wrong(line, f"{self.key} takes {line.dataset} as {roles}, which oodness {line.oodness:g} is not")

    def _has(self, source: str, partition: str) -> bool:
        return any(split.source.key == source and partition in split.partitions for split in self.parts.values())

    def _adopted(self, split: Split, lines: Sequence[Line]) -> Adopted:
        (partition,) = split.partitions
        finder_key = (split.source.key, partition)
        if finder_key not in self.finders:
            self.finders[finder_key] = _Finder(self.indexes[split.source.key], partition)
        finder = self.finders[finder_key]
        for line in lines:
            if line.class_index >= len(finder.classes):
                last = len(finder.classes) - 1
                raise self._wrong(line, f"the class index {line.class_index} is not from 0 to {last}")
        source_ids = finder.find(lines)
        for line, source_id in zip(lines, source_ids, strict=True):
            if source_id is None:
                image = f"{one_line(line.name)} of class {line.class_index} ({finder.classes[line.class_index]})"
                raise self._wrong(line, f"{image} is not an image of {split.source.title}: it {finder.why_not(line)}")
        first_lines: dict[str | None, Line] = {}
        of_class: dict[int, Line] = {}
        for line, source_id in zip(lines, source_ids, strict=True):
            if first_lines.setdefault(source_id, line) is not line:
                raise self._wrong(line, f"{one_line(line.name)} is already in line {first_lines[source_id].number}")
            earlier = of_class.setdefault(line.class_index, line)
            if earlier.oodness != line.oodness:
                earlier_text = f"{earlier.oodness:g} in line {earlier.number}"
                raise self._wrong(line, f"oodness {line.oodness:g} of a class that has {earlier_text}")
        oodness = {finder.classes[index]: line.oodness for index, line in of_class.items()}
        ids = sorted(oodness)
        return Adopted(
            tuple(ids),
            tuple(sorted(source_id for source_id in source_ids if source_id is not None)),
            tuple(oodness[class_id] for class_id in ids),
        )

    def _wrong(self, line: Line, problem: str) -> BuildError:
        return BuildError(f"Line {line.number} of {self.path}: {problem}. Correct the list, or complete the source.")


class _Finder:
    """Looks up images of one partition of a source by class and file name."""

    def __init__(self, index: SourceIndex, partition: str) -> None:
        self.root = index.root
        self.classes = list(index.source.classes())
        rows = index.take(["source_id", "class_id"], index.rows_of([partition]))
        self.ids = rows["source_id"].combine_chunks()
        self.class_ids = rows["class_id"].cast(pa.string()).combine_chunks()
        self.names = pc.replace_substring_regex(self.ids, "^.*/", "")
        self.keys = pc.binary_join_element_wise(self.class_ids, self.names, "\t")

    def find(self, lines: Sequence[Line]) -> list[str | None]:
        """Return the source id of each line's image, None if the source lacks it."""
        keys = pa.array([f"{self.classes[line.class_index]}\t{line.name}" for line in lines], pa.string())
        source_ids: list[str | None] = self.ids.take(pc.index_in(keys, value_set=self.keys)).to_pylist()
        return source_ids

    def why_not(self, line: Line) -> str:
        """Say why an image was not found."""
        rows = np.flatnonzero(pc.equal(self.names, line.name).to_numpy(zero_copy_only=False))
        if len(rows):
            return f"is of class {self.class_ids[int(rows[0])]} in {self.root}"
        return f"is not in {self.root}"
