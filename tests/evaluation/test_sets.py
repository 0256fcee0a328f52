"""Sets of unknown rows that cannot be compared: without the known rows of their config, or of some runs alone.

On a release of two configs with a test, a near and a far split each.
"""

import re

import numpy as np
import pandas as pd
import pytest

import unknown_detection as ud
from tests.evaluation.refusals import refusal
from tests.evaluation.written_release import made_row, write_release
from unknown_detection.evaluation.errors import EvaluationWarning

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
