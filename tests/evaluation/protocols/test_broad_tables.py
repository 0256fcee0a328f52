"""BROAD's averages from its per-dataset tables: AUC in percent, as printed in the paper's tables 2, 4 and 8 to 15.

`broad_tables.csv` has a line for each column of theirs: the printed values of 20 detectors for a split, with an empty
split the printed mean over a kind of shift, and with an empty kind that over the kinds. Multi-labels are in table 4.
"""

import csv
from pathlib import Path

import pytest

from tests.evaluation.made_rows import figure
from unknown_detection.evaluation.protocols import broad

with (Path(__file__).parent / "broad_tables.csv").open(newline="", encoding="utf-8") as file:
    LINES = list(csv.DictReader(file))
DETECTORS = list(LINES[0])[5:]

# Where the paper's averages are not those of its own tables: by how much they lie above them (below, if negative).
NOT_REPRODUCED = {
    ("resnet50", "dsd", "multi_label", "ens_v"): -7.51,
    ("resnet50", "dsd", "multi_label", "ens_r"): -0.22,
    ("resnet50", "dsd", "multi_label", "ens_f"): -0.01,
    ("vit", "dsd", "multi_label", "ens_v"): 0.05,
    ("vit", "dsd", "multi_label", "ens_f"): -0.10,
    ("resnet50", "ed", "in_distribution", "doctor"): 0.30,
    ("vit", "ed", "in_distribution", "cadet"): 4.90,
    ("vit", "ed", "in_distribution", "dice"): 6.82,
    # What follows from these for the mean over kinds, and one mean of ED that is its own.
    ("resnet50", "dsd", "", "ens_v"): -1.50,
    ("resnet50", "dsd", "", "ens_r"): -0.04,
    ("vit", "dsd", "", "ens_v"): 0.01,
    ("vit", "dsd", "", "ens_f"): -0.02,
    ("resnet50", "ed", "", "doctor"): 0.10,
    ("vit", "ed", "", "cadet"): 1.63,
    ("vit", "ed", "", "dice"): 2.28,
    ("resnet50", "ed", "", "ash"): -1.13,
}


def of_splits(model, setting, detector):
    """Figures of splits by kind of shift, in percent."""
    kinds = {}
    for line in LINES:
        if (line["model"], line["setting"]) == (model, setting) and line["split"]:
            names = {
                "protocol": "broad",
                "config": f"broad-{line['kind']}",
                "setting": setting,
                "unknown": line["split"],
            }
            of_split = figure(float(line[detector]), **names, factor=1.0)
            kinds.setdefault(line["kind"], []).append(of_split)
    return kinds


def printed_means(model, setting, detector):
    lines = [line for line in LINES if (line["model"], line["setting"], line["split"]) == (model, setting, "")]
    return {line["kind"]: float(line[detector]) for line in lines}


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("model", ["resnet50", "vit"])
@pytest.mark.parametrize(("setting", "kinds"), [("dsd", 5), ("ed", 3)])
def test_averages_are_the_papers(setting, kinds, model, detector):
    figures = of_splits(model, setting, detector)
    printed = printed_means(model, setting, detector)
    assert len(figures) == kinds == len(printed) - 1
    *means, overall = [mean for mean in broad.averaged(figures) if mean["statistic"] == "mean"]
    averages = {mean["config"].removeprefix("broad-"): mean["value"] for mean in means} | {"": overall["value"]}
    assert overall["unknown"] == " + ".join(figures)
    assert averages.keys() == printed.keys()
    for kind, value in averages.items():
        away = NOT_REPRODUCED.get((model, setting, kind, detector), 0)
        # Both sides are rounded to 0.01; a mean of printed means may lose half a digit more.
        assert printed[kind] - value == pytest.approx(away, abs=0.0101 if kind == "" else 0.0055), kind


def test_the_tables_are_whole():
    of_split = [line for line in LINES if line["split"]]
    assert len(DETECTORS) == 20
    assert len([line for line in of_split if line["setting"] == "dsd"]) == 2 * (3 + 4 + 2 + 4 + 2)
    assert len([line for line in of_split if line["setting"] == "ed"]) == 2 * (1 + 4 + 4)
