"""The import arrows of the design, and what holds for the tree as a whole."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

from builders.registry import BENCHMARKS
from unknown_detection.commands import COMMANDS

ROOT = Path(__file__).parents[1]
PACKAGES = ("benchmarks", "builders", "cards", "hf_scripts", "taxonomy", "unknown_detection")


OURS = ("unknown_detection", "taxonomy", "builders", "hf_scripts")

OVERVIEWS = {"builders", "hf_scripts"}
"""Packages whose `__main__` is the command `unknown-detection`."""


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports(path):
    """Every module that a file imports, wherever in the file."""
    found = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(found)


CORE_WEIGHT = {"torch", "torchvision", "diffusers", "timm", "torchattacks", "imagecorruptions", "ray", "matplotlib"}


def sources(package):
    return sorted((ROOT / package).rglob("*.py"))


def test_imports_go_down():
    """The layers are in pyproject.toml, by whole folders; import-linter finds what goes up and every circle."""
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_evaluation_takes_of_the_builders_what_runs_tasks_reads_files_and_says_what_a_release_is_like():
    """Not only by name: what it imports imports nothing else either."""
    code = "import sys\n"
    for module in ("__main__", "commands.extract", "features.extract"):
        code += f"import unknown_detection.evaluation.{module}\n"
    code += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    ours = {name for name in done.stdout.split() if name.partition(".")[0] in ("builders", "hf_scripts", "taxonomy")}
    folders = ("builders.executors", "builders.storage", "builders.release")
    # Of other folders --json and the flags of executors, the errors, how weights are read, and what names a release.
    some = {"builders.cli.console", "builders.cli.executor_flags", "builders.errors"}
    some |= {"builders.generate.torch_files", "builders.hub.place"}
    others = {name for name in ours if not name.startswith(folders)}
    assert others == some | {name.rpartition(".")[0] for name in some}


WATCHES = "import unknown_detection.starting"
"""What a package with commands does before anything else: Ctrl-C while they import is no traceback."""


PUBLIC = {
    ROOT / "unknown_detection" / part / "__init__.py" for part in ("", "evaluation/detectors", "evaluation/protocols")
}
"""What users import by the name of the package; `tests/test_public_names.py` says what it may load."""


def test_packages_import_nothing_and_say_what_they_hold():
    for package in OURS:
        for path in sources(package):
            if path.name == "__init__.py":
                tree = parsed(path)
                assert ast.get_docstring(tree), path.relative_to(ROOT)
                if path.parent.parent == ROOT:
                    assert WATCHES in ast.unparse(tree), path.relative_to(ROOT)
                    tree = ast.parse(ast.unparse(tree).replace(WATCHES, ""))
                if path not in PUBLIC:
                    assert len(tree.body) == 1, f"{path.relative_to(ROOT)} does more than say what the folder holds"


IN_FUNCTIONS = {"unknown_detection/precision.py": {"torch"}, "builders/executors/ray.py": {"ray"}}
"""What else imports a package of an extra, only once it is used."""


STORES = {"fsspec", "upath", "universal_pathlib", "s3fs", "gcsfs", "botocore", "aiobotocore", "boto3"}


def test_only_storage_knows_stores():
    for package in OURS:
        for path in sources(package):
            if "storage" not in path.parts:
                assert not STORES & {module.split(".")[0] for module in imports(path)}, path.relative_to(ROOT)


def test_nobody_outside_of_storage_asks_where_a_path_lies():
    """`as_path` chooses once; who opens, writes, locks or lists a path, does so by functions of storage."""
    asked = re.compile(r"\b(is_local|ObjectPath|StorePath)\b")
    for package in OURS:
        for path in sources(package):
            if "storage" not in path.parts:
                assert not asked.search(path.read_text()), path.relative_to(ROOT)


@pytest.mark.parametrize("folder", ["builders.storage"])
def test_no_module_imports_itself_by_way_of_others(folder):
    """Not even for its types: what two modules need of each other stands in a third one, or they are one."""
    # Of a graph that grimp, of import-linter, has read; without it nothing stands on more than what is below it.
    graph = grimp.build_graph(folder.partition(".")[0], exclude_type_checking_imports=False, cache_dir=None)
    below = {name: graph.find_upstream_modules(name) for name in graph.modules if name.startswith(f"{folder}.")}
    assert len(below) > 10
    assert [name for name, upstream in below.items() if any(name in below.get(other, ()) for other in upstream)] == []


OPENERS = {
    "numpy": {"load", "memmap"},
    "pyarrow": {"memory_map", "input_stream"},
    "pyarrow.ipc": {"open_file", "open_stream"},
    "pyarrow.parquet": {"ParquetDataset", "ParquetFile", "read_metadata", "read_schema", "read_table"},
}
"""What opens a file by its path, and knows paths of this machine alone; by module."""

OPENS = {"builders/release/duplicates.py": "a file that `open_buffered` has opened"}
"""What opens such files itself, and why it may."""


def test_only_storage_opens_files_of_releases_by_their_paths():
    modules = {"np": "numpy", "pa": "pyarrow", "pq": "pyarrow.parquet", "pa.ipc": "pyarrow.ipc"}
    found = set()
    for path in (*sources("builders"), *sources("hf_scripts")):
        calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
        for used in (part for call in calls for part in (call.func, *call.args)):  # `partial` is given what it calls
            if isinstance(used, ast.Attribute):
                opened = used.attr in OPENERS.get(modules.get(ast.unparse(used.value)), ())
                found |= (
                    {path.relative_to(ROOT).as_posix()}
                    if opened and not {"storage", "sources"} & set(path.parts)
                    else set()
                )
    assert found == set(OPENS)


def test_the_core_imports_nothing_heavy():
    for package in ("unknown_detection", "taxonomy", "builders", "hf_scripts"):
        for path in sources(package):
            if not {"generate", "evaluation"} & {*path.parts}:
                heavy = CORE_WEIGHT & {module.split(".")[0] for module in imports(path)}
                assert heavy == IN_FUNCTIONS.get(path.relative_to(ROOT).as_posix(), set()), path


def test_the_core_install_has_no_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=!~\[; ]", line)[0].lower() for line in project["dependencies"]}
    assert not names & CORE_WEIGHT


def test_every_declared_package_is_imported_somewhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    modules = {"huggingface-hub": "huggingface_hub", "pillow": "PIL", "pyyaml": "yaml"}
    statement = re.compile(r"^ *(?:import|from) (\w+)", re.M)
    paths = [path for package in (*PACKAGES, "tests") for path in sources(package)]
    imported = {name for path in paths for name in statement.findall(path.read_text(encoding="utf-8"))}
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
def test_every_command_is_in_the_readme_or_the_pages(command):
    names = [f"python -m {command}"] + [f"unknown-detection {one.name}" for one in COMMANDS if one.module == command]
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    assert command in OVERVIEWS or any(name in text for name in names)


def test_every_benchmark_is_registered_and_has_configs_of_its_own():
    modules = {path.stem for path in sources("builders") if path.stem.endswith("_benchmark")}
    assert modules - {"folder_benchmark"} == {f"{name}_benchmark" for name in BENCHMARKS}  # that of flags alone
    configs = [config.name for benchmark in BENCHMARKS.values() for config in benchmark.configs]
    assert len(configs) == len(set(configs))


def test_importing_the_benchmarks_reads_no_lists_of_classes():
    """Commands that look one of them up start without those of all; three tables of a few lines name columns."""
    note = "event == 'open' and str(args[0]).endswith('.csv') and read.add(pathlib.Path(args[0]).name)"
    code = f"import pathlib, sys; read = set(); sys.addaudithook(lambda event, args: {note}); import builders.registry"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(*sorted(read))"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["cifar10.csv", "coco80.csv", "decisions_cocomagenet.csv"]


def test_a_class_name_means_one_thing():
    places = {}
    for path in (path for package in OURS for path in sources(package)):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_one_place_decides_what_prints():
    """`unknown_detection.words`, by Unicode's categories; Python's own `isprintable` refuses rare spaces too."""
    asked = {
        path.relative_to(ROOT).as_posix()
        for path in (path for package in OURS for path in sources(package))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr == "isprintable"
    }
    assert asked == set()
