"""Runs the scripts of examples/papers as a user does."""

import runpy
from pathlib import Path

from click.testing import CliRunner

PAPERS = Path(__file__).parents[3] / "examples" / "papers"


def script(name):
    """The functions of a script by name."""
    return runpy.run_path(str(PAPERS / f"{name}.py"))


def run(name, *words):
    """Run a script's command; its output."""
    done = CliRunner().invoke(script(name)["main"], [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output
