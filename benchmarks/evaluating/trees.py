"""Compare the figures of two trees of this project: `python -m benchmarks.evaluating.trees OLD NEW [--demos [NAME]]`.

Makes the demo of the digits in each tree, or takes a finished demo's or report's folder in place of one, and compares
`figures.parquet` by what identifies a figure. With `--demos` NEW also builds the demos of the benchmarks, and both
trees judge the same made-up scores; `--keep DIR` keeps releases, scores and reports, and uses those that are there.

Exits with 1 if a figure that both have differs by more than 1e-12, or in its number of rows, for no known reason.
Figures that only one has are counted by protocol and rows; those without duplicates are the same only with the same
table of duplicates.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.evaluating.tree_demos import DEMOS, Figures, demo, figures_of

KEY = ["run", "variant", "seed", "detector", "protocol", "config", "setting", "known", "unknown", "metric", "positive"]
KEY += ["rows", "statistic", "fitted_on", "duplicates"]
NUMBERS = ["n_known", "n_unknown", "factor"]
CLOSE = 1e-12

ONCE = "known rows that are the same for each set of a mean count once, docs/evaluating.md"
RULE = "where near pairs are too many, equal pictures alone are duplicates, docs/benchmarks/duplicates.md"
"""What changed on purpose: of `ONCE` only the number of known rows differs, and of `RULE` nothing does without it."""


def compare(figures: Figures) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the figures that both have, and how many only one side has.

    The column `reason` says why a figure differs: empty for equal ones, "?" where it is unknown.
    """
    merged = figures.old.merge(figures.new, on=KEY, how="outer", suffixes=("", "_new"), indicator="side")
    both = merged[merged["side"] == "both"]
    allowed = CLOSE * both["value"].abs().clip(lower=1)  # variances are in squared percent
    same = ((both["value"] - both["value_new"]).abs() <= allowed) | both[["value", "value_new"]].isna().all(axis=1)
    equal = np.array([both[name] == both[f"{name}_new"] for name in NUMBERS])
    once = same & equal[1:].all(axis=0) & (both["statistic"] == "mean") & (both["n_known"] % both["n_known_new"] == 0)
    both = both.assign(reason=np.select([same & equal.all(axis=0), once], ["", ONCE], "?"))
    if figures.rule_off is not None:
        without, _ = compare(Figures(figures.old, figures.rule_off))
        both = both.merge(without[[*KEY, "reason"]], on=KEY, suffixes=("", "_off"))
        both.loc[(both["reason"] == "?") & (both["reason_off"] != "?"), "reason"] = RULE
    alone = merged[merged["side"] != "both"].astype({"side": str})
    counts = alone.groupby(["side", "protocol", "rows"], observed=True).size().rename("figures").reset_index()
    return both, counts.replace({"side": {"left_only": "only old", "right_only": "only new"}})


def main(*words: str) -> int:
    """Print how figures compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", type=Path, nargs=2, metavar="TREE")
    parser.add_argument("--demos", nargs="*", choices=DEMOS, help="all of the demos, or some")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    asked, unknown = parser.parse_args(words), 0
    old, new = (tree.resolve() for tree in asked.trees)
    with tempfile.TemporaryDirectory() as folder:
        root = (asked.keep or Path(folder)).resolve()
        root.mkdir(parents=True, exist_ok=True)
        places = root / "digits-old", root / "digits-new"
        for name in ["figures"] if asked.demos is None else asked.demos or DEMOS:
            found = demo(name, old, new, root) if name in DEMOS else Figures(*map(figures_of, (old, new), places))
            both, alone = compare(found)
            reasons = both["reason"].value_counts()
            print(f"{name}: both have {len(both):,}, of which {reasons.get('', 0):,} are equal")
            for reason, number in reasons.drop("", errors="ignore").items():
                print(f"  {number:,} differ: {reason}")
            strange = both[both["reason"] == "?"]
            unknown += len(strange)
            if len(strange):
                print(strange[[*KEY, "value", "value_new", "n_known", "n_known_new"]].head(20).to_string())
            if len(alone):
                print(alone.to_string(index=False))
    return int(unknown > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
