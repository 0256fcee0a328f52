"""The folder of a trial, and the sources, releases and repositories that all trials read."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.demo.write import write_demo
from tests.hub.client import environment
from tests.hub.server import Hub
from tests.hub.store import Repo
from tests.soak.commands import ROOT, Job, Launcher
from tests.soak.stores import new_store_place

REPO = "org/name"
USER = "publisher"


@dataclass(frozen=True)
class Published:
    """A repository of a Hub with its versions, to be copied to others."""

    repo: Repo

    def put(self, hub: Hub) -> None:
        """Copy it to a Hub."""
        copy = Repo(self.repo.name, hub.folder / self.repo.name, private=self.repo.private)
        for path in sorted(self.repo.folder.iterdir()):
            os.link(path, copy.folder / path.name)
        for name in ("commits", "branches", "tags", "objects"):
            setattr(copy, name, dict(getattr(self.repo, name)))
        hub.repos[copy.name] = copy


@dataclass(frozen=True)
class World:
    """The files that all trials read, and never change.

    Attributes:
        root: the folder of the whole soak.
        demo: the demo sources, a folder each.
        release: a small release.
        part: a release with some of its splits.
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
        """Return the environment of all commands, whose connections stay on this machine.

        So do those to a Ray cluster, but under the machine's own address, which the guard against others refuses.
        """
        variables = environment("http://127.0.0.1:9", None, self.root / "home")
        return variables | {"PYTHONPATH": str(ROOT)} if self.ray else variables

    def stamps(self) -> dict[str, tuple[int, int]]:
        """Return size and modification time of every file that trials read."""
        files = [path for root in (self.release, self.part, self.demo) for path in root.rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(files)}


@dataclass(frozen=True)
class Place:
    """The folder of one trial, in which the command writes to `disk`, which may be a disk of its own."""

    folder: Path
    world: World
    hub: Any = None
    store: Any = None

    @property
    def disk(self) -> Path:
        """The command's working directory, which is compared."""
        return self.folder / "disk"

    @property
    def out(self) -> Path:
        """The folder that the command writes."""
        return self.disk / "out"

    def requests(self) -> tuple[str, ...]:
        """Return the kinds of the requests to the servers, in order."""
        if self.store is not None:
            return self.store.requests()
        return () if self.hub is None else tuple(request.route for request in self.hub.requests)

    def job(self, module: str, arguments: tuple[str, ...], name: str) -> Job:
        """Return the job of a command in this place."""
        own = {"TMPDIR": str(self.disk / "tmp"), "HOME": str(self.disk / "home"), "XDG_CACHE_HOME": ""}
        own |= self.store.environment() if self.store else {}
        hub = {"endpoint": self.hub.endpoint, "token": self.hub.token} if self.hub else None
        return Job(module, arguments, self.disk, self.folder / name, own, hub)


@contextlib.contextmanager
def new_place(folder: Path, world: World, *, on_hub: bool, on_store: bool = False) -> Iterator[Place]:
    """Yield a new place, which is removed at the end."""
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
    """Mount a disk in memory over a folder, with the folder's files, until the block ends."""
    mount = folder.with_name("mount")
    mount.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "soak", str(mount))
    try:
        shutil.copytree(folder, mount, symlinks=True, dirs_exist_ok=True)
        _mount("--move", str(mount), str(folder))
        mount.rmdir()
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def resize(folder: Path, size: int) -> None:
    """Change the size of such a disk."""
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
            for part in splits:
                arguments = (*sources(world, "cifar"), *part, "--workers", "1", "--quiet", "--out", str(out))
                _run(launcher, place.job("builders.cifar_benchmark", arguments, "build"))
        published = []
        for release, tag in ((world.part, "v1.0.0"), (world.release, "v1.1.0")):
            arguments = (str(release), "--repo", REPO, "--tag", tag, "--private", "--workers", "1")
            _run(launcher, place.job("hf_scripts.push", arguments, "push"))
            hub = Hub(root / f"hub-{tag}")
            Published(place.hub.repos[REPO]).put(hub)
            published.append(Published(hub.repos[REPO]))
    return World(root, demo, world.release, world.part, published[1], published[0], ray, store)


def _run(launcher: Launcher, job: Job) -> None:
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
    """Return the flags with a benchmark's demo sources, which are incomplete."""
    flags = [part for key in SOURCES[benchmark] for part in (f"--{key}", str(world.demo / key))]
    return (*flags, "--allow-partial")
