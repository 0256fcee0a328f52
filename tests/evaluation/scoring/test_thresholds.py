"""Thresholds that keep a share of known rows: the conformal place, each row's decision, and what is guaranteed."""

import math

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="runs torch models")
pytest.importorskip("torchvision", reason="preprocesses images")

import unknown_detection as ud  # noqa: E402
from tests.evaluation import small_models  # noqa: E402
from tests.evaluation.refusals import refusal  # noqa: E402
from tests.evaluation.samples import CONFIG, fitted  # noqa: E402
from unknown_detection.evaluation.__main__ import main  # noqa: E402
from unknown_detection.evaluation.scoring.fit_splits import in_fit_half  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

DETECTORS = ["msp", "max_logit", "energy"]


def known_scores(scores, release, half):
    """Sorted scores of the held-out known rows, by detector: all of validation, or its tune half."""
    rows = ud.load(release).rows(CONFIG, "validation")
    ids, labels = rows["id"].to_pylist(), rows["label"].to_numpy()
    keep = labels >= 0
    if half:
        keep &= ~in_fit_half(ids, labels)
    of_rows = scores[scores["id"].isin([id_ for id_, kept in zip(ids, keep, strict=True) if kept])]
    return {name: sorted(of["score"]) for name, of in of_rows.groupby("detector")}


@pytest.mark.parametrize(("half", "level"), [(False, 0.95), (False, 0.8), (True, 0.9)])
def test_the_threshold_is_the_conformal_one_and_each_row_has_a_decision(features, release, half, level):
    """ceil((n + 1) level) by hand: of 60 rows place 58 and 49, of the tune half's 28 place 27."""
    lines = []
    options = {"search": False, "at_known": level, "log": lines.append}
    splits = [f"{CONFIG}/{name}" for name in ("test", "validation", "near_ood", "external_validation")]
    if half:
        store = ud.extract(fitted(small_models.cnn), release, splits, workers=0, quiet=True)
        scores = ud.score(store, DETECTORS, **options)
    else:
        scores = ud.score(features, DETECTORS, **options)
    about = scores.attrs["provenance"]
    place = {0.95: 58, 0.8: 49, 0.9: 27}[level]
    for name, values in known_scores(scores, release, half).items():
        threshold = about["thresholds"][name]
        assert len(values) == (28 if half else 60) and threshold == values[place - 1]
        of = scores[scores["detector"] == name]
        assert (of["decision"] == np.where(of["score"] > threshold, "unknown", "known")).all()
    rows = 28 if half else 60
    assert about["at_known"] == {"asked": level, "rows": rows, "quantile": place / rows}
    (said,) = [line for line in lines if line.startswith("thresholds at")]
    assert f"quantile {place / rows:.4f}" in said and f"probability of {100 * place / (rows + 1):.2f} %" in said
    assert not [line for line in lines if "guarantee is not exact" in line]


@pytest.mark.parametrize(("count", "level"), [(19, 0.95), (20, 0.95), (100, 0.9), (9, 0.5), (199, 0.995)])
def test_of_exchangeable_scores_the_share_is_as_said(count, level):
    """Each of n + 1 distinct scores in turn is the new one: k of them are at or below the k-th of the others."""
    place = math.ceil(round((count + 1) * level, 9))
    values = np.random.default_rng(count).permutation(count + 1)
    kept = sum(new <= np.sort(np.delete(values, number))[place - 1] for number, new in enumerate(values))
    assert kept == place and kept / (count + 1) >= level


def test_detectors_that_saw_the_rows_are_named(features):
    """KNN is tuned on them, Temperature is fitted on them; MSP is neither."""
    lines = []
    ud.score(features, ["msp", "knn", "temperature"], at_known=0.9, log=lines.append)
    (said,) = [line for line in lines if "guarantee is not exact" in line]
    assert "note: knn, temperature were fitted or tuned" in said


def test_what_is_refused(features, release):
    assert "needs 199. Extract more" in refusal(ud.score, features, "msp", at_known=0.995)
    for level in (0, 1, 95, "0.95", [0.95]):
        assert f"found {level!r}." in refusal(ud.score, features, "msp", at_known=level)
    store = ud.extract(fitted(small_models.cnn), release, [f"{CONFIG}/test", f"{CONFIG}/near_ood"], workers=0)
    assert "no features of validation or held_out" in refusal(ud.score, store, "msp", at_known=0.9)


def test_the_command_writes_thresholds_and_decisions(features, release, tmp_path):
    """Beside the scores, which evaluate as those without; another run without the flag leaves none."""
    score = ["score", "--features", str(features.root), "--no-search", "--detectors", "msp,knn", "--quiet"]
    out = tmp_path / "scores.parquet"
    assert main([*score, "--out", str(out), "--at-known", "0.95"]) == 0
    scores, thresholds = pd.read_parquet(out), pd.read_csv(tmp_path / "scores.thresholds.csv")
    assert thresholds.columns.tolist() == ["detector", "threshold", "asked", "rows", "quantile"]
    assert dict(zip(thresholds["detector"], thresholds["threshold"], strict=True)) == pytest.approx(
        scores.attrs["provenance"]["thresholds"]
    )
    assert {*scores["decision"]} == {"known", "unknown"}
    pd.testing.assert_frame_equal(ud.evaluate(out, release), ud.evaluate(scores, release).assign(run="scores"))
    assert main([*score, "--out", str(out)]) == 0
    assert not (tmp_path / "scores.thresholds.csv").exists() and "decision" not in pd.read_parquet(out)
