"""The public names of `unknown_detection`: importing them stays light, and each has an example that runs."""

import ast
import doctest
import importlib
import importlib.util
import inspect
import subprocess
import sys
import types
from pathlib import Path

import pytest

import unknown_detection as ud
from examples.digits_release import write_release
from tests.conftest import made_once
from unknown_detection import steps
from unknown_detection.evaluation import releases
from unknown_detection.evaluation.metrics import metrics

ROOT = Path(__file__).parents[1]
HEAVY = ("click", "datasets", "matplotlib", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "timm", "torch")

# What the README and the docstring promise; a name that goes breaks the code of others.
PROMISED = {"auroc", "aurc", "build", "detectors", "evaluate", "extract", "fpr_at_95_tpr", "load", "materialize"}
PROMISED |= {"metric", "protocols", "report", "score", "verify"}

MODULES = ("detectors", "protocols")


def loaded_after(statement):
    script = f"import sys\n{statement}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy():
    assert loaded_after("import unknown_detection as ud; dir(ud)") == set()


def test_a_metric_needs_no_optional_package():
    # NumPy and SciPy are core dependencies; torch, scikit-learn and pandas must not come along.
    heavy = loaded_after("import unknown_detection as ud; ud.auroc, ud.load")
    assert "numpy" in heavy, "the probe sees what is imported"
    assert not heavy & {"matplotlib", "pandas", "sklearn", "timm", "torch"}


def test_importing_the_package_leaves_ctrl_c_as_it_is():
    code = (
        "import signal; before = signal.getsignal(2)\n"
        "import unknown_detection; assert signal.getsignal(2) is before, before"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_names_are_those_that_type_checkers_see():
    tree = ast.parse((ROOT / "unknown_detection" / "__init__.py").read_text(encoding="utf-8"))
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {alias.name: node.module for node in guarded.body for alias in node.names}
    assert typed == {name: f"unknown_detection.{module}" for name, module in ud._MODULES.items()}
    assert sorted(typed) == ud.__all__ == sorted(set(ud.__all__))
    assert set(ud.__all__) >= PROMISED
    assert (ROOT / "unknown_detection" / "py.typed").is_file()


@pytest.mark.parametrize("name", sorted(ud.__all__))
def test_a_public_name_is_defined_where_it_is_said_and_documented(name):
    # A submodule of this name would replace it as soon as anybody imports that.
    assert importlib.util.find_spec(f"unknown_detection.{name}") is None
    value = getattr(ud, name)
    assert name in dir(ud)
    if name in MODULES:
        assert value is importlib.import_module(f"unknown_detection.{ud._MODULES[name]}.{name}")
    else:
        module = "builders.errors" if name == "BuildError" else f"unknown_detection.{ud._MODULES[name]}"
        assert (value.__module__, value.__name__) == (module, name)
    assert len(inspect.getdoc(value).splitlines()[0]) > 10


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with the release of digits at build/digits; a model trained on them, its features and scores."""
    pytest.importorskip("torch", reason="runs a torch model")
    pytest.importorskip("torchvision", reason="prepares images")
    pytest.importorskip("sklearn", reason="has the digits")
    from examples.digits_cnn import train

    root = tmp_path_factory.mktemp("examples")
    (root / "build").mkdir()
    (root / "build" / "digits").symlink_to(made_once(tmp_path_factory, "digits", write_release))
    trained = train(ud.load(root / "build" / "digits"))
    features = ud.extract(trained, root / "build" / "digits", "digits,digits-train", workers=0)
    scores = ud.score(features, ["msp", "knn"])
    return root, {"model": trained, "features": features, "scores": scores}


def lowest_logit(features):
    """A detector of a few words: one score per row, higher = more unknown."""
    return -features.logits.min(axis=1)


EXAMPLES = {name: getattr(ud, name) for name in ud.__all__ if isinstance(getattr(ud, name), types.FunctionType)}
EXAMPLES |= {"Features": ud.Features, "Head": ud.Head}


@pytest.mark.parametrize("name", ["unknown_detection", *sorted(EXAMPLES)])
def test_its_example_runs(name, workplace, monkeypatch, request):
    root, made = workplace
    monkeypatch.chdir(root)
    given = {"ud": ud, "Path": Path, "lowest_logit": lowest_logit, **made}
    monkeypatch.setattr(metrics, "METRICS", {**metrics.METRICS})  # one that an example adds goes with it
    if name == "verify" and not Path("build/cifar").exists():
        Path("build/cifar").symlink_to(request.getfixturevalue("cifar_release"))
    if name == "compare":
        for place in ("before", "after"):
            Path("build", place).symlink_to(request.getfixturevalue("cifar_release"))
    if name == "doctor":
        Path("copy").symlink_to(request.getfixturevalue("demo")["dtd"])
        ud.doctor("copy", write_index="dtd.parquet")
    if name == "materialize":
        sources = request.getfixturevalue("demo")
        Path("sources").mkdir()
        for key in ("cifar100", "svhn"):
            Path("sources", key).symlink_to(sources[key])
        ud.build(
            "cifar",
            "build/index",
            cifar100="sources/cifar100",
            splits="cifar/test",
            index_only=True,
            allow_partial=True,
        )
    ran = 0
    for test in doctest.DocTestFinder(recurse=False).find(EXAMPLES.get(name, ud), name, globs=given):
        result = doctest.DocTestRunner().run(test, clear_globs=False)
        assert result.failed == 0
        ran += result.attempted
    assert ran, f"{name} has no example"


def test_a_shell_completes_to_what_is_offered():
    """And to nothing that a module imports for itself."""
    assert [name for name in dir(ud) if not name.startswith("__")] == ud.__all__
    assert sorted(ud.protocols.__all__) == dir(ud.protocols)
    classes = {type(one).__name__ for one in ud.detectors.DETECTORS.values()}
    built_on = {"DETECTORS", "Detector", "ImageDetector", "ImagePass", "RowDetector", "table"}
    assert {*dir(ud.detectors)} == classes | built_on


def test_what_is_open_is_checked_where_it_is(cifar_release):
    """A release of `load` is one for `verify` and `materialize`, too; one of the Hub at its commit."""
    assert ud.verify(ud.load(cifar_release), check="fast") == []
    assert steps._place(ud.load(cifar_release), {}) == str(cifar_release)
    commit, flags = "0" * 40, {}
    assert steps._place(releases.Release("ORG/NAME", commit, None), flags) == "ORG/NAME"
    assert flags == {"revision": commit}
    with pytest.raises(TypeError, match=r"A release is a folder, ORG/NAME on the Hub, .* not an int"):
        ud.verify(3)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'aurok'"):
        _ = ud.aurok
