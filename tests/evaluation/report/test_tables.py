"""Tables as text: whole renderings written out, and what is bold."""

import csv
import io
import math

from evaluation.report.tables import Heading, Number, Row, Table, as_csv, latex, markdown, write_table


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


def test_markdown_is_what_github_shows():
    assert markdown(table()) == (
        "### Near\n"
        "\n"
        "| Method | Near AUROC ↑ | Near FPR ↓ | Rows |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| MSP | **90.00 ± 1.25** | 20.00 ± 1.00 | 7.00 |\n"
        "| A_b & \\|c\\| | **90.00 ± 0.50** | - | - |\n"
        "| Energy | 80.00 | **15.50 ± 0.50** | 9.00 |\n"
        "\n"
        "Mean.\n"
    )


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
    assert "| Baseline | 22.36 / 13.68 / 94.79 | **4.50 / 4.75 / 99.02** |" in markdown(found)
    assert as_csv(found).splitlines()[0] == (
        "Method,MSP FPR,MSP FPR std,MSP DE,MSP DE std,MSP AUROC,MSP AUROC std,"
        "TS FPR,TS FPR std,TS DE,TS DE std,TS AUROC,TS AUROC std"
    )


def test_a_lone_value_or_a_column_that_has_no_good_side_is_not_bold():
    assert table(rows=table().rows[:1]).best() == frozenset()
    assert all(column != 2 for _, column in table().best())
    assert table(ranked="").best() == frozenset()


def test_three_files_are_written(tmp_path):
    assert write_table(tmp_path, table()) == ["near.csv", "near.md", "near.tex"]
    assert (tmp_path / "near.md").read_text(encoding="utf-8") == markdown(table())
