"""Scripts that draw what one paper shows once, from a report's table and the public API, on the demo's digits."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason="draws pictures")

import unknown_detection as ud
from tests.evaluation.conftest import digits  # noqa: F401
from tests.evaluation.made_rows import figure, of_run
from tests.examples.papers.scripts import run, script
from unknown_detection.evaluation.report.figures import tidy, write_figures


@pytest.fixture(scope="module")
def scores(digits):  # noqa: F811
    """Made-up scores of the demo's rows, with predictions."""
    index, numbers = ud.load(digits).index(["digits"]), np.random.default_rng(0)
    first = numbers.random(len(index))
    right = numbers.random(len(index)) > first
    label = index["label"].to_numpy()
    frame = pd.DataFrame(
        {"id": index["id"].astype(str), "prediction": np.where(right, np.maximum(label, 0), (label + 1) % 6)}
    )
    of = {"msp": first, "mine": numbers.normal(size=len(index)) - first}
    return pd.concat([frame.assign(detector=name, score=score) for name, score in of.items()])


def test_changes_against_msp_are_differences_of_the_same_run(tmp_path):
    values = {"msp": (0.4, 0.5), "a": (0.3, 0.4), "b": (0.6, 0.5)}
    judged = [(of_run(name, seed=seed), [figure(of[seed], "aurc")]) for name, of in values.items() for seed in (0, 1)]
    write_figures(tmp_path / "figures.parquet", tidy(judged))
    changed = script("unified_changes")["changes"](tidy(judged), "aurc")
    # Of a: 25 and 20 % less; of b: 50 % more, and none.
    assert changed["mean"].to_dict() == pytest.approx({"a": 22.5, "b": -25.0})
    assert run("unified_changes", tmp_path, tmp_path / "out.png").split()[3] == "a"
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_correlations_are_pearson_s_on_known_rows(digits, scores, tmp_path):  # noqa: F811
    scores.to_parquet(tmp_path / "s.parquet")
    run("broad_correlations", tmp_path / "s.parquet", digits, tmp_path / "out.png", "--split", "digits/test")
    values = script("broad_correlations")["correlations"](scores, digits, "digits/test")
    ids = ud.load(digits).rows("digits", "test")["id"].to_pylist()
    a, b = (scores[scores["detector"] == name].set_index("id")["score"][ids] for name in ("msp", "mine"))
    assert values.loc["msp", "mine"] == pytest.approx(np.corrcoef(a, b)[0, 1])


def test_reliability_has_the_calibration_error_by_a_loop_over_bins(digits, scores, tmp_path):  # noqa: F811
    scores.to_parquet(tmp_path / "s.parquet")
    output = run("reliability", tmp_path / "s.parquet", digits, "digits", tmp_path / "out.png")
    test = pd.DataFrame(ud.load(digits).rows("digits", "test").select(["id", "label"]).to_pydict())
    known = test.merge(scores[scores["detector"] == "msp"], on="id")
    confidence, right, error = 1 - known["score"], known["prediction"] == known["label"], 0.0
    for low in range(15):
        of_bin = (confidence > low / 15) & (confidence <= (low + 1) / 15)
        error += abs(right[of_bin].sum() - confidence[of_bin].sum()) / len(known)
    assert float(output.split()[-1]) == pytest.approx(error, abs=5e-5)
