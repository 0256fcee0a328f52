"""What a build leaves beside its release so that it can go on: a lock, the choices made, the plans' digests.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from builders.errors import BuildError
from builders.generate.contract import Generator, differences
from builders.release.entries import BenchmarkEntry, pieces_by_key
from builders.release.layout import FOLDERS, Layout
from builders.release.manifest import read_or_empty
from builders.storage.atomic import TEMPORARY, write_text
from builders.storage.regular import open_regular

# Their versions can change a Parquet file's bytes or what decodes, never a split's digest.
_RECORDED_PACKAGES = ("numpy", "pillow", "pyarrow")

# What the state records by split, and the type of each entry.
_RECORDS = {"adopted": str, "plans": str, "generators": dict}


@dataclass(frozen=True)
class Identity:
    """The choices that change rows. A folder holds a benchmark's rows of one identity only."""

    benchmark: str
    version: str
    seed: int
    limit_per_class: int | None
    demo: bool

    def choices(self) -> dict[str, Any]:
        """The choices by name, as the state records them."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "benchmark"}


def identity_of(name: str, entry: BenchmarkEntry) -> Identity:
    """The choices that a benchmark in a manifest was built with."""
    return Identity(name, entry.version, entry.seed, entry.limit_per_class, entry.demo)


@contextlib.contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """Hold the output folder for this run, and sweep what a killed run left half-written.

    Raises:
        BuildError: another run holds it, or it cannot be written to, or it holds something that is no release.
    """
    refuse_foreign(layout.root)
    layout.state.mkdir(parents=True, exist_ok=True)
    # The operating system drops the lock with the process, also on SIGKILL.
    lock = FileLock(layout.state / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise BuildError(
            f"expected to be the only run on {layout.root}, found another one at work there; wait for it or give "
            "another --out."
        ) from error
    try:
        leftovers = [*layout.root.glob(f".*{TEMPORARY}")]
        for folder in (*(layout.root / name for name in FOLDERS), layout.state):
            leftovers += folder.rglob(f".*{TEMPORARY}")
        for leftover in sorted(leftovers):
            leftover.unlink()
        yield
    finally:
        lock.release()


def check_choices(layout: Layout, identity: Identity, adopted: Mapping[str, str], *, allow_partial: bool) -> None:
    """Refuse a folder whose rows come from other choices.

    The run's state is asked, and the manifest too, because a release may come without its state.

    Args:
        layout: the output folder.
        identity: this run's choices.
        adopted: for each split or part of this run, and each that one is the rest of, a digest of what is adopted for
            it, or empty. A split and the rest of it must come from the same lists, or they would share images.
        allow_partial: whether this run may leave images out.
    """
    state = _read_state(layout, identity)
    manifest = read_or_empty(layout.root)
    built = {
        part_key: part.adopted
        for key, _, entry in manifest.splits()
        for part_key, part in pieces_by_key(key, entry).items()
    }
    for key, digest in adopted.items():
        if {**built, **state.get("adopted", {})}.get(key, digest) != digest:
            raise BuildError(
                f"expected the --adopt that {key} was built with before, found another or none, in {layout.root}; "
                "give another --out, or the same copy as before."
            )
    released = manifest.benchmarks.get(identity.benchmark)
    for known in (state, identity_of(identity.benchmark, released).choices() if released else {}):
        for name, value in identity.choices().items():
            if name in known and known[name] != value:
                raise BuildError(
                    f"expected a release with {name.replace('_', '-')} {_shown(value)} in {layout.root}, found one "
                    "with "
                    f"{_shown(known[name])}; give another --out, or the same choices as before."
                )
    if state.get("allow_partial") and not allow_partial:
        raise BuildError(
            f"expected a release built without --allow-partial, found one built with it in {layout.root}; "
            "give another --out, or --allow-partial again."
        )


def check_generators(layout: Layout, identity: Identity, generators: Mapping[str, Generator]) -> None:
    """Refuse a folder some of whose images were made by other generators.

    Args:
        layout: the output folder.
        identity: this run's choices.
        generators: of this run's splits whose images are made, by `config/split`.

    Raises:
        BuildError: a split was made with another version, other parameters or other weights.
    """
    known: dict[str, Any] = _read_state(layout, identity).get("generators", {})
    splits = read_or_empty(layout.root).by_key()
    known |= {key: split.generator.identity() for key, split in splits.items() if split.generator is not None}
    for key, generator in generators.items():
        differing = differences(known.get(key, generator.identity()), generator.identity())
        if differing:
            raise BuildError(
                f"The images of {key} in {layout.root} were made in another way: this run has "
                f"{', '.join(differing)}. Give another --out, or make them as before."
            )


def check_labels(layout: Layout, labels: Mapping[str, Sequence[str]]) -> None:
    """Refuse a folder built with other in-distribution classes than this run's `labels`, by config."""
    configs = read_or_empty(layout.root).configs
    for name, names in labels.items():
        odd = sorted(set(configs[name].label_names) ^ set(names)) if name in configs else []
        if odd:
            raise BuildError(
                f"expected the in-distribution classes that {name} was built with before, found others ({odd[0]} is "
                "one "
                f"in one of the two) in {layout.root}; give another --out, or the same --adopt as before."
            )


