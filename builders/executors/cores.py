"""Counts the cores that this process may use: in a container or batch job, fewer than the machine has."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
"""Where a container sees its own control group, of version 2 or 1 (cgroups(7))."""


def usable_cores(cgroup: Path = _CGROUP) -> int:
    """Count the cores that this process may use, at least 1.

    This is the lesser of its CPU affinity (`taskset`, a batch system's cpuset) and the quota of its container, rounded
    up (`docker run --cpus`, a Kubernetes limit). Python's `os.process_cpu_count` (3.13) considers only the affinity.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError):  # no such controller, or `max`, so no limit
            quota, period = map(int, " ".join((cgroup / name).read_text() for name in files).split())
            if quota > 0 and period > 0:  # -1 means no limit
                cores = min(cores, math.ceil(quota / period))
    return cores
