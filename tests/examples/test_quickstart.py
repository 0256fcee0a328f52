"""The quickstart prints the table that it shows, and the notebook is made of its lines and runs to its end."""

import ast
import io
import os
import runpy
from contextlib import redirect_stdout

import pandas as pd
import pytest

from tests.examples.paths import EXAMPLES

pytest.importorskip("torchvision", reason="needs the extra `evaluate`")

SCRIPT = EXAMPLES / "quickstart.py"


def table(text):
    """The numbers of the printed table by detector."""
    lines = [line.split() for line in text.splitlines()]
    return pd.DataFrame({line[0]: list(map(float, line[1:])) for line in lines if len(line) == 5 and "." in line[-1]})


def test_it_prints_the_table_of_its_docstring(tmp_path, monkeypatch):
    """Up to what another processor's rounding makes of the training."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    with redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(SCRIPT))
    shown = ast.get_docstring(ast.parse(SCRIPT.read_text(encoding="utf-8")))
    heads = [
        [line.split() for line in text.splitlines() if "role" in line or "split" in line]
        for text in (printed.getvalue(), shown)
    ]
    assert heads[0] == heads[1] != []
    found, expected = table(printed.getvalue()), table(shown)
    assert [*found] == [*expected] == ["energy", "highest_logit", "knn", "msp"]
    assert (found - expected).abs().to_numpy().max() < 0.05


def statements(text):
    """Python's statements, one spelling for each."""
    return [ast.unparse(node) for node in ast.parse(text).body]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_notebook_has_the_same_lines_and_runs(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="needs the extra `docs`")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra `docs`")
    pytest.importorskip("ipykernel", reason="needs the extra `docs`")
    monkeypatch.setenv("PYTHONPATH", f"{EXAMPLES}{os.pathsep}{EXAMPLES.parent}", prepend=os.pathsep)
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs for cell in cells), "kept without outputs"
    _, *lines = statements(SCRIPT.read_text(encoding="utf-8"))
    assert {*lines} <= {line for cell in cells for line in statements(cell.source)}
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute(cwd=str(tmp_path))
    (verified,) = [cell for cell in cells if cell.source.startswith("ud.verify")]
    assert [output["data"]["text/plain"] for output in verified.outputs if "data" in output] == ["[]"]
    printed = "".join(output.get("text", "") for output in cells[-1].outputs)
    assert [*table(printed)] == ["energy", "highest_logit", "knn", "msp"]
