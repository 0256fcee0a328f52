"""Adopts the lists by which authors publish a split's images without pixels (`Split.published` names the file).

FACETS has texts, of lines `oodness dataset class_index path`: the distance of the class from the in-distribution ones,
a word for a source and one of its partitions (`Benchmark.index_words`), the class's index in the source's own order,
and the image's path in the authors' copy, of which only the file name is used. They are the dataset
GrainsPolito/FACETS_Datasets on the Hub; their names are declared as stored copies of that repository's pages list
them. The script that wrote them calls 0 in-distribution and 1 out-of-distribution, and so are 0 and 1 read in a list
that has no other values. In any other list the values are grades or distances, and the declaration's limit divides
them.

CoComageNet has JSON files with the numbers of images by label, such as `{"-1": [465926, ...]}`. Labels are not used:
an image's class is the source's.

Tested by `tests/builders/adopt/test_lists.py`.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from builders.adopt.folders import reading_copy
from builders.declare.benchmark import Benchmark
from builders.declare.splits import Split
from builders.errors import BuildError, one_line
from builders.plan.candidates import Adopted
from builders.sources.base import SourceIndex
from builders.storage.files import read_regular
from builders.storage.text_files import read_text_lines

SUFFIXES = (".txt", ".json")

_FORM = "oodness dataset class_index path"


def find_lists(benchmark: Benchmark, keys: Collection[str], parents: Collection[str], copy: Path) -> dict[str, Path]:
    """Return the lists of some splits (`config/split`): the copy itself, or files at any depth below it.

    Those of `parents`, which draw from the same images before, may be missing; one of the others has to be there.
    """
    published = {key: name for key, name in benchmark.published().items() if name.endswith(SUFFIXES)}
    names = {key: name for key, name in published.items() if key in keys}
    if not names or (copy.is_file() and copy.suffix not in SUFFIXES):
        return {}
    with reading_copy(copy):
        files = [copy] if copy.is_file() else sorted(path for path in copy.rglob("*") if path.suffix in SUFFIXES)
    lists: dict[str, Path] = {}
    for key, name in published.items():
        if key not in keys and key not in parents:
            continue
        paths = [path for path in files if path.name == name]
        if len(paths) > 1:
            raise BuildError(f"There are two lists of {key}: {paths[0]} and {paths[1]}. Give the folder of one.")
        if paths:
            lists[key] = paths[0]
    if not lists.keys() & names.keys():
        expected = ", ".join(f"{name} for {key}" for key, name in names.items())
        raise BuildError(
            f"{copy} has no list of the chosen splits ({expected}). Give the lists these names, choose other "
            "--splits, or build without --adopt."
        )
    return lists


def adopt_list(
    benchmark: Benchmark, key: str, path: Path, wanted: Collection[str], indexes: Mapping[str, SourceIndex]
) -> dict[str, Adopted]:
    """Read the list of a split, and return the adopted images of those of its parts that are wanted."""
    parts = {part: benchmark.parts[part] for part in benchmark.splits[key]}
    if path.suffix == ".json":
        return {p: _numbered(split, path, indexes[split.source.key]) for p, split in parts.items() if p in wanted}
    return _TextList(key, path, parts, benchmark.index_words).adopt(wanted, indexes)


def _numbered(split: Split, path: Path, index: SourceIndex) -> Adopted:
    if split.authors is None:
        raise ValueError(f"{split.name} does not say how its images are numbered")
    try:
        with reading_copy(path):
            by_label = msgspec.json.decode(read_regular(path), type=dict[str, list[int]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BuildError(
            f'{path} is not a list of image numbers by label, such as {{"-1": [397, 450]}} ({error}). Give the '
            "authors' own file."
        ) from error
    numbers = Counter(number for group in by_label.values() for number in group)
    if not numbers or numbers.total() > len(numbers):
        problem = f"the image {numbers.most_common(1)[0][0]} twice" if numbers else "no image"
        raise BuildError(f"{path} lists {problem}. Give the authors' own file.")
    ids = pa.array(sorted(map(split.authors.source_id, numbers)), pa.string())
    rows = index.find(ids)
    missing = ids.filter(pc.is_null(rows))
    if len(missing):
        raise BuildError(
            f"{split.source.title}: {index.root} lacks {len(missing):,} of the {len(ids):,} images that {path} lists, "
            f"for instance {missing[0]}. Complete the source, or remove them from the list."
        )
    class_ids = index.take(["class_id"], rows.to_numpy())["class_id"].to_pylist()
    return Adopted(tuple(sorted(set(class_ids))), tuple(ids.to_pylist()))


@dataclass(frozen=True)
class Line:
    """One line of a text; `number` counts from 1, `name` is the image's file name."""

    number: int
    oodness: float
    dataset: str
    class_index: int
    name: str


