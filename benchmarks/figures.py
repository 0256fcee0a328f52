"""Keeps what benchmarks measured, in `figures.json`, with machine, commit, date and load.

A benchmark records its figures under a name; `benchmarks.pages` makes the pages in `docs/` from them. Figures of
another commit stay until the benchmark runs again, and the pages say of which commit each is.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("figures.json")

MEASURED = ("builders", "hf_scripts", "taxonomy", "unknown_detection")
"""Folders with the code that benchmarks measure."""

Figures = Mapping[str, Any]


def read(file: Path = FILE) -> dict[str, Any]:
    """Return all recorded figures, by name."""
    written: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return written


def record(name: str, values: Mapping[str, Any], file: Path = FILE) -> None:
    """Write the figures of a benchmark into the file, in place of those of its last run."""
    written = read(file) if file.exists() else {}
    written[name] = {"measured": measured(), **values}
    file.write_text(json.dumps(written, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"recorded as {name}")


def measured() -> dict[str, Any]:
    """Return where and when something is measured, and how many processes ran or waited to run at its end."""
    return {
        "machine": machine(),
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "load": round(os.getloadavg()[0], 1),
    }


def machine() -> str:
    """Return the processor, the cores and the memory of this machine."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {gib:.0f} GiB"


def commit() -> str:
    """Return the commit of the checkout, with a plus if what is measured was changed since."""
    root = Path(__file__).parents[1]

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", *MEASURED)
    return git("rev-parse", "--short=8", "HEAD") + "+" * bool(changed)
