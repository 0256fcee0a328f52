"""Adopting text indexes: lists of images in which authors publish a split without its pixels.

A line is `oodness dataset class_index path`: how far the class is from the in-distribution ones, a word for a source
and one of its partitions (`Benchmark.index_words`), the class's place in the source's own order, and the image's path
in the authors' copy, of which the file name counts. FACETS's are the dataset GrainsPolito/FACETS_Datasets on the Hub;
their names are in the declaration (`Split.published`), as stored copies of that repository's pages list them.

The script that wrote them calls 0 in-distribution and 1 out-of-distribution. So 1 is read where a list has nothing
but 0 and 1; a list with other values is taken to hold grades or distances, and the declaration's limit divides them.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.adopt.file_listing import reading_copy
from builders.benchmark import Benchmark, Split
from builders.errors import NAMED, BuildError, more
from builders.plan.classes import Adopted
from builders.sources.base import SourceIndex
from builders.sources.readers.folders import shown

_FORM = "oodness dataset class_index path"

Note = Callable[[str], None]
"""Takes a line for the user."""


@dataclass(frozen=True)
class Line:
    """One line of a list: its number from 1, and what it says."""

    number: int
    oodness: float
    dataset: str
    class_index: int
    name: str


def adopt_indexes(
    benchmark: Benchmark, parts: Sequence[str], copy: Path, indexes: Mapping[str, SourceIndex], note: Note
) -> dict[str, Adopted]:
    """Read what the authors' lists say of some splits.

    Args:
        benchmark: the declaration; `Split.published` is the name of a split's list.
        parts: keys of the parts that are built.
        copy: one list, or a folder with lists, also in folders inside it.
        indexes: the sources.
        note: takes a line for the user.

    Returns:
        By part; where a split has a list, each of its parts, also one of which the list has no image. Splits without a
        list stay drawn by rule.

    Raises:
        BuildError: no list fits, a line is malformed or names what is not there, or two lists share an image.
    """
    chosen = dict.fromkeys(key for key, names in benchmark.parts().items() if set(names) & set(parts))
    lists = _find(copy, {key: name for key, name in benchmark.published().items() if key in chosen}, benchmark)
    _refuse_half(chosen, lists, copy)
    finders: dict[tuple[str, str], _Finder] = {}
    found: dict[str, Adopted] = {}
    for key in chosen:
        if key not in lists:
            note(f"{key}: no list of it there, so it is drawn by rule")
            continue
        reader = _Reader(benchmark, key, lists[key], indexes, finders)
        adopted = reader.adopt()
        found |= adopted
        images = sum(len(part.source_ids or ()) for part in adopted.values())
        paper = benchmark.count(key).paper
        differs = f" (the paper: {paper:,})" * (images != paper)
        note(f"{key}: adopted {images:,} images from {lists[key]}{differs}")
    _refuse_shared(benchmark, found, lists)
    return found


def _find(copy: Path, names: Mapping[str, str], benchmark: Benchmark) -> dict[str, Path]:
    """The list of each split, of those that are there."""
    with reading_copy(copy):
        files = [copy] if copy.is_file() else sorted(path for path in copy.rglob("*.txt") if path.is_file())
    by_name: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        by_name[path.name].append(path)
    found = {key: by_name[name] for key, name in names.items() if name in by_name}
    for key, paths in found.items():
        if len(paths) > 1:
            raise BuildError(
                f"expected one list of {key}, found {paths[0]} and {paths[1]}; give the folder that has one."
            )
    if not found:
        published = dict.fromkeys(benchmark.published().values())
        wanted = ", ".join(f"{name} for {key}" for key, name in names.items()) or ", ".join(published)
        raise BuildError(
            f"expected a list of the chosen splits ({wanted}), found "
            f"{', '.join(path.name for path in files[:NAMED]) or 'no text file'}{more(files)} in {copy}; rename the "
            "lists so, choose other --splits, or build without --adopt."
        )
    return {key: paths[0] for key, paths in found.items()}


def _refuse_half(chosen: Mapping[str, None], lists: Mapping[str, Path], copy: Path) -> None:
    """Refuse to draw one split of a config by rule beside an adopted one: they would share images."""
    adopted = {key.partition("/")[0]: key for key in lists}
    for key in chosen:
        config = key.partition("/")[0]
        if key not in lists and config in adopted:
            raise BuildError(
                f"expected a list of {key} beside that of {adopted[config]}, found none in {copy}; add it, or build "
                f"only {adopted[config]} with --splits."
            )


def _refuse_shared(benchmark: Benchmark, found: Mapping[str, Adopted], lists: Mapping[str, Path]) -> None:
    """Refuse two lists of one config that share an image."""
    declared = benchmark.by_key()
    seen: dict[tuple[str, str, str], str] = {}
    for key in lists:
        for part in benchmark.parts()[key]:
            config, split = declared[part]
            for source_id in found[part].source_ids or ():
                other = seen.setdefault((config.name, split.source.key, source_id), key)
                if other != key:
                    raise BuildError(
                        f"expected no image in both {other} and {key}, found {source_id} of {split.source.title} in "
                        f"{lists[other]} and {lists[key]}; give lists that belong together."
                    )


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a list; blank ones are passed over.

    Raises:
        BuildError: a line has another form.
    """
    form = re.compile(r"(\S+) (\S+) (\d+) (\S.*)", re.ASCII)
    try:
        with reading_copy(path), path.open(encoding="utf-8-sig") as opened:
            for number, text in enumerate(opened, start=1):
                if not (line := text.strip()):
                    continue
                match = form.fullmatch(line)
                oodness = _number(match[1]) if match else None
                if match is None or oodness is None:
                    raise BuildError(
                        f"expected `{_FORM}`, such as `0 places_val 165 Places365_val_00000067.jpg`, found "
                        f"{shown(line)!r} in line {number} of {path}; correct it."
                    )
                yield Line(number, oodness, match[2], int(match[3]), re.split(r"[/\\]", match[4])[-1])
    except UnicodeDecodeError as error:
        raise BuildError(f"expected a text in UTF-8, found other bytes ({error}) in {path}; give the list.") from error


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