def record_plans(
    layout: Layout,
    identity: Identity,
    adopted: Mapping[str, str],
    plans: Mapping[str, str],
    generators: Mapping[str, Generator],
    *,
    allow_partial: bool,
) -> None:
    """Refuse a folder whose rows come from other sources, and record this run's choices and plans.

    Args:
        layout: the output folder.
        identity: this run's choices.
        adopted: as for `check_choices`.
        plans: digest of the plan of each split that this run builds.
        generators: as for `check_generators`.
        allow_partial: whether this run may leave images out.
    """
    state = _read_state(layout, identity)
    before: dict[str, str] = state.get("plans", {})
    for split, digest in plans.items():
        if before.get(split, digest) != digest:
            raise BuildError(
                f"expected the images that {split} was planned from before, found sources or a --withdraw that "
                f"changed since, in {layout.root}; give another --out, or both as they were."
            )
    versions = {name: importlib.metadata.version(name) for name in _RECORDED_PACKAGES}
    state = identity.choices() | {
        "allow_partial": allow_partial,
        "adopted": {**state.get("adopted", {}), **adopted},
        "plans": {**before, **plans},
        "generators": {**state.get("generators", {}), **{key: made.identity() for key, made in generators.items()}},
        "versions": versions | {"python": platform.python_version()},
    }
    write_text(_state_file(layout, identity), json.dumps(state, indent=2, sort_keys=True) + "\n")


def _state_file(layout: Layout, identity: Identity) -> Path:
    return layout.state / f"{identity.benchmark}.json"


def _read_state(layout: Layout, identity: Identity) -> dict[str, Any]:
    path = _state_file(layout, identity)
    if not path.exists():
        return {}
    try:
        with open_regular(path) as opened:
            known = json.loads(opened.read())
    except (ValueError, RecursionError):  # a number of 5,000 digits is a ValueError, too
        known = None
    if not isinstance(known, dict) or not all(
        _is_record(known.get(name, {}), kind) for name, kind in _RECORDS.items()
    ):
        raise BuildError(
            f"The state file {path} is damaged. Delete it: a run without it goes by the release's manifest.json."
        )
    return known


def _is_record(found: Any, kind: type) -> bool:
    return isinstance(found, dict) and all(isinstance(value, kind) for value in found.values())


def refuse_foreign(root: Path) -> None:
    """Refuse an output folder that holds something else than a release.

    Raises:
        BuildError: `root` is a file, or a folder with other files.
    """
    if not root.exists():
        return
    if not root.is_dir():
        raise BuildError(f"expected a folder for the release, found a file at {root}; give another --out.")
    if any(root.iterdir()) and not (root / ".state").is_dir() and not (root / "manifest.json").is_file():
        raise BuildError(
            f"expected an empty folder or a release, found other files in {root}; give another --out, since a build "
            "writes README.md, data/ and more there."
        )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value in (None, "") else str(value)
