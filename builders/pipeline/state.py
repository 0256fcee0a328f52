"""The state of a release folder, which lets later runs resume: a lock, the choices, digests of plans and draws.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from builders.errors import BuildError
from builders.generate.contract import identity_differences
from builders.pipeline.build_plan import BuildPlan
from builders.release.entries import CHOICES
from builders.release.layout import STATE, Layout
from builders.release.loading import refuse_misread
from builders.release.manifest import read_or_empty
from builders.storage.files import read_regular, replace_unless_changed
from builders.storage.stores.errors import ChangedMeanwhileError

# Their versions can change a Parquet file's bytes or what decodes, never a split's digest.
_RECORDED_PACKAGES = ("numpy", "pillow", "pyarrow")

TRIES = 5
"""How often a run reads again what another run, of other splits, changed in a store at the same time (ours)."""


@contextlib.contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """Lock the output folder for this run, and remove what a killed run left half-written; does nothing in a store."""
    refuse_unusable(layout.root)
    busy = f"Another run is at work in {layout.root}. Wait until it has ended, or give another --out."
    with layout.locked(busy):
        yield


class _Recorded(msgspec.Struct, omit_defaults=True):
    """The state file of a benchmark in a release folder; `version` is None where there is none."""

    version: str | None = None
    seed: int | None = None
    limit_per_class: int | None = None
    demo: bool | None = None
    allow_partial: bool = False
    adopted: dict[str, str] = {}
    plans: dict[str, str] = {}
    draws: dict[str, str] = {}
    generators: dict[str, dict[str, Any]] = {}
    versions: dict[str, str] = {}


def read_state(path: Path) -> _Recorded:
    """Read a state file; a missing file is an empty state, a damaged one a `BuildError`."""
    return _parse_state(read_regular(path) if path.exists() else None, path)


def _parse_state(data: bytes | None, path: Path) -> _Recorded:
    """Parse the bytes of a state file, None where there is none."""
    if data is None:
        return _Recorded()
    try:
        return msgspec.json.decode(data, type=_Recorded)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BuildError(
            f"The state of an earlier run is damaged, in {path}. Give another --out, or remove the whole release "
            "folder and build it again."
        ) from error


class State:
    """What an output folder records of a benchmark's builds, to compare with this run's choices.

    A split and the rest of it must come from the same lists, or they would share images.
    """

    def __init__(self, plan: BuildPlan) -> None:
        self.plan, self.request, self.benchmark = plan, plan.request, plan.draws.benchmark
        generators = self.benchmark.generators(plan.request.splits)
        self.generators = {key: generator.identity() for key, generator in generators.items()}
        self.choices = {name: getattr(plan if name == "version" else plan.request, name) for name in CHOICES}
        self.path = plan.request.layout.state / f"{self.benchmark.name}.json"
        self.recorded = read_state(self.path)

    def check(self) -> None:
        """Refuse a folder whose rows were built with other choices than this run's.

        The manifest is asked, too, because a release may come without its state.
        """
        root, manifest = self.request.out, read_or_empty(self.request.out)
        adopted, generators = dict[str, str](), dict[str, Mapping[str, object]]()
        for key, _, entry in manifest.splits():
            adopted |= {part.key: part.adopted for part in entry.parts}
            if entry.generator is not None:
                generators[key] = entry.generator.identity()
        own = {key for key, index in self.plan.indexes.items() if index.source.contents}
        for key, config, entry in manifest.splits():
            if config.benchmark != self.benchmark.name and (taken := own & {part.source for part in entry.parts}):
                raise BuildError(
                    f"{key} in {root} has images of a source {min(taken)}, and other images of this run would have "
                    "the same ids. Give another --name or --out."
                )
        for key, digest in self.plan.adopted.items():
            if (adopted | self.recorded.adopted).get(key, digest) != digest:
                raise BuildError(
                    f"{key} was built from another adopted copy, or without one, in {root}. Give another --out, or "
                    "the same copy as before."
                )
        recorded = self.recorded if self.recorded.version is not None else None
        for earlier in (recorded, manifest.benchmarks.get(self.benchmark.name)):
            for name, value in self.choices.items() if earlier is not None else ():
                before = getattr(earlier, name)
                if before != value:
                    raise BuildError(
                        f"The release in {root} was built with the {CHOICES[name]} {_shown(before)}, and this run "
                        f"has {_shown(value)}. Give another --out, or the same choices as before."
                    )
        if self.recorded.allow_partial and not self.request.allow_partial:
            # Published rows have no such flag.
            again = "" if self.plan.repeated.rows else ", or build it in the same way"
            raise BuildError(
                f"The release in {root} was built from short sources (--allow-partial). Give another --out{again}."
            )
        for key, identity in self.generators.items():
            if differing := identity_differences((self.recorded.generators | generators).get(key, identity), identity):
                raise BuildError(
                    f"The images of {key} in {root} were generated in another way: this run has "
                    f"{', '.join(differing)}. Give another --out, or generate them as before."
                )
        for name, names in self.plan.labels.items():
            built = manifest.configs.get(name)
            if built and built.benchmark != self.benchmark.name:
                raise BuildError(
                    f"{name} in {root} is a config of the benchmark {built.benchmark}, not of "
                    f"{self.benchmark.name}. Give another --out, or to own folders another --name."
                )
            odd = sorted(set(built.label_names) ^ set(names)) if built else []
            if odd:
                raise BuildError(
                    f"{name} was built with other in-distribution classes in {root} ({odd[0]} is one only there or "
                    "only here). Give another --out, or the same adopted copy as before."
                )

    def record(self, plans: Mapping[str, str], draws: Mapping[str, str]) -> None:
        """Record this run's choices, plans and draws; refuse a folder whose rows come from other sources.

        A split may be built in one run, and a split that is drawn after it in another. `draws` (`PlannedSplit.draws`)
        makes sure that both runs draw the same images for the first split.
        """
        versions = {name: importlib.metadata.version(name) for name in _RECORDED_PACKAGES}
        for tries_left in reversed(range(TRIES)):
            before = self.recorded
            for key, digest in plans.items():
                if before.plans.get(key, digest) != digest:
                    raise BuildError(
                        f"The sources or the list of withdrawn rows changed since {key} was planned in "
                        f"{self.request.out}. Give another --out, or both as they were."
                    )
            for key, digest in draws.items():
                if before.draws.get(key, digest) != digest:
                    raise BuildError(
                        f"The sources changed since an earlier run on {self.request.out}: {key} now draws other "
                        "images, so a split that is drawn after it may share some with it. Give another --out, or "
                        "the sources as they were."
                    )
            state = self.choices | {
                "allow_partial": self.request.allow_partial,
                "adopted": before.adopted | dict(self.plan.adopted),
                "plans": before.plans | dict(plans),
                "draws": before.draws | dict(draws),
                "generators": before.generators | self.generators,
                "versions": versions | {"python": platform.python_version()},
            }
            encoded = msgspec.json.format(msgspec.json.encode(state, order="sorted")) + b"\n"
            try:
                replace_unless_changed(self.path, encoded, lambda data: _parse_state(data, self.path) == self.recorded)
                return
            except ChangedMeanwhileError:  # in a store, by a run of other splits
                if not tries_left:
                    raise
                self.recorded = read_state(self.path)
                self.check()


def refuse_unusable(root: Path) -> None:
    """Refuse an output folder that has other files than a release, or that `load_dataset` would not read."""
    refuse_misread(root, "--out")
    if not root.exists():
        return
    if not root.is_dir():
        raise BuildError(f"{root} is a file, where a folder is needed for the release. Give another --out.")
    if any(root.iterdir()) and not (root / STATE).is_dir() and not (root / "manifest.json").is_file():
        raise BuildError(
            f"{root} has files that are not a release's. Give another --out, since a build writes README.md, data/ "
            "and more there."
        )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value in (None, "") else str(value)
