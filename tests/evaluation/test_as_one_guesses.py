"""Calls as somebody makes them who has read the README alone: each does what one expects, or says what to do."""

import gc
import io
import json
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

import unknown_detection as ud
from tests.evaluation import small_models
from tests.evaluation.extra import torchvision
from tests.evaluation.refusals import refusal
from tests.evaluation.samples import CONFIG, LABELS, picture
from tests.evaluation.small_models import eight
from tests.hf_scripts.samples import make_release
from tests.sentences import assert_sentence
from unknown_detection.evaluation.__main__ import main

pytestmark = pytest.mark.usefixtures("one_thread")


SPLITS = f"{CONFIG},{CONFIG}-train"


def test_scores_are_a_data_frame(scores):
    """In a notebook it is shown as one, without a page of ids."""
    assert scores.dtypes.astype(str).to_dict() == {
        "id": "str",
        "detector": "str",
        "score": "float64",
        "prediction": "int64",
    }
    assert len(repr(scores)) < 1000 and "<table" in scores.to_html(max_rows=4)
    assert scores.attrs["provenance"]["configs"] == [CONFIG]


def test_provenance_survives_pandas_files_and_ours(release, features, scores, tmp_path):
    """And figures are equal where it is lost, but for the names of model and run, since the ids decide."""
    expected = ud.evaluate(scores, release)
    ud.score(features, ["msp", "knn"], search=False, out=tmp_path / "ours.parquet")
    scores.to_parquet(tmp_path / "theirs.parquet")
    scores.to_csv(tmp_path / "plain.csv", index=False)
    for file in (tmp_path / "ours.parquet", tmp_path / "theirs.parquet"):
        read = pd.read_parquet(file)
        assert read.attrs == scores.attrs
        for source in (file, read):
            figures = ud.evaluate(source, release)
            pd.testing.assert_frame_equal(figures.drop(columns="run"), expected.drop(columns="run"))
    lost = scores.copy()
    lost.attrs = {}
    of_sources = ["run", "model", "seed", "detector"]
    for source in (lost, pa.Table.from_pandas(lost), tmp_path / "plain.csv"):
        figures = ud.evaluate(source, release)
        pd.testing.assert_frame_equal(figures.drop(columns=of_sources), expected.drop(columns=of_sources))


@pytest.mark.parametrize("stated", [True, False])
def test_missing_repeated_and_foreign_ids_are_named(release, scores, stated):
    """With the provenance, which says what they are of, and without."""
    mine = scores[scores["detector"] == "msp"].reset_index(drop=True)
    mine.attrs = scores.attrs if stated else {}
    first = mine["id"][0]
    assert f"lacks scores of msp for 1 id ({first})" in refusal(ud.evaluate, mine[1:], release)
    assert f"several scores of msp for 1 id ({first})" in refusal(ud.evaluate, pd.concat([mine, mine[:1]]), release)
    assert "has 1 id (elsewhere) that" in refusal(ud.evaluate, mine.replace(first, "elsewhere"), release)


def test_a_detector_that_cannot_be_fitted_leaves_the_others(release, model):
    """KNN without any rows to fit on; alone it is an error."""
    features = ud.extract(model, release, f"{CONFIG}/test,{CONFIG}/near_ood", workers=0)
    with pytest.warns(UserWarning, match=r"there are no scores of knn \(.* no features of train, .* Extract such"):
        scores = ud.score(features, ["msp", "knn"])
    assert set(scores["detector"]) == {"msp"}
    assert [*scores.attrs["provenance"]["missing"]] == ["knn"]
    assert refusal(ud.score, features, "knn").endswith("on which knn is fitted. Extract such a split.")
    assert "No detector can be used with these features: " in refusal(ud.score, features, ["knn", "vim"])


def test_a_detector_with_an_error_in_its_code_leaves_the_others(features):
    """With a warning that names both and shows where; alone it raises the error itself. NaN is named, too."""

    def broken(rows):
        return rows.logitss

    def nan(rows):
        return rows.logits[:, 0] * float("nan")

    with pytest.warns(
        UserWarning, match=r"no scores of broken \(raised AttributeError: .*logitss.*\n(.*\n)*.* in brok"
    ):
        scores = ud.score(features, ["msp", broken], splits=f"{CONFIG}/test")
    assert {*scores["detector"]} == {"msp"}
    assert scores.attrs["provenance"]["missing"]["broken"].startswith("broken raised AttributeError: ")
    with pytest.warns(UserWarning, match=r"no scores of nan \(gives 40 of 40 rows a score that is NaN"):
        ud.score(features, [ud.detectors.MSP, nan], splits=f"{CONFIG}/test")
    with pytest.warns(UserWarning, match="there are no scores of broken "):
        everything = ud.score(features, ["all", broken], splits=f"{CONFIG}/test", search=False)
    assert [*everything.attrs["provenance"]["missing"]] == ["broken"]
    with pytest.raises(AttributeError, match="logitss"):
        ud.score(features, broken, splits=f"{CONFIG}/test")


