"""Searching images in files, in blocks, on an executor."""

import itertools

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.duplicates.near import coloured_noise
from builders.duplicates import search, stored
from builders.duplicates.distance import SCALES
from builders.duplicates.kept import kept_pixels
from builders.duplicates.pixels import Pixels, is_of, joined, pixel_writer, sealed_rows
from builders.duplicates.search import Pairs, find_pairs
from builders.duplicates.stored import Search, find_stored, steps
from builders.errors import BuildError
from builders.executors.local import LocalExecutor
from builders.release.entries import SplitEntry
from builders.release.layout import Layout
from tests import manifests


@pytest.fixture(scope="module")
def images():
    """60 made-up images, and 30 of them with noise."""
    rng = np.random.default_rng(0)
    made = coloured_noise(60, 1.0, rng)
    noisy = np.clip(made[:30] + rng.normal(0, 4, made[:30].shape), 0, 255).astype(np.uint8)
    return np.concatenate([made, noisy])


@pytest.fixture
def in_files(images, tmp_path):
    """The same in three files."""
    parts = {tmp_path / str(start): images[start : start + 40] for start in range(0, 90, 40)}
    for path, part in parts.items():
        path.write_bytes(part.tobytes())
    return joined(Pixels(((path, 0, len(part)),)) for path, part in parts.items())


def without_own(pairs):
    others = pairs.queries != pairs.references
    assert (~others).sum() == 90
    return Pairs(pairs.queries[others], pairs.references[others], pairs.distances[others])


def columns(pairs):
    return [column.tobytes() for column in (pairs.queries, pairs.references, pairs.distances)]


@pytest.mark.parametrize(("workers", "held"), [(1, 32), (2, 32), (1, 1000)])
def test_blocks_on_an_executor_find_what_one_search_finds_to_the_bit(images, in_files, workers, held, monkeypatch):
    monkeypatch.setattr(stored, "_QUERIES", 17)
    monkeypatch.setattr(stored, "_REFERENCES", held)
    searches = [
        Search(in_files, in_files, 0.5),
        Search(in_files.part(3, 80), in_files.part(50, 90)),
        Search(in_files, in_files),
    ]
    advanced = []
    with LocalExecutor(workers) as executor:
        found = find_stored(searches, executor, lambda count, size: advanced.append(count))
    whole = [(images, images, 0.5), (images[3:80], images[50:], 0.096), (images, images, 0.096)]
    expected = [find_pairs(a, b, threshold=limit, advance=lambda _: None) for a, b, limit in whole]
    # In the same files no image is a pair with itself.
    expected[::2] = [without_own(pairs) for pairs in expected[::2]]
    assert [*map(columns, found)] == [*map(columns, expected)]
    assert all(len(pairs.queries) >= 30 for pairs in found)
    of_all, of_part = -(-90 // held), -(-40 // held)
    assert sum(advanced) == steps(searches) == of_all * 90 + of_part * 77 + of_all * 90


def test_what_a_query_takes_is_computed_once_for_all_that_it_is_compared_with(images, in_files, monkeypatch):
    made, computed = [], search._details

    def counted(queries, scale, moves):
        made.extend([scale] * len(queries) if moves else [])
        return computed(queries, scale, moves)

    monkeypatch.setattr(search, "_details", counted)
    queries = in_files.part(0, 30)
    found = find_stored(
        [Search(queries, in_files), Search(queries, in_files.part(0, 80))], LocalExecutor(1), lambda *_: None
    )
    assert [len(pairs.queries) >= 30 for pairs in found] == [True, True]  # each is its own reference, at least
    assert sorted(made) == sorted(SCALES * 30)


def test_an_empty_search_finds_nothing(in_files):
    nothing = Pixels(())
    searches = [Search(nothing, in_files), Search(in_files, nothing)]
    assert [len(pairs.queries) for pairs in find_stored(searches, LocalExecutor(1), lambda *_: None)] == [0, 0]


def test_parts_of_files_read_as_slices_of_the_images(images, in_files):
    for start, stop in ((0, 90), (39, 41), (40, 80), (85, 100), (7, 7)):
        assert np.array_equal(in_files.part(start, stop).read(), images[start:stop])


def test_a_sealed_file_is_of_its_rows_alone(images, tmp_path):
    path = tmp_path / "a.rgb"
    digests = ["a" * 64, "b" * 64]
    with pixel_writer(path) as writer:
        for image, digest in zip(images[:2], digests, strict=True):
            writer.add(image, digest)
    assert (sealed_rows(path), is_of(path, digests)) == (2, True)
    assert not is_of(path, digests[::-1])
    assert not is_of(path, digests[:1])
    assert np.array_equal(Pixels(((path, 1, 1),)).read(), images[1:2])
    written = path.read_bytes()
    for place in (0, 2 * 3072 - 1):
        path.write_bytes(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])
        assert not is_of(path, digests)  # one bit changed on the disk
    path.write_bytes(written[:-1])
    assert (sealed_rows(path), is_of(path, digests)) == (None, False)
    with pytest.raises(BuildError, match=r"a\.rgb"):
        Pixels(((path, 1, 2),)).read()


def test_a_file_that_was_given_up_is_of_no_rows(images, tmp_path):
    with pixel_writer(tmp_path / "a.rgb") as writer:
        writer.add(images[0], "a" * 64)
        writer.give_up()
        writer.add(images[1], "b" * 64)
    assert (tmp_path / "a.rgb").stat().st_size == 0
    assert not is_of(tmp_path / "a.rgb", [])


def test_kept_pixels_are_those_of_the_rows_however_often_the_split_was_cut(images, tmp_path):
    """An index-only release does not say into how many shards its build cut it; a build of other rows left files."""
    layout, digests = Layout(tmp_path), [f"{number:064x}" for number in range(len(images))]
    path = layout.index("bench/test")
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"content_sha256": digests}), path)
    listed = manifests.split(
        key="bench/test", rows=len(images), data=[], index=manifests.file("index/bench/test.parquet")
    )
    of_rows = msgspec.convert(listed, SplitEntry)

    def keep(of, named):
        starts = np.linspace(0, len(images), of + 1).astype(int)
        for number, (start, stop) in enumerate(itertools.pairwise(starts)):
            target = layout.pixels("bench/test", number, of)
            target.parent.mkdir(parents=True, exist_ok=True)
            with pixel_writer(target) as writer:
                for image, digest in zip(images[start:stop], named[start:stop], strict=True):
                    writer.add(image, digest)

    keep(2, digests[::-1])
    assert kept_pixels(layout, "bench/test", of_rows) is None
    keep(3, digests)
    kept = kept_pixels(layout, "bench/test", of_rows)
    assert kept is not None and len(kept.files) == 3 and np.array_equal(kept.read(), images)
    layout.pixels("bench/test", 1, 3).unlink()
    assert kept_pixels(layout, "bench/test", of_rows) is None
