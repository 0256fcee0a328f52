"""What a kill, as by `kill -9`, leaves of a folder at chosen renames, and how a process is really killed there.

Everything that becomes visible in a release or an export is renamed into place, so the moments before a rename are all
the states that a kill can leave. A kill takes what a process holds in its memory, and leaves what it has handed to the
system. So a copy of the folder at such a moment is what a kill would leave, and one undisturbed run gives the copies
for many kills (tests/test_killing.py compares them with real ones).
"""

import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def heed_interrupts():
    """As `preexec_fn`: a process heeds SIGINT, which a shell ignores for what it runs in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


_SCRIPT = """
import os, signal, sys
from pathlib import Path
from builders.executors.base import without_pandas
without_pandas()  # as commands and workers do: its import takes a third of the start
renames = 0
replace = Path.replace
def counting(self, target):
    global renames
    renames += 1
    if renames == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
Path.replace = counting
def sources(demo):
    return {path.name: path for path in sorted(Path(demo).iterdir()) if path.is_dir()}
"""


def killed_at_rename(point, body, *arguments):
    """Run Python code until its process comes to rename a file for the `point`-th time.

    The code finds the arguments in `sys.argv[2:]` and the demo sources of a folder with `sources(folder)`.
    """
    command = [sys.executable, "-c", _SCRIPT + body, *map(str, (point, *arguments))]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr


@dataclass(frozen=True)
class Watched:
    """An undisturbed run: the folder that it wrote, how many files it renamed, and its states before some renames."""

    folder: Path
    renames: int
    states: Path

    def as_killed(self, point):
        """Put the folder into the state that a kill at a rename leaves; returns the folder."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.states / str(point), self.folder, symlinks=True)
        return self.folder


def watched_at_renames(points, folder, run):
    """Call a function that writes a folder, and copy the folder before each of some renames."""
    states, replace, renamed = folder.with_name(f"{folder.name}-states"), Path.replace, []
    states.mkdir(parents=True)

    def copying(path, target):
        renamed.append(target)
        if len(renamed) in points:
            shutil.copytree(folder, states / str(len(renamed)), symlinks=True)
        return replace(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", copying)
        run()
    assert sorted(int(path.name) for path in states.iterdir()) == sorted(points)
    return Watched(folder, len(renamed), states)


def tree(folder):
    """Every file below a folder with its bytes; unfinished ones without the process id in their name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {re.sub(r"\.\d+\.tmp$", ".tmp", path.relative_to(folder).as_posix()): path.read_bytes() for path in files}
