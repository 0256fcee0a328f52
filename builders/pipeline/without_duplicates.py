"""Plans a benchmark without duplicates (`--withdraw duplicates`); quotas are filled with the next ranks.

The published benchmarks contain some pictures twice, and their rows stay as they are. So this is another benchmark,
with rows, digests and a version of its own.

The rule is ours. If an in-distribution training image and an image of another split show one picture, the image of the
other split is left out. Of any other two rows that show one picture both are left out, since nobody can say which of
their labels is right. An image that is left out is in none of the splits that are compared with each other, and
neither is an image made from it: splits with the same originals keep the same originals.

The image that takes a place may be a duplicate, too, so the plan is made again until there is none. All splits that
are compared take part, even those that a run does not build, so that rows do not depend on the order of runs.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.duplicates.by_pixels import compared_by_similarity
from builders.duplicates.exact import DIGEST
from builders.duplicates.pixels import gathered
from builders.executors.base import Executor, Meter
from builders.pipeline.build_plan import BuildPlan
from builders.pipeline.read_plan import ReadPlan, locate_splits
from builders.pipeline.shard_work import ShardWork
from builders.pipeline.shards import ShardTask
from builders.plan.planner import PlannedSplit, plan
from builders.release.duplicates import Pair, PairedRow, pair_of
from builders.release.schema import KNOWN_ROLE, PIXEL_DIGEST, ROLES
from builders.storage.kept_tables import find_kept, read_kept
from builders.storage.parquet import write_arrow
from unknown_detection.words import first_few


def leave_duplicates_out(build: BuildPlan, executor: Executor, meter: Meter) -> BuildPlan:
    """Plan a run's splits again without duplicates of images in the splits that they are compared with.

    The images are read for it, so the folder must be held.
    """
    request, benchmark = build.request, build.draws.benchmark
    replan = functools.partial(
        plan, build.draws, build.indexes, limit_per_class=request.limit_per_class, withdrawn=request.withdrawn
    )
    compared = benchmark.parts_of(benchmark.compared_with(request.splits))
    survey, removed = _Survey(build, executor, meter), dict[str, dict[str, str]]()
    while True:
        planned = replan(splits=compared, duplicates=removed)
        survey.read(planned)
        groups: dict[str, list[PlannedSplit]] = {}
        for split in planned:
            groups.setdefault(benchmark.group(split.config.name), []).append(split)
        added = {name: _with_same_originals(survey.duplicates(group), group) for name, group in groups.items()}
        if not any(added.values()):
            break
        images = sum(map(len, added.values()))
        meter.note(f"--withdraw duplicates: {images:,} images are left out and others move up")
        for name, ids in added.items():
            removed.setdefault(name, {}).update(ids)
    planned = replan(splits=benchmark.parts_of(request.splits), duplicates=removed)
    lacking = dict(build.lacking)
    for before, after in zip(build.planned, planned, strict=True):
        short = Counter(before.table["class_id"].to_pylist()) - Counter(after.table["class_id"].to_pylist())
        if short:
            names = first_few([f"{name} by {short[name]:,}" for name in sorted(short)])
            plural = "class is" if len(short) == 1 else "classes are"
            sentence = f"{len(short):,} {plural} short of images without duplicates: {names}"
            meter.note(f"{after.key}: {sentence}")
            lacking[after.key] = (*lacking.get(after.key, ()), sentence)
    return dataclasses.replace(build, planned=tuple(planned), lacking=lacking)


def removed_rows(pairs: Iterable[Pair], training: Set[str]) -> dict[str, str]:
    """Return the ids of rows to leave out, each with the least id of a row that shows the same picture.

    `pairs` are rows that show one picture, and `training` the splits of in-distribution training images.
    """
    removed: dict[str, str] = {}
    for pair in pairs:
        sides = [(pair.id, pair.other_id, pair.split), (pair.other_id, pair.id, pair.other_split)]
        trained = [split in training for split in pair.splits]
        for row, other, split in sides:
            if all(trained) or not any(trained) or split not in training:
                removed[row] = min(other, removed.get(row, other))
    return removed


def _with_same_originals(removed: Mapping[str, str], splits: Sequence[PlannedSplit]) -> dict[str, str]:
    """Add the rows of the same originals in splits that share a ranking (`Split.ranked_as`).

    One of these splits has the originals as they are, the others have them changed.
    """
    originals: dict[tuple[str, str], str] = {}
    for split in splits if removed else ():
        columns = (split.table[name].to_pylist() for name in ("id", "source", "source_id"))
        for row, source, image in zip(*columns, strict=True):
            if row in removed:
                originals[source, image] = min(removed[row], originals.get((source, image), removed[row]))
    added = dict(removed)
    for declared in (split.split for split in splits if split.split.ranked_as):
        for (source, image), evidence in originals.items():
            if source == declared.source.key:
                added.setdefault(declared.row_id(image), evidence)
    return added


def _equal(rows: Iterable[PairedRow], digests: Mapping[str, str]) -> Iterator[Pair]:
    """Yield the pairs of rows with equal digests, which are given by row id."""
    of_digest: dict[str, list[PairedRow]] = defaultdict(list)
    for row in rows:
        of_digest[digests[row.id]].append(row)
    for members in of_digest.values():
        for one, other in itertools.combinations(members, 2):
            if one.id != other.id:
                yield pair_of(one, other, 0)


class _Survey:
    """Digests and pixels of images by row id; each image is read once, also over several plans and runs.

    `digests` are `content_sha256`, without images that do not decode and are left out; `pixel_digests` are
    `builders.release.images.pixel_sha256` of images that are not generated, where all are decoded; `pixels` are the
    places of images that are compared by similarity: a file, and the number of a row in it.
    """

    def __init__(self, build: BuildPlan, executor: Executor, meter: Meter) -> None:
        self.build, self.executor, self.meter = build, executor, meter
        self.folder = build.request.layout.state / "survey"
        self.seen: set[str] = set()
        self.digests: dict[str, str] = {}
        self.pixel_digests: dict[str, str] = {}
        self.pixels: dict[str, tuple[Path, int]] = {}

    def duplicates(self, planned: Sequence[PlannedSplit]) -> dict[str, str]:
        """Return the rows of some plans to leave out, as `removed_rows` gives them."""
        rows: dict[str, list[PairedRow]] = {}
        for split in planned:
            columns = (split.table[name].to_pylist() for name in ("id", "role", "class_id"))
            rows.setdefault(split.split_key, []).extend(
                PairedRow(split.split_key, row_id, ROLES[role], class_id)
                for row_id, role, class_id in zip(*columns, strict=True)
                if row_id in self.digests
            )
        known = {key for key, split_rows in rows.items() if {row.role for row in split_rows} == {KNOWN_ROLE}}
        everything = [row for split_rows in rows.values() for row in split_rows]
        pairs = [*_equal(everything, self.digests), *self._near(rows, known)]
        if self.pixel_digests:
            # Generated images have a digest over pixels as their content digest.
            pairs += _equal(everything, self.digests | self.pixel_digests)
        return removed_rows(pairs, {key for key in known if key.endswith("/train")})

    def _near(self, rows: Mapping[str, Sequence[PairedRow]], known: Set[str]) -> Iterator[Pair]:
        """Yield the near-duplicates in the splits that a release's table compares."""
        compared = [*compared_by_similarity(self.build.draws.benchmark, rows, known)]
        if not compared:
            return
        from builders.duplicates.stored import Search, find_stored, steps  # only here are its imports paid for

        pixels = {
            key: gathered(
                self.folder / f"compared-{key.replace('/', '-')}.rgb", [self.pixels[row.id] for row in rows[key]]
            )
            for key in sorted({*itertools.chain(*compared)})
        }
        threshold = self.build.draws.benchmark.near_distance
        searches = [Search(pixels[key], pixels[of], threshold) for key, of in compared]
        with self.meter.step("searching for near-duplicates", steps(searches)) as advance:
            results = find_stored(searches, self.executor, advance)
        for (key, of), found in zip(compared, results, strict=True):
            numbers = zip(found.queries.tolist(), found.references.tolist(), found.distances.tolist(), strict=True)
            for query, reference, distance in numbers:
                if rows[key][query].id != rows[of][reference].id:
                    yield pair_of(rows[key][query], rows[of][reference], distance)

    def read(self, planned: Sequence[PlannedSplit]) -> None:
        """Read those images of some plans that were not read before."""
        unread = []
        for split in planned:
            ids = split.table["id"].to_pylist()
            mask = np.array([name not in self.seen for name in ids], bool)
            self.seen.update(ids)
            if mask.any():
                kept = {"rows": split.rows[mask], "table": split.table.filter(pa.array(mask))}
                positions = split.positions[mask] if len(split.positions) else split.positions
                unread.append(dataclasses.replace(split, positions=positions, **kept))
        if not unread:
            return
        work = ShardWork(self.build, self.executor, self.meter)
        ready = work.generate(locate_splits(unread, self.build.indexes, self.build.request.layout, self.meter))
        compared = {key for key in ready if self.build.draws.benchmark.is_searched(key)}
        self._read([split for split in ready.values() if split.image_generator is None or split.key in compared], work)
        for key, located in ready.items():
            if located.image_generator is not None and key not in compared:
                self._add_digests(located.table.filter(pc.equal(located.table["unreadable"], "")))

    def _read(self, splits: Sequence[ReadPlan], work: ShardWork) -> None:
        """Read images as shards without images are read; those that an earlier run read are there."""
        records: list[tuple[Path, Path | None]] = []
        tasks: list[ShardTask] = []
        for split in splits:
            name = hashlib.sha256(f"{split.digest}\n{self.build.request.decode}".encode()).hexdigest()[:16]
            plan_file = self.folder / f"{name}.arrow"
            split.unpack()
            for shard in range(split.shards):
                record = self.folder / f"{name}-{shard:05d}.parquet"
                pixels = record.with_suffix(".rgb") if self.build.draws.benchmark.is_searched(split.key) else None
                records.append((record, pixels))
                if find_kept(record) is None or (pixels is not None and not pixels.exists()):
                    task = work.task(split, shard, plan=plan_file, data=None, record=record)
                    tasks.append(dataclasses.replace(task, pixels=pixels))
                    if task.stored != "source":
                        work.restore(set(split.rows_of(shard)["file"].to_pylist()))
            if any(task.plan == plan_file for task in tasks):
                write_arrow(plan_file, split.table)
        with self.meter.step("looking for duplicates", sum(task.stop - task.start for task in tasks)) as advance:
            self.executor.run(tasks, advance)
        for record, pixels in records:
            rows = read_kept(record)
            self._add_digests(rows)
            if pixels is not None:
                self.pixels |= {row: (pixels, number) for number, row in enumerate(rows["id"].to_pylist())}
            if PIXEL_DIGEST in rows.column_names:
                self.pixel_digests |= zip(rows["id"].to_pylist(), rows[PIXEL_DIGEST].to_pylist(), strict=True)

    def _add_digests(self, rows: pa.Table) -> None:
        self.digests |= zip(rows["id"].to_pylist(), rows[DIGEST].to_pylist(), strict=True)
