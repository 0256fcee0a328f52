"""Run something in a process of its own that is killed, as by `kill -9`, at a chosen rename."""

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

_SCRIPT = """
import os, signal, sys
from pathlib import Path
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

    Everything that becomes visible in a release is renamed into place, so the points are all states that a kill can
    leave. The code finds the arguments in `sys.argv[2:]` and the demo sources of a folder with `sources(folder)`.
    """
    killed = _run(point, body, arguments)
    assert killed.returncode == -signal.SIGKILL, killed.stderr


def renames_of(body, *arguments):
    """Run the same code undisturbed; returns how many files it renamed."""
    done = _run(0, body + "print(renames)", arguments)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def _run(point, body, arguments):
    command = [sys.executable, "-c", _SCRIPT + body, str(point), *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
