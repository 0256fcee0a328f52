"""The tidy table of figures: its schema, what is written, means and deviations, and what is refused."""

import csv
import math
import statistics

import pytest

from tests.evaluation.made_rows import figure, of_run
from tests.evaluation.report.as_text import figures_of
from tests.sentences import stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.report.figures import (
    over_runs,
    tidy,
    write_figures,
)


def test_what_is_written_is_read_back_and_the_same_bytes_come_again(tmp_path):
    """In CSV with every digit, and a detector that is named like a formula is text."""
    judged = [(of_run("odin"), [figure(1 / 3)])]
    judged.append((of_run("=1+1", seed=None, model_digest=""), [figure(-0.25), figure(math.nan, "aurc")]))
    written = tidy(judged)
    for name in ("one", "two"):
        write_figures(tmp_path / name / "figures.csv", written)
        write_figures(tmp_path / name / "figures.parquet", written)
    assert figures_of(tmp_path / "one").equals(written), "NaN and the missing seed, too"
    for name in ("figures.csv", "figures.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    with (tmp_path / "one" / "figures.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["value"] for line in lines] == [repr(1 / 3), "-0.25", "nan"]
    assert [line["detector"] for line in lines] == ["odin", "'=1+1", "'=1+1"]
    assert [line["seed"] for line in lines] == ["0", "", ""]


def test_mean_and_sample_deviation_over_runs_are_those_of_the_standard_library():
    values = [0.91, 0.94, 0.88]
    runs = [of_run(variant=variant, seed=seed) for variant in "ba" for seed in range(3 if variant == "b" else 1)]
    means = over_runs(tidy((line, [figure(value)]) for line, value in zip(runs, [*values, 0.5], strict=True)))
    assert means[["variant", "runs"]].to_numpy().tolist() == [["b", 3], ["a", 1]]
    assert means["mean"][0] == pytest.approx(statistics.fmean(values), abs=1e-15)
    assert means["std"][0] == pytest.approx(statistics.stdev(values), abs=1e-15)
    assert math.isnan(means["std"][1]), "one run has no deviation"
    undefined = tidy((line, [figure(value)]) for line, value in zip(runs, (0.9, math.nan, 0.8), strict=False))
    assert math.isnan(over_runs(undefined)["mean"][0]), "no mean over fewer runs than there are"


def test_the_same_run_twice_is_refused_but_not_scores_of_unknown_origin():
    again = {"run": "again"}
    with stops(EvaluationError, "adam-0"):
        tidy([(of_run(), [figure(0.5)]), (of_run(**again), [figure(0.5)])])
    assert len(tidy((of_run(model_digest="", run=name), [figure(0.5)]) for name in "ab")) == 2
    # Scores of one run may come in several files, as long as no figure comes twice.
    tidy([(of_run(), [figure(0.5)]), (of_run("odin", **again), [figure(0.5)])])
