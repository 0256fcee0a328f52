"""Where a trial happens, and what all trials read: sources, a release, and a Hub that has it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.soak.commands import ROOT, Job, Launcher
from benchmarks.soak.stores import StorePlace, new_store_place
from builders.demo.write import write_demo
from tests.hub.client import environment
from tests.hub.server import Hub
from tests.hub.store import Repo

REPO = "org/name"
USER = "publisher"


@dataclass(frozen=True)
class Published:
    """A repository of a Hub with what was published there, to be put into others."""

    repo: Repo

    def put(self, hub: Hub) -> None:
        """Let a Hub have it."""
        copy = Repo(self.repo.name, hub.folder / self.repo.name, private=self.repo.private)
        for path in sorted(self.repo.folder.iterdir()):
            os.link(path, copy.folder / path.name)
        for name in ("commits", "branches", "tags", "objects"):
            setattr(copy, name, dict(getattr(self.repo, name)))
        hub.repos[copy.name] = copy


@dataclass(frozen=True)
class World:
    """What trials read, and never change.

    Attributes:
        root: the folder of the whole soak.
        demo: the demo sources, a folder each.
        release: a small release.
        part: the same with fewer splits.
        published: a repository with `part` as v1.0.0 and `release` as v1.1.0.
        first: the same repository before v1.1.0.
        ray: address of a Ray cluster; empty for the local executor.
        store: a running object store; None where tests have none.
    """

    root: Path
    demo: Path
    release: Path
    part: Path
    published: Published | None = None
    first: Published | None = None
    ray: str = ""
    store: Any = None

    def environment(self) -> dict[str, str]:
        """The environment of all commands, whose connections stay on this machine.

        Those to a Ray cluster do so too, but under the machine's own address, which the guard of the others refuses.
        """
        found = environment("http://127.0.0.1:9", None, self.root / "home")
        return found | {"PYTHONPATH": str(ROOT)} if self.ray else found

    def stamps(self) -> dict[str, tuple[int, int]]:
        """Size and time of change of every file that trials read."""
        files = [path for root in (self.release, self.part, self.demo) for path in root.rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(files)}


@dataclass(frozen=True)
class Place:
    """The folder of one trial: `disk` has what the command writes, and may be a disk of its own."""

    folder: Path
    world: World
    hub: Hub | None = None
    store: StorePlace | None = None

    @property
    def disk(self) -> Path:
        """Where the command runs, and what is compared."""
        return self.folder / "disk"

    @property
    def out(self) -> Path:
        """What the command writes."""
        return self.disk / "out"

    def requests(self) -> tuple[str, ...]:
        """The kinds of the requests that servers have got, in order."""
        if self.store is not None:
            return self.store.requests()
        return () if self.hub is None else tuple(request.route for request in self.hub.requests)

    def job(self, module: str, arguments: tuple[str, ...], name: str) -> Job:
        """The job of a command in this place."""
        own = {"TMPDIR": str(self.disk / "tmp"), "HOME": str(self.disk / "home"), "XDG_CACHE_HOME": ""}
        own |= self.store.environment() if self.store else {}
        hub = {"endpoint": self.hub.endpoint, "token": self.hub.token} if self.hub else None
        return Job(module, arguments, self.disk, self.folder / name, own, hub)


@contextlib.contextmanager
def new_place(folder: Path, world: World, *, on_hub: bool, on_store: bool = False) -> Iterator[Place]:
    """A new place, which is removed at the end."""
    for name in ("tmp", "home"):
        (folder / "disk" / name).mkdir(parents=True)
    try:
        with contextlib.ExitStack() as stack:
            hub = stack.enter_context(Hub(folder / "hub", user=USER)) if on_hub else None
            store = stack.enter_context(new_store_place(world.store)) if on_store else None
            yield Place(folder, world, hub, store)
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def own_disk(folder: Path, size: int) -> Iterator[None]:
    """A disk of so many bytes in memory, mounted over a folder with what the folder holds."""
    beside = folder.with_name("mount")
    beside.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "soak", str(beside))
    try:
        shutil.copytree(folder, beside, symlinks=True, dirs_exist_ok=True)
        _mount("--move", str(beside), str(folder))
        beside.rmdir()
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def resize(folder: Path, size: int) -> None:
    """Change the size of a disk of one's own."""
    _mount("-o", f"remount,size={size}", str(folder))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def make_world(root: Path, ray: str = "", store: Any = None) -> World:
    """Write the demo sources, build the releases, and publish them.

    Raises:
        RuntimeError: a command failed without a fault.
    """
    demo = root / "demo"
    if not demo.exists():
        write_demo(demo)
    world = World(root, demo, root / "release", root / "part", ray=ray)
    chosen = ("--splits", "cifar/validation,cifar/far_ood_lsun_fix", "--limit-per-class", "2")
    more = ("--splits", "cifar/far_ood_dtd,cifar-train/train", "--limit-per-class", "2")
    with Launcher(world.environment()) as launcher, new_place(root / "making", world, on_hub=True) as place:
        for out, splits in ((world.part, (chosen,)), (world.release, (chosen, more))):
            for each in splits:
                arguments = (*sources(world, "cifar"), *each, "--workers", "1", "--quiet", "--out", str(out))
                _done(launcher, place.job("builders.cifar_benchmark", arguments, "made"))
        found = []
        assert place.hub is not None
        for release, tag in ((world.part, "v1.0.0"), (world.release, "v1.1.0")):
            arguments = (str(release), "--repo", REPO, "--tag", tag, "--private", "--workers", "1")
            _done(launcher, place.job("hf_scripts.push", arguments, "pushed"))
            kept = Hub(root / f"hub-{tag}")
            Published(place.hub.repos[REPO]).put(kept)
            found.append(Published(kept.repos[REPO]))
    return World(root, demo, world.release, world.part, found[1], found[0], ray, store)


def _done(launcher: Launcher, job: Job) -> None:
    ran = launcher.start(job).finish()
    if ran.code != 0:
        raise RuntimeError(f"{ran.line} ended with {ran.code} without a fault: {ran.err}")


SOURCES: Mapping[str, tuple[str, ...]] = {
    "imagenet": ("imagenet", "food101", "caltech256", "places365"),
    "cifar": ("cifar100", "svhn", "lsun", "dtd", "imagenet"),
    "facets": ("places365", "svhn_full", "imagenet", "sun397"),
    "broad": ("imagenet", "inaturalist", "imagenet_o", "openimage_o", "coco2017"),
}
"""The sources of each benchmark, as `builders.demo` names them."""


def sources(world: World, benchmark: str) -> tuple[str, ...]:
    """The flags that give a benchmark its demo sources, which are short."""
    given = [part for key in SOURCES[benchmark] for part in (f"--{key}", str(world.demo / key))]
    return (*given, "--allow-partial")
