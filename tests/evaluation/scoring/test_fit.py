"""Fitting, tuning and scoring from features on disk, without any model: which rows count for what, what is refused.

Features are those of `detectors/toy.py`. AUROCs are counted pair by pair.
"""

import contextlib
import csv
import dataclasses
import hashlib
import json
import re
import sys

import msgspec
import numpy as np
import pytest

import unknown_detection as ud
from builders.registry import BENCHMARKS
from tests.evaluation.detectors.toy import BLOCKS, CLASSES, toy_features, toy_head
from tests.evaluation.refusals import refusal, refused
from tests.evaluation.stored import put
from tests.sentences import assert_sentence
from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.store import FeatureStore, Identity
from unknown_detection.evaluation.features.table import block_column
from unknown_detection.evaluation.scoring.fit import FeatureCache, Scorer
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS, find_fit_splits, in_fit_half
from unknown_detection.evaluation.scoring.scores import read_scores

IDENTITY = Identity(
    "a" * 64,
    "toy",
    "b" * 64,
    tuple(f"class {n}" for n in range(CLASSES)),
    tuple(f"block{n}" for n in range(len(BLOCKS))),
    {},
)

TRAIN = toy_features(rows=400, seed=1, name="train")
VALIDATION = toy_features(rows=120, seed=2, name="validation")
EXTERNAL = toy_features(rows=0, unknown=80, seed=3, name="external")
TEST = toy_features(rows=60, seed=4, name="test")
NEAR = toy_features(rows=0, unknown=40, seed=5, name="near")
SPLITS = {
    ("toy", "validation"): VALIDATION,
    ("toy", "external_validation"): EXTERNAL,
    ("toy", "test"): TEST,
    ("toy", "near_ood"): NEAR,
    ("toy-train", "train"): TRAIN,
}


