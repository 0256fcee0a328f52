import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from builders.declare.splits import Classes
from builders.registry import BENCHMARKS
from taxonomy import compile_wordnet, explain, freeze, tables
from taxonomy.__main__ import command, main
from taxonomy.decisions import TABLES, load_decisions
from taxonomy.overlaps import load_overlaps
from taxonomy.rules import facets
from tests.taxonomy.rules.test_broad import TABLE_3

REPOSITORY = Path(__file__).parents[2]


def run(*arguments, start=main):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = start(list(arguments))
    return SimpleNamespace(exit_code=code, stdout=out.getvalue(), stderr=err.getvalue())


def test_an_overridden_class_is_explained_with_its_synset_and_the_tree():
    # Read off WordNet 3.0: the firefly (n02168245) and the tiger beetle (n02165105), an ImageNet class, are beetles.
    result = run("explain", "caltech256", "lightning")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "caltech256 133.lightning: keep"
    assert "  keyword   lightning" in lines
    assert "  synset    firefly, lightning bug (n02168245)" in lines
    assert "  match     only part of a lemma: 'lightning' in 'lightning bug'; 2 others, shown by --all" in lines
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
    assert any(line.startswith("  match     the whole lemma 'apple'; ") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("imagenet", "n02012849"), "imagenet n02012849 (crane): excluded"),
        (("imagenet", "tench"), "imagenet n01440764 (tench): near_candidate"),
        (("imagenet", "European Fire_Salamander"), "imagenet n01629819 (European fire salamander): in_distribution"),
        (("places365", "museum/outdoor"), "places365 /m/museum/outdoor: keep"),
        (("caltech256", "257.clutter"), "caltech256 257.clutter: remove"),
        (("facets-wordnet-t50", "barn"), "facets-wordnet-t50 n02793495 (barn): in_distribution"),
        (("facets-t1-sun397", "tent/outdoor"), "facets-t1-sun397 /t/tent/outdoor: out_of_distribution"),
        (("sun397", "tent/outdoor"), "FACETS /t/tent/outdoor"),
    ],
)
def test_classes_are_found_by_id_and_by_name(arguments, expected):
    result = run("explain", *arguments)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == expected


