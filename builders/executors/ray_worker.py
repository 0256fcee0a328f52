"""The worker's side of `builders.executors.ray`: runs one task at a time in a process that Ray started on some node.

Tested by `tests/builders/executors/test_ray.py`.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from builders.errors import BuildError
from builders.executors.processes import without_pandas
from builders.executors.worker import answer, failure

_PACKAGES = ("numpy", "pillow", "pyarrow")
"""Their versions can change a Parquet file's bytes, or what decodes."""


class Answer(NamedTuple):
    """A worker's answer: the pickled result or exception, the images and bytes of the task, and the node's name."""

    data: bytes
    images: int
    size: int
    node: str


@dataclass(frozen=True)
class Driver:
    """The working folder and libraries of the process that sends tasks, which workers must have, too."""

    folder: str
    versions: tuple[tuple[str, str], ...]

    @classmethod
    def current(cls) -> Driver:
        """Describe this process."""
        return cls(str(Path.cwd()), _versions())


class _Count:
    """Adds up progress, for the answer."""

    images = size = 0

    def __call__(self, images: int, size: int, /) -> None:
        self.images += images
        self.size += size


def work(task: bytes, driver: Driver) -> Answer:
    """Run a pickled task; its exception is part of the answer, so that Ray retries lost workers alone."""
    count = _Count()
    try:
        _set_up(driver)
    except BuildError as error:
        data = failure(error)
    else:
        data = answer(task, count)
    return Answer(data, count.images, count.size, platform.node())


class Worker:
    """An actor that runs one task after another, so that costly setup is done once in it."""

    def work(self, task: bytes, driver: Driver) -> Answer:
        """Run a pickled task."""
        return work(task, driver)


@functools.cache
def _set_up(driver: Driver) -> None:
    """Prepare this process for the driver's tasks: check its libraries, and change to the driver's folder.

    Raises:
        BuildError: the node lacks the folder or has other libraries.
    """
    # `ray.cancel` interrupts a task that runs. Here it is meant for those that wait; running ones are finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for (name, expected), (_, version) in zip(driver.versions, _versions(), strict=True):
        if version != expected:
            raise BuildError(
                f"The Ray node {platform.node()} has {name} {version}, and this machine {expected}; a release's bytes "
                "depend on it. Install the same versions on all nodes, and run the same command again."
            )
    try:
        os.chdir(driver.folder)
    except OSError as error:
        raise BuildError(
            f"The Ray node {platform.node()} cannot use the folder {driver.folder}: {error.strerror}. Start this "
            "command in a folder that all nodes share, with the release folder and the sources on a shared "
            "filesystem, at the same paths."
        ) from error
    without_pandas()


def _versions() -> tuple[tuple[str, str], ...]:
    return tuple((name, importlib.metadata.version(name)) for name in _PACKAGES)
