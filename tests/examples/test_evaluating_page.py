"""The steps of docs/evaluating.md run one after the other, on the digits that they name."""

import importlib
import re

import pytest

import unknown_detection as ud
from tests.examples.paths import EXAMPLES
from tests.test_docs import ROOT
from unknown_detection.evaluation.metrics.metrics import METRICS

pytest.importorskip("torchvision", reason="needs the extra `evaluate`")


def test_the_steps_from_a_model_to_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setitem(METRICS, "fpr_at_90", METRICS["auroc"])  # the page adds one, which goes with the test
    del METRICS["fpr_at_90"]
    digits_cnn, digits_release = importlib.import_module("digits_cnn"), importlib.import_module("digits_release")
    monkeypatch.chdir(tmp_path)
    model = digits_cnn.train(ud.load(digits_release.write_release(tmp_path / "build" / "digits")))
    page = (ROOT / "docs" / "evaluating.md").read_text(encoding="utf-8")
    steps = [block for block in re.findall(r"```python\n(.*?)```", page, re.S) if not block.startswith("import timm")]
    names = {"ud": ud, "model": model}
    for block in steps:
        if "figures.parquet" not in block:  # `test_comparing_reports.py` runs that one
            exec(block, names)
    assert {"digits-train/train", "digits/test"} < {*names["features"].splits}
    assert names["figures"]["detector"].unique().tolist() == ["msp", "knn", "lowest_logit"]
    assert names["scores"]["detector"].unique().tolist() == ["msp", "NearestMean"]
    printed = capsys.readouterr().out
    assert "Unknown detection on digits, best first" in printed
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.S)
    of_report = printed[printed.index("Unknown detection on digits") :]
    # Figures differ in their last digits from one processor to another.
    figure = re.compile(r" +\d+\.\d\d\b")
    assert figure.sub(" #", of_report) == figure.sub(" #", shown)
    assert (tmp_path / "build" / "report" / "report.html").is_file()
