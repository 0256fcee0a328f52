"""The public names of `unknown_detection.evaluation`: importing them stays light, and each is documented."""

import ast
import doctest
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from unknown_detection import evaluation

ROOT = Path(__file__).parents[1]
HEAVY = ("datasets", "matplotlib", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "timm", "torch", "torchvision")

# What the README and the docstring promise; a name that goes breaks the code of others.
PROMISED = {"Detector", "Method", "auroc", "aurc", "evaluate", "extract", "fpr_at_95_tpr", "score"}


def loaded_after(statement):
    script = f"import sys\n{statement}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy():
    assert loaded_after("from unknown_detection import evaluation; dir(evaluation)") == set()


def test_a_metric_and_the_detector_interface_need_no_optional_package():
    # NumPy, SciPy and Arrow are core dependencies; torch, scikit-learn and pandas must not come along.
    heavy = loaded_after("from unknown_detection.evaluation import Detector, auroc, open_release")
    assert "numpy" in heavy, "the probe sees what is imported"
    assert not heavy & {"matplotlib", "pandas", "sklearn", "timm", "torch", "torchvision"}


def test_the_names_are_those_that_type_checkers_see():
    tree = ast.parse((ROOT / "unknown_detection" / "evaluation" / "__init__.py").read_text(encoding="utf-8"))
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {alias.name: node.module for node in guarded.body for alias in node.names}
    assert typed == {name: f"unknown_detection.evaluation.{module}" for name, module in evaluation._MODULES.items()}
    assert sorted(typed) == sorted(evaluation.__all__)
    assert len(set(evaluation.__all__)) == len(evaluation.__all__)
    assert set(evaluation.__all__) >= PROMISED


@pytest.mark.parametrize("name", evaluation.__all__)
def test_a_public_name_is_defined_where_it_is_said_and_documented(name):
    # A submodule of this name would replace it as soon as anybody imports that.
    assert importlib.util.find_spec(f"unknown_detection.evaluation.{name}") is None
    value = getattr(evaluation, name)
    assert name in dir(evaluation)
    assert value.__module__ == f"unknown_detection.evaluation.{evaluation._MODULES[name]}"
    assert len(inspect.getdoc(value).splitlines()[0]) > 10


def test_the_example_runs(tmp_path, monkeypatch):
    """On a small release and model under the names that it has there."""
    torch = pytest.importorskip("torch", reason="runs a torch model")
    pytest.importorskip("timm", reason="opens models")
    from tests.evaluation import small_models
    from tests.evaluation.samples import fitted, small_release

    monkeypatch.chdir(tmp_path)
    small_release(tmp_path / "build" / "unknown-detection")
    (tmp_path / "model.py").write_bytes(Path(small_models.__file__).read_bytes())
    torch.save(fitted(small_models.cnn).state_dict(), tmp_path / "weights.pt")
    assert doctest.testmod(evaluation) == (0, 5)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'aurok'"):
        _ = evaluation.aurok