def fill(root, splits=SPLITS, identity=IDENTITY):
    """A folder as `extract` leaves it."""
    store = FeatureStore.begin(root, identity, toy_head())
    for key, features in splits.items():
        columns = {"logits": features.logits, "penultimate": features.penultimate}
        columns |= {block_column(number): block for number, block in enumerate(features.blocks)}
        put(store, key, features.ids, features.labels, columns)
    return store


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Read only."""
    root = tmp_path_factory.mktemp("features") / "toy"
    fill(root)
    return root


@pytest.fixture
def score(command, folder, tmp_path):
    """Run the command; the exit code, and what it said on stdout and stderr."""

    def run(*flags, features=folder, detectors="msp", out="scores.parquet"):
        named = {"detectors": detectors} if detectors else {}
        return command("score", *flags, features=features, out=tmp_path / out, **named)

    return run


def scores_of(path):
    """Scores and predictions by detector and id, once no pair is there twice."""
    rows = read_scores(path)[0].to_pylist()
    scores = {(row["detector"], row["id"]): (row["score"], row["prediction"]) for row in rows}
    assert len(scores) == len(rows)
    return scores


def area(known, unknown):
    """AUROC by counting pairs."""
    return np.mean((unknown[:, None] > known) + 0.5 * (unknown[:, None] == known))


def test_every_row_gets_the_score_of_a_detector_fitted_on_training_rows(score, tmp_path):
    code, out, err = score("--no-search", detectors="msp,knn,temperature")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:3] == ["fitted: toy-train/train", "tuned: toy/validation", "tuned against: toy/external_validation"]
    assert lines[3:6] == ["msp", "knn: k=50", "temperature"]
    scores = scores_of(tmp_path / "scores.parquet")
    judged = [TEST, NEAR, VALIDATION, EXTERNAL]
    assert len(scores) == 3 * sum(map(len, judged))
    fitted_on = {"msp": None, "knn": TRAIN, "temperature": VALIDATION}
    for name, rows in fitted_on.items():
        detector = DETECTORS[name].clone().fit(rows, toy_head())
        for features in judged:
            pairs = [scores[name, id_] for id_ in features.ids.tolist()]
            assert np.allclose([value for value, _ in pairs], detector.score(features), rtol=1e-12, atol=1e-12)
            assert [predicted for _, predicted in pairs] == features.logits.argmax(1).tolist()


def test_detectors_that_change_predictions_have_their_own(score, tmp_path):
    """OpenMax may predict none of the classes; ReAct, DICE and ASH predict by the logits whose energy they take."""
    assert score("--no-search", detectors="msp,openmax,react,dice,ash")[0] == 0
    scores = scores_of(tmp_path / "scores.parquet")
    ids = NEAR.ids.tolist()
    own = {name: [scores[name, id_][1] for id_ in ids] for name in ("msp", "openmax", "react", "dice", "ash")}
    weight, bias = toy_head().weight, toy_head().bias
    clipped = np.minimum(NEAR.penultimate, np.quantile(TRAIN.penultimate, 0.9))
    assert own["react"] == (clipped @ weight.T + bias).argmax(axis=1).tolist()
    contribution = weight * TRAIN.penultimate.mean(axis=0)
    masked = np.where(contribution > np.quantile(contribution, 0.9), weight, 0)
    assert own["dice"] == (NEAR.penultimate @ masked.T + bias).argmax(axis=1).tolist()
    assert -1 in own["openmax"]
    assert own["msp"] == NEAR.logits.argmax(axis=1).tolist()
    assert own["ash"] != own["msp"]


def test_a_run_records_itself_in_the_release_s_order_and_gives_the_same_bytes_again(score, folder, tmp_path):
    """The public function gives the same rows."""
    for out in ("scores.parquet", "again.parquet"):
        assert score("--seed", "7", detectors="react,msp", out=out)[0] == 0
    for ending in (".parquet", ".search.csv"):
        assert (tmp_path / f"scores{ending}").read_bytes() == (tmp_path / f"again{ending}").read_bytes()
    table, about = read_scores(tmp_path / "scores.parquet")
    in_python = ud.score(folder, ["react", "msp"], seed=7)
    assert in_python.equals(table.to_pandas())
    assert in_python.attrs["provenance"] == json.loads(msgspec.json.encode(about))
    ids = np.concatenate([SPLITS["toy", split].ids for split in sorted(FeatureStore.open(folder).by_config()["toy"])])
    assert table["detector"].to_pylist() == ["react"] * len(ids) + ["msp"] * len(ids)
    assert table["id"].to_pylist() == [*ids.tolist(), *ids.tolist()]
    assert (about.release_digest, about.model, about.model_digest) == ("a" * 64, "toy", "b" * 64)
    assert (about.configs, about.seed) == (("toy",), 7)
    assert set(about.hyperparameters) == {"react", "msp"}
    assert about.hyperparameters["react"]["quantile"] in DETECTORS["react"].search["quantile"]
    assert about.versions["numpy"] == np.__version__


def test_the_best_on_external_rows_is_chosen(score, tmp_path):
    """Every choice of the grid is made and judged here again; the first of the best is taken."""
    code, out, _ = score(detectors="ash,react")
    assert code == 0
    about = read_scores(tmp_path / "scores.parquet")[1]
    with (tmp_path / "scores.search.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    for name, parameter in (("ash", "pruned"), ("react", "quantile")):
        areas = {}
        for value in DETECTORS[name].search[parameter]:
            fitted_on = None if DETECTORS[name].fits_on == "none" else TRAIN
            detector = DETECTORS[name].clone(**{parameter: value}).fit(fitted_on, toy_head())
            areas[value] = area(detector.score(VALIDATION), detector.score(EXTERNAL))
        best = max(areas, key=areas.get)
        assert about.hyperparameters[name] == {parameter: best}
        assert f"{name}: {parameter}={best:g}, the best of {len(areas)} with AUROC {areas[best]:.4f} of" in out
        rows = [row for row in written if row["detector"] == name]
        assert [row["hyperparameters"] for row in rows] == [f"{parameter}={value:g}" for value in areas]
        assert np.allclose([float(row["auroc"]) for row in rows], list(areas.values()))
        assert [row["chosen"] for row in rows] == [str(int(value == best)) for value in areas]


def test_a_search_names_the_split_that_it_was_made_on(score, tmp_path):
    """It said `external_validation`, where OpenOOD's configs have `tin_validation`."""
    key = ("toy", "external_validation")
    fill(
        tmp_path / "cifar",
        {of: rows for of, rows in SPLITS.items() if of != key} | {("toy", "tin_validation"): EXTERNAL},
    )
    code, out, _ = score(detectors="ash", features=tmp_path / "cifar")
    assert code == 0
    assert "tuned against: toy/tin_validation" in out
    assert re.search(r"ash: .*, the best of \d+ with AUROC \d\.\d+ of tin_validation\n", out)
    with (tmp_path / "scores.search.csv").open(newline="") as file:
        assert {row["auroc_of"] for row in csv.DictReader(file)} == {"tin_validation"}


