"""Plans a variant of a benchmark without duplicates (`--withdraw duplicates`); the next ranks refill its quotas.

The published benchmarks contain pictures twice and their rows stay as they are, so this is another benchmark, with
rows, digests and a version of its own. The rule is ours: of an in-distribution training image and an image of another
split the latter goes; of any other two rows that show one picture both go, since nobody can say which of their labels
is right. An image that goes is in none of the splits that are compared with each other, nor is an image that is made
of it: splits that have the same originals keep the same originals. What takes its place may be a duplicate too, so the
plan is made again until there is none. All splits that are compared take part, also those that a
run does not build, so that rows do not depend on the order of runs.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.declare.benchmark import Benchmark, group_name
from builders.duplicates.comparisons import are_compared, compared_by_similarity
from builders.duplicates.exact import DIGEST, exact_pairs
from builders.errors import NAMED, more
from builders.pipeline.build_plan import Run
from builders.pipeline.generated import ShardWork
from builders.plan.planner import PlannedSplit, as_listed
from builders.release.duplicates import KNOWN_ROLE, Pair, PairedRow, pair_of
from builders.release.schema import PIXEL_DIGEST, ROLES
from builders.sources.base import SourceIndex
from builders.storage.parquet import read_parquet, write_arrow
from builders.writing.read_plan import ReadPlan
from builders.writing.shards import ShardTask

Removed = Mapping[str, Mapping[str, str]]
"""Ids of the rows that are left out, each with the id of a row that shows its picture, by `group_name`."""

Plan = Callable[[Removed], Sequence[PlannedSplit]]
"""Plans all splits that are compared, without the removed rows."""


def find_duplicates(benchmark: Benchmark, plan: Plan, survey: Survey, log: Callable[[str], object]) -> Removed:
    """Plan, search for duplicates, leave them out, and plan again, until there are none.

    Args:
        benchmark: the declaration.
        plan: plans without the removed rows.
        survey: reads images.
        log: called with a line for every round.
    """
    removed: dict[str, dict[str, str]] = {}
    near = _NearDuplicates(benchmark, survey)
    while True:
        planned = plan(removed)
        survey.read(planned, lambda key: are_compared(benchmark, key))
        added = _round(benchmark, planned, survey, near)
        added = {name: _with_same_originals(ids, name, benchmark, planned) for name, ids in added.items()}
        count = sum(map(len, added.values()))
        if not count:
            return removed
        log(f"--withdraw duplicates: {count:,} images are left out and others move up")
        for name, ids in added.items():
            removed.setdefault(name, {}).update(ids)


def removed_rows(pairs: Iterable[Pair], training: Set[str]) -> dict[str, str]:
    """Return the ids of the rows to leave out, each with the least id of another row that shows its picture.

    Args:
        pairs: rows that show one picture.
        training: the splits (`config/split`) of in-distribution training images.
    """
    removed: dict[str, str] = {}
    for pair in pairs:
        sides = [(pair.id, pair.other_id, pair.split), (pair.other_id, pair.id, pair.other_split)]
        trained = [split in training for split in pair.splits]
        for row, other, split in sides:
            if all(trained) or not any(trained) or split not in training:
                removed[row] = min(other, removed.get(row, other))
    return removed


def short_classes(full: Sequence[PlannedSplit], planned: Sequence[PlannedSplit]) -> dict[str, str]:
    """Return a sentence, by key, for each split whose classes have fewer images than with their duplicates.

    Args:
        full: plans with duplicates.
        planned: the same splits without.
    """
    sentences = {}
    for before, after in zip(full, planned, strict=True):
        short = Counter(before.table["class_id"].to_pylist()) - Counter(after.table["class_id"].to_pylist())
        if short:
            names = ", ".join(f"{name} by {short[name]:,}" for name in sorted(short)[:NAMED]) + more(list(short))
            plural = "class is" if len(short) == 1 else "classes are"
            sentences[after.key] = f"{len(short):,} {plural} short of images without duplicates: {names}"
    return sentences


def _round(
    benchmark: Benchmark, planned: Sequence[PlannedSplit], survey: Survey, near: _NearDuplicates
) -> dict[str, dict[str, str]]:
    """Find the rows that a plan still has to leave out."""
    rows: dict[str, list[PairedRow]] = {}
    for split in planned:
        rows.setdefault(split.split_key, []).extend(_rows(split, survey))
    groups: dict[str, list[str]] = {}
    for key in rows:
        groups.setdefault(group_name(benchmark, key.partition("/")[0]), []).append(key)
    training = {
        key
        for key, split_rows in rows.items()
        if key.endswith("/train") and {row.role for row in split_rows} == {KNOWN_ROLE}
    }
    removed = {}
    for name, keys in groups.items():
        group = {key: rows[key] for key in keys}
        pairs = [*_equal(group, survey.digests, survey.folder), *near.among(group)]
        if survey.pixel_digests:
            # Generated images have a digest over pixels as their content digest.
            pairs += _equal(group, survey.digests | survey.pixel_digests, survey.folder)
        removed[name] = removed_rows(pairs, training)
    return removed


def _with_same_originals(
    removed: Mapping[str, str], group: str, benchmark: Benchmark, planned: Sequence[PlannedSplit]
) -> dict[str, str]:
    """Add the rows of the same originals in splits that share a ranking (`Split.ranked_as`).

    One of these splits has the originals as they are, the others have them changed.
    """
    splits = [split for split in planned if group_name(benchmark, split.config.name) == group]
    originals: dict[tuple[str, str], str] = {}
    for split in splits:
        columns = (split.table[name].to_pylist() for name in ("id", "source", "source_id"))
        for row, *original in zip(*columns, strict=True):
            if row in removed:
                source, image = original
                originals[source, image] = min(removed[row], originals.get((source, image), removed[row]))
    added = dict(removed)
    for declared in (split.split for split in splits if split.split.ranked_as):
        for (source, image), evidence in originals.items():
            if source == declared.source.key:
                added.setdefault(declared.row_id(image), evidence)
    return added


def _rows(split: PlannedSplit, survey: Survey) -> Iterator[PairedRow]:
    columns = (split.table[name].to_pylist() for name in ("id", "role", "class_id"))
    for row_id, role, class_id in zip(*columns, strict=True):
        if row_id in survey.digests:
            yield PairedRow(split.split_key, row_id, ROLES[role], class_id)


def _equal(rows: Mapping[str, Sequence[PairedRow]], digests: Mapping[str, str], folder: Path) -> list[Pair]:
    """Find the pairs of equal digests, as in a release: the rows are written like index files."""
    indexes = {}
    for number, (key, split_rows) in enumerate(sorted(rows.items())):
        columns = {
            "id": pa.array([row.id for row in split_rows], pa.string()),
            "role": pa.array([ROLES.index(row.role) for row in split_rows], pa.int64()),
            "class_id": pa.array([row.class_id for row in split_rows], pa.string()),
            DIGEST: pa.array([digests[row.id] for row in split_rows], pa.string()),
        }
        indexes[key] = folder / f"rows-{number}.parquet"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), indexes[key])
    return exact_pairs(indexes)


class _NearDuplicates:
    """Near-duplicates among the rows of a plan; those of rows that an earlier plan had are remembered."""

    def __init__(self, benchmark: Benchmark, survey: Survey) -> None:
        self.benchmark, self.survey = benchmark, survey
        self.searched: dict[tuple[str, str], tuple[set[str], set[str]]] = {}
        self.pairs: dict[tuple[str, str], list[tuple[str, str, float]]] = {}

    def among(self, rows: Mapping[str, Sequence[PairedRow]]) -> Iterator[Pair]:
        """Yield the pairs of the given rows, by `config/split`, of the splits that a release's table compares."""
        known_splits = {key for key, split_rows in rows.items() if {row.role for row in split_rows} == {KNOWN_ROLE}}
        for key, of in compared_by_similarity(self.benchmark, rows, known_splits):
            yield from self._between(key, of, rows)

    def _between(self, key: str, of: str, rows: Mapping[str, Sequence[PairedRow]]) -> Iterator[Pair]:
        queries, references = {row.id: row for row in rows[key]}, {row.id: row for row in rows[of]}
        old_queries, old_references = self.searched.get((key, of), (set(), set()))
        pairs = self.pairs.setdefault((key, of), [])
        pairs += self._search([q for q in queries if q not in old_queries], list(references))
        pairs += self._search(
            [q for q in queries if q in old_queries], [r for r in references if r not in old_references]
        )
        self.searched[key, of] = (old_queries | queries.keys(), old_references | references.keys())
        for query, reference, distance in pairs:
            if query in queries and reference in references and query != reference:
                yield pair_of(queries[query], references[reference], distance)

    def _search(self, queries: Sequence[str], references: Sequence[str]) -> list[tuple[str, str, float]]:
        if not queries or not references:
            return []
        from builders.duplicates.search import find_pairs

        sides = [np.stack([self.survey.pixels[name] for name in side]) for side in (queries, references)]
        pairs = find_pairs(*sides, advance=lambda _: None)
        numbers = zip(pairs.queries.tolist(), pairs.references.tolist(), pairs.distances.tolist(), strict=True)
        return [(queries[query], references[reference], distance) for query, reference, distance in numbers]


