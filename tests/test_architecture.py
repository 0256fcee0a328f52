"""The import arrows of the design, and what holds for the tree as a whole."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from builders.registry import BENCHMARKS
from builders.sources.registry import SOURCES
from unknown_detection.commands import COMMANDS

ROOT = Path(__file__).parents[1]
PACKAGES = ("benchmarks", "builders", "cards", "evaluation", "hf_scripts", "taxonomy", "unknown_detection")


OURS = ("unknown_detection", "taxonomy", "builders", "hf_scripts", "evaluation")

# From the bottom up, each folder (or module at the top of a package) and what it imports of ours. Names without their
# package are of the section's own. A line names all that is imported and nothing else, and only what stands above it,
# so that no import goes up.
ARROWS = """
[unknown_detection]
terminal                :
starting                :
pages                   :
csv_text                :
durable                 :
precision               :
commands                :
help                    : commands
__main__                : commands help

[taxonomy]
errors                  :
tables                  :
cli                     : errors unknown_detection.help
grading                 :
decisions               : errors grading tables
wordnet                 : errors
overlaps                : tables
rules                   : decisions errors grading overlaps tables wordnet
freeze                  : decisions overlaps rules
explain_facets          : decisions grading overlaps rules tables wordnet
explain                 : decisions errors explain_facets overlaps rules wordnet
compile_wordnet         : cli unknown_detection.help wordnet
__main__                : cli explain freeze unknown_detection.help

[builders]
errors                  :
papers                  :
storage.scratch         : errors
storage                 : errors storage.scratch
executors               : errors storage.scratch
release                 : errors storage
card                    : errors release storage taxonomy.decisions taxonomy.tables
demo                    : storage taxonomy.tables
sources.obtain          :
sources.compressed      :
sources.base            : demo errors release sources.compressed sources.obtain storage
sources.formats         :
sources.readers         : errors sources.base sources.formats storage
sources                 : demo errors release sources.base sources.formats sources.obtain sources.readers storage
                          taxonomy.decisions taxonomy.tables taxonomy.wordnet
hub                     : errors release sources.base sources.readers storage
generate                : errors executors release sources storage
generate.exact          : errors executors generate release storage
generate.adversarial    : errors executors generate release sources storage unknown_detection.precision
generate.synthetic      : errors executors generate release sources storage taxonomy.wordnet
selection               : sources.base taxonomy.decisions
splits                  : generate release selection sources.base
declaration_checks      : release selection splits taxonomy.decisions taxonomy.overlaps
benchmark               : declaration_checks errors generate selection sources.base splits
duplicates              : benchmark executors generate release storage
plan                    : benchmark errors release sources.base storage taxonomy.decisions taxonomy.overlaps
                          taxonomy.rules
adopt                   : benchmark errors plan release sources sources.base sources.readers storage
writing                 : benchmark errors executors generate plan release sources sources.base storage
imagenet_benchmark      : benchmark executors papers sources
cifar_benchmark         : benchmark executors generate.exact papers sources
facets_benchmark        : benchmark executors papers sources taxonomy.decisions taxonomy.grading taxonomy.rules
broad                   : benchmark generate generate.adversarial generate.exact generate.synthetic sources
                          taxonomy.tables
broad_benchmark         : benchmark broad executors generate.exact papers sources
registry                : benchmark broad_benchmark cifar_benchmark facets_benchmark imagenet_benchmark
cli                     : benchmark errors executors generate hub release sources sources.base storage
                          unknown_detection.commands unknown_detection.help
demo.write              : demo errors sources storage
demo.__main__           : cli demo.write errors registry unknown_detection.help
audit                   : card cli duplicates errors executors generate generate.exact release sources sources.base
                          storage storage.scratch taxonomy.tables unknown_detection.help
pipeline                : adopt benchmark card cli demo.write duplicates errors executors generate generate.exact plan
                          registry release sources sources.base storage unknown_detection.help writing
report                  : audit card cli errors registry release sources storage taxonomy.decisions
                          taxonomy.tables taxonomy.wordnet unknown_detection.help unknown_detection.pages
fetch                   : benchmark errors hub pipeline registry sources.base sources.obtain storage
sources.__main__        : cli errors fetch sources sources.base unknown_detection.help
folder_benchmark        : benchmark cli errors executors pipeline registry release sources sources.base storage
                          taxonomy.overlaps unknown_detection.help
__main__                : unknown_detection.__main__

[hf_scripts]
checks                  : builders.card builders.cli builders.duplicates builders.errors builders.executors
                          builders.hub builders.release builders.storage builders.storage.scratch
publish                 : builders.card builders.cli builders.duplicates builders.errors builders.hub builders.release
                          builders.sources builders.sources.base builders.storage builders.storage.scratch checks