def test_nothing_is_chosen_by_the_rows_that_are_judged(score, tmp_path):
    """With other unknowns to judge, and other test rows, the same hyperparameters come out."""
    score(detectors="ash,react,knn,relation")
    other = {("toy", "near_ood"): toy_features(rows=0, unknown=90, seed=60, name="other")}
    other[("toy", "test")] = toy_features(rows=30, seed=61, name="tests")
    fill(tmp_path / "other", SPLITS | other)
    score(detectors="ash,react,knn,relation", features=tmp_path / "other", out="other.parquet")
    choices = [read_scores(tmp_path / name)[1].hyperparameters for name in ("scores.parquet", "other.parquet")]
    assert choices[0] == choices[1]
    assert (tmp_path / "scores.search.csv").read_bytes() == (tmp_path / "other.search.csv").read_bytes()


def test_without_a_search_or_external_rows_defaults_are_taken_and_an_old_record_goes(score, tmp_path):
    fill(tmp_path / "few", {key: value for key, value in SPLITS.items() if key[1] != "external_validation"})
    sentence = "ash: using the default hyperparameters, because there are no features of both validation"
    for flags, options, words in ((("--no-search",), {}, ""), ((), {"features": tmp_path / "few"}, sentence)):
        score(detectors="ash")
        assert (tmp_path / "scores.search.csv").exists()
        code, out, err = score(*flags, detectors="ash", **options)
        assert (code, err) == (0, "") and words in out
        assert not (tmp_path / "scores.search.csv").exists()
        assert read_scores(tmp_path / "scores.parquet")[1].hyperparameters == {"ash": {"pruned": 0.9}}


def test_hyperparameters_are_those_that_are_set(score, tmp_path):
    """One value is not searched; several are, in place of the grid."""
    flags = ("--set", "knn.k=7", "--set", "temperature.temperature=1000", "--set", "ash.pruned=0.5,0.25")
    code, out, _ = score(*flags, detectors="knn,temperature,ash")
    assert code == 0
    about = read_scores(tmp_path / "scores.parquet")[1]
    assert about.hyperparameters["knn"] == {"k": 7}
    assert about.hyperparameters["temperature"] == {"temperature": 1000}
    assert about.hyperparameters["ash"]["pruned"] in (0.5, 0.25)
    assert "knn: k=7\n" in out
    assert ", the best of 2 with AUROC" in out
    scores = scores_of(tmp_path / "scores.parquet")
    p = np.exp(TEST.logits.astype(float) / 1000)
    assert np.allclose(
        [scores["temperature", id_][0] for id_ in TEST.ids.tolist()], 1 - (p / p.sum(1)[:, None]).max(1)
    )
    nearest = DETECTORS["knn"].clone(k=7).fit(TRAIN, toy_head()).score(TEST)
    assert np.allclose([scores["knn", id_][0] for id_ in TEST.ids.tolist()], nearest)
    sentence = refused(score("--set", "knn.k=401", detectors="knn"))
    assert_sentence(sentence, "400", "401")


def test_hyperparameters_that_cannot_be_are_passed_over(score, tmp_path):
    """KNN of 200, 500 and 1,000 neighbours among 150 training rows."""
    few = TRAIN.take(slice(150))
    fill(tmp_path / "few", SPLITS | {("toy-train", "train"): few})
    code, out, _ = score(detectors="knn", features=tmp_path / "few")
    assert code == 0
    assert "knn: " in out
    assert ", 3 of which cannot be used here" in out
    with (tmp_path / "scores.search.csv").open(newline="") as file:
        rows = {row["hyperparameters"]: row for row in csv.DictReader(file)}
    assert rows["k=200"]["auroc"] == ""
    assert rows["k=200"]["problem"].startswith("k of knn must be a whole number from 1 to")


def only(*keys):
    return {key: value for key, value in SPLITS.items() if key in keys}


@pytest.mark.parametrize(
    ("splits", "configs", "fit_configs", "train", "validation"),
    [
        ({"a": ["test", "validation"], "a-train": ["train"]}, ["a"], [], ("a-train", "train"), ("a", "validation")),
        ({"a": ["test", "validation"]}, ["a"], [], None, ("a", "validation")),
        ({"a": ["test", "train", "validation"]}, ["a"], [], ("a", "train"), ("a", "validation")),
        ({"a": ["test"], "b": ["validation", "x"]}, ["a"], ["b"], None, ("b", "validation")),
        ({"a": ["test"], "b-train": ["train"]}, ["a"], ["b-train"], ("b-train", "train"), None),
        ({"a": ["test"]}, ["a"], [], None, None),
    ],
)
def test_which_rows_fit_and_tune(splits, configs, fit_configs, train, validation):
    fit_splits = find_fit_splits(splits, configs, fit_configs)
    assert (fit_splits.train, fit_splits.validation) == (train, validation)


