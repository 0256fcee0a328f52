"""Which tests are end-to-end: those that build a release, start a process, talk to the stand-in Hub or disturb.

A test is one if its own code names something of `COSTLY`, if a fixture or a function of `tests` that it uses does, or
if it is given the name of a release's fixture as a parameter. So a new test needs no mark of its own, and
`pytest -m "not slow and not endtoend"` stays quick.
"""

import functools
import inspect
import multiprocessing
import subprocess
from types import CodeType, FunctionType

from builders import cifar_benchmark, facets_benchmark, imagenet_benchmark
from builders.executors.local import LocalExecutor
from builders.executors.ray import RayExecutor
from builders.pipeline import run
from tests.hub.server import Hub
from tests.soak.commands import Launcher

COMMANDS = (imagenet_benchmark, cifar_benchmark, facets_benchmark)
COSTLY = (
    subprocess,
    multiprocessing,
    LocalExecutor,
    RayExecutor,
    Hub,
    Launcher,
    run.write_release,
    *(command.main for command in COMMANDS),
)

DISTURBING = ("tests.killing", "tests.power", "tests.soak")
"""What kills, cuts the power or is of the soak; these test many states of one thing, and are for the whole suite."""

RELEASES = ("imagenet_release", "cifar_release", "facets_release", "broad_release", "openood_release")
"""Fixtures that some tests ask for by a name among their parameters."""


BROWSER = "chromium"
"""The fixture that starts a browser, whose driver is imported where it is used."""


def is_endtoend(item):
    """Whether a collected test, or a fixture that it uses, reaches anything costly."""
    if BROWSER in item.fixturenames:
        return True
    if not hasattr(item, "function"):  # an example of a docstring, of `pytest --doctest-modules`
        return False
    if hasattr(item, "callspec") and set(RELEASES) & {v for v in item.callspec.params.values() if isinstance(v, str)}:
        return True
    definitions = item._fixtureinfo.name2fixturedefs.values()
    fixtures = [definition.func for definitions_of_name in definitions for definition in definitions_of_name]
    return disturbs(item.function) or any(reaches(inspect.unwrap(part)) for part in (item.function, *fixtures))


def disturbs(value):
    """Whether something is of a module that disturbs, or of one in its folder."""
    module = str(getattr(value, "__module__", ""))
    return any(module == name or module.startswith(f"{name}.") for name in DISTURBING)


@functools.cache
def reaches(function):
    """Whether a function of `tests` names something costly, itself or through others of `tests`."""
    found, due = {function}, [function]
    while due:
        current = due.pop()
        names = set(names_of(current.__code__))
        for value in (current.__globals__[name] for name in sorted(names) if name in current.__globals__):
            if is_costly(value, names):
                return True
            new = [part for part in functions_of(value) if part not in found]
            found.update(new)
            due += new
    return False


def is_costly(value, names):
    """Whether a global that a function names is costly; of a command's module only `main` is."""
    return (
        disturbs(value)
        or any(value is costly for costly in COSTLY)
        or ("main" in names and any(value is c for c in COMMANDS))
    )


def names_of(code: CodeType):
    """The names that a function's code looks up, those of functions inside it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_of(constant)


def functions_of(value):
    """The functions of `tests` that a global name stands for: itself, or the methods of a class."""
    if not str(getattr(value, "__module__", "")).startswith("tests."):
        return []
    members = vars(value).values() if isinstance(value, type) else [value]
    return [part for part in map(inspect.unwrap, filter(callable, members)) if isinstance(part, FunctionType)]