def test_where_nothing_can_be_written_no_detector_is_run(release, features, scores, tmp_path):
    (tmp_path / "file").write_text("")
    ran = []
    sentence = f"Nothing can be written to {tmp_path / 'file'}: not a directory. Fix this, or choose another path."
    assert refusal(ud.score, features, lambda rows: ran.append(rows), out=tmp_path / "file" / "a.parquet") == sentence
    assert refusal(ud.report, scores, release, tmp_path / "file" / "report") == sentence
    assert not ran


def test_features_and_images_are_shown_by_their_shapes(features, release):
    """Without ids and values."""
    assert repr(features["test"]).startswith("<features of 40 rows: logits (40, ")
    assert repr(ud.load(release).images(CONFIG, "test")) == f"<40 images of {CONFIG}/test in {release}>"


def test_splits_of_a_release_are_listed_with_their_configs_and_of_a_config_without(release):
    opened = ud.load(release)
    keys = [f"{CONFIG}-train/train", *(f"{CONFIG}/{split}" for split in opened.splits(CONFIG))]
    assert sorted(opened.splits()) == sorted(keys)
    assert opened.splits(f"{CONFIG}-train") == ("train",)


def test_names_are_found_in_any_letters_and_others_have_their_nearest_named(features, release, scores, tmp_path):
    """Of detectors, settings and metrics; `AUROC` is a column, and `auroc` the metric's own name."""
    knn = ud.score(features, "MSP,Knn", settings={"KNN": {"k": 7}}, splits=f"{CONFIG}/test", search=False)
    assert knn.attrs["provenance"]["hyperparameters"] == {"msp": {}, "knn": {"k": 7}}
    metrics = ["fpr95", "Auroc", "Aupr_In", "OSCR"]
    assert ud.evaluate(scores, release, metrics=metrics).columns[4:8].tolist() == ["FPR95", "AUROC", "AUPR_IN", "oscr"]
    assert "'MSPP' is not a detector; the closest names are msp" in refusal(ud.score, features, "MSPP")
    assert "'Fpr59' is not a metric; the closest names are FPR95" in refusal(
        ud.evaluate, scores, release, metrics="Fpr59"
    )
    assert "--" not in refusal(ud.load, str(tmp_path / "a")) + refusal(ud.load, "docs/nowhere")