def read_list(path: Path) -> Iterator[Line]:
    """Yield the parsed lines of a text; blank lines are skipped."""
    form = re.compile(r"([0-9.eE+-]+) (\S+) (\d{1,9}) (\S.*)", re.ASCII)
    for number, text in enumerate(read_text_lines(path, "Give the authors' list, a text in UTF-8."), start=1):
        if not (line := text.strip()):
            continue
        match = form.fullmatch(line)
        try:
            oodness = float(match[1]) if match else -1
        except ValueError:
            oodness = -1
        if match is None or not 0 <= oodness < math.inf:
            raise BuildError(
                f"Line {number} of {path} is not `{_FORM}`, such as "
                f"`0 places_val 165 Places365_val_00000067.jpg`: {one_line(repr(line))}. Correct it."
            )
        yield Line(number, oodness, match[2], int(match[3]), re.split(r"[/\\]", match[4])[-1])


@dataclass(frozen=True)
class _TextList:
    """The list of a split, which is divided among the split's parts."""

    key: str
    path: Path
    parts: Mapping[str, Split]
    words: Mapping[str, tuple[str, str]]

    def adopt(self, wanted: Collection[str], indexes: Mapping[str, SourceIndex]) -> dict[str, Adopted]:
        lines = list(read_list(self.path))
        if not lines:
            raise BuildError(f"{self.path} has no lines of `{_FORM}`. Give a whole list.")
        binary = all(line.oodness in (0, 1) for line in lines)
        of_part: dict[str, list[Line]] = defaultdict(list)
        for line in lines:
            of_part[self._part(line, binary=binary)].append(line)
        return {p: self._found(split, of_part[p], indexes) for p, split in self.parts.items() if p in wanted}

    def _part(self, line: Line, *, binary: bool) -> str:
        """Return the key of the part that a line belongs to."""
        if line.dataset not in self.words:
            raise self._wrong(line, f"unknown dataset {one_line(line.dataset)} (known: {', '.join(self.words)})")
        source, partition = self.words[line.dataset]
        fitting = [
            part
            for part, split in self.parts.items()
            if (split.source.key, split.partitions) == (source, (partition,))
        ]
        for part in fitting:
            split = self.parts[part]
            limit = 0.0 if binary or split.oodness is None else split.oodness.known
            if (line.oodness <= limit) == (split.role == "in_distribution"):
                return part
        roles = " or ".join(self.parts[part].role for part in fitting)
        takes = f"takes {line.dataset} as {roles}, which oodness {line.oodness:g} is not"
        raise self._wrong(line, f"{self.key} {takes if fitting else f'does not draw from {line.dataset}'}")

    def _found(self, split: Split, lines: Sequence[Line], indexes: Mapping[str, SourceIndex]) -> Adopted:
        index, classes = indexes[split.source.key], list(split.source.classes())
        for line in lines:
            if line.class_index >= len(classes):
                raise self._wrong(line, f"the class index {line.class_index} is not from 0 to {len(classes) - 1}")
        rows = index.take(["source_id", "class_id"], index.rows_of(split.partitions))
        source_ids, class_ids = rows["source_id"].combine_chunks(), rows["class_id"].cast(pa.string()).combine_chunks()
        names = pc.replace_substring_regex(source_ids, "^.*/", "")
        keys = pc.binary_join_element_wise(class_ids, names, "\t")
        listed = pa.array([f"{classes[line.class_index]}\t{line.name}" for line in lines], pa.string())
        found = source_ids.take(pc.index_in(listed, value_set=keys)).to_pylist()
        images: dict[str, Line] = {}
        of_class: dict[str, Line] = {}
        for line, source_id in zip(lines, found, strict=True):
            class_id = classes[line.class_index]
            if source_id is None:
                elsewhere = class_ids.filter(pc.equal(names, line.name))
                place = f"is of class {elsewhere[0]}" if len(elsewhere) else "is not"
                image = f"{one_line(line.name)} of class {line.class_index} ({class_id})"
                raise self._wrong(line, f"{image} is not an image of {split.source.title}: it {place} in {index.root}")
            if images.setdefault(source_id, line) is not line:
                raise self._wrong(line, f"{one_line(line.name)} is already in line {images[source_id].number}")
            earlier = of_class.setdefault(class_id, line)
            if earlier.oodness != line.oodness:
                other = f"a class that has {earlier.oodness:g} in line {earlier.number}"
                raise self._wrong(line, f"oodness {line.oodness:g} of {other}")
        ids = sorted(of_class)
        return Adopted(tuple(ids), tuple(sorted(images)), tuple(of_class[class_id].oodness for class_id in ids))

    def _wrong(self, line: Line, problem: str) -> BuildError:
        return BuildError(f"Line {line.number} of {self.path}: {problem}. Correct the list, or complete the source.")
