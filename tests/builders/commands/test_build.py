import json
import subprocess
import sys
from pathlib import Path

import pytest

from builders import imagenet_benchmark
from builders.imagenet_benchmark import BENCHMARK
from builders.pipeline.state import locked
from builders.release.layout import Layout
from builders.sources.base import DEMO_MARKER
from tests.builders.conftest import files_of
from tests.sentences import assert_sentence

ROOT = Path(__file__).parents[3]
SOURCES = ("imagenet", "food101", "caltech256", "places365")


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run the command in an empty folder; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        code = imagenet_benchmark.main([str(arg) for arg in argv])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_the_main_job_on_the_demo_builds_what_the_api_builds(run, release, drawn_demo, tmp_path):
    code, out, err = run("--demo", "--out", "build/unknown-detection", "--workers", "2")
    assert code == 0, err
    assert files_of(tmp_path / "build/unknown-detection") == files_of(release)
    lines = out.splitlines()
    assert lines[0].split() == ["split", "built", "expected", "difference", "paper", "digest"]
    assert lines[8].split()[:5] == ["imagenet-train/train", "400", "248,758", "-248,358", "250,000"]
    assert "Built from demo sources" in out
    assert lines[-1] == 'load_dataset("build/unknown-detection", "imagenet", split="validation")'
    # What the paper's table counts otherwise is explained below the counts, so that nobody takes it for an error.
    assert "imagenet-train/train: the paper's table counts 1,250 images a class" in out


def test_the_demo_is_drawn_in_the_release_and_what_an_earlier_version_left_is_not_taken_for_it(run, tmp_path):
    left = tmp_path / "out" / ".state" / "demo"
    left.mkdir(parents=True)
    for name in (DEMO_MARKER, ".finished"):
        (left / name).touch()
    code, _, err = run("--demo", "--splits", "imagenet/far_ood_food32", "--out", "out", "--index-only")
    assert code == 0, err
    assert [path.name for path in sorted(left.iterdir()) if path.is_dir()] == ["food101"]  # and no other source


def test_no_demo_is_written_into_a_folder_that_another_run_holds(run, tmp_path):
    with locked(Layout(tmp_path / "out")):
        code, out, err = run("--demo", "--out", "out")
    assert (code, out) == (2, "")
    assert_sentence(err)
    assert [path.name for path in (tmp_path / "out" / ".state").iterdir()] == ["lock"]


def test_without_any_source_it_says_which_in_which_layouts_and_how_to_try(run):
    code, out, err = run()
    assert (code, out) == (2, "")
    for source in BENCHMARK.sources():
        assert f"--{source.key} DIR" in err
        assert f"get it from {source.obtain.page}" in err
        for layout in source.layouts:
            assert layout in err
    assert "python -m builders.imagenet_benchmark --demo --out build/unknown-detection" in err
    assert not Path("build").exists()


def test_a_split_of_validation_images_needs_no_training_images(run, demo, tmp_path):
    (tmp_path / "imagenet").mkdir()
    for name in ("val", DEMO_MARKER):
        (tmp_path / "imagenet" / name).symlink_to(demo["imagenet"] / name)
    args = ("--splits", "imagenet/near_ood,imagenet/test", "--imagenet", "imagenet", "--allow-partial", "--out", "out")
    code, _, err = run(*args)
    assert code == 0, err
    assert sorted(json.loads(Path("out/manifest.json").read_text())["configs"]["imagenet"]["splits"]) == [
        "near_ood",
        "test",
    ]


def test_sources_can_be_named_once_for_all(run, demo, tmp_path):
    text = "".join(f"{key} = {json.dumps(str(demo[key]))}\n" for key in SOURCES)
    (tmp_path / "sources.toml").write_text(text)
    code, out, err = run("--dry-run", "--allow-partial")
    assert code == 0, err
    assert "imagenet/far_ood_places82" in out
    assert "class-not-drawn 410" in out  # 205 candidates not drawn x 2 validation images each in the demo


def test_a_build_imports_no_other_declared_benchmark():
    script = "import sys, builders.commands.build; print(*(name for name in sys.modules if 'benchmark' in name))"
    process = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert process.stdout.split() == ["builders.declare.benchmark"]


