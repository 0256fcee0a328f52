"""What `--json` prints: one document on stdout that says which command printed it."""

import json

import pytest

from builders.cli.console import SCHEMA, check_json, print_document
from builders.errors import BuildError
from tests.sentences import stops


def test_a_document_names_its_schema_and_command_first(capsys):
    print_document("verify", {"release": "a\u2028\x1bä", "rows": 1})
    printed = capsys.readouterr()
    assert printed.err == ""
    assert list(json.loads(printed.out).items()) == [
        ("schema", SCHEMA),
        ("command", "verify"),
        ("release", "a\u2028\x1bä"),
        ("rows", 1),
    ]
    assert "\x1b" not in printed.out  # JSON escapes what a terminal would obey


def test_a_number_that_json_does_not_have_is_a_fault():
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_document("verify", {"rows": float("nan")})


def test_json_is_for_dry_runs():
    check_json(as_json=True, dry_run=True)
    check_json(as_json=False, dry_run=False)
    with stops(BuildError, "--dry-run", "--json"):
        check_json(as_json=True, dry_run=False)
