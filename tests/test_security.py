"""SECURITY.md: each sentence names a test, and the tests are there."""

import ast
import re

from tests.test_architecture import ROOT

NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def test_every_test_that_the_page_names_is_there():
    named = NAMED.findall((ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, test in named:
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, f"{file}::{test}"


def test_every_promise_names_a_test():
    """All list items of the sections of promises do, but for those that say what is not checked."""
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    promises = page[page.index("## What is not trusted") : page.index("## What is not covered")]
    items = re.split(r"\n- ", promises)[1:]
    without = [item.split(".")[0] for item in items if not NAMED.search(item)]
    assert [item.partition(" ")[0] for item in without] == ["**Loading**", "A"]
