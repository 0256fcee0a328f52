"""Several models in one call: a row for each model and detector, one that fails beside others, and what is there."""

import json
import shutil
import warnings

import pandas as pd
import pytest

import unknown_detection as ud
from tests.evaluation import small_models
from tests.evaluation.extra import timm, torch
from tests.evaluation.refusals import refusal
from tests.evaluation.samples import CONFIG, LABELS, fitted
from tests.sentences import assert_sentence
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.detectors.own import load_own
from unknown_detection.evaluation.several import named

pytestmark = pytest.mark.usefixtures("one_thread")

SPLITS = f"{CONFIG},{CONFIG}-train"
DETECTORS = ["msp", "knn", "energy", "max_logit"]
OPTIONS = {"splits": SPLITS, "search": False, "workers": 0, "quiet": True, "device": "cpu", "plots": False}


def of_timm():
    """The smallest network of timm, for images of 32 x 32."""
    made = small_models.of_seed(timm.create_model, model_name="test_efficientnet", num_classes=len(LABELS))
    made.pretrained_cfg = {**made.pretrained_cfg, "input_size": (3, 32, 32), "architecture": "test_efficientnet"}
    return made


def broken():
    """A network whose code is wrong where it meets an image."""
    model = fitted(small_models.cnn)
    model.forward = lambda images: images.nothing
    return model


def first_logit(rows):
    """A detector in memory, which may be another in another run."""
    return rows.logits[:, 0]


class Tempered(small_models.Small):
    """Divides its logits by what no weights tell of."""

    temperature = 1.0

    def forward(self, images):
        """Logits of images (B, 3, 8, 8)."""
        return super().forward(images) / self.temperature


def tempered(num_classes, temperature):
    """A network of a temperature, a plain attribute."""
    made = Tempered(num_classes)
    made.temperature = temperature
    return made


@pytest.fixture(scope="module")
def models():
    torch.set_num_threads(1)
    return [fitted(small_models.cnn), fitted(small_models.cnn, seed=1), of_timm()]


@pytest.fixture(scope="module")
def done(release, models, tmp_path_factory):
    """Three models, and two that fail: one in its code, and one that is the first again."""
    out = tmp_path_factory.mktemp("several")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = ud.run([*models[:2], broken(), models[0], models[2]], release, DETECTORS, out, **OPTIONS)
    return made, out, [str(warning.message) for warning in caught]


def test_a_row_for_each_model_and_detector(release, models, done):
    """As if each were run alone."""
    made, out, _ = done
    assert [*made.features] == [*made.scores] == ["Small", "Small_2", "test-efficientnet"]
    of_near = made.figures[made.figures["split"] == "near_ood"]
    assert sorted(zip(of_near["run"], of_near["detector"], strict=True)) == sorted(
        (name, detector) for name in made.scores for detector in DETECTORS
    )
    for name, model in zip(made.scores, models, strict=True):
        alone = ud.run(model, release, DETECTORS, **OPTIONS)
        pd.testing.assert_frame_equal(made.scores[name], alone.scores)
    figures = pd.read_parquet(out / "report" / "figures.parquet")
    assert figures["variant"].nunique() == 3, "two of one name are told apart by their digests"


def test_models_that_fail_do_not_take_others_along(done):
    """Warnings name them; of code the traceback says where."""
    made, _, said = done
    assert [*made.failed] == ["Small_3", "Small_4"]
    assert "AttributeError" in made.failed["Small_3"] and made.failed["Small_4"].startswith("It has the weights")
    assert len(said) == 2 and "in <lambda>" in said[0] and "Small_4" in said[1]


def test_equal_weights_in_other_code_are_two_models(release, tmp_path):
    """As far as logits tell; each has figures of its own, and members of an ensemble they are, too."""
    both = [fitted(tempered, temperature=temperature) for temperature in (1.0, 4.0)]
    run = ud.run([*both, both[1]], release, "energy", tmp_path / "run", **OPTIONS)
    assert [*run.scores] == ["Tempered", "Tempered_2"]
    assert run.failed["Tempered_3"].startswith("It has the weights") and "Tempered_2" in run.failed["Tempered_3"]
    for name, model in zip(run.scores, both, strict=True):
        alone = ud.run(model, release, "energy", **OPTIONS)
        pd.testing.assert_frame_equal(run.scores[name], alone.scores)
    figures = run.report.figures
    assert figures["model_digest"].nunique() == 1 and figures["variant"].nunique() == 2
    assert figures.groupby("variant")["run"].unique().map(list).tolist() == [["Tempered"], ["Tempered_2"]]
    first, second = run.features.values()
    joined = ud.score([first, second], "deep_ensemble", splits=CONFIG)
    assert len(joined) and joined.attrs["provenance"]["hyperparameters"]["deep_ensemble"] == {"members": 2.0}
    assert "same model" in refusal(ud.score, [first, first], "deep_ensemble", splits=CONFIG)


def test_a_second_call_computes_nothing(release, models, done, tmp_path):
    """Scores are read where the same was asked of the same features; others are computed."""
    made, out, _ = done
    shutil.copytree(out, tmp_path / "run")

    def lines(detectors, **options):
        said = []
        again = ud.run([*models[:2]], release, detectors, tmp_path / "run", log=said.append, **OPTIONS | options)
        return again, [line for line in said if line.endswith("has the scores already")]

    again, there = lines(DETECTORS)
    assert len(there) == 2 and again.features["Small"].runner is None
    one, other = (tmp_path / f"run/scores/{name}.parquet" for name in again.scores)
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)
    assert not lines(DETECTORS)[1], "each file has the other model's scores"
    again, there = lines(DETECTORS)
    assert len(there) == 2
    for name, scores in again.scores.items():
        pd.testing.assert_frame_equal(scores, made.scores[name])
        assert scores.attrs == made.scores[name].attrs
    assert not lines(DETECTORS[:2])[1] and not lines(DETECTORS)[1], "other detectors were asked for"
    assert not lines(DETECTORS, seed=1)[1] and not lines([*DETECTORS, first_logit])[1]


