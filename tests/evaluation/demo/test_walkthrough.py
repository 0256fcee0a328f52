"""The demo, cut short: real training, features, detectors and a report, by the commands that anybody types."""

import shlex

import pytest

from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.demo import model
from unknown_detection.evaluation.demo.model import OPTIMIZERS, Training
from unknown_detection.evaluation.demo.walkthrough import Demo
from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.report.figures import read_figures

torch = pytest.importorskip("torch", reason="needs the extra `evaluate`")
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def quick_demo(tmp_path_factory):
    """A quick demo in one process and without pictures, and what it logged."""
    out = tmp_path_factory.mktemp("demo") / "out"
    lines, models = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unknown_detection.evaluation.report.report.scenes", lambda *words: [])
        report = Demo(out, quick=True).run(lines.append, models.append)
    assert report == out / "report"
    assert models == [1, 1]
    return out, lines


def test_the_whole_demo_trains_two_optimizers_with_three_seeds_and_uses_every_detector(tmp_path):
    demo = Demo(tmp_path)
    assert demo.trainings == [Training(optimizer, seed) for optimizer in OPTIMIZERS for seed in range(3)]
    assert {*demo.detectors} == {name for name, method in DETECTORS.items() if method.reads != "members"}
    assert not {"odin", "mc_dropout", "cadet", "ens_r"} & set(Demo(tmp_path, quick=True).detectors)


def test_models_are_trained_for_real(quick_demo):
    figures = read_figures(quick_demo[0] / "report").to_dict("records")
    published = [line for line in figures if line["rows"] == "as_published"]
    accuracy = {line["run"]: line["value"] for line in published if line["metric"] == "accuracy"}
    assert set(accuracy) == {"adam-0", "adam-1", "adam-ensemble"}
    # Six classes: guessing is right in one of six, and seeds must differ in more than their name.
    assert min(accuracy.values()) > 0.9
    of = {"metric": "auroc", "unknown": "near_ood", "detector": "msp"}
    near = {line["run"]: line["value"] for line in published if of.items() <= line.items()}
    assert near["adam-0"] != near["adam-1"]


def test_every_protocol_that_applies_has_figures_of_every_detector(quick_demo):
    figures = read_figures(quick_demo[0] / "report")
    assert set(figures["protocol"]) == {"unknown-detection", "facets", "broad", "od-test"}
    members = [name for name, method in DETECTORS.items() if method.reads == "members"]
    assert set(figures["detector"]) == {*Demo(quick_demo[0], quick=True).detectors, *members}
    runs = figures[["run", "variant", "seed"]].drop_duplicates().to_numpy().tolist()
    assert runs == [["adam-0", "adam", 0], ["adam-1", "adam", 1], ["adam-ensemble", "adam", 0]]


def test_the_commands_that_it_prints_give_the_same_again(quick_demo, tmp_path, capsys):
    out, output = quick_demo
    lines = "\n".join(output).splitlines()
    (line,) = [line for line in lines if line.startswith("$ python -m unknown_detection evaluate report ")]
    words = shlex.split(line)[5:]
    words[words.index("--out") + 1] = str(tmp_path / "again")
    assert main([*words, "--no-plots", "--quiet"]) == 0
    for name in ("figures.parquet", "report.html"):
        assert (tmp_path / "again" / name).read_bytes() == (out / "report" / name).read_bytes()


def test_scoring_ends_with_the_figures_of_the_report_or_says_how_to_get_them(quick_demo, tmp_path, capsys):
    out, scores = quick_demo[0], str(tmp_path / "s.parquet")
    arguments = ["score", "--features", str(out / "features" / "adam-0"), "--detectors", "msp,energy", "--out", scores]
    assert main([*arguments, "--quiet"]) == 0
    report = f"python -m unknown_detection evaluate report --scores {scores} --release"
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"for the figures give --release, or run {report} DIR|ORG/NAME --out DIR"
    release = str(out / "digits")
    assert main([*arguments, "--quiet", "--release", release, "--splits", "digits"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"for all figures run {report} {release} --out DIR"
    start = lines.index("Unknown detection on digits, best first")
    figures = read_figures(out / "report").query("run == 'adam-0' and rows == 'as_published'")
    for name, shown in (("msp", "msp"), ("energy", "energy (EBO)")):
        of = figures[figures["detector"] == name]
        (aurc,) = of[(of["setting"] == "unknown_detection")]["value"]
        (near,) = of[(of["unknown"] == "near_ood") & (of["metric"] == "auroc")]["value"]
        (line,) = [line for line in lines[start + 2 : start + 4] if line.startswith(f"{shown} ")]
        assert line.removeprefix(shown).split()[0:3:2] == [f"{100 * near:.2f}", f"{1000 * aurc:.2f}"]


def test_the_same_seed_gives_the_same_weights_and_another_does_not():
    images, labels = torch.rand(60, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 6
    states = [model.train(images, labels, 6, Training("sgd", seed)).state_dict() for seed in (0, 0, 1)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["head.weight"], states[2]["head.weight"])


def test_a_folder_with_something_else_is_refused(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("mine")
    assert main(["demo", "--out", str(tmp_path), "--quick"]) == 2
    assert "has files that are not part of a demo (thesis.tex). Choose another folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