Locate = Callable[[Sequence[PlannedSplit]], list[ReadPlan]]
"""Finds the images of some plans and joins those that are declared in parts."""


class Survey:
    """Digests and pixels of images by row id; each image is read once, also over several plans and runs.

    Attributes:
        digests: `content_sha256`, without images that do not decode and are left out.
        pixel_digests: `builders.release.images.pixel_sha256` of images that are not generated, where all are decoded.
        pixels: (32, 32, 3) of those images that are asked for.
    """

    def __init__(self, run: Run, indexes: Mapping[str, SourceIndex], locate: Locate) -> None:
        self.run, self.indexes, self.locate = run, indexes, locate
        self.folder = run.layout.state / "survey"
        self.seen: set[str] = set()
        self.digests: dict[str, str] = {}
        self.pixel_digests: dict[str, str] = {}
        self.pixels: dict[str, npt.NDArray[np.uint8]] = {}

    def read(self, planned: Sequence[PlannedSplit], keeps_pixels: Callable[[str], bool]) -> None:
        """Read the images of some plans that were not read yet.

        Args:
            planned: the plans.
            keeps_pixels: whether the pixels of a split (`config/split`) are wanted, too.

        Raises:
            BuildError: an image is missing or unreadable (unless partial builds are allowed), or the disk refuses.
        """
        unread = [part for split in planned if (part := self._unread(split)) is not None]
        if not unread:
            return
        work = ShardWork(self.run, self.indexes)
        ready = work.generate(self.locate(unread))
        self._read_copied([split for split in ready.values() if split.image_generator is None], work)
        for key, split in ready.items():
            if split.image_generator is not None:
                generated = split.table.filter(pc.equal(split.table["unreadable"], ""))
                self._add_digests(generated)
                if keeps_pixels(key):
                    self.pixels |= zip(generated["id"].to_pylist(), work.pixels(generated), strict=True)

    def _unread(self, split: PlannedSplit) -> PlannedSplit | None:
        """Return the part of a plan whose images were not read yet; None where all were."""
        ids = split.table["id"].to_pylist()
        mask = np.array([name not in self.seen for name in ids], bool)
        self.seen.update(ids)
        if not mask.any():
            return None
        rows, table = split.rows[mask], split.table.filter(pa.array(mask))
        return dataclasses.replace(split, chosen=rows, listing=as_listed(rows, table))

    def _read_copied(self, splits: Sequence[ReadPlan], work: ShardWork) -> None:
        """Read images that are not generated, as shards without pixels; those that an earlier run read are there."""
        parts: list[Path] = []
        tasks: list[ShardTask] = []
        for split in splits:
            name = hashlib.sha256("\n".join([split.digest, str(self.run.request.decode)]).encode()).hexdigest()[:16]
            plan = self.folder / f"{name}.arrow"
            split.unpack()
            for shard in range(split.shards):
                part = self.folder / f"{name}-{shard:05d}.parquet"
                parts.append(part)
                if not part.exists():
                    tasks.append(work.task(split, shard, plan=plan, data=None, part=part))
            if any(task.plan == plan for task in tasks):
                write_arrow(plan, split.table)
        self.run.meter.step("looking for duplicates", sum(task.stop - task.start for task in tasks))
        self.run.executor.run(tasks, self.run.meter.advance)
        for part in parts:
            rows = read_parquet(part)
            self._add_digests(rows)
            if PIXEL_DIGEST in rows.column_names:
                self.pixel_digests |= zip(rows["id"].to_pylist(), rows[PIXEL_DIGEST].to_pylist(), strict=True)

    def _add_digests(self, rows: pa.Table) -> None:
        self.digests |= zip(rows["id"].to_pylist(), rows[DIGEST].to_pylist(), strict=True)