exports                 : builders.errors builders.release builders.storage checks
card                    : builders.card builders.cli builders.errors builders.release builders.storage
                          unknown_detection.commands unknown_detection.help
verify                  : builders.cli builders.errors builders.executors builders.hub builders.release
                          builders.storage checks publish unknown_detection.help
push                    : builders.card builders.cli builders.errors builders.executors builders.hub
                          builders.release builders.storage builders.storage.scratch checks publish
                          unknown_detection.help verify
export                  : builders.cli builders.errors builders.release builders.storage exports unknown_detection.help
materialize             : builders.cli builders.errors builders.executors builders.pipeline builders.release
                          builders.sources builders.sources.base builders.storage builders.storage.scratch
                          builders.hub unknown_detection.help
__main__                : unknown_detection.__main__

[evaluation]
errors                  :
files                   : errors
duplicate_pairs         : errors files
releases                : duplicate_pairs errors files
metrics                 : errors
models                  : errors files unknown_detection.precision
detectors               : errors models unknown_detection.precision
features                : builders.executors detectors errors files models releases unknown_detection.precision
scoring                 : detectors duplicate_pairs errors features files metrics models releases
protocols               : errors files metrics scoring
reports                 : detectors errors files metrics protocols releases scoring
                          unknown_detection.pages
graph                   : detectors errors features files releases reports scoring
demo                    : detectors duplicate_pairs errors files models protocols releases
commands                : builders.cli builders.executors demo detectors errors features graph models protocols
                          releases reports scoring unknown_detection.commands unknown_detection.help
__main__                : builders.errors errors unknown_detection.commands unknown_detection.help
"""

ANYBODYS = ("unknown_detection.csv_text", "unknown_detection.durable", "unknown_detection.terminal")
"""What every module may import, so that `ARROWS` does not say so of each."""

# The one import that goes up: `python -m builders.<name>_benchmark` runs the command line that builds it.
COMMAND_LINE = "builders.pipeline.command"

FEWEST, MOST = 5, 12
"""Modules of a folder, without `__init__`."""

REGISTRIES = {"builders/demo", "builders/sources", "evaluation/detectors"}
"""Folders with a module for each source or family of detectors, which may have more."""

SMALL = {
    "builders/sources/formats",
    "evaluation/demo",
    "evaluation/graph",
    "taxonomy/wordnet",
    "unknown_detection/pages",
    "unknown_detection/terminal",
}
"""Folders that are whole with fewer."""

OVERVIEWS = {"builders/__main__.py", "hf_scripts/__main__.py"}
"""Three lines that start `unknown-detection`: not among the modules of their folders."""


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports(path):
    """Every module that a file imports, wherever in the file, but for a benchmark's command line."""
    return tuple(_imports(path))


def _imports(path):
    tree = parsed(path)
    command = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"]
    started = {id(node) for main in command for node in ast.walk(main)} if path.stem.endswith("_benchmark") else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if id(node) in started and node.module == COMMAND_LINE:
                continue
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


CORE_WEIGHT = {"torch", "torchvision", "diffusers", "timm", "torchattacks", "imagecorruptions", "ray", "matplotlib"}


def sources(package):
    return sorted((ROOT / package).rglob("*.py"))


def arrows():
    """`ARROWS` as what each folder imports, by full names, from the bottom up."""
    found, package, line = {}, "", ""
    for text in ARROWS.strip().splitlines():
        if text.startswith("["):
            package = text.strip("[]")
        elif text.strip():
            names, colon, imported = text.rpartition(":")
            line = f"{package}.{names.strip()}" if colon else line
            short = imported.split()
            full = [name if name.split(".")[0] in OURS else f"{package}.{name}" for name in short]
            found[line] = found.get(line, set()) | set(full)
    return found


def folder_of(module, folders):
    """The line of the table that a module belongs to; None for what is not ours."""
    parts = module.split(".")
    names = (".".join(parts[:end]) for end in range(len(parts), 1, -1))
    return next((name for name in names if name in folders), None)


def modules():
    """Every module of ours but for `__init__`, with its file."""
    for package in OURS:
        for path in sources(package):
            if path.name != "__init__.py":
                yield path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."), path


def test_no_arrow_goes_up():
    above = set()
    for folder, imported in arrows().items():
        assert imported <= above, f"{folder} imports {sorted(imported - above)}, which stand below it in the table"
        above.add(folder)


