"""Compare the figures of two trees of this project: `python -m benchmarks.evaluating.trees OLD NEW`.

Runs `examples/digits.py`, or in older trees `evaluate demo`, in each tree, or takes a finished demo's or report's
folder in place of one, and compares `figures.parquet` by what identifies a figure. Exits with 1 if a figure that both
have differs by more than 1e-12, or in its number of rows. Figures that only one has are counted by protocol and rows;
those without duplicates are the same only with the same table of duplicates.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

KEY = ["run", "variant", "seed", "detector", "protocol", "config", "setting", "known", "unknown", "metric", "positive"]
KEY += ["rows", "statistic", "fitted_on", "duplicates"]
NUMBERS = ("n_known", "n_unknown", "factor")
CLOSE = 1e-12
DEMOS = (("examples/digits.py",), ("-m", "unknown_detection", "evaluate", "demo"))
"""What makes the demo in a tree, the newer way first."""


def figures_of(place: Path, folder: Path) -> pd.DataFrame:
    """Return the figures in `place`, or if it is a tree of this project, those of its demo, made in `folder`."""
    made = [file for file in (place / "figures.parquet", place / "report" / "figures.parquet") if file.is_file()]
    if not made:
        script, words = DEMOS
        command = script if (place / script[0]).is_file() else words
        own = {**os.environ, "PYTHONPATH": str(place)}  # not the tree that is installed here
        subprocess.run([sys.executable, *command, "--out", folder], cwd=place, env=own, check=True)
        made = [folder / "report" / "figures.parquet"]
    figures = pd.read_parquet(made[0])
    return figures.assign(duplicates=figures["duplicates_sha256"].where(figures["rows"] == "without_duplicates", ""))


def compare(old: pd.DataFrame, new: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the figures that differ, and how many figures only one side has."""
    merged = old.merge(new, on=KEY, how="outer", suffixes=("", "_new"), indicator="side")
    both = merged[merged["side"] == "both"]
    differ = ~((both["value"] - both["value_new"]).abs() <= CLOSE) & ~(both["value"].isna() & both["value_new"].isna())
    for name in NUMBERS:
        differ |= both[name] != both[f"{name}_new"]
    alone = merged[merged["side"] != "both"].astype({"side": str})
    counts = alone.groupby(["side", "protocol", "rows"], observed=True).size().rename("figures").reset_index()
    sides = counts["side"].astype(str).replace({"left_only": "only old", "right_only": "only new"})
    return both[differ], counts.assign(side=sides)


def main(first: str, second: str) -> int:
    """Print how figures compare; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        old, new = (figures_of(Path(of).resolve(), Path(folder) / str(n)) for n, of in enumerate((first, second)))
    differ, alone = compare(old, new)
    print(f"{len(old):,} and {len(new):,} figures, {len(differ):,} of both differ")
    if len(differ):
        print(differ[[*KEY, "value", "value_new"]].head(20).to_string())
    if len(alone):
        print(alone.to_string(index=False))
    return int(len(differ) > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
