"""Pictures of a report that need rows of their own: correlations of scores, as in BROAD's figure 3."""

import csv

import numpy as np
import pytest

from tests.evaluation.broad_release import SPLITS, make_broad
from tests.evaluation.display.as_text import svg_texts
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.display.tables import detector_name
from unknown_detection.evaluation.releases import load

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

DETECTORS = ("msp", "energy", "knn")


def test_scores_are_drawn_by_kind_of_shift_and_correlated_on_held_out_known_rows(tmp_path):
    """Figures 2 and 3. Against Pearson's formula on the rows of `held_out`; others have other scores."""
    make_broad(tmp_path / "release")
    release, numbers, held_out = load(str(tmp_path / "release")), np.random.default_rng(5), {}
    with (tmp_path / "run.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "detector", "score"])
        for key in SPLITS:
            ids = release.rows(*key.split("/"))["id"].to_pylist()
            common = numbers.normal(size=len(ids))
            for place, name in enumerate(DETECTORS):
                scores = (-1) ** place * common * (3 - place) + numbers.normal(size=len(ids))
                held_out |= {name: scores} if key.endswith("held_out") else {}
                writer.writerows([id_, name, value] for id_, value in zip(ids, scores.tolist(), strict=True))
    splits = ",".join(dict.fromkeys(key.split("/")[0] for key in SPLITS))
    options = ["report", "--scores", str(tmp_path / "run.csv"), "--release", str(tmp_path / "release"), "--plots"]
    assert main([*options, "--splits", splits, "--out", str(tmp_path / "out")]) == 0
    texts = svg_texts(tmp_path / "out" / "plots" / "correlation-broad.svg")
    assert "Correlation of scores on in-distribution rows of held_out, run" in " ".join(texts)
    assert {detector_name(name) for name in DETECTORS} <= set(texts)
    expected = []
    for first in DETECTORS:
        for second in DETECTORS:
            a, b = (held_out[name] - held_out[name].mean() for name in (first, second))
            expected.append(f"{100 * (a @ b) / np.sqrt((a @ a) * (b @ b)):z.0f}")
    assert "\n".join(expected) in "\n".join(texts).replace("−", "-")
    drawn = set(svg_texts(tmp_path / "out" / "plots" / "densities-broad.svg"))
    assert {"known", "adversarial", "corruption", "multi-label", "rows (%)"} <= drawn
    assert {detector_name(name) for name in DETECTORS} <= drawn
