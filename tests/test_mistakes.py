"""What a new user gets wrong: one sentence that says what and where, at once, and names no flag that there is not."""

import os
import re
import subprocess
import sys

import click
import pytest

from builders import facets_benchmark, folder_benchmark, imagenet_benchmark
from builders.commands import audit as audit
from builders.commands.benchmark import make_command
from builders.commands.folder import make_command as folder_command
from hf_scripts import card, export, materialize, push, verify
from tests.sentences import assert_sentence

FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")


@pytest.fixture(scope="module")
def place(imagenet_release, demo, tmp_path_factory):
    """A folder with a link to a release, a file, and folders that are none."""
    root = tmp_path_factory.mktemp("mistakes")
    (root / "release").symlink_to(imagenet_release)
    (root / "build").mkdir()
    (root / "file").write_text("a file")
    (root / "food101").symlink_to(demo["food101"])
    return root


@pytest.fixture
def mistake(place, monkeypatch, capsys):
    """Run a command with a mistake; returns its one sentence."""
    monkeypatch.chdir(place)
    monkeypatch.setattr("builders.hub.retry.sleep", lambda seconds: pytest.fail("it waits"))
    before = sorted(path.name for path in place.iterdir())

    def run(module, line, command):
        assert module.main(line.split()) == 2
        said = capsys.readouterr()
        assert said.out == ""
        *notes, error = said.err.splitlines()
        assert error.startswith("error: ") and not any("error" in note for note in notes)
        assert set(FLAG.findall(error)) <= flags_of(command, line.split()), error
        assert sorted(path.name for path in place.iterdir()) == before
        return error

    return run


def flags_of(command, arguments):
    if isinstance(command, click.Group):
        command = command.commands[arguments[0]]
    return {flag for option in command.params for flag in option.opts}


@pytest.mark.parametrize("module", [verify, card], ids=["verify", "card"])
@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("relase", r"relase"),
        ("./build/none", r"build/none"),
        ("/none/at/all", r"/none/at/all"),
        ("file", r"file"),
        ("build", r"build"),
        ("build/none", r"build/none"),
    ],
)
def test_a_release_that_is_not_there(mistake, module, target, said):
    error = mistake(module, target, module.command)
    assert re.search(rf"{said}\b", error)
    assert_sentence(error)


def test_a_mistyped_folder_is_not_looked_for_on_the_hub(mistake):
    """Each may be read in two ways, and the sentence has both."""
    assert "did you mean release?" in mistake(verify, "relase", verify.command)
    for error in (
        mistake(verify, "build/none", verify.command),
        mistake(materialize, "build/none --splits imagenet --out out", materialize.make_command()),
    ):
        assert_sentence(error, "build/none", "Hub")


def test_a_hub_that_cannot_be_reached_is_asked_once(mistake, monkeypatch):
    def unreachable(*_, **__):
        raise httpx.ConnectError("Name or service not known")

    from huggingface_hub.utils import httpx

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", unreachable)
    for error in (
        mistake(verify, "none/at-all", verify.command),
        mistake(materialize, "none/at-all --splits imagenet --revision v1.0.0 --out out", materialize.make_command()),
    ):
        assert_sentence(error, "none/at-all")


SOURCES = "--imagenet food101 --food101 food101 --caltech256 food101 --places365 food101"


@pytest.mark.parametrize(
    ("module", "line", "said"),
    [
        (export, "none --format openood --out out", "none does not exist"),
        (export, "file --format openood --out out", "file is a file"),
        (export, "release --format openood --splits imagnet --out out", "no config or split imagnet"),
        (push, "none --repo org/name --tag v1.0.0", "none does not exist"),
        (push, "release --repo ./name --tag v1.0.0", "./name is not the name of a repository"),
        (push, "release --repo org/name --tag 1", "v1.0.0"),
        (audit, "smoothness none --splits imagenet", "none does not exist"),
        (audit, "smoothness release --splits imagnet", "no config or split imagnet"),
        (audit, "pairs release --splits imagenet/tset --out pairs.png", "did you mean imagenet/test?"),
    ],
)
def test_other_mistakes(mistake, module, line, said):
    assert said in mistake(module, line, module.command)


def test_mistakes_of_materialize(mistake):
    command = materialize.make_command()
    assert "file" in mistake(materialize, "file --splits imagenet --out out", command)
    assert "no config or split imagnet" in mistake(
        materialize, f"release --splits imagnet {SOURCES} --out out", command
    )
    wrong = mistake(materialize, f"release --splits imagenet {SOURCES} --out out", command)
    assert "food101" in wrong and "--imagenet" in wrong


def test_mistakes_of_a_build(mistake, place):
    command = make_command(imagenet_benchmark.BENCHMARK)
    flags = "--food101 food101 --splits imagenet/far_ood_food32"
    assert "build: it is a folder" in mistake(imagenet_benchmark, f"{flags} --withdraw build --out out", command)
    seed = mistake(imagenet_benchmark, f"{flags} --seed 3 --quiet --out release", command)
    assert "was built with the seed 0, and this run has 3" in seed
    folder = mistake(imagenet_benchmark, f"{flags} --quiet --out file/in/none", command)
    assert "file/in: not a directory" in folder
    folders = folder_command()
    assert "none" in mistake(folder_benchmark, "--in-distribution none --unknown near=none --out out", folders)


def test_a_benchmark_of_many_parts_names_few(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    assert facets_benchmark.main([]) == 2
    lines = capsys.readouterr().err.splitlines()
    needed = [line for line in lines if line.startswith("  --")]
    assert "Places365-Standard, for facets-baseline, facets-inter-dataset, facets-wordnet-t40 and 4 more" in needed[0]
    assert max(map(len, needed)) < 120


def test_a_source_that_is_not_there_is_named_before_those_that_are_not_given(mistake):
    command = make_command(imagenet_benchmark.BENCHMARK)
    error = mistake(imagenet_benchmark, "--imagenet /nope --out out", command)
    assert_sentence(error, "ImageNet-1k", "ILSVRC2012", "/nope", "--imagenet")
    error = mistake(materialize, "release --splits imagenet --imagenet /nope --out out", materialize.make_command())
    assert_sentence(error, "/nope")


def test_the_file_for_all_sources_is_shown_where_it_is_named(place, monkeypatch, capsys):
    """The README says nothing of it."""
    monkeypatch.chdir(place)
    shown = 'Folders can also be listed once in sources.toml, a line such as food101 = "DIR" for each. '
    assert imagenet_benchmark.main(["--splits", "imagenet/far_ood_food32", "--out", "out"]) == 2
    assert shown in capsys.readouterr().err
    assert materialize.main(["release", "--splits", "imagenet/far_ood_food32", "--out", "out"]) == 2
    assert shown.rstrip() in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error(imagenet_release):
    """As `head -1` does: the command ends without a word. The release stays as it is."""
    overlap = ["builders.commands.audit", "overlap", imagenet_release, "--dry-run"]
    for command in (overlap, ["taxonomy", "explain", "imagenet", "tench"]):
        read, written = os.pipe()
        os.close(read)
        done = subprocess.run(
            [sys.executable, "-m", *map(str, command)], stdout=written, stderr=subprocess.PIPE, text=True, check=False
        )
        os.close(written)
        assert (done.returncode, done.stderr) == (1, ""), command
