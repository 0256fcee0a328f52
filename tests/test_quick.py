"""What `make quick` runs for a change."""

import tomllib

import yaml

from tests import quick


def test_every_module_has_tests_that_a_change_of_it_runs():
    modules = [path for package in quick.PACKAGES for path in sorted((quick.ROOT / package).rglob("*.py"))]
    names = [path.relative_to(quick.ROOT).as_posix() for path in modules if path.name != "__init__.py"]
    assert len(names) > 300
    assert [name for name in names if not quick.own_tests(name) and not quick.importing_tests([name])] == []


def test_own_tests_are_those_of_the_same_name_and_those_that_a_module_names():
    assert quick.own_tests("builders/plan/planner.py") == {"tests/builders/plan/test_planner.py"}
    # `test_errors.py` stands in the mirrored folder, and the other in the docstring.
    both = {"tests/builders/test_errors.py", "tests/builders/commands/test_build.py"}
    assert quick.own_tests("builders/errors.py") == both
    assert quick.own_tests("tests/test_quick.py") == {"tests/test_quick.py"}
    assert "tests/test_docs.py" in quick.own_tests("docs/index.md")


def test_tests_that_import_a_module_are_found():
    found = quick.importing_tests(["builders/hub/retry.py"])
    assert "tests/builders/hub/test_retry.py" in found
    assert all(test.rpartition("/")[2].startswith("test_") for test in found)


def test_commits_are_checked_by_the_ruff_of_the_extra():
    hooks = yaml.safe_load((quick.ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    extra = tomllib.loads((quick.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (ruff,) = [line for line in extra["optional-dependencies"]["test"] if line.startswith("ruff")]
    assert [hook["additional_dependencies"] for hook in hooks] == [[ruff], [ruff]]
