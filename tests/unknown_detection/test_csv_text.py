import csv
import io

import pytest

from unknown_detection.csv_text import csv_text, plain_text

FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-1+1",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "-",
    "=",
    "'=1",
    "''-x",
    "--",
    "-1e",
    "+a,b\n",
]
NUMBERS = [-3, -0.5, "-3.0", "+1", "-1e-05", "-inf", repr(float("-nan")), 0, 1.5, True]
OTHERS = ["", "a=b", "'", "'quoted'", "''", "crème 雷", " =1", "a\rb", None]


def read(text):
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_a_spreadsheet_would_calculate_gets_an_apostrophe_and_comes_back(text):
    ((name, number, cell),) = read(csv_text([["a", -2.5, text]]))
    assert (name, number) == ("a", "-2.5")
    assert cell == "'" + text
    assert plain_text(cell) == text


@pytest.mark.parametrize("value", [*NUMBERS, *OTHERS])
def test_numbers_and_other_texts_stay_as_they_are(value):
    ((_, cell),) = read(csv_text([["a", value]]))
    assert cell == ("" if value is None else str(value))
    assert plain_text(cell) == cell


def test_lines_end_as_on_unix():
    assert csv_text([["a", "b"], [1, "x,y"]]) == 'a,b\n1,"x,y"\n'
