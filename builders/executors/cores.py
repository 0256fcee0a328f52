"""Counts the cores that this process may use: in a container or batch job, fewer than the machine has."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_HIERARCHIES = Path("/sys/fs/cgroup")
"""Where systemd and container runtimes mount cgroups."""

_MEMBERSHIP = Path("/proc/self/cgroup")
"""Lines `id:controllers:path`, the groups of this process (cgroups(7))."""


def usable_cores(hierarchies: Path = _HIERARCHIES, membership: Path = _MEMBERSHIP) -> int:
    """Count the cores that this process may use.

    This is the lesser of its CPU affinity (`taskset`, a batch system's cpuset) and the quota of its control groups,
    rounded up (`docker run --cpus`, a Kubernetes limit). Python's `os.process_cpu_count` (3.13) considers only the
    affinity.

    Args:
        hierarchies: folder of the mounted cgroups, version 2 or 1.
        membership: file with the groups of this process.

    Returns:
        At least 1.
    """
    cores = _affinity()
    quota = min(_quotas(hierarchies, membership), default=math.inf)
    return cores if quota >= cores else max(1, math.ceil(quota))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(hierarchies: Path, membership: Path) -> Iterator[float]:
    """Yield the quota, in cores, of each group of this process that has one; the smallest applies."""
    for controllers, group in _groups(membership):
        if not controllers:
            # Version 2. Beside version 1 it is mounted as `unified`, usually without a CPU controller.
            for root in (hierarchies, hierarchies / "unified"):
                for folder in _folders(root, group):
                    yield from _quota(*_words(folder / "cpu.max", 2))
        elif "cpu" in controllers.split(","):
            for root in (hierarchies / "cpu", hierarchies / "cpu,cpuacct"):
                for folder in _folders(root, group):
                    yield from _quota(
                        *_words(folder / "cpu.cfs_quota_us", 1), *_words(folder / "cpu.cfs_period_us", 1)
                    )


def _groups(membership: Path) -> Iterator[tuple[str, str]]:
    for line in _text(membership).splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            yield parts[1], parts[2]


def _folders(root: Path, group: str) -> Iterator[Path]:
    """Yield the folders of a group and of its parents.

    In a container the path may be the host's, which is not mounted there; then the root is the container's group.
    """
    parts = [part for part in PurePosixPath(group).parts if part not in ("/", "..")]
    for depth in range(len(parts), -1, -1):
        yield root.joinpath(*parts[:depth])


def _quota(*words: str) -> Iterator[float]:
    """Convert quota and period, in microseconds, to cores; yield nothing for `max` and -1, which mean no limit."""
    if len(words) == 2 and all(word.isascii() and word.isdigit() for word in words) and int(words[1]) > 0:
        yield int(words[0]) / int(words[1])


def _words(path: Path, count: int) -> list[str]:
    return _text(path).split()[:count]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # no such group or controller, so no limit
        return ""