@pytest.mark.parametrize(
    "step", [pytest.param(9, id="every ninth"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("table", TABLES)
def test_classes_can_be_explained(table, step):
    for item in load_decisions(table)[::step]:
        lines = explain.explain_class(table, item.class_id).splitlines()
        for wnid in (item.matched, item.witness):
            assert not wnid or any(f"({wnid})  <- " in line for line in lines), item


def test_the_json_document_has_the_decisions_by_their_columns():
    found = json.loads(run("explain", "coco2017", "person", "--json").stdout)
    assert (found["schema"], found["command"], found["subject"]) == (1, "explain", "coco2017")
    tables_of = {decision["table"]: decision["class_id"] for decision in found["decisions"]}
    assert tables_of and {*tables_of.values()} == {"person"}
    assert found["text"] == run("explain", "coco2017", "person").stdout.rstrip("\n")
    assert json.loads(run("explain", "dtd", "banded", "--json").stdout)["decisions"] == [], "which no rule decides"


def test_an_imagenet_class_is_explained_with_its_oodness_grade_and_tables():
    # By hand, from WordNet 3.0: lakeside and seashore are kinds of shore, two links apart: 1 / 3, 1 - ln 3 / ln 38
    # and, as shore is 4 links below the root, 2 * 5 / (1 + 1 + 2 * 5). Their mean is 0.621550.
    lines = run("explain", "imagenet", "lakeside").stdout.split("\n\n")[-1].splitlines()
    assert lines == [
        "FACETS n09332890",
        "  OODness                     0.378450, 1 less the mean of path 0.333333, Leacock-Chodorow 0.697983 and "
        "Wu-Palmer 0.833333",
        "  nearest                     /c/coast, seashore (n09428293)",
        "  grade                       0, scene: is a place that Places365 has, in the same or other words, a kind "
        "of one, or all that it shows (ours)",
        "  related                     /l/lake/natural",
        "  reason                      The shore of a lake, with the lake",
        "  facets-inter-dataset        out_of_distribution",
        "  facets-wordnet-t40          in_distribution",
        "  facets-wordnet-t45          in_distribution",
        "  facets-wordnet-t50          in_distribution",
        "  facets-imagenet             in_distribution",
        "  facets-imagenet-no-animals  in_distribution",
        "  overlap                     kind-of, /l/lake/natural (FACETS grade): Grade 0: The shore of a lake, with "
        "the lake.",
    ]


@pytest.mark.parametrize(
    ("arguments", "overlap"),
    [
        (("food101", "escargots"), "same, snail (n01944390) (by hand): Escargots are snails, cooked"),
        (("tiny158", "lampshade"), "part-of, lamp (by hand): A part of a lamp"),
        (("caltech256", "lightning"), "none (by hand): Looked at against the known classes by name and gloss: none"),
        (("imagenet", "n02012849"), "shared word, crane (n03126707) (WordNet): Both are called 'crane'."),
        (("lsun", "bridge"), "same, bridge (by hand): One name and one thing, although the paper claims that there"),
        # Read off WordNet 3.0: a brant is a goose.
        (("imagenet_o", "n01857325"), "descendant, goose (n01855672) (WordNet): brant (n01857325) > goose"),
        (("imagenet_o", "n02512053"), "none (by hand): Looked at by WordNet alone"),  # fish
        (("inaturalist", "ungnadia_speciosa"), "shared word, buckeye (n12768682) (by hand)"),
    ],
    ids=" ".join,
)
def test_what_a_class_overlaps_is_shown_with_kind_and_evidence(arguments, overlap):
    result = run("explain", *arguments)
    assert result.exit_code == 0
    assert any(line.startswith(f"  overlap   {overlap}") for line in result.stdout.splitlines()), result.stdout


@pytest.mark.parametrize(("category", "wnid"), TABLE_3.items())
def test_the_classes_of_cocomagenet_are_explained_by_the_names_of_both_sides(category, wnid):
    lines = run("explain", "coco2017", category).stdout.splitlines()
    assert lines[0] == f"cocomagenet {category}: shared"
    assert lines[-1].endswith(f"({wnid})  <- ImageNet class, COCO category '{category}'")
    assert run("explain", "cocomagenet", wnid).stdout.splitlines() == lines


def test_all_matches_are_listed_with_those_of_whole_lemmas_first():
    lines = run("explain", "caltech256", "fire-hydrant", "--all").stdout.split("\n\n")[-1].splitlines()
    head, matches = lines[0], lines[1:]
    assert head == f"{len(matches)} matches of 071.fire-hydrant, the best first"
    removing = ["which no ImageNet class is related to" not in line for line in matches]
    assert removing == sorted(removing, reverse=True)
    for side in (True, False):
        kinds = [line.split()[0] for line, removes in zip(matches, removing, strict=True) if removes is side]
        assert kinds == sorted(kinds, reverse=True)  # "whole" before "part"
    # Read off WordNet 3.0: a hydrant is a faucet, and both of its lemmas with fire are a salamander's and an engine's.
    assert "  whole  'hydrant' matches water faucet, water tap, tap, hydrant (n04559451)" in "\n".join(matches)
    assert any("fire engine (n03345487), an ImageNet class." in line for line in matches)
    shown = run("explain", "caltech256", "fire-hydrant").stdout
    assert f"{len(matches) - 1} others, shown by --all" in shown
    assert "hydrant (n04559451)" not in shown


def test_a_config_is_explained_by_the_tables_that_choose_its_classes():
    def first_lines(*arguments):
        return [part.splitlines()[0] for part in run("explain", *arguments).stdout.split("\n\n") if part[0] != " "]

    assert first_lines("cifar", "mushroom") == ["cifar100 mushroom: candidate", "tiny158 n07734744 (mushroom): remove"]
    assert first_lines("imagenet", "baklava")[1:] == ["food101 baklava: keep"]
    assert first_lines("imagenet", "tench")[0] == "imagenet n01440764 (tench): near_candidate"
    assert first_lines("facets-t1", "dentists_office") == ["facets-t1-sun397 /d/dentists_office: out_of_distribution"]


def test_a_class_that_only_the_config_of_that_name_has_is_not_taken_for_the_sources():
    """No class of ImageNet is named dog; the config `imagenet` also chooses among Caltech-256's, which has 056.dog."""
    first, *_ = run("explain", "imagenet", "dog").stdout.splitlines()
    assert first == "The source imagenet has no class 'dog'. The config imagenet has one, of caltech256:"
    assert run("explain", "imagenet", "tench").stdout.startswith("imagenet n01440764 (tench): ")


def test_the_configs_are_those_of_the_benchmarks_with_their_tables():
    """A config is explained by the tables that its splits take classes from; one that takes all classes by none."""
    used = {}
    for benchmark in BENCHMARKS.values():
        for key, split in benchmark.parts.items():
            tables_of_config = used.setdefault(benchmark.config_of(key).name, set())
            if isinstance(split.classes, Classes):
                tables_of_config.add(split.classes.table)
    used["broad-multi-label"].add("cocomagenet")  # by its source, whose categories that table matches
    for config, names in used.items():
        assert set(explain.CONFIGS.get(config, (config,) if config in TABLES else ())) == names, config
    assert set(explain.CONFIGS) <= set(used)
    assert set(explain.TAKEN_WHOLE) == {config for config, names in used.items() if not names}


def test_each_source_with_overlaps_can_be_asked_about():
    sources = {row.source for row in load_overlaps()}
    # Of ImageNet-21k's classes, the tables ssb-hard and imagenet-ood have those that are used.
    assert sources - set(explain.SUBJECTS) == {"imagenet21k"}


def test_every_sun397_class_can_be_explained():
    for item in tables.sun397():
        assert explain.explain_class("sun397", item.category).startswith(f"FACETS {item.category}\n  grade  ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("caltech", "lightning"), "no source, config or decision table 'caltech' (did you mean 'caltech256'?)"),
        (("places365", "museum"), "no class 'museum' (did you mean 'museum/indoor' or 'museum/outdoor'?). Give"),
        (("places365", "_museum"), "(did you mean 'natural_history_museum' or 'science_museum'?)"),
        (("cifar", "mushrom"), "cifar has no class 'mushrom' (did you mean 'mushroom'?)"),
        (("places365", "museum/outdor"), "(did you mean 'museum/outdoor'?)"),
        (("imagenet", "crane"), "has 2 classes 'crane'. Give the id of one of them: n02012849 and n03126707."),
        (("imagenet", "maillot"), "n03710637 and n03710721"),
        (("food101", "zzzzzz"), "food101 has no class 'zzzzzz'. Give"),
        (("food101", ""), "food101 has no class ''"),
        (("facets-baseline", "barn"), "facets-baseline takes all classes of its sources, so no rule chose them. Ask"),
    ],
)
def test_a_wrong_request_is_answered_in_one_sentence(arguments, sentence):
    result = run("explain", *arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_the_frozen_tables_are_what_the_rules_give_and_check_accepts_them(tmp_path, monkeypatch):
    contents = freeze.contents()
    monkeypatch.setattr(freeze, "contents", lambda: contents)  # computed once
    paths = freeze.write(tmp_path)
    assert [path.name for path in paths] == list(freeze.FILES)
    for path in paths:
        frozen = (REPOSITORY / "taxonomy" / "data" / path.name).read_bytes()
        assert path.read_bytes() == contents[path.name] == frozen, path.name
    assert run("freeze", "--check").exit_code == 0


def test_freeze_check_names_the_tables_that_differ(monkeypatch):
    monkeypatch.setattr(freeze, "compute", lambda table: load_decisions(table)[table == "food101" :])
    monkeypatch.setattr(freeze.facets_rules, "compute_oodness", lambda: facets.oodness()[1:])
    result = run("freeze", "--check")
    assert result.exit_code == 1
    assert "differ from the rules: " in result.stderr
    assert "decisions_food101.csv" in result.stderr and "facets_oodness_imagenet.csv, " in result.stderr


@pytest.mark.parametrize(
    ("start", "words"), [(main, []), *((main, [name]) for name in command.commands), (compile_wordnet.main, [])]
)
def test_help_ends_with_an_example(start, words):
    result = run(*words, "--help", start=start)
    assert result.exit_code == 0
    assert result.stdout.strip().splitlines()[-2] == "Example:"
    assert result.stdout.strip().splitlines()[-1].strip().startswith("python -m taxonomy")


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "taxonomy", "explain", "food101", "apple_pi"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'apple_pie'?" in done.stderr
    assert "Traceback" not in done.stderr