def test_several_configs_are_fitted_on_the_rows_of_one_only_if_it_is_named_or_all_have_the_same(tmp_path):
    """As FACETS's validation splits have, whose unknown rows differ."""
    others = toy_features(rows=60, unknown=9, seed=6, name="other")
    joined = dataclasses.replace(others, ids=np.where(others.labels < 0, others.ids, VALIDATION.ids[: len(others)]))
    assert (joined.ids[:60] == VALIDATION.ids[:60]).all()
    evaluated = {("toy", "test"): TEST, ("two", "near_ood"): NEAR}
    training = {("toy-train", "train"): TRAIN, ("two-train", "train"): others}
    halves = {("toy", "validation"): VALIDATION.take(np.arange(60)), ("two", "validation"): others}
    for name, splits in (("training", training), ("halves", halves)):
        fill(tmp_path / name, evaluated | splits)
        named = ", ".join(map("/".join, splits))
        assert f"{named} have different rows, and" in refusal(ud.score, tmp_path / name, "mahalanobis", search=False)
    fill(tmp_path / "same", evaluated | halves | {("two", "validation"): joined})
    fill(tmp_path / "one", evaluated | halves | {("toy-train", "train"): TRAIN})
    for folder, fit in (("training", "toy-train"), ("halves", "two"), ("same", ()), ("one", ())):
        scores = ud.score(tmp_path / folder, "mahalanobis", fit_configs=fit)
        assert {*TEST.ids.tolist(), *NEAR.ids.tolist()} <= {*scores["id"]}
    assert len(ud.score(tmp_path / "training", "mahalanobis", splits="two", search=False)) == len(NEAR)


@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=BENCHMARKS)
def test_rows_of_the_role_external_are_tuned_on_and_never_judged(benchmark):
    """Those that OpenOOD tunes on with CIFAR were judged, and no hyperparameter was searched."""
    splits = {config.name: [split.name for split in config.splits] for config in benchmark.configs}
    external = [key.split("/") for key, part in benchmark.parts.items() if part.role == "external"]
    for config, name in [of for of in external if of[1] != "train"]:
        assert find_fit_splits(splits, [config], []).external == (config, name)
        assert name in FIT_AND_TUNE_SPLITS
    assert "openimage_o" not in FIT_AND_TUNE_SPLITS


def test_without_training_rows_one_half_of_validation_is_fitted_on_and_the_other_tuned_on(score, tmp_path):
    """As in FACETS, validation has both sides: unknown rows are neither fitted on nor tuned on."""
    mixed = toy_features(rows=120, unknown=50, seed=2, name="validation")
    folder = tmp_path / "mixed"
    fill(folder, {("toy", "validation"): mixed, ("toy", "test"): TEST, ("toy", "external_validation"): EXTERNAL})
    code, out, _ = score(detectors="mahalanobis,knn,temperature,msp", features=folder)
    assert code == 0
    assert out.startswith("fitted: toy/validation (fit half)\ntuned: toy/validation (tune half)\n")
    assert "fitted on half of the validation rows and tuned on the other half" in out

    # The halves, written out: each class's rows in the order of their ids' SHA-256, in turn.
    fit, tune = [], []
    for label in range(CLASSES):
        rows = np.flatnonzero(mixed.labels == label)
        rows = sorted(rows, key=lambda row: hashlib.sha256(f"fit half\t{mixed.ids[row]}".encode()).hexdigest())
        fit, tune = fit + rows[::2], tune + rows[1::2]
    fit, tune = mixed.take(np.sort(fit)), mixed.take(np.sort(tune))

    scores = scores_of(tmp_path / "scores.parquet")
    expected = DETECTORS["mahalanobis"].clone().fit(fit, toy_head()).score(TEST)
    assert np.allclose([scores["mahalanobis", id_][0] for id_ in TEST.ids.tolist()], expected)
    expected = DETECTORS["temperature"].clone().fit(tune, toy_head()).score(TEST)
    assert np.allclose([scores["temperature", id_][0] for id_ in TEST.ids.tolist()], expected)
    with (tmp_path / "scores.search.csv").open(newline="") as file:
        areas = {line["hyperparameters"]: line["auroc"] for line in csv.DictReader(file)}
    nearest = DETECTORS["knn"].clone(k=1).fit(fit, toy_head())
    by_pairs = area(nearest.score(tune), nearest.score(EXTERNAL))
    assert by_pairs < 1  # 1.0000 if a row may find itself
    assert np.isclose(float(areas["k=1"]), by_pairs)
    # A row that detectors were fitted on has no score, of no detector: a threshold would take it for a held-out one.
    scored = {id_ for name, id_ in scores if name == "msp"}
    assert scored == {*tune.ids, *mixed.ids[mixed.labels < 0], *TEST.ids, *EXTERNAL.ids}
    about = read_scores(tmp_path / "scores.parquet")[1]
    assert about.fit_half == "toy/validation"
    tuned = "toy/validation (tune half)"
    assert about.rows["knn"] == {
        "fitted_on": "toy/validation (fit half)",
        "tuned_on": f"{tuned} against toy/external_validation",
        "threshold_on": tuned,
    }
    assert about.rows["temperature"] == {"fitted_on": tuned, "threshold_on": tuned}
    assert about.rows["msp"] == {"threshold_on": tuned}


