import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
OURS = ("builders", "hf_scripts", "taxonomy", "unknown_detection", "tests")


@pytest.mark.parametrize("path", sorted(BENCHMARKS.rglob("*.py")), ids=lambda path: str(path.relative_to(BENCHMARKS)))
def test_a_benchmark_imports_names_that_we_have(path):
    """Benchmarks run by hand, so nothing else notices when what they import has moved."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.module.partition(".")[0] not in OURS:
            continue
        try:
            module = importlib.import_module(node.module)
        except ModuleNotFoundError as error:
            assert error.name.partition(".")[0] not in OURS, f"{node.module}: {error}"
            pytest.skip(f"{node.module} needs {error.name}")
        modules = {info.name for info in pkgutil.iter_modules(getattr(module, "__path__", []))}
        lacking = [alias.name for alias in node.names if alias.name not in modules and not hasattr(module, alias.name)]
        assert not lacking, f"{node.module} has no {', '.join(lacking)}"
