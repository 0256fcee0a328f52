"""One command builds OpenOOD's benchmark, extracts, scores and compares: on made-up sources."""

import csv

import pytest

for _package in ("torch", "torchvision"):
    pytest.importorskip(_package, reason=f"needs {_package}, of the extra evaluate")

from click.testing import CliRunner  # noqa: E402

from examples import reproduce_openood  # noqa: E402
from unknown_detection.evaluation.protocols.openood import published  # noqa: E402


def test_the_demo_with_training_images_writes_ours_beside_the_published_figures(tmp_path):
    flags = ["--demo", "--train", "--out", str(tmp_path), "--workers", "2"]
    done = CliRunner().invoke(reproduce_openood.main, flags, catch_exceptions=False)
    assert done.exit_code == 0 and "these figures mean nothing" in done.output
    with (tmp_path / "comparison.csv").open(newline="") as opened:
        table = {line["detector"]: line for line in csv.DictReader(opened)}
    rows = published(reproduce_openood.CONFIG, reproduce_openood.WEIGHTS)
    assert table.keys() == {"msp", "max_logit", "energy", "gen"}
    for detector, line in table.items():
        assert float(line["published near"]) == rows.near_auroc[detector]
        assert float(line["far difference"]) == pytest.approx(float(line["far"]) - rows.far_auroc[detector], abs=0.011)