def test_a_class_that_is_fitted_on_wrong_rows_too_is_named(score, tmp_path):
    """SHE and OpenMax refuse nothing because a model gets one class wrong, and say what they took instead."""
    logits = TRAIN.logits.copy()
    logits[TRAIN.labels == 2, 2] = -100
    fill(tmp_path / "wrong", SPLITS | {("toy-train", "train"): dataclasses.replace(TRAIN, logits=logits)})
    code, out, _ = score("--no-search", detectors="msp,she,openmax", features=tmp_path / "wrong")
    assert code == 0
    remark = "with all rows of class 2, too few of which are classified right"
    assert f"she: {remark}\n" in out
    used = read_scores(tmp_path / "scores.parquet")[1].rows
    assert used["she"]["fitted_on"] == used["openmax"]["fitted_on"] == f"toy-train/train, {remark}"


def test_validation_that_is_too_small_to_divide_is_not_fitted_on(score, tmp_path):
    """With one row of a class; what is not fitted on training rows still works on the whole of it."""
    few = VALIDATION.take(np.unique(VALIDATION.labels, return_index=True)[1])
    fill(tmp_path / "few", {("toy", "validation"): few, ("toy", "test"): TEST})
    code, _, err = score(detectors="knn", features=tmp_path / "few")
    assert code == 2
    assert_sentence(err, "toy/validation", "train")
    code, out, _ = score(detectors="temperature", features=tmp_path / "few")
    assert code == 0
    assert out.startswith("fitted: no rows\ntuned: toy/validation\n")
    about = read_scores(tmp_path / "scores.parquet")[1]
    assert (about.fit_half, about.rows["temperature"]["fitted_on"]) == ("", "toy/validation")
    assert {id_ for _, id_ in scores_of(tmp_path / "scores.parquet")} == {*few.ids, *TEST.ids}


def test_an_id_of_several_splits_is_scored_once(score, tmp_path):
    """As of a clean image that two configs share."""
    more = dataclasses.replace(NEAR, ids=np.concatenate([TEST.ids[:5], NEAR.ids[5:]]))
    fill(tmp_path / "shared", SPLITS | {("toy", "near_ood"): more})
    assert score(features=tmp_path / "shared")[0] == 0
    assert len(scores_of(tmp_path / "scores.parquet")) == sum(map(len, [TEST, NEAR, VALIDATION, EXTERNAL])) - 5


