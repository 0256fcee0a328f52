"""Differences from the best detector: on the same drawn rows, as a loop over samples has them, and on the page."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import unknown_detection as ud
from examples.digits_release import CONFIG
from tests.evaluation.refusals import refusal
from tests.evaluation.report.as_text import page_of
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.metrics.bootstrap import row_counts
from unknown_detection.evaluation.releases import load

SAMPLES = 100


@pytest.fixture(scope="module")
def scores(digits):
    """Three detectors of one noise: the second is nearly the first, the third worse."""
    index = load(str(digits)).index([CONFIG])
    unknown, numbers = ~index["known"].to_numpy(), np.random.default_rng(0)
    noise = numbers.normal(size=len(index))
    of_all = {"best": noise + 1.5 * unknown, "close": noise + 1.45 * unknown + 0.2 * numbers.normal(size=len(index))}
    of_all["worse"] = noise + 0.3 * unknown
    tables = [pd.DataFrame({"id": index["id"], "detector": name, "score": of}) for name, of in of_all.items()]
    return pd.concat(tables, ignore_index=True)


def test_differences_are_of_the_same_drawn_rows(digits, scores):
    """A loop with scikit-learn over the counts that the intervals of each detector draw, too."""
    figures = ud.evaluate(scores, str(digits), CONFIG, ["auroc"], SAMPLES, against="best").set_index(
        ["detector", "split"]
    )
    rows = load(str(digits)).index([CONFIG]).merge(scores, on="id")
    wide = rows.pivot_table("score", ["split", "id"], "detector", observed=True, sort=False).reset_index("split")
    known = wide[(wide["split"] == "test") & wide.index.isin(rows.loc[rows["known"], "id"])]
    unknown = wide[wide["split"] == "near_ood"]
    drawn = row_counts(len(known), SAMPLES, f"known of {CONFIG}")
    others = row_counts(len(unknown), SAMPLES, f"{CONFIG}/near_ood/near_ood")
    truth = np.repeat([0, 1], [len(known), len(unknown)])
    both = pd.concat([known, unknown])
    areas = {
        name: [roc_auc_score(truth, both[name], sample_weight=np.r_[some]) for some in zip(drawn, others, strict=True)]
        for name in ("best", "close", "worse")
    }
    for name in ("close", "worse"):
        line = figures.loc[(name, "near_ood")]
        ends = np.quantile(np.subtract(areas[name], areas["best"]), (0.025, 0.975))
        assert [line["AUROC_difference_low"], line["AUROC_difference_high"]] == pytest.approx(ends, abs=1e-12)
        assert line["AUROC_difference"] == pytest.approx(line["AUROC"] - figures.loc[("best", "near_ood"), "AUROC"])
    close = figures.loc[("close", "near_ood")]
    assert close["AUROC_difference_high"] - close["AUROC_difference_low"] < close["AUROC_high"] - close["AUROC_low"]
    assert (figures.loc["best"].filter(like="difference") == 0).all(axis=None)
    means = figures.xs("mean", level="split")["AUROC_difference"]
    far = figures[figures["role"] == "far_ood"].drop("mean", level="split").groupby("detector")["AUROC_difference"]
    assert means.to_dict() == pytest.approx(far.mean().to_dict())


def test_the_page_has_them_where_samples_are_asked_for(digits, scores, tmp_path):
    """And none otherwise; the best detector stands in the heading alone."""
    ud.report(scores, str(digits), tmp_path / "with", splits=CONFIG, intervals=SAMPLES, plots=False)
    ud.report(scores, str(digits), tmp_path / "without", splits=CONFIG, plots=False)
    page, without = page_of(tmp_path / "with"), page_of(tmp_path / "without")
    assert "Differences from" in page and "Differences from" not in without
    figures = ud.evaluate(scores, str(digits), CONFIG, ["auroc"], SAMPLES, against="best").set_index(
        ["detector", "split"]
    )
    line = 100 * figures.loc[("worse", "near_ood")].filter(like="difference").astype(float)
    value, low, high = line
    assert f"{value:+.2f} [{low:+.2f}, {high:+.2f}]" in page


def test_a_detector_without_scores_is_named(digits, scores):
    assert "'bets' is not a detector with scores" in refusal(ud.evaluate, scores, str(digits), CONFIG, against="bets")


def test_runs_without_the_detector_to_compare_with_are_refused(digits, scores, tmp_path):
    """Files of one detector each had NaN as their differences."""
    files = [tmp_path / f"{name}.csv" for name in ("best", "close")]
    for file in files:
        scores[scores["detector"] == file.stem].to_csv(file, index=False)
    said = refusal(ud.evaluate, files, str(digits), CONFIG, against="best")
    assert said.startswith("close has no scores of best")
    figures = ud.evaluate(scores, str(digits), CONFIG, ["auroc"], against="best")
    assert figures["AUROC_difference"].notna().all()


@pytest.mark.parametrize("samples", [1, 99, -1])
def test_intervals_of_a_few_samples_are_refused(digits, scores, tmp_path, samples):
    """The least of forty samples is a percentile of 2.5 by name alone; of one, both ends are it."""
    said = refusal(ud.evaluate, scores, str(digits), CONFIG, intervals=samples)
    assert said.startswith(f"intervals={samples!r} is not a number")
    said = refusal(ud.report, scores, str(digits), tmp_path / "report", splits=CONFIG, intervals=samples, plots=False)
    assert said.startswith(f"intervals={samples!r} is not a number") and not (tmp_path / "report").exists()
    scores.to_csv(tmp_path / "scores.csv", index=False)
    flags = ["report", "--release", str(digits), "--scores", str(tmp_path / "scores.csv"), "--no-plots"]
    assert main([*flags, "--out", str(tmp_path / "report"), "--intervals", str(samples)]) == 2
    assert not (tmp_path / "report").exists()
