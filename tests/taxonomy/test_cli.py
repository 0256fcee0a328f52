import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from taxonomy import compile_wordnet, freeze
from taxonomy.__main__ import main
from taxonomy.decisions import TABLES, load

REPOSITORY = Path(__file__).parents[2]


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


def test_an_overridden_class_is_explained_with_its_synset_and_the_tree():
    # Read off WordNet 3.0: the firefly (n02168245) and the tiger beetle (n02165105), an ImageNet class, are beetles.
    result = run("explain", "caltech256", "lightning")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "caltech256 133.lightning: keep"
    assert "  keyword   lightning" in lines
    assert "  synset    firefly, lightning bug (n02168245)" in lines
    assert lines[-3].endswith("> insect > beetle")
    assert lines[-2] == "  ├─ firefly, lightning bug (n02168245)  <- matches 'lightning'"
    assert lines[-1] == "  └─ tiger beetle (n02165105)  <- ImageNet class"


def test_a_descendant_is_drawn_below_its_ancestor():
    # Read off WordNet 3.0: Granny Smith is an eating apple, and that an apple.
    lines = run("explain", "food101", "apple_pie").stdout.splitlines()
    assert lines[-3:] == [
        "  └─ apple (n07739125)  <- matches 'apple'",
        "     └─ eating apple",
        "        └─ Granny Smith (n07742313)  <- ImageNet class",
    ]


def test_an_ancestor_is_drawn_above_the_match():
    # Read off WordNet 3.0: the human botfly is a botfly, a gadfly and a dipterous insect below fly.
    lines = run("explain", "caltech256", "112.human-skeleton").stdout.splitlines()
    assert lines[-3].strip() == "└─ fly (n02190166)  <- ImageNet class"
    assert lines[-1].strip() == "└─ human botfly, Dermatobia hominis (n02194249)  <- matches 'human'"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("imagenet", "n02012849"), "imagenet n02012849 (crane): excluded"),
        (("imagenet", "tench"), "imagenet n01440764 (tench): near_candidate"),
        (("imagenet", "European Fire_Salamander"), "imagenet n01629819 (European fire salamander): in_distribution"),
        (("places365", "museum/outdoor"), "places365 /m/museum/outdoor: keep"),
        (("places365", "/m/museum/indoor"), "places365 /m/museum/indoor: remove"),
        (("tiny158", "koala"), "tiny158 n01882714 (koala): remove"),
        (("caltech256", "257.clutter"), "caltech256 257.clutter: remove"),
        (("food101", "baklava"), "food101 baklava: keep"),
    ],
)
def test_classes_are_found_by_id_and_by_name(arguments, expected):
    result = run("explain", *arguments)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == expected


@pytest.mark.parametrize("table", TABLES)
def test_every_class_can_be_explained(table):
    for item in load(table):
        result = run("explain", table, item.class_id)
        assert result.exit_code == 0, item
        for wnid in (item.matched, item.witness):
            assert not wnid or any(f"({wnid})  <- " in line for line in result.stdout.splitlines()), item


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("caltech", "lightning"), "There is no decision table 'caltech' (did you mean 'caltech256'?)"),
        (("imagenet", "tensh"), "imagenet has no class 'tensh' (did you mean 'tench'?)"),
        (("places365", "museum/outdor"), "(did you mean 'museum/outdoor'?)"),
        (("imagenet", "crane"), "has 2 classes 'crane'; give the id of the one you mean: n02012849 and n03126707."),
        (("imagenet", "maillot"), "n03710637 and n03710721"),
        (("food101", "zzzzzz"), "food101 has no class 'zzzzzz'; give"),
        (("food101", ""), "food101 has no class ''"),
    ],
)
def test_a_wrong_request_is_answered_in_one_sentence(arguments, sentence):
    result = run("explain", *arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_freeze_writes_what_check_accepts(tmp_path):
    for path in freeze.write(tmp_path):
        assert path.read_bytes() == (REPOSITORY / "taxonomy" / "data" / path.name).read_bytes()
    assert run("freeze", "--check").exit_code == 0


def test_freeze_check_names_the_table_that_differs(monkeypatch):
    monkeypatch.setattr(freeze, "compute", lambda table: load(table)[1:] if table == "food101" else load(table))
    result = run("freeze", "--check")
    assert result.exit_code == 1
    assert "The frozen decisions of food101 differ" in result.stderr


@pytest.mark.parametrize("command", [main, *main.commands.values(), compile_wordnet.main])
def test_help_ends_with_an_example(command):
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert result.stdout.strip().splitlines()[-1].strip().startswith("Example: python -m taxonomy")


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "taxonomy", "explain", "food101", "apple_pi"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'apple_pie'?" in done.stderr
    assert "Traceback" not in done.stderr
