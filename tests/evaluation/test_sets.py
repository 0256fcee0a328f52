"""Sets of unknown rows that cannot be compared: without the known rows of their config, or of some runs alone.

On a release of two configs with a test, a near and a far split each.
"""

import re

import numpy as np
import pandas as pd
import pytest

import unknown_detection as ud
from tests.evaluation.made_rows import auc, only
from tests.evaluation.refusals import refusal
from tests.evaluation.written_release import made_row, write_release
from tests.sentences import assert_sentence
from unknown_detection.evaluation.errors import EvaluationWarning
from unknown_detection.evaluation.report import judging
from unknown_detection.evaluation.report.comparing import compare
from unknown_detection.evaluation.runs import join_runs

ROLES = {"test": "in_distribution", "near": "near_ood", "far": "near_ood"}


def write(root):
    rows = {
        f"{config}/{split}": [made_row(f"{config} {split} {n}", role, 0 if split == "test" else -1) for n in range(20)]
        for config in ("one", "two")
        for split, role in ROLES.items()
    }
    return write_release(root, rows, ["class"])


@pytest.fixture
def release(tmp_path):
    return write(tmp_path / "release")


@pytest.fixture
def scores(release):
    ids = ud.load(release).index()["id"].astype(str)
    return pd.DataFrame({"id": ids, "score": np.random.default_rng(0).normal(size=len(ids))})


def test_unknown_rows_are_compared_with_the_known_rows_of_their_own_config(release, scores, tmp_path):
    """`one/near` was compared with the known rows of `two`, without a word."""
    splits = "one/near,two"
    for call in (ud.evaluate, lambda *given: ud.report(*given[:2], tmp_path / "report", splits=splits, plots=False)):
        assert "one/near without one/test" in refusal(call, scores, release, splits)
    figures = ud.evaluate(scores, release, "one/test,one/near,two")
    alone = ud.evaluate(scores, release, "one/test,one/near")
    assert figures.query("config == 'one'")["AUROC"].tolist() == alone["AUROC"].tolist()


def test_means_of_runs_over_other_sets_are_said_to_be_so(release, scores, tmp_path):
    """A run that lacks a split has the mean over the others, which stood in one column with the mean over all."""
    fewer = scores[~scores["id"].str.startswith("one far")]
    runs = [scores.assign(detector="a"), fewer.assign(detector="b")]
    with pytest.warns(EvaluationWarning, match="scores-2 has no scores of one/far, which other runs have"):
        figures = ud.evaluate(runs, release)
    assert set(figures.query("run == 'scores-2'")["split"]) == {"near", "far", "mean"}
    said = ud.report(runs, release, tmp_path / "report", plots=False).warnings
    assert any(re.match("scores-2 has no scores of one/far, which other runs have", of) for of in said)
    # One file a config is no such case.
    parts = [scores[scores["id"].str.startswith(config)].assign(detector="a") for config in ("one", "two")]
    said = ud.report(parts, release, tmp_path / "report", plots=False).warnings
    assert not [of for of in said if "has no scores" in of]


def test_shifted_rows_are_compared_with_the_known_rows_of_the_config_that_their_name_extends(tmp_path):
    """As of OpenOOD's `openood-imagenet200-shifted`, which was compared with those of `openood-imagenet1k`, too."""
    sides = {"one/test": "in_distribution", "two/test": "in_distribution", "two-shifted/snow": "corruption"}
    rows = {key: [made_row(f"{key} {n}", role, 0) for n in range(30)] for key, role in sides.items()}
    release, numbers = write_release(tmp_path / "release", rows, ["class"]), np.random.default_rng(1)
    scores = {key: numbers.normal(size=30) for key in rows}
    table = {f"{key} {n}": score for key, of in scores.items() for n, score in enumerate(of)}
    (line,) = ud.evaluate(table, release).to_dict("records")
    assert line["AUROC"] == pytest.approx(auc(scores["two/test"], scores["two-shifted/snow"]))
    others = {id_: score for id_, score in table.items() if not id_.startswith("two/")}
    (line,) = ud.evaluate(others, release, "one,two-shifted").to_dict("records")
    assert line["AUROC"] == pytest.approx(auc(scores["one/test"], scores["two-shifted/snow"]))


def test_accuracy_is_of_labelled_known_rows_alone(tmp_path):
    """FACETS has known rows without a label, which were errors; of a chosen `accuracy` unknown rows were, too."""
    groups = {("in_distribution", 0): 10, ("in_distribution", -1): 10, ("near_ood", -1): 10}
    kinds = [kind for kind, count in groups.items() for _ in range(count)]
    rows = {"facets-x/test": [made_row(f"{n}", *kind) for n, kind in enumerate(kinds)]}
    release, scores = write_release(tmp_path / "release", rows, ["class", "other"]), {}
    for number in range(3):
        wrong = [int(n < 2 + number) for n in range(30)]
        scores[f"m{number}"] = pd.DataFrame({"id": map(str, range(30)), "score": range(30), "prediction": wrong})
        scores[f"m{number}"].to_parquet(tmp_path / f"m{number}.parquet")
    named = [f"{name}={tmp_path}/{name}.parquet" for name in scores]
    opened = ud.load(release)
    runs, _ = join_runs(named, opened, None)
    (found,) = compare(judging.judge(runs, judging.choose_protocols((), runs, ()), opened))
    assert found.accuracy.to_dict() == pytest.approx({"m0": 0.8, "m1": 0.7, "m2": 0.6})
    report = ud.report(scores["m0"], release, tmp_path / "report", metrics="accuracy", plots=False)
    figure = only(report.figures.to_dict("records"), metric="accuracy", protocol="metrics")
    assert (figure["value"], figure["n_known"], figure["n_unknown"], figure["unknown"]) == (0.8, 8, 2, "test, wrong")
    assert list(report.results[-1].mean.columns) == [("", "Accuracy, n = 10")]
    assert re.search(r"<dt>Accuracy</dt>\s*<dd>80.00 %", report.page.read_text(encoding="utf-8"))
    figures = ud.evaluate(scores["m1"], release, metrics=["accuracy", "auroc"], intervals=100)
    (line,) = figures.to_dict("records")
    assert line["accuracy"] == 7 / 10 and line["accuracy_low"] < 0.7 < line["accuracy_high"] <= 1
    assert line["AUROC"] == auc(range(20), range(20, 30))


def test_without_labelled_known_rows_there_is_no_accuracy(tmp_path):
    rows = {"facets-x/test": [made_row(f"{n}", ("in_distribution", "near_ood")[n % 2]) for n in range(8)]}
    release = write_release(tmp_path / "release", rows, ["class"])
    scores = pd.DataFrame({"id": map(str, range(8)), "score": range(8), "prediction": 0})
    assert_sentence(refusal(ud.evaluate, scores, release, metrics="accuracy"), "Accuracy")
    report = ud.report(scores, release, tmp_path / "report", metrics=["accuracy", "auroc"], plots=False)
    values = report.figures.query("protocol == 'metrics'").groupby("metric")["value"].first()
    assert np.isnan(values["accuracy"]) and values["auroc"] == auc(range(0, 8, 2), range(1, 8, 2))
