"""The tidy table of figures: its schema, what is written, means and deviations, and what is refused."""

import csv
import json
import math
import statistics
from dataclasses import asdict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.evaluation.made_rows import figure
from tests.evaluation.refusals import refusal
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.protocols.results import (
    COLUMNS,
    FIGURE_KEY,
    ModelRun,
    over_runs,
    read_figures,
    tidy,
    write_figures,
)


def run(name="adam-0", seed=0, variant="adam", digest=None):
    digest = f"weights of {name}" if digest is None else digest
    return ModelRun(name, variant, seed, "small", digest, {"odin": {"temperature": 1000.0}}, {"numpy": "2.0"})


def table(*judged):
    return tidy(judged, release="digits", release_digest="ab")


def test_every_figure_is_a_line_with_its_run_and_its_release():
    (lines,) = table((run(), "odin", [figure(0.75)])).to_dict("records")
    assert list(lines) == list(COLUMNS)
    of_run = {"model": "small", "model_digest": "weights of adam-0", "variant": "adam", "run": "adam-0", "seed": 0}
    of_run |= {"hyperparameters": '{"temperature": 1000.0}', "prepared": "{}", "versions": '{"numpy": "2.0"}'}
    of_release = {"release": "digits", "release_digest": "ab", "duplicates_sha256": ""}
    assert lines == {**of_release, **of_run, "detector": "odin", **asdict(figure(0.75))}
    assert set(FIGURE_KEY) == {name for name, value in asdict(figure(0.75)).items() if isinstance(value, str)}
    assert all(description for _, description in COLUMNS.values())


def test_what_is_written_is_read_back_and_the_same_bytes_come_again(tmp_path):
    written = table(
        (run(), "msp", [figure(0.1), figure(math.nan, "aurc")]), (run("x", None, ""), "mine", [figure(1 / 3)])
    )
    for name in ("one", "two"):
        write_figures(tmp_path / name / "figures.csv", written)
        write_figures(tmp_path / name / "figures.parquet", written, {"files": ["a"]})
    assert read_figures(tmp_path / "one").attrs == {"files": ["a"], "format": 4}
    read = read_figures(tmp_path / "one")
    assert read.equals(written), "NaN and the missing seed, too"
    assert [*read.columns] == list(COLUMNS)
    for name in ("figures.csv", "figures.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_csv_has_every_digit_and_no_formulas(tmp_path):
    """A detector that is named like one is text, and numbers are numbers."""
    judged = (run(), "odin", [figure(1 / 3)]), (run("x", None), "=1+1", [figure(-0.25), figure(math.nan, "aurc")])
    write_figures(tmp_path / "figures.csv", table(*judged))
    with (tmp_path / "figures.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["value"] for line in lines] == [repr(1 / 3), "-0.25", "nan"]
    assert [line["detector"] for line in lines] == ["odin", "'=1+1", "'=1+1"]
    assert [line["seed"] for line in lines] == ["0", "", ""]
    assert json.loads(lines[0]["hyperparameters"]) == {"temperature": 1000.0}


def test_mean_and_sample_deviation_over_runs_are_those_of_the_standard_library():
    values = [0.91, 0.94, 0.88]
    runs = [run(f"adam-{seed}", seed) for seed in range(3)]
    means = over_runs(table(*((line, "msp", [figure(value)]) for line, value in zip(runs, values, strict=True))))
    assert len(means) == 1
    assert means["runs"][0] == 3
    assert means["mean"][0] == pytest.approx(statistics.fmean(values), abs=1e-15)
    assert means["std"][0] == pytest.approx(statistics.stdev(values), abs=1e-15)
    undefined = [(line, "msp", [figure(value)]) for line, value in zip(runs, (0.9, math.nan, 0.8), strict=True)]
    assert math.isnan(over_runs(table(*undefined))["mean"][0]), "no mean over fewer runs than there are"


def test_figures_stay_in_the_order_in_which_they_first_come_however_many_they_are():
    named = [(f"d{number % 60}", figure(0.5, unknown=f"split {number * 7919 % 1000}")) for number in range(3000)]
    judged = [(run(f"adam-{seed}", seed), name, [line]) for seed in range(2) for name, line in named]
    means = over_runs(table(*judged))
    assert list(zip(means["detector"], means["unknown"], strict=True)) == [
        (name, line.unknown) for name, line in named
    ]


def test_one_run_has_no_deviation_and_variants_and_detectors_stay_apart_in_order():
    judged = [
        (run(f"{variant}-0", 0, variant), detector, [figure(0.5)]) for variant in "ba" for detector in ("z", "msp")
    ]
    means = over_runs(table(*judged))
    assert [*zip(means["variant"], means["detector"], strict=True)] == [
        *(("b", "z"), ("b", "msp"), ("a", "z"), ("a", "msp"))
    ]
    assert means["std"].isna().all()


def test_the_same_run_twice_is_refused_but_not_scores_of_unknown_origin():
    with pytest.raises(EvaluationError, match="adam-0 and again both have msp with seed 0 and the same weights"):
        table((run(), "msp", [figure(0.5)]), (run("again", 0, digest="weights of adam-0"), "msp", [figure(0.5)]))
    assert len(table(*((run(name, None, digest=""), "msp", [figure(0.5)]) for name in "ab"))) == 2
    # Scores of one run may come in several files, as long as no figure comes twice.
    table((run(), "msp", [figure(0.5)]), (run("more", 0, digest="weights of adam-0"), "odin", [figure(0.5)]))


def test_what_are_no_figures_is_refused(tmp_path):
    assert "no figures.parquet" in refusal(read_figures, tmp_path)
    (tmp_path / "figures.parquet").write_bytes(b"no")
    with pytest.raises(EvaluationError, match=r"Cannot read the figures .* as Parquet"):
        read_figures(tmp_path)
    pq.write_table(pa.table({"value": [1.0]}), tmp_path / "figures.parquet")
    assert "has format none, but this version reads format 4" in refusal(read_figures, tmp_path)
