"""What a user of the scripts gets wrong is one sentence and exit code 2."""

import runpy
import sys

import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason="draws pictures")
pytest.importorskip("networkx", reason="draws a graph")
pytest.importorskip("timm", reason="has a model of ImageNet's classes")

import timm
import torch

from tests.evaluation.conftest import digits  # noqa: F401
from tests.examples.papers.scripts import PAPERS
from tests.sentences import assert_sentence

OF_SCORES = {
    "broad_correlations": ["SCORES", "RELEASE", "out.png", "--split", "digits/test"],
    "facets_graph": ["SCORES", "RELEASE", "digits", "out"],
    "reliability": ["SCORES", "RELEASE", "digits", "out.png"],
}
OF_REPORTS = {"optimizer_robustness": ["REPORT"], "unified_changes": ["REPORT", "out.png"]}
OTHERS = {
    "broad_times": ["timm:resnet18", "RELEASE", "digits", "--fit", "digits-train"],
    "unified_softmax": ["REPORT", "RELEASE", "digits/near_ood", "out"],
}


@pytest.fixture
def refused(digits, tmp_path, monkeypatch, capsys):  # noqa: F811
    """Runs a script with words of which some stand for paths that a test gives; the one sentence of its error."""
    pd.DataFrame({"id": ["a"], "detector": ["msp"], "score": [0.5]}).to_parquet(tmp_path / "scores.parquet")
    (tmp_path / "report").mkdir()
    monkeypatch.chdir(tmp_path)

    def run(name, words, **paths):
        of = {"SCORES": tmp_path / "scores.parquet", "RELEASE": digits, "REPORT": tmp_path / "report"} | paths
        monkeypatch.setattr(sys, "argv", [name, *(str(of.get(word, word)) for word in words)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(PAPERS / f"{name}.py"), run_name="__main__")
        error = capsys.readouterr().err
        assert (ended.value.code, error.count("error: "), list(tmp_path.glob("out*"))) == (2, 1, [])
        return error

    return run


@pytest.mark.parametrize("name", [*OF_SCORES, *OTHERS])
def test_a_folder_that_is_no_release(name, refused, tmp_path):
    sentence = refused(name, (OF_SCORES | OTHERS)[name], RELEASE=tmp_path / "report")
    assert_sentence(sentence, tmp_path / "report")


@pytest.mark.parametrize("name", OF_SCORES)
def test_scores_that_are_no_table(name, refused, tmp_path):
    (tmp_path / "scores.parquet").write_bytes(b"no Parquet")
    assert_sentence(refused(name, OF_SCORES[name]), tmp_path / "scores.parquet")


@pytest.mark.parametrize("name", OF_SCORES)
def test_scores_of_another_release(name, refused):
    assert_sentence(refused(name, OF_SCORES[name]), "scores")


@pytest.mark.parametrize("name", OF_REPORTS)
@pytest.mark.parametrize("data", [None, b"no Parquet"], ids=["missing", "damaged"])
def test_a_folder_that_is_no_report(name, data, refused, tmp_path):
    if data is not None:
        (tmp_path / "report" / "figures.parquet").write_bytes(data)
    assert_sentence(refused(name, OF_REPORTS[name]), tmp_path / "report" / "figures.parquet")


def test_a_folder_without_features(refused, tmp_path):
    assert_sentence(refused("unified_softmax", OTHERS["unified_softmax"]), tmp_path / "report")


def test_a_model_with_other_classes(refused, tmp_path):
    torch.save(timm.create_model("resnet18").state_dict(), tmp_path / "weights.pt")
    assert_sentence(refused("broad_times", [*OTHERS["broad_times"], "--weights", "weights.pt"]), "1,000")
