"""The commands that the soak disturbs, with their preparation and outcome."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.hub.server import Hub
from tests.soak.commands import Ran
from tests.soak.places import REPO, USER, Place, sources

Outcome = dict[str, str]
"""Digests, by name, of all files and other results of a command that faults may not change."""


def _nothing(place: Place) -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Operation:
    """A command with its arguments.

    Attributes:
        name: its name in the table, such as `build cifar`.
        variant: tells operations of one name apart.
        module: the module that `python -m` runs.
        arguments: returns its arguments in a place.
        prepare: writes the files that the command needs in a place.
        on_hub: whether it talks to a Hub.
        on_store: whether it talks to object storage.
        workers: whether it has --workers.
        ray: whether it has --executor.
        says: whether its output on stdout is part of its outcome.
        tag: the tag that it publishes; empty if it does not.
        rewrites: names of files that it may leave in another state before it ends.
    """

    name: str
    variant: str
    module: str
    arguments: Callable[[Place], tuple[str, ...]]
    prepare: Callable[[Place], None] = _nothing
    on_hub: bool = False
    on_store: bool = False
    workers: bool = True
    ray: bool = False
    says: bool = False
    tag: str = ""
    rewrites: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Its name and variant, for files."""
        return f"{self.name} {self.variant}".strip().replace(" ", "-").replace("/", "-")

    def outcome(self, place: Place, ran: Ran | None) -> Outcome:
        """Return the digests of the files that exist, and the command's stdout if that is part of the outcome."""
        outcome = tree(place.out, "out") | {f"tmp/{name}": "" for name in left_in(place.disk / "tmp")}
        if place.hub is not None:
            outcome |= hub_outcome(place.hub)
        if place.store is not None:
            outcome |= place.store.outcome()
        if self.says and ran is not None:
            outcome["stdout"] = ran.out.replace(place.store.address, "") if place.store else ran.out
        return outcome


def tree(root: Path, name: str) -> Outcome:
    """Return the digest of every file below a folder, and its empty folders."""
    digests = {}
    for path in sorted(root.rglob("*")):
        shown = f"{name}/{path.relative_to(root).as_posix()}"
        if path.is_file():
            digests[shown] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif not any(path.iterdir()):
            digests[f"{shown}/"] = ""
    return digests


def hub_outcome(hub: Hub) -> Outcome:
    """Return the digests of all files of main and of every tag, and the number of the publisher's commits."""
    outcome = {}
    for name, repo in sorted(hub.repos.items()):
        for revision in ("main", *sorted(repo.tags)):
            outcome |= {
                f"hub/{name}@{revision}/{path}": file.sha256 for path, file in hub.files(name, revision).items()
            }
        outcome[f"hub/{name} commits"] = str(sum(commit.author == USER for commit in hub.commits(name)))
    return outcome


def left_in(folder: Path) -> list[str]:
    """Return the files of a temporary folder, but for Python's own."""
    files = [path for path in folder.rglob("*") if path.is_file() and not _is_probe(path, folder)]
    return sorted(path.relative_to(folder).as_posix() for path in files)


def _is_probe(path: Path, folder: Path) -> bool:
    """Whether a file is Python's own test that it can write there: `tempfile._get_default_tempdir`."""
    named = path.parent == folder and re.fullmatch(r"[a-z0-9_]{8}", path.name)
    return bool(named) and path.read_bytes() in (b"", b"blat")  # killed before or after it wrote


SPLITS = {
    "imagenet": ("imagenet/validation", "imagenet/near_ood", "imagenet/far_ood_caltech45", "imagenet/far_ood_food32"),
    "cifar": ("cifar/validation", "cifar/near_ood", "cifar/far_ood_svhn", "cifar/far_ood_lsun_fix"),
    "facets": ("facets-baseline/validation", "facets-baseline/test"),
    "broad": (
        "broad-novel-classes/inaturalist",
        "broad-novel-classes/openimage_o",
        "broad-multi-label/cocomagenet",
        "broad-multi-label/cocomagenet_mono",
    ),
}
"""Small splits of each benchmark."""

OF_THE_WHOLE = (
    "out/README.md",
    "out/manifest.json",
    "out/croissant.json",
    "out/LICENSE.md",
    "out/duplicates/pairs.parquet",
)
"""Files of a release that describe all of its configs."""

DECIPHERED = ("broad-adversarial/pgd_resnet50", "broad-synthetic/biggan")
"""Splits of BROAD that are deciphered from the authors' files."""


def operations(drawing: Random) -> list[Operation]:
    """Return all operations; splits and seeds of the builds are drawn."""
    builds = [_build(benchmark, number, drawing) for benchmark in SPLITS for number in (1, 2)]
    return [
        *builds,
        _build_more(),
        *(_export(form) for form in ("imagefolder", "openood", "webdataset")),
        _push("first", "v1.0.0", _nothing),
        _push("second", "v1.1.0", _first_version),
        _materialize("folder", _materialized_folder),
        replace(_materialize("Hub", _materialized_hub), prepare=_both_versions, on_hub=True),
        _verify("folder", lambda place: (str(place.world.release),)),
        _verify("Hub", lambda place: (REPO, "--revision", "v1.1.0"), prepare=_both_versions, on_hub=True),
    ]