def test_imports_are_those_of_the_table():
    table = arrows()
    found = {folder: set() for folder in table}
    for module, path in modules():
        folder = folder_of(module, table)
        assert folder, f"{module} is in no line of ARROWS"
        for imported in imports(path):
            other = folder_of(imported, table)
            if other and other != folder and not other.startswith(ANYBODYS):
                assert other in table[folder], f"{path.relative_to(ROOT)} imports {imported}"
                found[folder].add(other)
    unused = {folder: sorted(table[folder] - found[folder]) for folder in table if table[folder] - found[folder]}
    assert not unused, f"arrows that no import needs: {unused}"


def test_no_modules_import_each_other_in_circles():
    imported = {module: set(imports(path)) for module, path in modules()}
    left = dict(imported)
    while left:
        free = [module for module in left if not imported[module] & (left.keys() - {module})]
        assert free, f"modules that import each other: {sorted(left)}"
        for module in free:
            del left[module]


def test_a_release_needs_nothing_but_files_and_errors():
    table = arrows()
    assert table["builders.release"] == {"builders.errors", "builders.storage"}
    assert table["builders.storage"] == {"builders.errors", "builders.storage.scratch"}
    assert table["builders.errors"] == set()


def test_the_evaluation_takes_of_the_builders_what_runs_tasks_alone():
    """Not only by name: what it imports imports nothing else either."""
    code = "import sys, evaluation.__main__, evaluation.commands.extract, evaluation.features.extract\n"
    code += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    ours = {name for name in done.stdout.split() if name.partition(".")[0] in ("builders", "hf_scripts", "taxonomy")}
    without = {name for name in ours if not name.startswith("builders.executors")}
    assert without == {
        "builders",
        "builders.cli",
        "builders.cli.executor_flags",
        "builders.errors",
        "builders.storage",
        "builders.storage.scratch",
    }


def test_folders_can_be_held_in_the_head():
    for package in OURS:
        for folder in {path.parent for path in sources(package)}:
            name = folder.relative_to(ROOT).as_posix()
            modules = {path.relative_to(ROOT).as_posix() for path in folder.glob("*.py") if path.name != "__init__.py"}
            count = len(modules - OVERVIEWS)
            if name in REGISTRIES:
                assert count > MOST, f"{name} has {count} modules and needs no exception"
            elif name in SMALL:
                assert count < FEWEST, f"{name} has {count} modules and needs no exception"
            else:
                assert FEWEST <= count <= MOST, f"{name} has {count} modules"


MOST_ARGUMENTS = 6

MANY_ARGUMENTS = {
    "builders.sources.readers.parquet.read_shard": "the columns of a mirror, and what to say where one is not there",
    "evaluation.detectors.openmax.make_openmax": "the hyperparameters of its papers, by name",
    "evaluation.features.extract.extract": "the options of a public function, by name",
    "evaluation.reports.report.report": "the options of a public function, by name",
    "evaluation.scoring.run.score": "the options of a public function, by name",
    "hf_scripts.publish.read_back._check_small": "both sides of a comparison",
}
"""Functions with more arguments than `MOST_ARGUMENTS`, each with the reason; click's commands have one per option."""


def test_functions_take_few_arguments_or_give_a_reason():
    many = set()
    for module, path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef) or any("click" in ast.unparse(d) for d in node.decorator_list):
                continue
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if len([argument for argument in given if argument.arg not in ("self", "cls")]) > MOST_ARGUMENTS:
                many.add(f"{module}.{node.name}")
    assert many == set(MANY_ARGUMENTS)


WATCHES = "import unknown_detection.starting"
"""What a package with commands does before anything else: Ctrl-C while they import is no traceback."""


def test_packages_import_nothing_and_say_what_they_hold():
    for package in OURS:
        for path in sources(package):
            if path.name == "__init__.py":
                tree = parsed(path)
                assert ast.get_docstring(tree), path.relative_to(ROOT)
                if path.parent.parent == ROOT:
                    assert WATCHES in ast.unparse(tree), path.relative_to(ROOT)
                    tree = ast.parse(ast.unparse(tree).replace(WATCHES, ""))
                if (
                    path != ROOT / "evaluation" / "__init__.py"
                ):  # tests/test_public_names.py: imports on first use only
                    assert len(tree.body) == 1, f"{path.relative_to(ROOT)} does more than say what the folder holds"


def test_contributing_names_every_folder_in_its_own_words():
    rows = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
    for package in OURS:
        for path in sources(package):
            if path.name == "__init__.py":
                folder = path.parent.relative_to(ROOT).as_posix()
                sentence = ast.get_docstring(parsed(path)).splitlines()[0]
                assert f"| `{folder}/` | {sentence} |" in rows, f"CONTRIBUTING.md has no such row for {folder}/"