def test_mixtures_read_the_scores_of_their_parts(score, tmp_path):
    """The parts are fitted too, and are not in the file; as many components as detect errors best."""
    pytest.importorskip("sklearn", reason="scikit-learn fits the mixture")
    assert score(detectors="ens_f")[0] == 0
    scores = scores_of(tmp_path / "scores.parquet")
    assert {name for name, _ in scores} == {"ens_f"}
    parts = {name: DETECTORS[name].clone().fit(TRAIN, toy_head()) for name in DETECTORS["ens_f"].base_methods}
    about = read_scores(tmp_path / "scores.parquet")[1]
    chosen = int(about.hyperparameters["ens_f"]["components"])

    def with_scores(features):
        return dataclasses.replace(features, scores={name: part.score(features) for name, part in parts.items()})

    expected = (
        DETECTORS["ens_f"].clone(components=chosen).fit(with_scores(VALIDATION), toy_head()).score(with_scores(TEST))
    )
    assert np.allclose([scores["ens_f", id_][0] for id_ in TEST.ids.tolist()], expected)
    # Chosen by hand: fitted on a half of validation, wrong against right rows of the other, pair by pair.
    half = in_fit_half(VALIDATION.ids.tolist(), VALIDATION.labels)
    fitted_on, judged = with_scores(VALIDATION.take(half)), with_scores(VALIDATION.take(~half))
    wrong = judged.logits.argmax(axis=1) != judged.labels
    areas = {}
    for components in (10, 1, 2, 5, 20):
        with contextlib.suppress(EvaluationError):  # too few rows for so many
            detector = DETECTORS["ens_f"].clone(components=components).fit(fitted_on, toy_head())
            areas[components] = area(detector.score(judged)[~wrong], detector.score(judged)[wrong])
    assert len(areas) >= 3 and chosen == max(areas, key=areas.get)
    with (tmp_path / "scores.search.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    tried = {line["hyperparameters"]: line["auroc"] for line in lines if line["detector"] == "ens_f"}
    assert [*tried] == [f"components={number}" for number in (10, 1, 2, 5, 20)]
    assert {name: float(value) for name, value in tried.items() if value} == pytest.approx(
        {f"components={number}": value for number, value in areas.items()}
    )
    assert {line["auroc_of"] for line in lines} == {"errors in validation"}
    assert about.rows["ens_f"]["tuned_on"] == "toy/validation, right against wrong"


def test_components_are_chosen_without_unknown_rows_and_need_errors(score, tmp_path):
    """No external rows are needed; a model that is always right leaves the paper's 10, and says so."""
    pytest.importorskip("sklearn", reason="scikit-learn fits the mixture")
    few = {key: value for key, value in SPLITS.items() if key[1] != "external_validation"}
    assert score("--no-search", detectors="ens_f", out="ten.parquet")[0] == 0
    assert read_scores(tmp_path / "ten.parquet")[1].hyperparameters["ens_f"] == {"components": 10}
    fill(tmp_path / "few", few)
    assert (
        score(detectors="ens_f")[0] == score(detectors="ens_f", features=tmp_path / "few", out="few.parquet")[0] == 0
    )
    chosen = [read_scores(tmp_path / name)[1].hyperparameters["ens_f"] for name in ("scores.parquet", "few.parquet")]
    assert chosen[0] == chosen[1]
    right = dataclasses.replace(VALIDATION, labels=VALIDATION.logits.argmax(axis=1))
    fill(tmp_path / "right", SPLITS | {("toy", "validation"): right})
    code, out, _ = score(detectors="ens_f", features=tmp_path / "right", out="right.parquet")
    assert code == 0
    assert "ens_f: using the default hyperparameters, because there are no features of right and of wrong rows" in out
    assert read_scores(tmp_path / "right.parquet")[1].hyperparameters["ens_f"] == {"components": 10}


def member(root, seed, release_digest="a" * 64):
    """Features of another model: other logits of the same rows."""
    random = np.random.default_rng(seed)
    splits = {
        key: dataclasses.replace(
            value, logits=(value.logits + random.normal(size=value.logits.shape)).astype(np.float32)
        )
        for key, value in SPLITS.items()
    }
    fill(root, splits, msgspec.structs.replace(IDENTITY, model_digest=str(seed) * 64, release_digest=release_digest))
    return splits


def test_a_deep_ensemble_of_three_models(score, tmp_path):
    """Its probabilities are the mean of three softmaxes, and its predictions theirs."""
    members = [member(tmp_path / f"member{seed}", seed) for seed in (1, 2)]
    flags = ("--member", str(tmp_path / "member1"), "--member", str(tmp_path / "member2"))
    code, _, err = score(*flags, detectors="msp,deep_ensemble,mutual_information")
    assert (code, err) == (0, "")
    scores = scores_of(tmp_path / "scores.parquet")
    logits = np.stack([splits["toy", "near_ood"].logits.astype(float) for splits in (SPLITS, *members)])
    p = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    mean = p.mean(axis=0)
    information = -(mean * np.log(mean)).sum(1) + (p * np.log(p)).sum(2).mean(0)
    ids = NEAR.ids.tolist()
    assert np.allclose([scores["deep_ensemble", id_][0] for id_ in ids], 1 - mean.max(1))
    assert [scores["deep_ensemble", id_][1] for id_ in ids] == mean.argmax(1).tolist()
    assert np.allclose([scores["mutual_information", id_][0] for id_ in ids], information)
    # What one model does is that of the first.
    assert np.allclose([scores["msp", id_][0] for id_ in ids], 1 - p[0].max(1))
    about = read_scores(tmp_path / "scores.parquet")[1]
    assert about.hyperparameters["deep_ensemble"] == {"members": 3.0}
    assert about.model == "toy + toy + toy"
    assert about.model_digest != "b" * 64
    member(tmp_path / "other", 1, release_digest="c" * 64)
    sentence = refused(score("--member", str(tmp_path / "other"), detectors="deep_ensemble"))
    assert_sentence(sentence)


def test_all_that_is_possible_without_images_or_members(score, tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn fits some")
    code, out, _ = score("--no-search", detectors=None)
    assert code == 0
    (message,) = [line for line in out.splitlines() if line.startswith("left out: ")]
    assert message.count("runs the model on the images again") == 2, "of those themselves, and as parts"
    assert message.count("needs features of several models") == 1
    left_out = {name for part in re.findall(r"(?:: |; )([a-z_, ]+) \(", message) for name in part.split(", ")}
    assert left_out == {
        *(name for name, method in DETECTORS.items() if method.reads != "features"),
        "ens_v",  # a part reads images
        "ens_r",
        "mcm",  # of models with text
        "neglabel",
    }
    assert {name for name, _ in scores_of(tmp_path / "scores.parquet")} == set(DETECTORS) - left_out
    *_, scored, hint = out.splitlines()
    assert scored.startswith(f"{300 * (len(DETECTORS) - len(left_out)):,} scores of")
    assert hint.startswith(
        "for the figures give --release, or run python -m unknown_detection evaluate report --scores "
    )


@pytest.mark.parametrize(
    "flags",
    ["--detectors mps", "--detectors mahalonobis", "--splits toi", "--fit-splits toy-trian", "--release nowhere",
     "--model timm:resnet18", "--out scores.csv", "--features ."],
)  # fmt: skip
def test_flags_that_cannot_be_used(score, tmp_path, flags):
    assert_sentence(refused(score(*flags.split())))
    assert not (tmp_path / "scores.parquet").exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("odin", "odin runs the model on the images again"),
        ("ens_r", "odin runs the model on the images again"),
        ("deep_ensemble", "deep_ensemble needs features of several models"),
    ],
)
def test_what_cannot_be_scored_does_not_keep_others_from_it(score, tmp_path, name, sentence):
    """Alone it is an error; beside others, a warning and an exit code of its own."""
    assert sentence in refused(score(detectors=name))
    assert not (tmp_path / "scores.parquet").exists()
    code, _, err = score(detectors=f"msp,{name}")
    assert (code, err.count("\n")) == (3, 1)
    assert_sentence(err, name, sentence.removeprefix(f"{name} "))
    assert {name for name, _ in scores_of(tmp_path / "scores.parquet")} == {"msp"}
    assert name in read_scores(tmp_path / "scores.parquet")[1].missing