def test_a_search_says_what_it_does(features, capsys, monkeypatch):
    """44 settings of ODIN, on a terminal; nothing with `quiet`."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    settings = {"odin": {"epsilon": [0.0, 0.1], "temperature": [1, 10]}}
    ud.score(features, "odin", settings=settings, splits=f"{CONFIG}/test")
    assert "searching 4 settings of odin" in capsys.readouterr().err
    ud.score(features, "odin", settings=settings, splits=f"{CONFIG}/test", quiet=True)
    assert capsys.readouterr().err == ""


def test_one_call_from_a_model_to_the_table(release, model, tmp_path):
    """The same scores and figures as of three; a second call goes on, and runs the model on no image."""
    options = {"splits": SPLITS, "search": False, "workers": 0, "quiet": True}
    lines = []
    done = ud.run(model, release, ["msp", "knn"], tmp_path / "run", plots=False, log=lines.append, **options)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["features", "report", "scores.parquet"]
    assert {*done.scores["detector"]} == {"msp", "knn"}
    pd.testing.assert_frame_equal(done.figures, ud.evaluate(done.scores, release))
    assert re.search(r"^knn .*\n", repr(done), re.M) and repr(done).endswith("report.html")
    assert "<table" in done._repr_html_()
    assert f"{CONFIG}/test: 40 of 40 images" in lines
    again = []
    ud.run(model, release, ["msp", "knn"], tmp_path / "run", plots=False, log=again.append, **options)
    assert f"{CONFIG}/test: there already, 40 images" in again


def test_what_earlier_calls_left_in_the_folder_makes_no_difference(release, model, tmp_path):
    """KNN was fitted on the training rows of the first call, which the second one did not ask for."""
    options = {"search": False, "workers": 0, "plots": False, "quiet": True}
    ud.run(model, release, ud.detectors.KNN(k=5), tmp_path / "run", splits=SPLITS, **options)
    knn, options["splits"] = ud.detectors.KNN(k=5), CONFIG
    again, alone = (ud.run(model, release, knn, tmp_path / to, **options) for to in ("run", "new"))
    assert again.scores.attrs == alone.scores.attrs
    pd.testing.assert_frame_equal(again.scores, alone.scores)
    assert again.features.splits == alone.features.splits


def test_a_tensor_of_each_image_is_enough_where_all_have_one_size(release, model, tmp_path):
    """`ToTensor()` was refused for images of 8 x 8, because it makes other shapes of others; the first one is."""
    options = {"preprocessing": torchvision.transforms.ToTensor(), "workers": 0}
    features = ud.extract(model, release, f"{CONFIG}/test", **options)
    resized = ud.extract(model, release, f"{CONFIG}/test", workers=0, preprocessing=eight)
    assert np.array_equal(features["test"].logits, resized["test"].logits)

    def of_two_sizes(name):
        with Image.open(io.BytesIO(picture(name))) as image:
            (image.resize((9, 8)) if "17" in name else image).save(encoded := io.BytesIO(), format="PNG")
        return encoded.getvalue()

    make_release(tmp_path / "mixed", {f"{CONFIG}/test": range(20)}, labels=LABELS, picture=of_two_sizes)
    said = refusal(ud.extract, model, tmp_path / "mixed", f"{CONFIG}/test", **options)
    assert "17" in said and "becomes a tensor of shape (3, 8, 9), not (3, 8, 8) as others. Mend" in said


def test_one_call_needs_splits_to_evaluate(release, model, tmp_path):
    said = refusal(ud.run, model, release, "msp", tmp_path / "run", splits=f"{CONFIG}-train", quiet=True)
    assert said.startswith(f"There is nothing to evaluate among {CONFIG}-train/train,")
    assert not (tmp_path / "run").exists()


def test_one_call_without_a_folder_leaves_nothing(release, model, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = ud.run(model, release, "msp", splits=f"{CONFIG}/test,{CONFIG}/near_ood", intervals=100, workers=0)
    assert done.report.page.is_file()
    assert {"AUROC_low", "AUROC_high"} <= {*done.figures}
    del done
    gc.collect()
    assert [*tmp_path.iterdir()] == []
    refusal(ud.run, model, release, "msq", splits=f"{CONFIG}/test", workers=0)
    gc.collect()
    assert [*tmp_path.iterdir()] == []


def test_the_command_of_all_steps(release, weights, tmp_path, capsys):
    """It ends with the table; a detector that is missing is named by flags, and by the exit code."""
    flags = ["--release", str(release), "--model", f"{small_models.__file__}:cnn", "--quiet", "--no-plots"]
    flags += ["--weights", str(weights), "--splits", SPLITS, "--device", "cpu", "--workers", "0"]
    run = ["run", *flags, "--out", str(tmp_path / "out"), "--no-search", "--metrics", "oscr", "--detectors"]
    assert main([*run, "msp,knn"]) == 0
    printed = capsys.readouterr()
    assert re.search(r"^msp .*\n(.*\n)*the page: .*report\.html\n\Z", printed.out, re.M)
    assert not re.search("^(weights|input|fitted|note|release)", printed.out, re.M) and not printed.err, "with --quiet"
    run.remove("--quiet")
    assert main([*run, "msp", "--json"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert (document["schema"], document["command"], document["missing"]) == (1, "run", {})
    assert document["results"] and document["page"].endswith("report.html")
    assert f"tuned: {CONFIG}/validation" in printed.err
    assert "oscr" in {*pd.read_parquet(tmp_path / "out" / "report" / "figures.parquet")["metric"]}
    assert main([*run, "msp,deep_ensemble"]) == 3
    assert_sentence(capsys.readouterr().err, "deep_ensemble")


def test_the_version_and_the_names():
    assert re.fullmatch(r"\d+\.\d+.*", ud.__version__)
    assert {"score", "evaluate", "run", "__version__"} <= {*dir(ud)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "importlib" not in dir(ud)
