"""Contents of cgroup files are as the kernel documents them: cgroup-v2.rst (cpu.max), scheduler/sched-bwc.rst."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from builders.executors.base import usable_cores

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="CPU affinity and cgroups are Linux's")


@pytest.fixture
def count(tmp_path, monkeypatch):
    """The cores of a process on eight, whose container has some files."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))

    def count(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return usable_cores(tmp_path)

    return count


def test_a_process_has_at_most_the_cores_of_its_affinity():
    assert 1 <= usable_cores() <= len(os.sched_getaffinity(0))
    script = (
        "import os\nfrom builders.executors.base import usable_cores\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nprint(usable_cores())\n"
    )
    process = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout == "1\n"


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000\n", 8),  # the default: no limit
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("5000 100000\n", 1),
        ("25000 50000\n", 1),
        ("10000000 1000000\n", 8),  # ten of eight cores
        ("", 8),
        ("many 100000\n", 8),
        ("200000 0\n", 8),
    ],
)
def test_version_2(count, quota, cores):
    assert count({"cpu.max": quota}) == cores


@pytest.mark.parametrize(
    ("quota", "period", "cores"),
    [
        ("-1\n", "100000\n", 8),
        ("250000\n", "100000\n", 3),
        ("50000\n", "100000\n", 1),
        ("1000000\n", "500000\n", 2),
        ("200000\n", "", 8),
    ],
)
def test_version_1(count, quota, period, cores):
    assert count({"cpu/cpu.cfs_quota_us": quota, "cpu/cpu.cfs_period_us": period}) == cores


def test_without_cgroups_the_affinity_counts(count):
    assert count({}) == 8
