"""Figures of two trees: what differs fails, what only one has is counted, and other duplicates are other figures."""

import pytest

from benchmarks.evaluating.trees import main
from tests.evaluation.made_rows import figure, of_run
from unknown_detection.evaluation.report.figures import tidy, write_figures


@pytest.mark.parametrize(("value", "code"), [(0.5, 0), (0.5 + 1e-13, 0), (0.5 + 1e-11, 1)])
def test_figures_that_both_have_are_compared_and_others_counted(tmp_path, capsys, value, code):
    for name, of_msp, metric in (("old", 0.5, "aurc"), ("new", value, "eaurc")):
        over_others = 0.6 if name == "old" else 0.7
        judged = [figure(of_msp), figure(0.1, metric), figure(over_others, rows="without_duplicates")]
        table = tidy([(of_run(duplicates_sha256=name), judged)])
        write_figures(tmp_path / name / "figures.parquet", table)
    assert main(str(tmp_path / "old"), str(tmp_path / "new")) == code
    printed = capsys.readouterr().out
    assert printed.startswith(f"figures: both have 1, of which {1 - code} are equal\n{'  1 differ: ?' * code}")
    assert printed.count("only old") == printed.count("only new") == 2


@pytest.mark.parametrize(("n_known", "code"), [(30, 0), (31, 1)])
def test_known_rows_that_a_mean_counts_once_are_a_known_reason(tmp_path, capsys, n_known, code):
    for name, rows in (("old", n_known), ("new", 10)):
        mean = {**figure(0.5, statistic="mean"), "n_known": rows}
        write_figures(tmp_path / name / "figures.parquet", tidy([(of_run(), [mean])]))
    assert main(str(tmp_path / "old"), str(tmp_path / "new")) == code
    assert ("1 differ: known rows" in capsys.readouterr().out) == (code == 0)