class _Reader:
    """Reads the list of one split into its parts."""

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
        lines = list(read_lines(self.path))
        if not lines:
            raise BuildError(f"expected lines of `{_FORM}`, found none in {self.path}; give a whole list.")
        binary = all(line.oodness in (0, 1) for line in lines)
        by_part: dict[str, list[Line]] = defaultdict(list)
        for line in lines:
            by_part[self._part(line, binary=binary)].append(line)
        return {part: self._adopted(split, by_part[part]) for part, split in self.parts.items()}

    def _part(self, line: Line, *, binary: bool) -> str:
        """The part that a line belongs to."""
        if line.dataset not in self.words:
            raise self._wrong(line, f"a dataset ({', '.join(self.words)})", shown(line.dataset))
        source, partition = self.words[line.dataset]
        fitting = {
            part: split
            for part, split in self.parts.items()
            if split.source.key == source and partition in split.partitions
        }
        if not fitting:
            wanted = [word for word, place in self.words.items() if self._has(*place)]
            raise self._wrong(line, f"a dataset that {self.key} draws from ({', '.join(wanted)})", line.dataset)
        for part, split in fitting.items():
            limit = 0.0 if binary or split.oodness is None else split.oodness.known
            if (line.oodness <= limit) == (split.role == "in_distribution"):
                return part
        roles = " or ".join(split.role for split in fitting.values())
        raise self._wrong(line, f"{line.dataset} as {roles} in {self.key}", f"oodness {line.oodness:g}")

    def _has(self, source: str, partition: str) -> bool:
        return any(split.source.key == source and partition in split.partitions for split in self.parts.values())

    def _adopted(self, split: Split, lines: Sequence[Line]) -> Adopted:
        (partition,) = split.partitions
        place = (split.source.key, partition)
        if place not in self.finders:
            self.finders[place] = _Finder(self.indexes[split.source.key], partition)
        finder = self.finders[place]
        for line in lines:
            if line.class_index >= len(finder.classes):
                found = f"{line.class_index}"
                raise self._wrong(line, f"a class index from 0 to {len(finder.classes) - 1}", found)
        source_ids = finder.find(lines)
        for line, source_id in zip(lines, source_ids, strict=True):
            if source_id is None:
                what = f"{line.name} of class {line.class_index} ({finder.classes[line.class_index]})"
                raise self._wrong(line, f"an image of {split.source.title}", f"{what}, which {finder.why_not(line)}")
        first: dict[str | None, Line] = {}
        of_class: dict[int, Line] = {}
        for line, source_id in zip(lines, source_ids, strict=True):
            if first.setdefault(source_id, line) is not line:
                raise self._wrong(line, "each image once", f"{line.name} as in line {first[source_id].number}")
            before = of_class.setdefault(line.class_index, line)
            if before.oodness != line.oodness:
                expected = f"oodness {before.oodness:g} for its class, as in line {before.number}"
                raise self._wrong(line, expected, f"{line.oodness:g}")
        oodness = {finder.classes[index]: line.oodness for index, line in of_class.items()}
        ids = sorted(oodness)
        return Adopted(
            tuple(ids),
            tuple(sorted(source_id for source_id in source_ids if source_id is not None)),
            tuple(oodness[class_id] for class_id in ids),
        )

    def _wrong(self, line: Line, expected: str, found: str) -> BuildError:
        return BuildError(
            f"expected {expected}, found {found} in line {line.number} of {self.path}; correct the list, or complete "
            "the source."
        )


class _Finder:
    """Finds images of one partition of a source by class and file name."""

    def __init__(self, index: SourceIndex, partition: str) -> None:
        self.root = index.root
        self.classes = list(index.source.classes())
        rows = index.table.filter(pc.equal(index.table["partition"].cast(pa.string()), partition))
        self.ids = rows["source_id"].combine_chunks()
        self.class_ids = rows["class_id"].cast(pa.string()).combine_chunks()
        self.names = pc.replace_substring_regex(self.ids, "^.*/", "")
        self.keys = pc.binary_join_element_wise(self.class_ids, self.names, "\t")

    def find(self, lines: Sequence[Line]) -> list[str | None]:
        """The source's id of each line's image, None where it has no such image."""
        wanted = pa.array([f"{self.classes[line.class_index]}\t{line.name}" for line in lines], pa.string())
        found: list[str | None] = self.ids.take(pc.index_in(wanted, value_set=self.keys)).to_pylist()
        return found

    def why_not(self, line: Line) -> str:
        """What there is instead of an image that was not found."""
        same = np.flatnonzero(pc.equal(self.names, line.name).to_numpy(zero_copy_only=False))
        if len(same):
            return f"is of class {self.class_ids[int(same[0])]} in {self.root}"
        return f"is not in {self.root}"
