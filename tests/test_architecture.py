"""The import arrows of the design, and what holds for the tree as a whole."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from builders.registry import BENCHMARKS

ROOT = Path(__file__).parents[1]
PACKAGES = ("benchmarks", "builders", "cards", "evaluation", "hf_scripts", "taxonomy")

# What each package may import of ours. hf_scripts sees of builders only what a release is and how commands behave, but
# for `materialize`, which builds one.
ARROWS = {
    "taxonomy": set(),
    "cards": set(),
    "builders": {"taxonomy"},
    "hf_scripts": {"builders"},
    "evaluation": set(),
}
A_RELEASE_IS = {
    "builders.benchmark",
    "builders.card",
    "builders.command",
    "builders.duplicates",
    "builders.duplicates_table",
    "builders.errors",
    "builders.exact_duplicates",
    "builders.finish",
    "builders.images",
    "builders.plan",
    "builders.process",
    "builders.release",
    "builders.shards",
}
BUILDS = {"builders.execute", "builders.progress", "builders.rebuild", "builders.roots", "builders.sources"}
CORE_WEIGHT = {"torch", "torchvision", "diffusers", "timm", "torchattacks", "imagecorruptions", "ray", "matplotlib"}


def imports(path):
    """Every module that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def sources(package):
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", sorted(ARROWS))
def test_imports_follow_the_arrows(package):
    for path in sources(package):
        for module in imports(path):
            top = module.split(".")[0]
            if top in PACKAGES and top != package:
                assert top in ARROWS[package], f"{path.relative_to(ROOT)} imports {module}"


def test_hf_scripts_sees_only_what_a_release_is():
    for path in sources("hf_scripts"):
        for module in imports(path):
            if module.startswith("builders."):
                allowed = A_RELEASE_IS | (BUILDS if path.stem == "materialize" else set())
                assert ".".join(module.split(".")[:2]) in allowed, f"{path.relative_to(ROOT)} imports {module}"


def test_the_core_imports_nothing_heavy():
    for package in ("taxonomy", "builders", "hf_scripts"):
        for path in sources(package):
            if "generate" not in path.parts:
                assert not CORE_WEIGHT & {module.split(".")[0] for module in imports(path)}, path


def test_packages_are_listed_and_tests_are_not_installed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {
        path.parent.relative_to(ROOT).as_posix().replace("/", ".")
        for package in ("builders", "cards", "evaluation", "hf_scripts", "taxonomy")
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert set(listed) == found


def test_the_core_install_has_no_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=!~\[; ]", line)[0].lower() for line in project["dependencies"]}
    assert not names & CORE_WEIGHT


def test_every_declared_package_is_imported_somewhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    modules = {"huggingface-hub": "huggingface_hub", "pillow": "PIL", "pyyaml": "yaml"}
    imported = {module.split(".")[0] for package in PACKAGES for path in sources(package) for module in imports(path)}
    imported |= {module.split(".")[0] for path in sources("tests") for module in imports(path)}
    for line in project["dependencies"]:
        name = re.split(r"[<>=!~\[; ]", line)[0].lower()
        assert modules.get(name, name) in imported, f"{name} is installed and never imported"


def tracked():
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.split("\0") if name]


def test_no_tracked_file_holds_a_path_of_a_machine():
    machine = re.compile(rb"(?<![\w.])/(work|farm|root|home)/\w")
    for path in tracked():
        assert not machine.search(path.read_bytes()), path.relative_to(ROOT)


def test_text_files_have_unix_newlines_and_end_with_one():
    for path in tracked():
        if path.suffix in {".py", ".md", ".csv", ".toml", ".j2"} and path.stat().st_size:
            data = path.read_bytes()
            assert b"\r" not in data, path
            assert data.endswith(b"\n"), path


def commands():
    """Every module that can be run as `python -m`."""
    for package in ("builders", "hf_scripts", "taxonomy"):
        for path in sources(package):
            if '__name__ == "__main__"' in path.read_text(encoding="utf-8"):
                module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
                yield module.removesuffix(".__main__")


@pytest.mark.parametrize("command", sorted(commands()))
def test_every_command_is_in_the_readme(command):
    assert f"python -m {command}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_ci_runs_the_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = [line.removeprefix("$ ") for line in readme.splitlines() if line.startswith("$ python3 -m venv")]
    assert len(shown) == 2
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert set(shown) <= set(ci)


def test_the_readme_counts_what_is_declared():
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in readme if line.startswith("|")]
    listed, config = {}, ""
    for row in rows:
        config = row[0].strip("`") or config
        if len(row) == 6:
            listed[f"{config}/{row[1].strip('`')}"] = (row[4].split(" ")[0], row[5])
    for benchmark in BENCHMARKS.values():
        for key in benchmark.parts():
            count = benchmark.count(key)
            assert listed[key] == (f"{count.rows:,}", f"{count.paper:,}"), key


def test_every_benchmark_is_registered_and_has_configs_of_its_own():
    modules = sorted(path.stem for path in sources("builders") if path.stem.endswith("_benchmark"))
    assert modules == sorted(f"{name}_benchmark" for name in BENCHMARKS)
    configs = [config.name for benchmark in BENCHMARKS.values() for config in benchmark.configs]
    assert len(configs) == len(set(configs))
