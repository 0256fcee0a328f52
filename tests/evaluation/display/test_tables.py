"""Tables as text: whole renderings written out, and what is bold."""

import csv
import io

import numpy as np
import pytest

from tests.evaluation.display.as_text import text_lines
from unknown_detection.evaluation.display.tables import (
    Heading,
    ResultTable,
    TableRow,
    as_csv,
    as_latex,
    as_page,
    detector_name,
    metric_name,
    paper_name,
    set_name,
)

NAN = float("nan")
COLUMNS = (Heading("Near", "AUROC", "higher"), Heading("Near", "FPR", "lower"), Heading("", "Rows"))
ROWS = (TableRow("mahalanobis", "MDS"), TableRow("A_b & |c|"), TableRow("energy", "EBO"))
VALUES = np.array([[90.0, 20.0, 7], [90.004, NAN, NAN], [80.0, 15.5, 9]])
DEVIATIONS = np.array([[1.25, 1.0, NAN], [0.5, NAN, NAN], [NAN, 0.5, NAN]])


def table(**changed):
    named = {"name": "near", "title": "Near", "note": "Mean.", "stub": "Detector", "columns": COLUMNS, "rows": ROWS}
    return ResultTable(**{**named, "values": VALUES, "deviations": DEVIATIONS, **changed})


def of(*lines, **changed):
    """A table of values of single runs."""
    rows, values = [TableRow(f"d{number}") for number in range(len(lines))], np.array(lines, float)
    return table(rows=rows, values=values, deviations=np.full(values.shape, NAN), **changed)


def test_a_page_shows_groups_arrows_both_names_and_the_best_in_bold():
    assert text_lines(table()) == [
        "| Detector | Near AUROC ↑ | Near FPR ↓ | Rows |",
        "| mahalanobis MDS | **90.00 ± 1.25** | 20.00 ± 1.00 | 7.00 |",
        "| A_b & |c| | **90.00 ± 0.50** | - | - |",
        "| energy EBO | 80.00 | **15.50 ± 0.50** | 9.00 |",
    ]
    page = as_page(table())
    assert (page.caption, page.note, page.groups()) == ("Near", "Mean.", [("", 1), ("Near", 2), ("", 1)])
    assert [row[1].order for row in page.rows] == [90.0, 90.004, 80.0], "sorted in full precision"
    assert page.rows[1][2].order is None
    hostile = as_page(table(rows=(TableRow("<script>", "<b>"), *ROWS[1:]))).rows[0][0]
    assert hostile == "&lt;script&gt; <small>&lt;b&gt;</small>"


def test_a_terminal_shows_the_same_in_aligned_columns():
    assert table().lines() == [
        "detector           Near AUROC ↑    Near FPR ↓  Rows",
        "mahalanobis (MDS)  90.00 ± 1.25  20.00 ± 1.00  7.00",
        "A_b & |c|          90.00 ± 0.50             -     -",
        "energy (EBO)              80.00  15.50 ± 0.50  9.00",
    ]


def test_csv_has_every_number_in_full_with_its_deviation_and_the_command_line_s_names():
    assert list(csv.reader(io.StringIO(as_csv(table())))) == [
        ["Detector", "Near AUROC", "Near AUROC std", "Near FPR", "Near FPR std", "Rows", "Rows std"],
        ["mahalanobis", "90.0", "1.25", "20.0", "1.0", "7.0", ""],
        ["A_b & |c|", "90.004", "0.5", "", "", "", ""],
        ["energy", "80.0", "", "15.5", "0.5", "9.0", ""],
    ]


def test_latex_groups_columns_escapes_names_and_has_those_of_papers():
    lines = as_latex(table(title="50 % of a_b")).splitlines()
    assert r" & \multicolumn{2}{c}{Near} &  \\" in lines
    assert r" & AUROC $\uparrow$ & FPR $\downarrow$ & Rows \\" in lines
    assert r"MDS & \textbf{90.00 $\pm$ 1.25} & 20.00 $\pm$ 1.00 & 7.00 \\" in lines
    assert r"A\_b \& |c| & \textbf{90.00 $\pm$ 0.50} & - & - \\" in lines
    assert r"\caption{50 \% of a\_b. Mean.}" in lines
    assert r"\toprule" in lines


@pytest.mark.parametrize(
    ("example", "best"),
    [
        pytest.param(of([90.0, 20.0, 7]), [], id="one row"),
        pytest.param(of([98.7, 20, 1], [98.7, 21, 2], [98.7, 22, 3]), [(0, 1)], id="most are equal"),
        pytest.param(of([1, 2, 3], [3, 1, 9], ranked="rows", columns=[COLUMNS[1]] * 3), [(0, 0), (1, 1)], id="rows"),
        pytest.param(of([NAN, 1, 1], [NAN, NAN, 1]), [], id="nothing to compare"),
    ],
)
def test_what_is_bold(example, best):
    assert [*zip(*np.nonzero(example.best()), strict=True)] == best


def test_names_are_those_of_papers_and_others_stay_as_they_are():
    detectors = {"mahalanobis": "MDS", "knn": "KNN", "dice": "DICE", "rmds": "RMDS", "mine": "mine"}
    assert {name: detector_name(name) for name in detectors} == detectors
    assert {name: paper_name(name) for name in detectors if paper_name(name)} == {"mahalanobis": "MDS"}
    sets = {"near_ood": "Near-OoD", "far_ood_svhn": "SVHN", "imagenet_o": "ImageNet-O", "far_ood_my_set": "my set"}
    assert {name: set_name(name) for name in sets} == sets
    assert set_name("test, wrong + far_ood_dtd") == "test, wrong + DTD"
    assert metric_name("fpr_at_95_tpr_known_positive") == "FPR@95%TPR"