def test_the_json_document_says_what_was_scored(score, tmp_path):
    code, out, err = score("--json", "--set", "knn.k=7", detectors="knn,odin")
    found = json.loads(out)
    assert (code, found["schema"], found["command"], found["count"]) == (3, 1, "score", 300)
    assert found["file"] == str(tmp_path / "scores.parquet")
    assert found["hyperparameters"] == {"knn": {"k": 7}}
    assert found["missing"]["odin"].startswith("odin runs the model")
    assert "knn: k=7" in err


def test_lists_that_are_given_twice_add_up(score, tmp_path):
    flags = ("--splits", "toy/test", "--splits", "toy/near_ood,toy/validation", "--detectors", "energy,knn")
    assert score(*flags, "--no-search", detectors="msp")[0] == 0
    scores = scores_of(tmp_path / "scores.parquet")
    rows = {*TEST.ids.tolist(), *NEAR.ids.tolist(), *VALIDATION.ids.tolist()}
    assert {*scores} == {(name, id_) for name in ("msp", "energy", "knn") for id_ in rows}
    assert "No split is named" in refused(score("--splits", ""))


def test_held_out_rows_of_broad_fit_what_validation_rows_fit_elsewhere(score, tmp_path):
    """The distances and the temperature; both score files are of the same rows, so they are compared as a whole."""
    for name in ("held_out", "validation"):
        splits = {(f"broad-{name}", "test"): TEST, (f"broad-{name}", name): VALIDATION, ("broad-shift", "near"): NEAR}
        fill(tmp_path / name, splits)
        flags = ("--splits", f"broad-{name},broad-shift")
        outcome = score(*flags, detectors="mahalanobis,temperature", features=tmp_path / name, out=f"{name}.parquet")
        assert f"fitted: broad-{name}/{name} (fit half)" in outcome[1].splitlines()
    held_out, validation = (read_scores(tmp_path / f"{name}.parquet")[0] for name in ("held_out", "validation"))
    assert held_out.sort_by([("detector", "ascending"), ("id", "ascending")]) == validation.sort_by(
        [("detector", "ascending"), ("id", "ascending")]
    )


