"""Attacked pictures as an evaluation gets them: from the command that attacks to the report, with real weights."""

import datasets
import numpy as np
import pytest

from tests.builders.generate.adversarial import real

pytestmark = [real.REAL, real.needed("torchvision", "sklearn")]

SPLIT = real.ATTACKED.partition("/")[2]


def test_pgd_deceives_the_model_also_as_the_rows_are_stored_and_evaluated(world, release, tmp_path, capsys):
    from sklearn.metrics import roc_auc_score

    from hf_scripts import verify
    from tests.evaluation.report.as_text import figures_of
    from unknown_detection.evaluation.__main__ import main
    from unknown_detection.evaluation.features.store import FeatureStore

    real.one_thread()
    assert verify.main([str(release), "--workers", "1"]) == 0
    rows = list(datasets.load_dataset(str(release), "broad-adversarial", split=SPLIT, streaming=True))
    right = [row["prediction_before"] == row["label"] for row in rows]
    assert sum(right) >= 16  # of 20; `test_generator.py` says why

    features, scores, report = tmp_path / "features", tmp_path / "scores.parquet", tmp_path / "report"
    of_release = ["--release", str(release)]
    model = ["--model", real.MODEL, "--weights", str(world[0]), "--device", "cpu", "--batch-size", "7"]
    configs = ["--splits", "broad-reference,broad-adversarial"]
    assert main(["extract", *of_release, *model, *configs, "--out", str(features)]) == 0
    assert f"{real.ATTACKED}: images of 224 x 224 pixels as stored" in capsys.readouterr().out
    # The columns, which the attack's own network gave, against the logits of the network that the evaluation loads.
    store = FeatureStore.open(features)
    labels = np.array([row["label"] for row in rows])
    for config, split, prediction, confidence in (
        ("broad-reference", "test", "prediction_before", "confidence_before"),
        ("broad-adversarial", SPLIT, "prediction", "confidence"),
    ):
        logits = store.features(config, split).logits.astype(np.float64)
        np.testing.assert_array_equal(logits.argmax(axis=1), [row[prediction] for row in rows])
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        expected = (shares / shares.sum(axis=1, keepdims=True)).max(axis=1)
        np.testing.assert_allclose([row[confidence] for row in rows], expected, atol=1e-3)
    assert (store.features("broad-reference", "test").logits.argmax(axis=1) == labels).tolist() == right
    assert not (store.features("broad-adversarial", SPLIT).logits.argmax(axis=1) == labels).any()

    scored = ["score", "--features", str(features), "--detectors", "msp", "--no-search", "--quiet"]
    assert main([*scored, "--out", str(scores)]) == 0
    judged = ["report", *of_release, "--scores", str(scores), "--protocol", "broad", "--no-plots"]
    assert main([*judged, "--out", str(report)]) == 0
    figures = {line["unknown"]: line for line in figures_of(report).to_dict("records") if not line["statistic"]}
    before, after = (np.array([row[name] for row in rows]) for name in ("confidence_before", "confidence"))
    for name, some in ((SPLIT, np.ones(len(rows), bool)), (f"{SPLIT}, wrong since the attack", np.array(right))):
        # scikit-learn's area, of the columns alone: the less confident, the more unknown.
        is_attacked = np.repeat([0, 1], some.sum())
        area = roc_auc_score(is_attacked, -np.concatenate([before[some], after[some]]))
        assert (figures[name]["n_known"], figures[name]["n_unknown"]) == (some.sum(), some.sum())
        assert figures[name]["value"] == pytest.approx(area, abs=0.01)
