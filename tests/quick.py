"""`make quick`: lint, types and the tests of what was changed, in about half a minute for a change of one module.

    python -m tests.quick [SINCE]    # changed since a commit, HEAD if none is named, untracked files included

A module's own tests are those of the same name in the mirrored folder and those that its docstring names ("Tested
by"); they run in full. Beside them the quick tests run of the files that import it, those that import least first, up
to `MOST` files. All else is for the whole suite.
"""

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("builders", "hf_scripts", "taxonomy", "unknown_detection")
ALWAYS = ("tests/test_architecture.py",)
PAGES = ("tests/test_readme.py", "tests/test_docs.py", "tests/test_security.py")

MOST = 8
"""Files of tests that run beside a module's own; more would not end within a minute on two cores."""

_NAMED = re.compile(r"`(tests/[\w/]+\.py)`")


def changed(since: str) -> list[str]:
    """Files that differ from a commit, and those that git does not know yet."""
    found = set()
    for command in (["diff", "--name-only", "-z", since], ["ls-files", "--others", "--exclude-standard", "-z"]):
        done = subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True)
        found |= set(done.stdout.split("\0")) - {""}
    return sorted(name for name in found if (ROOT / name).is_file())


def own_tests(name: str) -> set[str]:
    """The files of tests that are a changed file's own: itself, its mirror, those it names, or those of pages."""
    path = Path(name)
    if path.suffix == ".md" or path.name == "mkdocs.yml":
        return set(PAGES)
    if path.name.startswith("test_") and path.suffix == ".py":
        return {name}
    inside = path.relative_to("unknown_detection") if name.startswith("unknown_detection/evaluation/") else path
    folder = ROOT / "tests" / inside.parent
    stem = path.parent.name if path.stem in ("__init__", "__main__") else path.stem
    found = {file.relative_to(ROOT).as_posix() for file in folder.glob(f"test_{stem}*.py")}
    if path.suffix == ".py":
        found |= set(_NAMED.findall((ROOT / name).read_text(encoding="utf-8").partition('"""\n')[0]))
    return {test for test in found if (ROOT / test).is_file()}


def importing_tests(names: Iterable[str]) -> list[str]:
    """The files of tests that name a changed module as one imports it, those with the fewest imports first."""
    modules = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in names]
    parts = [(re.escape(folder), re.escape(stem)) for folder, _, stem in (name.rpartition(".") for name in modules)]
    if not parts:
        return []
    named = re.compile("|".join(rf"\b{folder}\.{stem}\b|from {folder} import .*\b{stem}\b" for folder, stem in parts))
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if named.search(text):
            found.append((len(re.findall(r"^(?:from|import) ", text, re.M)), path.relative_to(ROOT).as_posix()))
    return [test for _, test in sorted(found)]


def run(*command: str) -> bool:
    """Run a module of this Python's; whether it succeeded, a run that selects no test included."""
    print("$ python -m", *command, flush=True)  # noqa: T201
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode in (0, 5)


def main(since: str = "HEAD") -> int:
    """Check what was changed since a commit."""
    names = changed(since)
    python = [name for name in names if name.endswith(".py")]
    own = sorted({*ALWAYS, *(test for name in names for test in own_tests(name))})
    others = [test for test in importing_tests(python) if test not in own]
    done = [run("ruff", "check", "."), run("ruff", "format", "--check", "."), run("mypy")]
    done.append(run("pytest", "-q", "-n", "auto", *own))
    if others:
        print(f"{len(others)} other files of tests import what was changed; {min(MOST, len(others))} run")  # noqa: T201
        done.append(run("pytest", "-q", "-n", "auto", "-m", "not slow and not fuzz and not endtoend", *others[:MOST]))
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