def store_operations() -> list[Operation]:
    """Return the operations whose release lies in object storage."""
    return [
        Operation("build cifar", "to S3", "builders.cifar_benchmark", _built_in_store, on_store=True),
        Operation("materialize", "to S3", "hf_scripts.materialize", _materialized_in_store, on_store=True),
        _verify("S3", lambda place: (place.store.address,), prepare=_in_store, on_store=True),
    ]


def _in_store(place: Place) -> None:
    """Put the release into the bucket."""
    place.store.put(place.world.release)


def _built_in_store(place: Place) -> tuple[str, ...]:
    splits = ("--splits", "cifar/validation,cifar/far_ood_svhn", "--limit-per-class", "2")
    return (*sources(place.world, "cifar"), *splits, "--out", place.store.address, "--quiet")


def _materialized_in_store(place: Place) -> tuple[str, ...]:
    chosen = ("--splits", "cifar/validation,cifar/far_ood_dtd")
    return (str(place.world.release), *chosen, *_copies(place), "--out", place.store.address, "--quiet")


def _first_version(place: Place) -> None:
    """Publish the release's first version on the Hub."""
    place.world.first.put(place.hub)


def _both_versions(place: Place) -> None:
    """Publish both versions on the Hub."""
    place.world.published.put(place.hub)


def _build(benchmark: str, number: int, drawing: Random) -> Operation:
    splits = SPLITS[benchmark]
    chosen = sorted(drawing.sample(splits, drawing.randint(1, min(3, len(splits)))))
    flags = ["--seed", str(drawing.randint(0, 9)), "--limit-per-class", str(drawing.randint(1, 2))]
    flags += ["--check", "decode"] if drawing.random() < 0.25 else []
    flags += ["--index-only"] if drawing.random() < 0.25 else []
    deciphered = benchmark == "broad" and number == 2
    if deciphered:
        chosen, flags = [*chosen[:1], *DECIPHERED], ["--seed", "0"]
    text = ",".join(chosen)

    def arguments(place: Place) -> tuple[str, ...]:
        adopted = ("--adopt-partial-broad", str(place.world.demo / "partial_broad")) if deciphered else ()
        source_flags = sources(place.world, benchmark)
        return (*source_flags, *adopted, "--splits", text, *flags, "--out", "out", "--quiet")

    return Operation(f"build {benchmark}", str(number), f"builders.{benchmark}_benchmark", arguments, ray=True)


def _build_more() -> Operation:
    """Return the build of a second benchmark into the folder of a release."""

    def prepare(place: Place) -> None:
        shutil.copytree(place.world.part, place.out)

    def arguments(place: Place) -> tuple[str, ...]:
        splits = ("--splits", "imagenet/near_ood,imagenet/far_ood_food32", "--limit-per-class", "1")
        return (*sources(place.world, "imagenet"), *splits, "--out", "out", "--quiet")

    module = "builders.imagenet_benchmark"
    return Operation("build imagenet", "into a release", module, arguments, prepare, ray=True, rewrites=OF_THE_WHOLE)


def _export(form: str) -> Operation:
    def arguments(place: Place) -> tuple[str, ...]:
        return (str(place.world.release), "--format", form, "--out", "out", "--quiet")

    growing = ("out/.export/export.json",)  # the record of finished splits
    return Operation("export", form, "hf_scripts.export", arguments, workers=False, rewrites=growing)


def _push(variant: str, tag: str, prepare: Callable[[Place], None]) -> Operation:
    def arguments(place: Place) -> tuple[str, ...]:
        return (str(place.world.release), "--repo", REPO, "--tag", tag, "--private")

    return Operation("push", variant, "hf_scripts.push", arguments, prepare, on_hub=True, tag=tag)


def _verify(variant: str, arguments: Callable[[Place], tuple[str, ...]], **more: Any) -> Operation:
    return Operation("verify", variant, "hf_scripts.verify", arguments, says=True, **more)


def _materialize(variant: str, arguments: Callable[[Place], tuple[str, ...]]) -> Operation:
    # Its configs are built one after the other, and each leaves a whole release.
    return Operation("materialize", variant, "hf_scripts.materialize", arguments, ray=True, rewrites=OF_THE_WHOLE)


def _materialized_folder(place: Place) -> tuple[str, ...]:
    return (str(place.world.release), *_copies(place), "--out", "out", "--quiet")


def _materialized_hub(place: Place) -> tuple[str, ...]:
    return (REPO, "--revision", "v1.1.0", *_copies(place), "--out", "out", "--quiet")


def _copies(place: Place) -> tuple[str, ...]:
    """Return the flags with the sources of the release."""
    return tuple(part for key in ("cifar100", "lsun", "dtd") for part in (f"--{key}", str(place.world.demo / key)))
