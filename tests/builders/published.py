"""OpenOOD's lists of images as published, and trees of files that have their names."""

import gzip
import os
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "published"

published = pytest.mark.skipif(not REFERENCE.is_dir(), reason="no published lists beside this checkout")


def listed(name):
    """The label of each image of a list, by its path without the set's folder."""
    with gzip.open(REFERENCE / "openood_v1_5" / f"{name}.txt.gz", "rt", encoding="utf-8") as file:
        lines = [line.split() for line in file]
    return {path.partition("/")[2]: int(label) for path, label in lines}


def touched(root, names):
    """Make empty files, of which there may be many thousand."""
    for folder in {name.rpartition("/")[0] for name in names}:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in names:
        os.close(os.open(f"{root}/{name}", os.O_CREAT))
    return root
