"""Detectors of the user's own: the example's by hand, in the command and in Python, and what is refused."""

import ast
import dataclasses
import hashlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import unknown_detection as ud
from tests.evaluation.detectors.toy import toy_features, toy_head
from tests.evaluation.scoring.test_fit import NEAR, TEST, TRAIN, fill
from tests.sentences import assert_sentence, stops
from unknown_detection import Detector, EvaluationError
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.detectors import DETECTORS, KNN, ODIN
from unknown_detection.evaluation.detectors.choice import choose
from unknown_detection.evaluation.detectors.own import Checked, OwnError, load_own
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.scoring.fit import FeatureCache, Scorer
from unknown_detection.evaluation.scoring.fit_splits import find_fit_splits
from unknown_detection.evaluation.scoring.scores import read_scores

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_detector.py"
ROWS = toy_features(rows=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("own") / "toy"
    fill(root)
    return root


def by_hand(features, order):
    """Distances of rows to the class means of the training rows, by loops."""
    means = [np.mean([z.astype(float) for z in TRAIN.penultimate[TRAIN.labels == c]], axis=0) for c in range(4)]
    return [
        min(sum(abs(a - b) ** order for a, b in zip(z, mean, strict=True)) ** (1 / order) for mean in means)
        for z in features.penultimate.astype(float)
    ]


def test_the_example_scores_beside_the_built_in_detectors(folder, tmp_path, capsys):
    out = tmp_path / "scores.parquet"
    example = shutil.copy(EXAMPLE, tmp_path)  # other tests import the original, which leaves compiled code
    asked = ["score", "--features", str(folder), "--out", str(out), "--detectors", "msp"]
    asked += ["--detector", f"{example}:spread", "--detector", f"{example}:NearestMean"]
    assert main([*asked, "--set", "nearest_mean.order=3"]) == 0
    assert "nearest_mean: order=3" in capsys.readouterr().out
    table, about = read_scores(out)
    rows = {(row["detector"], row["id"]): row for row in table.to_pylist()}
    assert {name for name, _ in rows} == {"msp", "spread", "nearest_mean"}
    for features in (TEST, NEAR):
        for name, expected in (
            ("spread", [-np.std([float(x) for x in logits]) for logits in features.logits]),
            ("nearest_mean", by_hand(features, 3)),
        ):
            scores = [rows[name, id_]["score"] for id_ in features.ids.tolist()]
            np.testing.assert_allclose(scores, expected, rtol=1e-9)
    digest = hashlib.sha256(EXAMPLE.read_bytes()).hexdigest()
    assert about.own == {"spread": digest, "nearest_mean": digest}
    assert about.rows["nearest_mean"]["fitted_on"] == "toy-train/train"
    assert not list(tmp_path.glob("__pycache__"))
    assert main([*asked, "--detector", f"{example}:spread"]) == 2
    assert_sentence(capsys.readouterr().err)
    alone = [*asked[: asked.index("--detectors")], "--detector", f"{example}:NearestMean"]
    assert main(alone) == 0
    assert "the best of 2 with AUROC" in capsys.readouterr().out, "searched like any other"
    assert {*read_scores(out)[0]["detector"].to_pylist()} == {"nearest_mean"}


def test_methods_and_functions_work_from_python(folder):
    def width(features):
        """A list is as good as an array."""
        return [float(len(row)) for row in features.logits]

    table = ud.score(folder, ["msp", Twice, width, _Times(5)], search=False)
    scores = {name: set() for name in ("msp", "twice", "width", "_Times")}
    for row in table.to_dict("records"):
        scores[row["detector"]].add(row["score"])
    assert (scores["twice"], scores["width"], scores["_Times"]) == ({2.0}, {4.0}, {5.0})
    assert len(scores["msp"]) > 100


class Twice(Detector):
    """A class with a hyperparameter."""

    name = "twice"
    search = {"times": (2, 3)}  # noqa: RUF012

    def __init__(self, times=2):
        self.times = times

    def score(self, features):
        return np.full(len(features), float(self.times))


def test_a_dataclass_keeps_what_it_searches_and_reads_what_its_rows_name():
    """Only a `setting`, as the built-in detectors have, says more of a field than its default."""

    @dataclasses.dataclass
    class Mine(ud.detectors.RowDetector):
        name, search = "mine", {"times": (1.0, 2.0)}
        times: float = dataclasses.field(default=1.0, metadata={"unit": "none"})

        def _rows(self, logits):
            return self.times * logits[:, 0]

    made = Checked(Mine)
    assert (made.search, made.fits_on, Mine.inputs) == ({"times": (1.0, 2.0)}, "none", ("logits",))
    assert made.clone(times=2.0).fit(ROWS).score(ROWS).tolist() == (2.0 * ROWS.logits[:, 0]).tolist()


class _Times:
    """An object that needs no fitting."""

    def __init__(self, times):
        self.times = times

    def score(self, features):
        return np.full(len(features), self.times)


@pytest.mark.parametrize("name", ["ids", "labels", "logits", "penultimate", "blocks", "members", "scores", "head"])
def test_what_other_detectors_read_cannot_be_changed(name):
    """NumPy stops at the user's line: norms taken in place became the features of all other detectors."""
    rows = dataclasses.replace(toy_features(rows=20), head=toy_head())

    class Changes(Twice):
        def fit(self, features):
            array = features.head.weight if name == "head" else getattr(features, name)
            array = array["odin"] if name == "scores" else array[0] if name in ("blocks", "members") else array
            array[0] = array[-1]

        score = predict = fit

    made = Checked(Changes)
    for call in (made.fit, made.score, made.predict):
        with pytest.raises(OwnError, match="raised ValueError: assignment destination is read-only"):
            call(rows)
    rows.logits[0] += 1  # those of whoever gave them may still be changed


def test_a_fit_of_one_argument_gets_the_training_rows_and_the_head_and_need_not_return_itself(folder):
    """Overriding `fit` is enough to be fitted, for a class of any kind; one that says otherwise gets no rows."""

    class Silent(Twice):
        def fit(self, features):
            self.times = features.penultimate.mean() + features.head.bias.mean()

    class Plain:
        def fit(self, features, head):
            self.value = features.penultimate.mean() + head.bias.mean()

        def score(self, features):
            return np.full(len(features), self.value)

    class Optional(Twice):
        name = "optional"

        def fit(self, features, **options):
            self.times = len(options)

    class Nothing(Twice):
        name, fits_on = "nothing", "none"

        def fit(self, features):
            self.times = len(features) + features.head.bias.mean()

    table = ud.score(folder, [Silent, Plain(), Nothing, Optional], search=False)
    scores = dict(zip(table["detector"], table["score"], strict=True))
    bias = float(toy_head().bias.mean())
    expected = {
        "twice": TRAIN.penultimate.mean() + bias,
        "Plain": TRAIN.penultimate.mean() + bias,
        "nothing": bias,
        "optional": 0,
    }
    assert scores == pytest.approx(expected)


def test_labels_of_scored_and_tuned_rows_do_not_reach_a_detector(folder):
    """A detector that returns the labels would know every answer; those of the rows that it is fitted on, it gets."""
    seen = []

    class Labels(Twice):
        name, fits_on = "labels", "train"

        def fit(self, features, head):
            seen.append(set(features.labels.tolist()))
            return self

        def score(self, features):
            return -features.labels

        def predict(self, features):
            return features.labels

    table = ud.score(folder, [Labels])
    assert seen == [{0, 1, 2, 3}] * 3  # two trials of the search, and the choice
    assert (set(table["score"]), set(table["prediction"])) == ({1.0}, {-1})
    store = FeatureStore.open(folder)
    scorer = Scorer(FeatureCache(store), find_fit_splits(store.by_config(), ["toy"], []), choose(Labels))
    scorer.fit("labels")
    assert [trial["auroc"] for trial in scorer.trials["labels"]] == [0.5, 0.5]


def test_ids_of_scored_rows_say_nothing_of_their_split(folder):
    seen = {}

    def names(features):
        seen.update(zip(features.ids.tolist(), features.logits[:, 0].tolist(), strict=True))
        return features.logits[:, 0]

    table = ud.score(folder, [names], search=False)
    assert len(seen) == len(table)
    assert all(re.fullmatch("[0-9a-f]{16}", id_) for id_ in seen)
    by_id = dict(zip(table["id"], table["score"], strict=True))
    (opaque,) = (id_ for id_, value in seen.items() if value == by_id[TEST.ids[0]])
    alone = Checked(lambda features: np.array([float(id_ == opaque) for id_ in features.ids]), name="one")
    assert alone.score(TEST).tolist() == [1.0, *[0.0] * (len(TEST) - 1)], "of the id alone"


class Kept:
    """Keeps a number of the first rows that it scores, which rows that are scored after them have, too."""

    def score(self, features):
        self.mean = getattr(self, "mean", features.logits.mean())
        return features.logits[:, 0] - self.mean


@pytest.mark.parametrize(
    "score",
    [
        lambda features: features.logits[:, 0] - features.logits[:, 0].mean(),
        lambda features: features.logits[:, 0].argsort().argsort(),
        lambda features: np.arange(len(features)),
        lambda features: features.logits[:, 0] / np.linalg.norm(features.logits[:, 0]),
        lambda features: np.random.default_rng(len(features)).normal(size=len(features)),
        lambda features: (
            features.logits[:, 0] - features.logits.mean() + 1e9 * (features.logits == ROWS.logits[-1])[:, 0]
        ),
        Kept(),
    ],
    ids=["less the mean", "rank", "place", "normalized over rows", "drawn", "one is great", "kept"],
)
@pytest.mark.parametrize("rows", [2, 3, 4, 20])
def test_a_detector_whose_scores_change_when_a_few_rows_are_scored_alone_is_refused(score, rows):
    """Also where one great score would hide it, or where it keeps something of the first rows that it scores."""
    detector = Checked(score, name="mine")
    with pytest.raises(EvaluationError, match=r"mine gives 'row-\d+' the score .* among \d+ rows and .* among [13]\."):
        detector.score(ROWS.take(slice(rows)))


def test_an_instance_is_fitted_as_a_copy(folder):
    """Two runs have the same scores, what the caller holds stays as it was, and results state what was chosen."""

    class Grows(Twice):
        def fit(self, features):
            self.times *= 1000

    mine = Grows(times=3)
    first, second = (ud.score(folder, mine) for _ in range(2))
    assert mine.times == 3 and {*first["score"]} == {*second["score"]} == {3000}
    assert first.attrs["provenance"]["hyperparameters"] == {"twice": {"times": 3}}


def test_rounding_of_float32_is_no_dependence_on_other_rows():
    """Products of 4,096 features, of which a batch may be added in another order than a row."""
    random = np.random.default_rng(0)
    weight = random.normal(size=4096).astype(np.float32)
    wide = dataclasses.replace(ROWS, penultimate=random.normal(size=(20, 4096)).astype(np.float32))

    def reordered(features):
        order = np.random.default_rng(len(features)).permutation(4096)
        return np.array([np.cumsum(z[order] * weight[order])[-1] for z in features.penultimate])

    scores = Checked(reordered, name="mine").score(wide)
    last = wide.take([19])
    assert reordered(last)[0] != scores[19]  # else nothing was rounded


@pytest.mark.parametrize(
    "spec",
    ["missing.py:f", "mine.py", "mine.txt:f", "mine.py:spraed", "mine.py:THREE", "mine.py:Class", "mine.py:msp"],
)
def test_what_is_no_detector_is_refused_in_one_sentence(tmp_path, monkeypatch, capsys, folder, spec):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("THREE = 3\ndef spread(f): ...\ndef msp(f): ...\nclass Class: ...\n")
    Path("broken.py").write_text("def f(:\n")
    assert main(["score", "--features", str(folder), "--out", "s.parquet", "--detector", spec]) == 2
    assert_sentence(capsys.readouterr().err, spec.partition(":")[2])
    assert not Path("s.parquet").exists()
    with pytest.raises(EvaluationError, match=r"broken\.py is not a Python file: invalid syntax"):
        load_own("broken.py:f")


@pytest.mark.parametrize(
    "value",
    [None, np.zeros((20, 1)), np.zeros(19), np.zeros(20, complex), np.zeros(20, bool), ["1"] * 20, [[1], [1, 2]],
     [*[1.0] * 19, np.nan], [*[1.0] * 19, np.inf],
      np.ma.array(np.zeros(20), mask=np.arange(20) < 2)],
    ids=["None", "matrix", "one less", "complex", "bool", "text", "ragged", "NaN", "infinite", "masked"],
)  # fmt: skip
def test_what_is_no_column_of_scores_is_refused(value):
    with stops(EvaluationError, "mine"):
        Checked(lambda features: value, name="mine").score(ROWS)


def test_methods_that_cannot_be_used_are_refused():
    for name in ("a,b", "all", "a b", "../x", "a.b", "-a", 3, ["a"]):
        with stops(EvaluationError):
            Checked(type("Named", (Twice,), {"name": name}))
    with pytest.raises(OwnError, match=r"abstract class Bare .*score"):
        Checked(type("Bare", (Detector,), {}))

    class Needs(Twice):
        name = "needs"

        def __init__(self, times):
            self.times = times

    with pytest.raises(OwnError, match=r"needs raised TypeError: .* missing 1 required .* 'times'"):
        Checked(Needs)


def test_a_detector_that_ends_the_process_leaves_the_others(folder):
    """As a script's `sys.exit`, which ended a run of several models without a word."""

    def leaves(features):
        raise SystemExit(5)

    with pytest.warns(UserWarning, match=r"leaves \(raised SystemExit: 5"):
        scores = ud.score(folder, ["msp", leaves], search=False, quiet=True)
    assert {*scores["detector"]} == {"msp"}


@pytest.mark.parametrize(
    "declared",
    [
        "search=3",
        "requires='torch'",
        "base_methods=None",
        "reads=3",
        "fits_on=None",
        "chosen_by=3",
        "search={'times': 3.0}",
    ],
)
def test_what_a_detector_declares_of_another_kind_is_named(declared):
    """Most of these were a TypeError or an AttributeError; five modules `t`, `o`, `r`, `c`, `h` were not installed."""
    name, _, value = declared.partition("=")
    with stops(EvaluationError, name, "mine"):
        Checked(type("Mine", (Twice,), {"name": "mine", name: ast.literal_eval(value)}))


def test_a_class_has_the_name_of_its_instances():
    class Named:
        def __init__(self):
            self.name = "by_its_init"

        def score(self, features):
            return features.logits[:, 0]

    assert [Checked(own).name for own in (Named, Named())] == ["by_its_init"] * 2


def test_an_instance_stands_where_its_name_can_and_is_not_searched(folder):
    """Its hyperparameters are taken as they are, recorded, and those of a name are searched as ever."""
    store = FeatureStore.open(folder)

    def scorer(detectors):
        chosen = choose(detectors)
        return Scorer(FeatureCache(store), find_fit_splits(store.by_config(), ["toy"], []), chosen), [*chosen.scored]

    seven = KNN(k=7)
    seven.name = "knn7"
    made, names = scorer([KNN(k=5), seven, "msp", Twice(times=4)])
    assert names == ["knn", "knn7", "msp", "twice"]
    for name, k in (("knn", 5), ("knn7", 7)):
        assert made.fit(name).k == k
        np.testing.assert_array_equal(made.score(name, ("toy", "test")), KNN(k=k).fit(TRAIN).score(TEST))
    assert made.fit("twice").parameters() == {"times": 4}
    assert set(made.score("twice", ("toy", "test"))) == {4.0}
    assert made.trials == {}
    searched, names = scorer([KNN, Twice])
    for name in names:
        searched.fit(name)
    assert {name: len(trials) for name, trials in searched.trials.items()} == {"knn": 9, "twice": 2}
    for order in (1, -1):
        with stops(EvaluationError):
            choose(["knn", KNN(k=5)][::order])
    five = KNN(k=5)
    chosen = choose(["all", five])
    assert chosen.everything and [*chosen.scored] == [*DETECTORS], "the instance stands in the place of its class"
    assert (chosen.scored["knn"].k, chosen.scored["knn"].search) == (5, {})
    with stops(EvaluationError):
        choose([])


class Seeded(Detector):
    """A detector whose scores are its seed's."""

    name = "seeded"

    def __init__(self, scale=1.0, seed=0):
        self.scale, self.seed = scale, seed

    def score(self, features):
        return np.full(len(features), self.scale * self.seed)


def test_an_instance_has_the_seed_of_the_run(folder):
    """As its class has, and as the record of a run says."""
    for given, scale in ((Seeded, 1.0), (Seeded(scale=2.0), 2.0)):
        scores = ud.score(folder, given, seed=3, splits="toy/test", search=False)
        assert set(scores["score"]) == {3 * scale}
    with stops(EvaluationError):
        ud.score(folder, Seeded, settings={"seeded": {"seed": 3}})


@pytest.mark.parametrize("seed", [1.5, None, "3", True, -1])
def test_what_is_no_seed_is_refused_before_any_work(seed):
    with pytest.raises(EvaluationError, match=r"A seed is a whole number of 0 or more, found .*\. Give one\."):
        ud.score("there are no features here", "msp", seed=seed)


def test_numbers_of_numpy_are_hyperparameters(folder):
    """They are recorded as Python's, and reach the pass over images, which they decide."""
    odin = choose(ODIN(temperature=np.float32(10), epsilon=np.float64(0.5))).scored["odin"]
    assert type(KNN(k=np.int64(5)).parameters()["k"]) is int
    assert odin.image_pass.parameters(odin) == {"temperature": 10.0, "epsilon": 0.5}
    provenance = ud.score(folder, KNN(k=np.int64(5)), seed=np.int64(1)).attrs["provenance"]
    assert (provenance["seed"], provenance["hyperparameters"]) == (1, {"knn": {"k": 5}})


@pytest.mark.parametrize(
    "attributes",
    [{"fits_on": "val"}, {"reads": "feature"}, {"chosen_by": "error"}, {"search": {"time": (1, 2)}},
     {"search": {"times": ("a", "b")}}, {"search": {"times": ()}}],
    ids=str,
)  # fmt: skip
def test_a_class_that_cannot_be_fitted_or_searched_is_refused_before_it_is(attributes):
    with stops(EvaluationError, *attributes):
        Checked(type("Mine", (Twice,), {"name": "mine", **attributes}))


def test_detectors_come_in_any_collection():
    names = ["energy", "knn", "msp"]
    for several in ((*names,), iter(names), (name for name in names), np.array(names), set(names)):
        assert [*choose(several).scored] == names
    with stops(EvaluationError):
        choose(5)
    assert [*choose({KNN, "msp", Twice}).scored] == ["twice", "knn", "msp"], "a set has one order"
    assert [*choose(_Times(2)).scored] == ["_Times"]


def test_an_error_of_the_user_s_code_keeps_its_traceback():
    def fails(features):
        return 1 / 0

    with pytest.raises(OwnError, match=r"fails raised ZeroDivisionError: division by zero\. Mend") as raised:
        choose([fails]).scored["fails"].score(ROWS)
    assert raised.value.__cause__.__traceback__.tb_next.tb_next.tb_frame.f_code is fails.__code__


def test_a_hyperparameter_that_is_not_kept_under_its_name_is_named():
    class Renames(Twice):
        def __init__(self, times=2):
            self.factor = times

    with pytest.raises(EvaluationError, match=r"Renames does not keep its hyperparameter times\. Set self\.times in"):
        choose(Renames)
