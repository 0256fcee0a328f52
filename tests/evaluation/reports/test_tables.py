"""Tables as text: whole renderings written out, and what is bold."""

import csv
import io
import math

from tests.evaluation.reports.as_text import text_lines
from unknown_detection.evaluation.reports.names import detector_name, metric_name, set_name
from unknown_detection.evaluation.reports.tables import Heading, Number, Row, Table, as_csv, as_page, latex


def one(value, deviation=None):
    return (Number(value, deviation),)


def table(**changed):
    columns = (Heading("Near", "AUROC", "higher"), Heading("Near", "FPR", "lower"), Heading("", "Rows"))
    rows = (
        Row("MSP", (one(90.0, 1.25), one(20.0, 1.0), one(7))),
        Row("A_b & |c|", (one(90.004, 0.5), one(math.nan), ())),
        Row("Energy", (one(80.0), one(15.5, 0.5), one(9))),
    )
    given = {"name": "near", "title": "Near", "note": "Mean.", "stub": "Method", "columns": columns, "rows": rows}
    return Table(**{**given, **changed})


def test_a_page_shows_groups_arrows_and_the_best_in_bold():
    assert text_lines(table()) == [
        "| Method | Near AUROC ↑ | Near FPR ↓ | Rows |",
        "| MSP | **90.00 ± 1.25** | 20.00 ± 1.00 | 7.00 |",
        "| A_b & |c| | **90.00 ± 0.50** | - | - |",
        "| Energy | 80.00 | **15.50 ± 0.50** | 9.00 |",
    ]
    page = as_page(table())
    assert (page.caption, page.note, page.groups()) == ("Near", "Mean.", [("", 1), ("Near", 2), ("", 1)])
    assert [row[1].order for row in page.rows] == [90.0, 90.004, 80.0], "sorted in full precision"
    assert page.rows[1][2].order is None


def test_csv_has_every_number_in_full_with_its_deviation():
    found = list(csv.reader(io.StringIO(as_csv(table()))))
    assert found == [
        ["Method", "Near AUROC", "Near AUROC std", "Near FPR", "Near FPR std", "Rows", "Rows std"],
        ["MSP", "90.0", "1.25", "20.0", "1.0", "7.0", ""],
        ["A_b & |c|", "90.004", "0.5", "", "", "", ""],
        ["Energy", "80.0", "", "15.5", "0.5", "9.0", ""],
    ]


def test_latex_groups_columns_and_escapes_names():
    found = latex(table()).splitlines()
    assert r" & \multicolumn{2}{c}{Near} & \multicolumn{1}{c}{} \\" in found
    assert r"Method & AUROC $\uparrow$ & FPR $\downarrow$ & Rows \\" in found
    assert r"MSP & \textbf{90.00 $\pm$ 1.25} & 20.00 $\pm$ 1.00 & 7.00 \\" in found
    assert r"A\_b \& |c| & \textbf{90.00 $\pm$ 0.50} & - & - \\" in found


def test_triples_are_ranked_along_a_row_by_their_last_number():
    triple = [tuple(Number(value) for value in values) for values in ((22.36, 13.68, 94.79), (4.5, 4.75, 99.02))]
    columns = tuple(Heading(name, "FPR / DE / AUROC", "higher") for name in ("MSP", "TS"))
    found = table(columns=columns, rows=(Row("Baseline", tuple(triple)),), ranked="rows")
    assert found.best() == {(0, 1)}
    assert "| Baseline | 22.36 / 13.68 / 94.79 | **4.50 / 4.75 / 99.02** |" in text_lines(found)
    assert as_csv(found).splitlines()[0] == (
        "Method,MSP FPR,MSP FPR std,MSP DE,MSP DE std,MSP AUROC,MSP AUROC std,"
        "TS FPR,TS FPR std,TS DE,TS DE std,TS AUROC,TS AUROC std"
    )


def test_a_lone_value_or_a_column_that_has_no_good_side_is_not_bold():
    assert table(rows=table().rows[:1]).best() == frozenset()
    assert all(column != 2 for _, column in table().best())
    assert table(ranked="").best() == frozenset()


def test_nothing_is_bold_where_most_are_equal():
    rows = tuple(Row(name, (one(98.7), one(20.0 + number), ())) for number, name in enumerate("abc"))
    assert table(rows=rows).best() == {(0, 1)}


def test_names_are_those_of_papers_and_others_stay_as_they_are():
    detectors = {"mahalanobis": "MDS", "knn": "KNN", "dice": "DICE", "rmds": "RMDS", "mine": "mine"}
    assert {name: detector_name(name) for name in detectors} == detectors
    sets = {"near_ood": "Near-OoD", "far_ood_svhn": "SVHN", "imagenet_o": "ImageNet-O", "far_ood_my_set": "my set"}
    assert {name: set_name(name) for name in sets} == sets
    assert set_name("test, wrong + far_ood_dtd") == "test, wrong + DTD"
    assert metric_name("fpr_at_95_tpr_known_positive") == "FPR@95%TPR"