@pytest.mark.parametrize(
    ("splits", "flags", "detector"),
    [
        (only(("toy", "test")), "--no-search", "knn"),
        (only(("toy", "test"), ("toy-train", "train")), "", "temperature"),
        (only(("toy", "test")) | {("other", "near_ood"): NEAR}, "--fit-splits other", "msp"),
        (only(("toy", "test")) | {("other", "train"): EXTERNAL}, "--fit-splits other", "knn"),
        (only(("toy-train", "train")), "", "msp"),
        (SPLITS | {("toy-train", "train"): TRAIN.take(TRAIN.labels != 2)}, "--no-search", "mahalanobis"),
    ],
    ids=["to fit on", "to tune on", "of the config", "with labels", "to evaluate", "of a class"],
)
def test_rows_that_are_not_there(score, tmp_path, splits, flags, detector):
    fill(tmp_path / "few", splits)
    assert_sentence(refused(score(*flags.split(), detectors=detector, features=tmp_path / "few")))


def test_features_that_were_computed_in_two_ways_are_pointed_out(score, tmp_path):
    store = fill(tmp_path / "mixed", {key: rows for key, rows in SPLITS.items() if key != ("toy", "test")})
    blocks = {block_column(number): block for number, block in enumerate(TEST.blocks)}
    columns = {"logits": TEST.logits, "penultimate": TEST.penultimate} | blocks
    put(store, ("toy", "test"), TEST.ids, TEST.labels, columns, {"device": "cuda"})
    code, out, _ = score(features=tmp_path / "mixed")
    assert code == 0
    assert "note: features were computed in several environments" in out


@pytest.mark.parametrize(
    ("config", "split"), [("toy", "near_ood"), ("toy", "test"), ("toy", "validation"), ("toy-train", "train")]
)
def test_a_split_whose_features_are_damaged_is_never_left_out(score, tmp_path, config, split):
    fill(tmp_path / "damaged")
    (path,) = (tmp_path / "damaged" / "features").glob(f"{config}.{split}.*")
    path.write_bytes(path.read_bytes()[:-100])
    code, _, err = score("--no-search", features=tmp_path / "damaged", detectors="knn,temperature")
    assert code == 2
    assert f"{config}.{split}" in err
    assert "damaged" in err
    assert not (tmp_path / "scores.parquet").exists()


def test_scores_do_not_depend_on_which_detectors_are_asked_for(folder):
    """Nor on the order in which they are fitted."""
    pytest.importorskip("sklearn", reason="scikit-learn fits some")
    fit_splits = find_fit_splits(FeatureStore.open(folder).by_config(), ["toy"], [])
    alone = Scorer(FeatureCache(FeatureStore.open(folder)), fit_splits).score("ens_f", ("toy", "test"))
    scorer = Scorer(FeatureCache(FeatureStore.open(folder)), fit_splits)
    for name in ("knn", "mahalanobis_all", "msp", "oodl"):
        scorer.fit(name)
        scorer.score(name, ("toy", "near_ood"))
    assert np.array_equal(scorer.score("ens_f", ("toy", "test")), alone)


def test_a_detector_sees_no_label_of_the_rows_that_its_hyperparameters_are_chosen_on(folder):
    """Whichever way they are chosen: a score of right and wrong would otherwise have an AUROC of 1."""
    seen = []

    class Peek(ud.Detector):
        fits_on, chosen_by, search = "validation", "errors", {"factor": (1.0, 2.0)}

        def __init__(self, factor=1.0):
            self.factor = factor

        def fit(self, features, head=None):
            return self

        def score(self, features):
            seen.extend(features.labels.tolist())
            return self.factor * (features.logits.argmax(axis=1) != features.labels)

    lines = []
    ud.score(folder, [Peek, type("Other", (Peek,), {"chosen_by": "external"})], log=lines.append)
    assert set(seen) == {-1}
    assert sum("the best of 2 with AUROC 0.5000" in line for line in lines) == 2


@pytest.mark.parametrize("detectors", ["msp,oodl,ens_v", "all"])
def test_a_package_that_is_not_installed_is_named_before_anything_is_fitted(detectors, score, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setattr(Scorer, "fit", lambda *_: pytest.fail("fits"))
    code, out, err = score(detectors=detectors)
    assert (code, out) == (2, "")
    assert_sentence(err, "oodl")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert score(detectors="msp,energy")[0] == 0, "which need no package"
