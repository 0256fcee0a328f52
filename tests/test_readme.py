"""What the README and the pages of docs show is what the commands print."""

import ast
import re
import textwrap
from pathlib import Path

import pytest

from builders.commands.summary import built_text
from builders.imagenet_benchmark import BENCHMARK
from builders.release.manifest import read_manifest
from hf_scripts import verify
from taxonomy.__main__ import main as taxonomy
from unknown_detection.evaluation.releases import load

ROOT = Path(__file__).parents[1]
TEXT = "\n".join(
    path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
)
SHOWN_AT = "build/unknown-detection"


def shown(command):
    """The output under the one console block of the pages whose first line has the command."""
    blocks = [block for block in re.findall(r"```console\n(.*?)```", TEXT, re.S) if command in block.split("\n")[0]]
    assert len(blocks) == 1, f"{command} stands in {len(blocks)} blocks"
    return blocks[0].split("\n", 1)[1]


def without_bytes(text):
    """Sizes of files depend on the version of pyarrow that wrote them; rows and digests do not."""
    return re.sub(r"\d{3},\d{3}$|\d,\d{3},\d{3}(?= bytes)", "#", text, flags=re.M)


def test_the_main_job_prints_these_counts_and_digests(imagenet_release):
    manifest = read_manifest(imagenet_release)
    text = built_text(BENCHMARK, manifest, Path(SHOWN_AT), tuple(BENCHMARK.parts))
    assert shown("pip install -q -e . && ").endswith(f"\n{text}\n")


def test_the_quickstart_is_the_example_and_prints_its_table():
    """The example's own test runs it and compares the table."""
    script = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(script))
    code, printed = re.findall(
        r"```(?:python|text)\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S
    )[:2]
    assert script.endswith(f'"""\n\n{code}')
    assert textwrap.dedent(said.split("quickstart.py\n")[1].split("\n\n")[0]) == printed.rstrip("\n")


def test_one_call_does_all_with_a_model_of_timm(imagenet_release, tmp_path, monkeypatch):
    """The page's call on the release of the first command, with a model of a tenth of a megabyte in place of its."""
    torch = pytest.importorskip("torch", reason="runs a torch model")
    timm = pytest.importorskip("timm", reason="makes the model")
    make = timm.create_model
    asked = []

    def small(name, *, pretrained):
        asked.append((name, pretrained))
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return make("test_resnet", pretrained_cfg_overlay={"input_size": (3, 32, 32)})

    monkeypatch.setattr(timm, "create_model", small)
    monkeypatch.chdir(tmp_path)
    Path("build").mkdir()
    Path("build/unknown-detection").symlink_to(imagenet_release)
    page = (ROOT / "docs" / "evaluating.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(import timm\n.*?)```", page, re.S)
    names = {}
    exec(block, names)
    assert asked == [("resnet50", True)]
    figures = names["done"].figures
    assert figures["detector"].unique().tolist() == ["msp", "knn"]
    splits = [split for split in load(imagenet_release).splits("imagenet") if split.startswith(("near", "far"))]
    assert figures.loc[figures["detector"] == "msp", "split"].tolist() == [*sorted(splits), "mean"]
    assert figures[["AUROC", "FPR95", "AUPR_IN", "AUPR_OUT"]].stack().between(0, 1).all()
    assert figures.attrs["release_digest"] == load(imagenet_release).digest
    assert Path("build/run/features/identity.json").is_file()


def test_the_first_command_activates_what_all_others_are_run_in_and_is_the_one_that_is_checked():
    """`unknown-detection`, by which the pages name every command, is found only in the environment."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first, second = re.findall(r"^\$ (.*)$", readme, re.M)
    assert first.startswith("python3 -m venv .venv && . .venv/bin/activate && ")
    assert " && unknown-detection build " in first
    checked = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert {first, second} <= set(checked)


def test_verify_prints_these_lines(imagenet_release, capsys):
    assert verify.main([str(imagenet_release), "--workers", "1"]) == 0
    printed = without_bytes(capsys.readouterr().out.replace(str(imagenet_release), SHOWN_AT)).splitlines()
    lines = without_bytes(shown("unknown-detection verify build")).splitlines()
    assert printed == lines


def test_explain_prints_this(capsys):
    command = "python -m taxonomy explain caltech256 lightning"
    assert taxonomy(command.split()[3:]) == 0
    assert capsys.readouterr().out == shown(command)