def test_the_json_of_a_dry_run_says_what_the_text_says(run, demo):
    argv = ["--imagenet", demo["imagenet"], "--splits", "imagenet/near_ood,imagenet/test", "--allow-partial"]
    code, text, _ = run(*argv, "--dry-run", "--out", "out")
    assert code == 0 and "dry run: nothing was written" in text
    code, out, err = run(*argv, "--dry-run", "--out", "out", "--json")
    document = json.loads(out)
    assert code == 0 and "error" not in err
    described = {key: document[key] for key in ("schema", "command", "benchmark", "version", "out", "demo")}
    assert described == {"schema": 1, "command": "build", "benchmark": "imagenet", "version": BENCHMARK.version} | {
        "out": "out",
        "demo": True,
    }
    lines = [line.split() for line in text.splitlines()]
    for split in document["splits"]:
        counted, left_out = (line for line in lines if line[:1] == [split["split"]])
        assert counted[1:3] == [f"{split['rows']:,}", f"{split['expected']:,}"]
        assert counted[4] == f"{split['paper']:,}"
        size = float(left_out[1]) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[left_out[2]]
        assert size == pytest.approx(split["bytes"], rel=0.005)  # three digits
        assert left_out[3] == f"{sum(split['left_out'].values()):,}"
        assert " ".join(left_out[4:]) == ", ".join(f"{rule} {n:,}" for rule, n in split["left_out"].items())
        assert split["parts"] == []
    assert [split["split"] for split in document["splits"]] == ["imagenet/test", "imagenet/near_ood"]
    for total in ("rows", "bytes"):
        assert document[total] == sum(split[total] for split in document["splits"])
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (("--demo", "--splits", ""), "--splits '' has an empty name"),
        (("--demo", "--json"), "--json describes what --dry-run would do. Add --dry-run, or leave --json out."),
        (
            ("--splits", "imagenet/near_odd", "--demo"),
            "no config or split imagenet/near_odd (did you mean",
        ),
        (("--imagenet", "nowhere", "--splits", "imagenet/test"), "there is no folder nowhere. Give the right one"),
        (("--workers", "0", "--demo"), "0 is not in the range x>=1"),
        (("--unknown-flag",), "No such option"),
        (("--sources", "bad.toml"), "bad.toml is not TOML with lines such as imagenet"),
        (("--sources", "number.toml"), "imagenet in number.toml is 3, not a folder in quotes. Write imagenet"),
        (("--demo", "--out", "occupied"), "occupied has files that are not a release's"),
        (("--demo", "--out", "bad.toml"), "bad.toml is a file, where a folder is needed"),
        (("--demo", "--out", "bad.toml/below"), "and write the release: bad.toml/below: not a directory."),
    ],
)
def test_what_the_user_can_mend_is_one_sentence_and_exit_code_2(argv, sentence, run, tmp_path):
    (tmp_path / "bad.toml").write_text("= x")
    (tmp_path / "number.toml").write_text("imagenet = 3")
    (tmp_path / "occupied").mkdir()
    (tmp_path / "occupied" / "thesis.tex").touch()
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
    assert [path.name for path in (tmp_path / "occupied").iterdir()] == ["thesis.tex"]
    assert not Path("build").exists()


def test_help_imports_nothing_heavy_and_fewer_than_sixty_of_our_modules():
    """A build imports over 200 of them, with all readers of sources; `--help` needs those that declare its flags."""
    script = "import sys\nfrom builders.imagenet_benchmark import main\nprint(main(['--help']), *sys.modules)\n"
    process = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    code, *modules = process.stdout.splitlines()[-1].split()
    assert code == "0" and "builders.commands.benchmark" in modules
    assert not {"torch", "datasets", "scipy", "pandas", "nltk", "ray"} & set(modules)
    packages = ("builders", "hf_scripts", "taxonomy", "unknown_detection")
    assert len([name for name in modules if name.partition(".")[0] in packages]) < 60, modules


def test_ctrl_c_says_how_to_go_on(run, demo, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("builders.commands.build.prepare", interrupted)
    code, _, err = run("--imagenet", demo["imagenet"], "--splits", "imagenet/test", "--out", "out")
    assert code == 130
    assert_sentence(err)