def test_every_module_has_a_test_file_or_names_one():
    for module, path in modules():
        folder, _, name = module.rpartition(".")
        own = ROOT / "tests" / folder.replace(".", "/") / f"test_{name.strip('_')}.py"
        if not own.exists():
            named = re.search(r"Tested by `(tests/[\w/]+\.py)`\.", ast.get_docstring(parsed(path)) or "")
            assert named, f"{module} has no {own.relative_to(ROOT)} and names no other"
            assert (ROOT / named[1]).is_file(), f"{module} names {named[1]}"


def test_tests_stand_where_what_they_test_stands():
    for package in OURS:
        for path in sources(f"tests/{package}"):
            folder = path.parent.relative_to(ROOT / "tests")
            assert (ROOT / folder).is_dir(), f"{path.relative_to(ROOT)} mirrors no folder"


IN_FUNCTIONS = {"unknown_detection/precision.py": {"torch"}, "builders/executors/ray.py": {"ray"}}
"""What else imports a package of an extra, only once it is used."""


STORES = {"fsspec", "upath", "universal_pathlib", "s3fs", "gcsfs", "botocore", "aiobotocore", "boto3"}


def test_only_storage_knows_stores():
    for package in OURS:
        for path in sources(package):
            if "storage" not in path.parts:
                assert not STORES & {module.split(".")[0] for module in imports(path)}, path.relative_to(ROOT)


OPENERS = {
    "numpy": {"load", "memmap"},
    "pyarrow": {"memory_map", "input_stream"},
    "pyarrow.ipc": {"open_file", "open_stream"},
    "pyarrow.parquet": {"ParquetDataset", "ParquetFile", "read_metadata", "read_schema", "read_table"},
}
"""What opens a file by its path, and knows paths of this machine alone; by module."""

OPENS = {
    "builders/release/duplicates.py": "a file that `open_buffered` has opened",
    "hf_scripts/publish/read_back.py": "a file of the Hub that is open",
}
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
            if "generate" not in path.parts:
                heavy = CORE_WEIGHT & {module.split(".")[0] for module in imports(path)}
                assert heavy == IN_FUNCTIONS.get(path.relative_to(ROOT).as_posix(), set()), path


def test_packages_are_listed_and_tests_are_not_installed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {
        path.parent.relative_to(ROOT).as_posix().replace("/", ".")
        for package in PACKAGES
        if package != "benchmarks"
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
def test_every_command_is_in_the_readme_or_the_pages(command):
    names = [f"python -m {command}"] + [f"unknown-detection {one.name}" for one in COMMANDS if one.module == command]
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    assert command in OVERVIEWS or any(name in text for name in names)


def test_ci_runs_the_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = [line.removeprefix("$ ") for line in readme.splitlines() if line.startswith("$ python3 -m venv")]
    assert len(shown) == 2
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert set(shown) <= set(ci)


NAMES_SOURCES = {
    "builders/broad/adopted.py": "the configs that draw from PartialBROAD",
    "builders/broad/multi_label.py": "the config that draws from COCO",
    "builders/broad/originals.py": "the images that are shifted, which are ImageNet's",
    "builders/broad/synthetic.py": "the config whose labels are ImageNet's",
    "builders/demo/duplicates.py": "pictures that two sources share",
    "builders/demo/partial_broad.py": "ciphers of another source's images",
    "builders/sources/registry.py": "the registry",
    "builders/sources/svhn_full.py": "has the licence of the other SVHN",
    "builders/sources/unpack.py": "one unpacker for each kind of container",
}
"""What names a source beside the source's own files and the benchmarks, and why."""


def test_a_source_is_named_in_its_own_files_alone():
    own = {f"builders/{folder}/{key}.py" for folder in ("sources", "demo") for key in SOURCES}
    assert all((ROOT / path).is_file() for path in own)
    found, of_sources = set(), modules_of_sources()
    for path in (*sources("builders"), *sources("hf_scripts")):
        name = path.relative_to(ROOT).as_posix()
        if name.endswith("_benchmark.py"):
            continue
        tree = parsed(path)
        named = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)} & set(SOURCES)
        named |= {module.rpartition(".")[2] for module in imports(path) if module in of_sources}
        if named - ({path.stem} if name in own else set()):
            found.add(name)
    assert found == set(NAMES_SOURCES)


def modules_of_sources():
    return {f"builders.{folder}.{key}" for folder in ("sources", "demo") for key in SOURCES}


def test_every_benchmark_is_registered_and_has_configs_of_its_own():
    modules = {path.stem for path in sources("builders") if path.stem.endswith("_benchmark")}
    assert modules - {"folder_benchmark"} == {f"{name}_benchmark" for name in BENCHMARKS}  # that of flags alone
    configs = [config.name for benchmark in BENCHMARKS.values() for config in benchmark.configs]
    assert len(configs) == len(set(configs))
