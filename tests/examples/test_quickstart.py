"""The notebook `examples/quickstart.ipynb` runs from its first cell to its last, and shows a table of figures."""

import os

import pytest

from tests.test_docs import ROOT

nbformat = pytest.importorskip("nbformat", reason="needs the extra `docs`")
nbclient = pytest.importorskip("nbclient", reason="needs the extra `docs`")
pytest.importorskip("ipykernel", reason="needs the extra `docs`")
pytest.importorskip("torchvision", reason="needs the extra `evaluate`")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_every_cell_runs_and_the_last_shows_four_detectors(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(ROOT / "examples" / "quickstart.ipynb", as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code"), "kept without outputs"
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute(cwd=str(tmp_path))
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for name in ("msp", "energy", "knn", "highest_logit", "near_ood"):
        assert name in value_of(cells[-1])
    assert value_of(next(cell for cell in cells if cell.source.startswith("ud.verify"))) == "[]"


def value_of(cell):
    """The text of a cell's last line; what libraries say on stderr stands beside it."""
    (value,) = [output["data"]["text/plain"] for output in cell.outputs if "data" in output]
    return value
