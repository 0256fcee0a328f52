"""The steps as a new user calls them: objects, folders and files alike, one or several; wrong calls get a sentence."""

import gc
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn import metrics

import unknown_detection as ud
from tests.evaluation import small_models
from tests.evaluation.extra import nn, torch
from tests.evaluation.refusals import refusal
from tests.evaluation.samples import CONFIG, LABELS, fitted
from tests.evaluation.small_models import eight
from tests.sentences import assert_sentence
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.errors import EvaluationError, EvaluationWarning
from unknown_detection.evaluation.metrics import metrics as metric_table
from unknown_detection.evaluation.metrics.metrics import METRICS, Metric

pytestmark = pytest.mark.usefixtures("one_thread")


def lowest_logit(rows):
    return -rows.logits.min(axis=1)


# A model in memory


def test_a_module_is_a_model_and_stays_as_it_is(release, weights):
    """Its features are those of the same model by its name; it goes on training where it was."""
    module = fitted(small_models.cnn).train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    features = ud.extract(module, ud.load(release), CONFIG, device="cpu")
    assert module.training
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    named = ud.extract(f"{small_models.__file__}:cnn", release, CONFIG, weights=weights, device="cpu")
    of_module, of_name = (store.features(CONFIG, "test") for store in (features, named))
    assert np.array_equal(of_module.logits, of_name.logits)
    assert np.array_equal(of_module.penultimate, of_name.penultimate)


def test_without_a_cache_features_go_with_the_last_of_what_reads_them(release, model):
    store = ud.extract(model, release, f"{CONFIG}/test", device="cpu")
    folder, features = store.root, store.features(CONFIG, "test")
    del store
    gc.collect()
    assert features.blocks[0].shape == features.take(slice(None)).blocks[0].shape == (40, 6)
    del features
    gc.collect()
    assert not folder.exists()


def test_a_cache_is_used_again_for_the_same_weights_and_preprocessing_alone(release, model, tmp_path):
    def extract(module, preprocessing):
        lines = []
        options = {"preprocessing": preprocessing, "cache": tmp_path / "kept", "log": lines.append}
        ud.extract(module, release, f"{CONFIG}/test", **options)
        return lines

    assert f"{CONFIG}/test: 40 of 40 images" in extract(model, eight)
    assert f"{CONFIG}/test: there already, 40 images" in extract(fitted(small_models.cnn), eight)
    other = fitted(small_models.cnn)
    with torch.no_grad():
        other.fc.bias += 1
    for changed in ((other, eight), (model, lambda image: eight(image) - 0.5)):
        assert "are of the model Small with digest" in refusal(extract, *changed)


class Curved(small_models.Small):
    """Other code than `Small` has, and a number that its weights do not tell of."""

    slope = 0.0

    def forward(self, images):
        """Logits of images (B, 3, 8, 8)."""
        maps = nn.functional.leaky_relu(self.layer2(self.layer1(images)) - 0.1, self.slope)
        return self.fc(maps.mean(dim=(2, 3)))


def test_a_cache_is_not_used_for_the_same_weights_in_other_code(release, tmp_path):
    """As another activation, which the weights do not tell of; with other threads and batches it is the same code."""
    kept = {"cache": tmp_path / "kept", "preprocessing": eight, "device": "cpu"}
    made = small_models.of_seed(Curved, classes=len(LABELS))
    ud.extract(made, release, f"{CONFIG}/test", **kept)
    record = (tmp_path / "kept" / "identity.json").read_bytes()
    torch.set_num_threads(2)
    ud.extract(made, release, f"{CONFIG}/near_ood", **kept, batch_size=3)
    assert (tmp_path / "kept" / "identity.json").read_bytes() == record
    made.slope = 0.5
    message = refusal(ud.extract, made, release, f"{CONFIG}/test", **kept)
    assert_sentence(message)


# A file's function


SEVEN = """
from tests.evaluation.small_models import cnn, of_seed

def seven():
    return of_seed(cnn, num_classes=7)
"""


