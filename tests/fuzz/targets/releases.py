"""Each file of a small release, damaged where it lies, against `verify`."""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from builders.audit import duplicates, measures
from builders.errors import BuildError
from builders.executors.base import Advance
from builders.executors.local import LocalExecutor
from builders.pipeline import state
from builders.release.duplicates import PairedRow, pair_of, read_pairs, write_pairs
from builders.release.entries import Manifest
from builders.release.layout import Layout
from builders.release.manifest import file_entry, read_manifest
from builders.report.classes import class_trees
from builders.report.pictures import read_split_rows, thumbnails
from hf_scripts.checks import run
from hf_scripts.checks.problems import Problems
from tests.fuzz.target import Target
from tests.hf_scripts.samples import make_release

SPLITS = {"bench/test": range(4), "bench-train/train": range(100, 102)}

INDEX = "index/bench/test.parquet"

STATE = b"""{"version": "1.0.0", "seed": 0, "limit_per_class": null, "demo": true, "allow_partial": false,
"adopted": {"bench/test": ""}, "plans": {"bench/test": "ab"}, "generators": {"bench/test": {"name": "resize"}}}"""


@functools.cache
def release() -> dict[str, bytes]:
    """The files of a release by their paths."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = make_release(folder / "release", SPLITS, shards=2)
    paths = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in paths.items() if not name.startswith(".state")}


def verified(folder: Path) -> object:
    """Verify a release; its problems are raised as one sentence, which has to be printable as theirs are.

    One worker is this process, so its limits hold.
    """
    found = run.verify_folder(folder, (), Problems(), name=folder, decode=True, workers=1)
    if found.problems.total():
        raise BuildError(f"{'; '.join(found.problems.lines())}.")
    return found.manifest


def of_release(name: str, file: str, cases: Callable[[bytes], dict[str, bytes]] = lambda good: {}) -> Target:
    """The target of one file of a release; `cases` makes named ones of the good file."""
    return Target(
        name, file, lambda: [release()[file]], verified, others=release, cases=lambda: cases(release()[file])
    )


def contradiction(good: bytes) -> dict[str, bytes]:
    """A Parquet file whose schema has another type for a column of text than the column's own metadata.

    pyarrow 26 ends the process with SIGABRT when such metadata are asked for.
    """
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    place = good.index(b"\x15\x0c", footer)  # parquet.thrift: field 1 of the schema's element, BYTE_ARRAY
    return {"contradicting types": good[: place + 1] + b"\x08" + good[place + 2 :]}  # FLOAT


def pairs() -> list[bytes]:
    """A table of duplicates."""
    rows = [PairedRow(f"c/{split}", f"a/{split}", "near_ood", "lynx") for split in ("one", "other", "third")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.parquet"
        write_pairs(path, [pair_of(rows[0], rows[1], 0.0), pair_of(rows[1], rows[2], 0.25)])
        return [path.read_bytes()]


class Silent:
    """A meter that shows nothing."""

    @contextlib.contextmanager
    def step(self, title: str, images: int) -> Iterator[Advance]:
        """Count nothing."""
        yield lambda images, size=0: None

    def note(self, text: str) -> None:
        """Print a line."""


def relisted(folder: Path) -> Manifest:
    """The manifest of a release that lists its damaged index as it is, which else would be refused by its digest."""
    manifest = read_manifest(folder)
    config = manifest.configs["bench"]
    test = replace(config.splits["test"], index=file_entry(Layout(folder), folder / INDEX))
    return replace(
        manifest, configs=manifest.configs | {"bench": replace(config, splits=config.splits | {"test": test})}
    )


def audited(folder: Path) -> object:
    """Read a release as audits do: roles, digests, and every image."""
    manifest = relisted(folder)
    chosen = measures.sampled(folder, manifest, sorted(manifest.by_key()), 10)
    measured = measures.measure_rows(folder, manifest, chosen, LocalExecutor(1), Silent())
    return measured, duplicates.exact(duplicates.release_splits(folder, manifest))


def of_audit(name: str, file: str) -> Target:
    """The target of one file of a release that is audited."""
    return Target(name, file, lambda: [release()[file]], audited, others=release)


def paged(folder: Path) -> object:
    """Read the indexes of a release and the first images of each role, as its page does."""
    manifest = relisted(folder)
    sources = frozenset(manifest.sources)
    rows = [read_split_rows(folder, key, split, sources) for key, _, split in manifest.splits()]
    return class_trees(dict.fromkeys(sources, "a source"), rows, []), thumbnails(folder, manifest, rows)


TARGETS = (
    of_audit("audit-index", "index/bench/test.parquet"),
    of_audit("audit-shard", "data/bench/test-00001-of-00002.parquet"),
    Target("page-index", INDEX, lambda: [release()[INDEX]], paged, others=release),
    of_release("release-manifest", "manifest.json"),
    of_release("release-card", "README.md"),
    of_release("release-exclusions", "excluded/bench.csv"),
    of_release("release-index", "index/bench/test.parquet", contradiction),
    of_release("release-shard", "data/bench/test-00000-of-00002.parquet", contradiction),
    Target("release-duplicates", "x.parquet", pairs, lambda folder: read_pairs(folder / "x.parquet")),
    Target("state", "x.json", lambda: [STATE], lambda folder: state.read_state(folder / "x.json")),
)
