"""Two reports side by side, by the lines of pandas in docs/evaluating.md: differences worked out by hand."""

import re
from pathlib import Path

import pandas as pd
import pytest

from tests.evaluation.made_rows import figure, of_run
from tests.test_docs import ROOT
from unknown_detection.evaluation.report.figures import tidy, write_figures


def write(name, values):
    """A report with AUROCs by detector and seed, and an AURC that is no AUROC."""
    judged = [
        (of_run(detector, seed=seed, release_digest="ab"), [figure(value), figure(0.1, "aurc")])
        for detector, seeds in values.items()
        for seed, value in enumerate(seeds)
    ]
    Path("build", name).mkdir(parents=True)
    write_figures(Path("build", name, "figures.parquet"), tidy(judged))


def test_gains_are_means_over_the_seeds_of_both(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write("report", {"msp": [0.90, 0.92], "knn": [0.8]})
    write("report-2", {"msp": [0.93, 0.93, 0.99], "energy": [0.8]})
    page = (ROOT / "docs" / "evaluating.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n([^`]*figures\.parquet[^`]*)```", page)
    names = {}
    exec(block, names)
    table = names["both"].query("metric == 'auroc'").pivot_table("gain", "detector", "unknown")
    assert table["near_ood"].to_dict() == {"msp": pytest.approx((0.03 + 0.01) / 2)}
    assert "0.02" in capsys.readouterr().out
    assert pd.api.types.is_float_dtype(names["both"]["gain"])