def test_score_knows_from_the_features_which_logits_are_the_classes(release, tmp_path, command):
    """It asked for `--classes` again; a dictionary is as good as the file."""
    (tmp_path / "model.py").write_text(SEVEN)
    (tmp_path / "map.csv").write_text("class,index\nred,6\ngreen,0\nblue,3\ngrey,2\n")
    given = {"release": release, "model": f"{tmp_path / 'model.py'}:seven", "device": "cpu", "workers": 0}
    kept = tmp_path / "kept"
    assert command("extract", classes=tmp_path / "map.csv", splits=CONFIG, out=kept, **given)[0] == 0
    out = tmp_path / "scores.parquet"
    code, _, said = command("score", "--no-search", features=kept, detectors="msp,odin", out=out, **given)
    assert code == 0, said
    assert {*pd.read_parquet(out)["detector"]} == {"msp", "odin"}
    by_class = {"red": 6, "green": 0, "blue": 3, "grey": 2}
    store = ud.extract(given["model"], release, CONFIG, classes=by_class, cache=kept, device="cpu", workers=0)
    assert store.identity.classes == {name: str(logit) for name, logit in by_class.items()}


LOADING = """
import torch
from tests.evaluation.small_models import cnn

def loaded(num_classes):
    model = cnn(num_classes)
    model.load_state_dict(torch.load({path!r}))
    return model
"""


def test_a_function_that_loads_its_weights_needs_no_others(release, weights, tmp_path, features, capsys):
    (tmp_path / "model.py").write_text(LOADING.format(path=str(weights)))
    flags = ["--release", str(release), "--model", f"{tmp_path / 'model.py'}:loaded", "--device", "cpu", "--out"]
    assert main(["extract", "--splits", f"{CONFIG}/test", *flags, str(tmp_path / "out")]) == 0
    assert "weights  held by the module, state_dict " in capsys.readouterr().out
    odin = ["score", "--features", str(tmp_path / "out"), "--detectors", "odin", "--no-search"]
    assert main([*odin, *flags, str(tmp_path / "odin.parquet")]) == 0
    scores = ud.score(tmp_path / "out", "msp", splits=f"{CONFIG}/test")
    expected = ud.score(features, "msp", splits=f"{CONFIG}/test")
    assert scores.equals(expected)


# Scores and figures


