"""Contents of cgroup files are as the kernel documents them: cgroup-v2.rst (cpu.max), scheduler/sched-bwc.rst."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from builders.commands.benchmark import make_command
from builders.executors.cores import usable_cores
from builders.imagenet_benchmark import BENCHMARK
from hf_scripts import materialize, push, verify

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="CPU affinity and cgroups are Linux's")


@pytest.fixture
def count(tmp_path, monkeypatch):
    """The cores of a process on eight, in the given groups; files by their path in the mounted hierarchies."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))

    def count(groups, files):
        for name, text in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "membership").write_text(groups)
        return usable_cores(tmp_path / "cgroup", tmp_path / "membership")

    return count


def test_a_process_has_at_most_the_cores_of_its_affinity():
    assert 1 <= usable_cores() <= len(os.sched_getaffinity(0))
    script = (
        "import os\nfrom builders.executors.cores import usable_cores\n"
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
    assert count("0::/\n", {"cpu.max": quota}) == cores


def test_the_smallest_quota_of_nested_groups_binds(count):
    files = {"a.slice/cpu.max": "300000 100000\n", "a.slice/b.scope/cpu.max": "500000 100000\n"}
    assert count("0::/a.slice/b.scope\n", files) == 3
    assert count("0::/a.slice/b.scope\n", {"a.slice/b.scope/cpu.max": "max 100000\n"}) == 3
    assert count("0::/other.slice\n", {}) == 8


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
@pytest.mark.parametrize("controllers", ["cpu", "cpu,cpuacct"])
def test_version_1(count, controllers, quota, period, cores):
    files = {f"{controllers}/job/cpu.cfs_quota_us": quota, f"{controllers}/job/cpu.cfs_period_us": period}
    groups = f"12:pids:/job\n3:{controllers}:/job\n2:cpuset:/\n1:name=systemd:/init.scope\n0::/init.scope\n"
    assert count(groups, files) == cores


def test_in_a_container_that_sees_the_hosts_paths_its_group_is_the_root(count):
    files = {"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert count("3:cpu,cpuacct:/docker/0123456789abcdef\n", files) == 4
    assert count("0::/../../kubepods/pod1\n", {"cpu.max": "200000 100000\n"}) == 2


def test_version_2_beside_version_1(count):
    files = {"unified/cpu.max": "600000 100000\n", "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert count("1:cpu:/\n0::/\n", files) == 6


def test_without_cgroups_the_affinity_counts(tmp_path):
    assert usable_cores(tmp_path, tmp_path / "none") == len(os.sched_getaffinity(0))


COMMANDS = [make_command(BENCHMARK), materialize.make_command(), push.command, verify.command]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_commands_say_that_they_use_all_usable_cores(command):
    assert "all usable cores" in " ".join(CliRunner().invoke(command, ["--help"]).output.split())