def test_scores_of_other_rows_to_fit_on_are_not_read_again(release, models, done, tmp_path):
    """Without its training rows detectors are fitted on half of validation, also where scores are there already."""
    made, out, _ = done
    shutil.copytree(out, tmp_path / "run")
    halved = ud.run([*models[:2]], release, DETECTORS, tmp_path / "run", **OPTIONS | {"splits": CONFIG})
    alone = ud.run(models[0], release, DETECTORS, **OPTIONS | {"splits": CONFIG})
    assert len(alone.scores) < len(made.scores["Small"]), "the half has no scores"
    pd.testing.assert_frame_equal(halved.scores["Small"], alone.scores)


def test_scores_of_ones_own_detectors_are_not_read_again(release, models, tmp_path):
    """The digest of a file tells neither two detectors in it apart, nor what it imports."""
    file = tmp_path / "two.py"
    named = "    name = 'logit'\n\n    def score(self, features):\n        return features.logits[:, {}]\n\n\n"
    file.write_text("".join(f"class {kind}:\n{named.format(place)}" for place, kind in enumerate(("First", "Second"))))
    for place, kind in enumerate(("First", "Second")):
        run = ud.run(models[:2], release, [load_own(f"{file}:{kind}")], tmp_path / "run", **OPTIONS)
        test = run.features["Small"][f"{CONFIG}/test"]
        assert run.scores["Small"].set_index("id")["score"][test.ids].tolist() == test.logits[:, place].tolist()


def test_the_command_takes_a_list(release, tmp_path, capsys):
    """Each with its own file of weights; the exit code is 3 where one fails, whose code's traceback is shown."""
    listed = ["model,weights,accuracy"]
    for seed in range(3):
        torch.save(fitted(small_models.cnn, seed=seed).state_dict(), tmp_path / f"{seed}.pt")
        listed.append(f"{small_models.__file__}:cnn,{tmp_path / f'{seed}.pt'},")
    listed += ["timm:nothing,,", f"{tmp_path / 'own.py'}:broken,,"]
    line = "raise ValueError('not with release=opened')"
    (tmp_path / "own.py").write_text(f"def broken(num_classes):\n    {line}\n")
    (tmp_path / "models.csv").write_text("\n".join(listed))
    run = ["run", "--release", str(release), "--splits", SPLITS, "--no-search", "--quiet", "--no-plots"]
    run += ["--device", "cpu", "--workers", "0", "--detectors", "msp,knn", "--out", str(tmp_path / "out"), "--json"]
    assert main([*run, "--models", str(tmp_path / "models.csv")]) == 3
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert [*document["failed"]] == ["timm-nothing", "own.py-broken"] and document["missing"] == {}
    assert f"\n    {line}\n" in printed.err and "broken raised ValueError: not with release=opened. " in printed.err
    assert_sentence(printed.err.partition("\n")[0], "timm-nothing")
    assert sorted(path.name for path in (tmp_path / "out" / "scores").glob("*.parquet")) == [
        "small-models.py-cnn.parquet",
        "small-models.py-cnn_2.parquet",
        "small-models.py-cnn_3.parquet",
    ]
    for flags in ([], ["--model", "timm:resnet18", "--models", str(tmp_path / "models.csv")]):
        assert main([*run, *flags]) == 2
        assert_sentence(capsys.readouterr().err, "--model", "--models")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("timm:resnet18\n", "model"),
        ("model,colour\ntimm:resnet18,red\n", "colour"),
        ("model,accuracy\ntimm:resnet18,most\n", "most"),
        ("model\n", "the list is empty"),
    ],
)
def test_lists_that_are_refused(release, tmp_path, capsys, text, named):
    (tmp_path / "models.csv").write_text(text)
    run = ["run", "--release", str(release), "--models", str(tmp_path / "models.csv"), "--out", str(tmp_path / "out")]
    assert main(run) == 2
    assert_sentence(capsys.readouterr().err, named)


def test_what_concerns_all_models_is_refused_before_any_runs(release, models, tmp_path):
    """A misspelled detector or metric, a file of weights for all, and too few samples for intervals."""
    for options in ({"detectors": "mspp"}, {"metrics": "oscar"}, {"weights": "weights.pt"}, {"intervals": 9}):
        refusal(ud.run, models, release, out=tmp_path / "run", **OPTIONS | options)
        assert not (tmp_path / "run").exists()
    with pytest.warns(UserWarning, match="there are no scores of timm-"):
        said = refusal(ud.run, ["timm:nothing", "timm:neither"], release, out=tmp_path / "run", **OPTIONS)
    assert said.startswith("None of 2 models could be run. timm-nothing: ")


def test_names_and_weights_of_a_list():
    """Published weights of libraries, unless there is a file; folders are no part of a name."""
    found = named(
        ["timm:resnet18", {"model": "timm:resnet18", "weights": "a.pt"}, "a/b.py:c", {"model": torch.nn.Linear(1, 1)}]
    )
    assert [*found] == ["timm-resnet18", "timm-resnet18_2", "b.py-c", "Linear"]
    assert [how.get("pretrained") for how in found.values()] == [True, None, None, None]
