"""The walkthrough on digits, cut short: real training, features, every detector of one pass, and a report."""

import runpy

import pandas as pd
import pytest
from click.testing import CliRunner

from tests.examples.paths import EXAMPLES

torch = pytest.importorskip("torch", reason="needs the extra `evaluate`")
pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

import unknown_detection as ud  # noqa: E402
from examples.digits_cnn import train  # noqa: E402


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """What a quick run wrote, and what it printed."""
    out = tmp_path_factory.mktemp("digits")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        patch.setattr("unknown_detection.evaluation.report.report.draw", lambda *words, **options: [])
        done = CliRunner().invoke(runpy.run_path(str(EXAMPLES / "digits.py"))["main"], ["--out", str(out), "--quick"])
    assert done.exit_code == 0, done.output
    return out, done.output


def test_models_are_trained_for_real(quick):
    figures = pd.read_parquet(quick[0] / "report" / "figures.parquet").query("rows == 'as_published'")
    accuracy = (
        figures.query("metric == 'accuracy' and detector in ['msp', 'deep_ensemble']").groupby("run")["value"].min()
    )
    assert {*accuracy.index} == {"adam-0", "adam-1", "adam-ensemble"}
    # Six classes: guessing is right in one of six, and seeds must differ in more than their name.
    assert accuracy.min() > 0.9
    near = figures.query("metric == 'auroc' and unknown == 'near_ood' and detector == 'msp'")
    assert near["value"].nunique() == 2


def test_every_protocol_has_figures_of_every_detector_of_one_pass_and_of_both_ensembles(quick):
    figures = pd.read_parquet(quick[0] / "report" / "figures.parquet")
    assert {*figures["protocol"]} == {"unknown-detection", "facets", "broad", "od-test"}
    names = {*figures["detector"]}
    assert {"msp", "energy", "knn", "vim", "mutual_information", "deep_ensemble"} < names
    assert not names & {"odin", "mc_dropout", "cadet", "ens_r"}, "they look at the images again"
    assert f"the page: {quick[0] / 'report' / 'report.html'}" in quick[1]


def test_the_same_seed_gives_the_same_weights_and_another_does_not(digits):
    release = ud.load(digits)
    states = [train(release, "sgd", seed).state_dict() for seed in (0, 0, 1)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["head.weight"], states[2]["head.weight"])