def test_figures_are_scikit_learn_s(release, scores):
    figures = ud.evaluate(scores, release)
    assert isinstance(figures, pd.DataFrame)
    assert figures.columns.tolist() == [
        *("detector", "config", "split", "role", "AUROC", "FPR95", "AUPR_IN", "AUPR_OUT"),
        *("n_known", "n_unknown", "run", "model", "seed"),
    ]
    assert figures[["detector", "split"]].values.tolist() == [
        [detector, split] for detector in ("msp", "knn") for split in ("far_ood_noise", "near_ood")
    ]
    assert figures.attrs["release_digest"] == ud.load(release).digest
    by_id = {(row["detector"], row["id"]): row["score"] for row in scores.to_dict("records")}
    release = ud.load(release)
    for line in figures.to_dict("records"):
        sides = [release.rows(CONFIG, split)["id"].to_pylist() for split in ("test", line["split"])]
        truth = np.repeat([0, 1], list(map(len, sides)))
        values = np.array([by_id[line["detector"], id_] for side in sides for id_ in side])
        false, true, _ = metrics.roc_curve(1 - truth, -values, drop_intermediate=False)
        expected = {
            "AUROC": metrics.roc_auc_score(truth, values),
            "FPR95": false[np.argmax(true >= 0.95)],
            "AUPR_IN": metrics.average_precision_score(1 - truth, -values),
            "AUPR_OUT": metrics.average_precision_score(truth, values),
            "n_known": len(sides[0]),
            "n_unknown": len(sides[1]),
        }
        assert {name: line[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_metrics_means_and_intervals_are_columns(digits, monkeypatch):
    """Of a stranger's metric, of a mean over far splits, and of 95 % intervals, which depend on no other detector."""
    monkeypatch.setattr(metric_table, "METRICS", dict(METRICS))  # which is without fpr90 afterwards

    @ud.metric("FPR at 90 % TPR", "lower")
    def fpr90(ranking):
        first = (ranking.known >= 0.9 * ranking.known[-1]).argmax()
        return ranking.unknown[first] / ranking.unknown[-1]

    index, numbers = ud.load(digits).index(["digits"]), np.random.default_rng(0)
    level = index["role"].map({"near_ood": 0.5, "far_ood": 1.0}).astype(float).fillna(0.0)
    plain = pd.DataFrame({"id": index["id"].astype(str), "score": level + numbers.normal(size=len(index))})
    assert ud.evaluate(plain, digits, "digits", metrics="auroc, FPR95").columns[4:6].tolist() == ["AUROC", "FPR95"]
    options = {"splits": "digits", "metrics": ["AUROC", fpr90], "intervals": 200}
    figures = ud.evaluate(plain, digits, **options).set_index(["split", "role"])
    assert figures.columns[2:8].tolist() == ["AUROC", "AUROC_low", "AUROC_high", "fpr90", "fpr90_low", "fpr90_high"]
    far = figures.loc[["far_ood_noise", "far_ood_textures"]]
    mean = figures.loc["mean", "far_ood"]
    assert mean["AUROC"] == pytest.approx(far["AUROC"].mean())
    assert (mean["n_known"], mean["n_unknown"]) == (180, 167)
    assert (figures["AUROC_low"] < figures["AUROC"]).all() and (figures["AUROC"] < figures["AUROC_high"]).all()
    assert mean["AUROC_high"] - mean["AUROC_low"] < (far["AUROC_high"] - far["AUROC_low"]).max()
    two = pd.concat([plain.assign(detector="b"), plain.assign(detector="a", score=-plain["score"])])
    again = ud.evaluate(two, digits, **options).query("detector == 'b'").set_index(["split", "role"])
    assert again["AUROC_low"].equals(figures["AUROC_low"])


@pytest.mark.parametrize(
    "returned", [None, float("nan"), np.array([0.5, 0.5]), "0.5"], ids=["None", "nan", "array", "text"]
)
def test_a_metric_that_returns_no_number_is_named(release, scores, tmp_path, monkeypatch, returned):
    """By `evaluate`, with intervals too, and by a report; None was a TypeError of NumPy's, NaN a figure."""
    monkeypatch.setitem(METRICS, "odd", Metric("odd", "Odd", "higher", lambda ranking: returned))
    with_intervals, of_report = (
        partial(ud.evaluate, intervals=100),
        partial(ud.report, out=tmp_path / "r", plots=False),
    )
    for call in (ud.evaluate, with_intervals, of_report):
        said = refusal(call, scores, release, metrics="odd")
        assert said.startswith(f"The metric odd returned {returned!r} for ")
    assert not (tmp_path / "r").exists()


def test_evaluate_imports_no_page_plot_protocol_or_detector(digits):
    """Of four numbers; 0.7 s of imports and more before."""
    code = (
        "import sys, unknown_detection as ud\n"
        "release = ud.load(sys.argv[1])\n"
        "ids = release.index(['digits'])['id']\n"
        "ud.evaluate(dict(zip(ids, range(len(ids)))), release, 'digits')\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(digits)], capture_output=True, text=True, check=True)
    parts = ("report", "protocols", "detectors", "features", "models")
    unwanted = ("matplotlib", "jinja2", "torch", "unknown_detection.pages")
    unwanted += tuple(f"unknown_detection.evaluation.{part}" for part in parts)
    assert [name for name in done.stdout.split() if name.startswith(unwanted)] == []


def values_of(figures):
    return figures.drop(columns=["run", "model", "seed", "detector"])


class Streamed:
    """A table of another library, such as polars, which hands it over by Arrow's stream."""

    def __init__(self, table):
        self.__arrow_c_stream__ = table.__arrow_c_stream__


def test_scores_are_a_table_a_data_frame_a_dictionary_a_series_or_a_file(release, scores, tmp_path):
    """And paths are texts or `Path`s."""
    msp = scores[scores["detector"] == "msp"]
    expected = values_of(ud.evaluate(msp, release))
    plain = pa.Table.from_pandas(msp[["id", "score"]], preserve_index=False)
    pa.csv.write_csv(plain, tmp_path / "s.csv")
    pa.parquet.write_table(plain, tmp_path / "s.parquet")
    by_id = dict(zip(plain["id"].to_pylist(), plain["score"].to_pylist(), strict=True))
    files = [tmp_path / "s.csv", str(tmp_path / "s.csv"), tmp_path / "s.parquet"]
    pd.testing.assert_frame_equal(values_of(ud.evaluate(msp, release, [CONFIG])), expected)
    in_memory = [msp, [msp], plain, plain.to_pandas(), msp.set_index("id"), by_id, pd.Series(by_id)]
    in_memory += [plain.to_pydict(), plain.combine_chunks().to_batches()[0], Streamed(plain)]
    for source in (*in_memory, *files, [str(files[0])]):
        figures = ud.evaluate(source, str(release))
        pd.testing.assert_frame_equal(values_of(figures), expected)
        assert set(figures["detector"]) <= {"msp", "scores", "s"}


def test_scores_of_some_splits_are_evaluated_on_these_unless_others_are_named(release, features, scores):
    named = f"{CONFIG}/test,{CONFIG}/near_ood"
    some = ud.score(features, ["msp", "knn"], splits=named, search=False)
    expected = ud.evaluate(scores, release, named)
    pd.testing.assert_frame_equal(ud.evaluate(some, release), expected)
    assert set(expected["split"]) == {"near_ood"}
    assert f"rows of {CONFIG}/far_ood_noise" in refusal(ud.evaluate, some, release, CONFIG)


def test_several_scores_are_runs_by_their_files_names_or_numbers(release, scores, tmp_path):
    scores.to_parquet(tmp_path / "first.parquet")
    figures = ud.evaluate([tmp_path / "first.parquet", scores, pa.Table.from_pandas(scores)], ud.load(release))
    assert figures["run"].unique().tolist() == ["first", "scores-2", "scores-3"]
    assert len(figures) == 3 * 4


def test_provenance_of_some_scores_is_not_that_of_others_beside_them(release, features, scores, tmp_path):
    """Arrow keeps the first table's metadata where several are joined, as pandas does of a folder of files.

    Another model's scores were then this model's, and those of splits that the first table says nothing of were left
    out without a word.
    """
    parts = [ud.score(features, "msp", splits=f"{CONFIG}/{split}") for split in ("test", "near_ood", "far_ood_noise")]
    other = scores[scores["detector"] == "msp"].assign(detector="energy", score=0.5)
    other.attrs = {"provenance": {**other.attrs["provenance"], "model": "another"}}
    for tables, says in (([scores, other], "energy"), (parts, f"{CONFIG}/far_ood_noise, {CONFIG}/near_ood")):
        folder = tmp_path / f"{len(tables)}"
        folder.mkdir()
        for number, table in enumerate(tables):
            table.to_parquet(folder / f"{number}.parquet")
        together = pd.read_parquet(folder)
        with pytest.warns(EvaluationWarning, match=f"has scores of {says}, of which its provenance says nothing"):
            figures = ud.evaluate(together, release)
        assert set(figures["model"]) == {""}
        assert set(figures["split"]) == {"near_ood", "far_ood_noise"}
        assert values_of(figures).equals(values_of(ud.evaluate(pd.concat(tables), release)))


def test_a_column_seed_is_the_seed_of_the_training_whatever_that_of_the_scoring_was(release, scores):
    assert set(ud.evaluate(scores, release)["seed"]) == {0}
    assert set(ud.evaluate(scores.assign(seed=7), release)["seed"]) == {7}


def test_two_models_of_one_class_are_two_and_seeds_of_one_are_not(release, features, scores, tmp_path):
    """Both are `Small`, with other weights, and were averaged as two runs of one. A method's name joins them."""
    other = ud.extract(fitted(small_models.cnn, seed=5), release, f"{CONFIG},{CONFIG}-train", workers=0)
    runs = [scores, ud.score(other, ["msp", "knn"], search=False)]
    names = [f"Small {of.identity.model_digest[:8]}" for of in (features, other)]
    (table,) = ud.report(runs, release, tmp_path / "report", plots=False).results
    assert {*table.mean.index} == {(detector, name) for detector in ("msp", "knn") for name in names}
    assert table.note.endswith("One run each.")
    for number, of_run in enumerate(runs):
        of_run.to_parquet(tmp_path / f"{number}.parquet")
    named = [f"method={tmp_path}/{number}.parquet" for number in range(2)]
    (table,) = ud.report(named, release, tmp_path / "report", plots=False).results
    assert {*table.mean.index} == {("msp", "method"), ("knn", "method")}
    runs[1].attrs["provenance"]["seed"] = 1
    (table,) = ud.report(runs, release, tmp_path / "report", plots=False).results
    assert {*table.mean.index} == {("msp", "Small"), ("knn", "Small")}


def test_one_detector_needs_no_list(features, scores):
    for detector in ("msp", ["msp"], ("msp",)):
        msp = ud.score(str(features.root), detector)
        assert msp.equals(scores[scores["detector"] == "msp"].reset_index(drop=True))
    assert set(ud.score(features, lowest_logit)["detector"]) == {"lowest_logit"}
    assert set(ud.score(features, "msp,energy")["detector"]) == {"msp", "energy"}


def test_a_release_that_is_open_or_a_path_is_a_release(release):
    opened = ud.load(release)
    assert ud.load(opened) is opened
    assert repr(opened) == f"<release {release}: {CONFIG}, {CONFIG}-train>"


def test_a_device_of_torch_is_a_device(release, model):
    features = ud.extract(model, release, f"{CONFIG}/test", device=torch.device("cpu"))
    assert repr(features) == f"<features of Small: {CONFIG}/test>"


KINDS = {
    "A release is a folder, .* not a Small": lambda it: ud.extract(it.root, it.model, "out"),
    "A model is a torch.nn.Module, or timm:NAME, .*not an int": lambda it: ud.extract(3, it.root),
    "A split is CONFIG or .*, such as small/.*, not a Po": lambda it: ud.extract(it.model, it.root, Path(CONFIG)),
    "A split is CONFIG or CONFIG/SPLIT, .*, not an int": lambda it: ud.extract(it.model, it.root, [3]),
    "classes= takes a file or a dictionary, not a list": lambda it: ud.extract(it.model, it.root, classes=["red"]),
    "Features are what extract returned, .* not a DataFrame": lambda it: ud.score(it.scores, "msp"),
    "Scores are a table or a DataFrame .* not an int": lambda it: ud.evaluate(3, it.root),
    "Scores are .* not a FeatureStore": lambda it: ud.evaluate(it.features, it.root),
    "A metric is a name or a function .* int": lambda it: ud.evaluate(it.scores, it.root, metrics=3),
    "A release is a folder, ORG/NAME .* not an int": lambda it: ud.evaluate(it.scores, 3),
}
"""Calls with objects of another kind, by what the `TypeError` says."""

VALUES = {
    "has no config or split birds": lambda it: ud.extract(it.model, it.root, "birds"),
    "A module has its weights: leave": lambda it: ud.extract(it.model, it.root, weights="x.pt"),
    "A batch has at least one image": lambda it: ud.extract(it.model, it.root, batch_size=0),
    "batch_size=64 and workers=-1. Give": lambda it: ud.extract(it.model, it.root, workers=-1),
    "same model as others .*Give each member of": lambda it: ud.score([it.features] * 2, "msp"),
    "3 is an int, not a detector": lambda it: ud.score(it.features, 3),
    "k of knn must be 1 to the .* fitted on, found": lambda it: ud.score(it.features, ud.detectors.KNN(k="5")),
    "The file of out= must end in .parquet, found x": lambda it: ud.score(it.features, "msp", out="x.csv"),
    "'msq' is not a detector; the closest names are": lambda it: ud.score(it.features, "msq"),
    "has no config or split gulls": lambda it: ud.score(it.features, "msp", splits="gulls"),
    "There are no scores to evaluate: the list is empty": lambda it: ud.evaluate([], it.root),
    "The scores cannot be read .* Ids are text": lambda it: ud.evaluate(pd.Series([1.0]), it.root),
    "The scores cannot be read as a table": lambda it: ud.evaluate({"a": "high"}, it.root),
    r"has 1 id \(a\) that small and small-train of": lambda it: ud.evaluate({"a": 1.0}, it.root),
    "'auc' is not a metric; the clo": lambda it: ud.evaluate(it.scores, it.root, metrics="auc"),
    "intervals='100' is not a number": lambda it: ud.evaluate(it.scores, it.root, intervals="100"),
    "intervals=100.0 is not a number": lambda it: ud.evaluate(it.scores, it.root, intervals=100.0),
    "No metric is named": lambda it: ud.evaluate(it.scores, it.root, metrics=[]),
    "not decorated as a metric": lambda it: ud.evaluate(it.scores, it.root, metrics=lowest_logit),
    "oscr needs predictions, and the scores of msp have none": lambda it: ud.evaluate(
        it.scores[["id", "detector", "score"]], it.root, metrics=["auroc", "oscr"]
    ),
    "needs the columns id and score": lambda it: ud.evaluate(pd.DataFrame({"x": [1]}), it.root),
    "has no config or split owls": lambda it: ud.evaluate(it.scores, it.root, "owls"),
    "has no scores of small-train/train. Score": lambda it: ud.evaluate(
        it.scores[["id", "score"]][:188].to_dict("list"), it.root, f"{CONFIG}-train"
    ),
    "test of small has no": lambda it: ud.evaluate(it.scores, it.root, f"{CONFIG}/near_ood"),
    "'msp' is not a protocol": lambda it: ud.report(it.scores, it.root, "no", protocols="msp"),
    "Name the release and the model, too": lambda it: ud.score(it.features.root, "odin"),
}
"""Calls that cannot be answered, by what the `EvaluationError` says."""


@pytest.mark.parametrize("message", [*KINDS, *VALUES])
def test_a_wrong_call_gets_a_sentence(message, release, model, features, scores):
    objects = type("Given", (), {"root": release, "model": model, "features": features, "scores": scores})
    with pytest.raises(TypeError if message in KINDS else EvaluationError, match=message):
        {**KINDS, **VALUES}[message](objects)
