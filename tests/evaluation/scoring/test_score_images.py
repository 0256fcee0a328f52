"""From a release and a model to a scores file: detectors that read images, and scores that depend on neither batches
nor workers."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="runs torch models")
pytest.importorskip("torchvision", reason="preprocesses images")

import unknown_detection as ud  # noqa: E402
from tests.evaluation import small_models  # noqa: E402
from tests.evaluation.refusals import refused  # noqa: E402
from tests.evaluation.samples import CONFIG, SPLITS, fitted, small_release  # noqa: E402
from tests.sentences import assert_sentence  # noqa: E402
from unknown_detection.evaluation.__main__ import main  # noqa: E402
from unknown_detection.evaluation.detectors import DETECTORS, ImageDetector, ImagePass  # noqa: E402
from unknown_detection.evaluation.detectors.images import run_with_dropout  # noqa: E402
from unknown_detection.evaluation.models.preprocessing import load_batches  # noqa: E402
from unknown_detection.evaluation.scoring import fit  # noqa: E402
from unknown_detection.evaluation.scoring.scores import read_scores  # noqa: E402

FILE = Path(small_models.__file__)
OF_TEXTS = {"mcm", "gl_mcm", "neglabel"}
IMAGES = sorted(name for name, method in DETECTORS.items() if method.reads == "images" and name not in OF_TEXTS)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A release, weights of two models, and the first one's features. Read only but for looks."""
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("base")
    small_release(root / "release")
    torch.save(fitted(small_models.with_dropout).state_dict(), root / "weights.pt")
    torch.save(fitted(small_models.with_dropout, seed=1).state_dict(), root / "other.pt")
    assert extract(root, root / "features") == 0
    return root


def model_flags(root, weights="weights.pt", function="with_dropout"):
    return ["--release", str(root / "release"), "--model", f"{FILE}:{function}", "--weights", str(root / weights)]


def extract(root, out, *flags, **model):
    configs = ["--splits", f"{CONFIG},{CONFIG}-train"]
    return main(["extract", *model_flags(root, **model), *configs, "--device", "cpu", "--out", str(out), *flags])


@pytest.fixture
def score(command, base, tmp_path):
    """Run the command; the exit code, what it said on stdout and stderr, and the scores by detector."""

    def run(*flags, detectors, features=None, out="scores.parquet"):
        given = {"features": features or base / "features", "detectors": detectors, "out": tmp_path / out}
        ran = command("score", *model_flags(base), "--device", "cpu", *flags, **given)
        return *ran, scores_of(tmp_path / out) if ran[0] == 0 else {}

    return run


@pytest.fixture
def store(base):
    """The features with their model, as a later call of Python's opens them."""
    given = {"weights": base / "weights.pt", "cache": base / "features", "device": "cpu", "quiet": True}
    return ud.extract(f"{FILE}:with_dropout", base / "release", f"{CONFIG},{CONFIG}-train", **given)


@pytest.fixture
def runner(store):
    """That model, and the release."""
    return store.runner


def scores_of(path):
    table = read_scores(path)[0]
    scores = {}
    for row in table.to_pylist():
        scores.setdefault(row["detector"], {})[row["id"]] = row["score"]
    return {name: np.array([rows[id_] for id_ in sorted(rows)]) for name, rows in scores.items()}


def test_what_dropout_sees_is_kept_and_used_again(base, runner, score, tmp_path):
    """Against the look itself; both methods share it, and a second run shows the model no image."""
    few = ("--set", "mc_dropout.samples=5", "--set", "mc_dropout_mi.samples=5")
    code, _, err, scores = score(*few, detectors="mc_dropout,mc_dropout_mi")
    assert (code, err) == (0, "")
    rows = list(runner.release.images(CONFIG, "near_ood"))
    images = torch.stack([runner.model.preprocessing(row["image"]) for row in rows])
    outputs = run_with_dropout(runner.model, images, [row["id"] for row in rows], seed=0, samples=5)
    table = read_scores(tmp_path / "scores.parquet")[0].to_pylist()
    by_key = {(row["detector"], row["id"]): row for row in table}
    for number, id_ in enumerate(row["id"] for row in rows):
        mean = np.exp(outputs["logits"][number])
        assert np.isclose(by_key["mc_dropout", id_]["score"], 1 - mean.max(), atol=1e-6)
        assert np.isclose(by_key["mc_dropout_mi", id_]["score"], outputs["mutual_information"][number], atol=1e-6)
        assert by_key["mc_dropout", id_]["prediction"] == by_key["mc_dropout_mi", id_]["prediction"] == mean.argmax()
    files = sorted((base / "features" / "passes").rglob("*.arrow"))
    assert {path.relative_to(base / "features" / "passes").parts[0] for path in files} == {"dropout-samples=5-seed=0"}
    before = {path: path.stat().st_mtime_ns for path in files}
    assert np.array_equal(score(*few[:2], detectors="mc_dropout")[3]["mc_dropout"], scores["mc_dropout"])
    assert {path: path.stat().st_mtime_ns for path in files} == before
    other = score("--seed", "1", *few[:2], detectors="mc_dropout")[3]["mc_dropout"]
    assert not np.allclose(other, scores["mc_dropout"])


def test_detectors_that_are_fitted_look_at_the_images_they_are_fitted_on(base, score):
    """The one split of the training config is divided into a half to fit on and one to tune on."""
    names = "adascale_a,adascale_l,gram"
    flags = ("--no-search", "--splits", CONFIG, "--fit-splits", f"{CONFIG}-train")
    code, _, err, scores = score(*flags, detectors=names)
    assert (code, err) == (0, "")
    assert sorted(scores) == names.split(",")
    assert all(np.isfinite(values).all() and len(np.unique(values)) > 1 for values in scores.values())
    looks = {path.name for path in (base / "features" / "passes").iterdir()}
    assert looks >= {"gram", "trivial_pixels-pixels=0.05"}


OWN = """
from pathlib import Path
from unknown_detection.evaluation.detectors import ImageDetector, ImagePass

def run(model, images, ids, *, seed, step):
    factor = float(Path(__file__).with_name("factor").read_text())
    return {"brightest": (factor * step * images).amax((1, 2, 3)).numpy()}

class Mixed(ImageDetector):
    name = "mixed"
    search = {"step": (1.0, 2.0), "share": (0.0, 0.5, 1.0)}
    image_pass = ImagePass("brightness", run, depends_on=("step",), random=False)

    def __init__(self, step=1.0, share=0.0):
        self.step, self.share = step, share

    def score(self, features):
        return features.passed["brightest"] + self.share * features.penultimate.sum(axis=1)
"""


def test_a_search_shows_the_model_images_again_only_for_what_the_pass_depends_on(
    base, store, runner, score, tmp_path, monkeypatch
):
    """Six trials of a detector of one's own, two passes; it reads the model's stored features, too.

    The next run shows them again: no digest of its file tells of what it imports or reads.
    """
    shown = []
    run = fit.fill
    monkeypatch.setattr(fit, "fill", lambda *of: shown.append((of[2].folder.name, *of[3])) or run(*of))
    (tmp_path / "own.py").write_text(OWN)
    flags = ("--detector", f"{tmp_path / 'own.py'}:Mixed")
    for factor in ("10", "1"):
        shown.clear()
        (tmp_path / "factor").write_text(factor)
        code, out, err, _ = score(*flags, detectors="msp")
        assert (code, err) == (0, "")
        assert "the best of 6 with AUROC" in out
        assert len({*shown}) == len(shown)
        assert {name for name, _ in shown} == {"brightness-step=1-mixed", "brightness-step=2-mixed"}
    assert not [*(base / "features" / "passes").glob("brightness*")]
    chosen = read_scores(tmp_path / "scores.parquet")[1].hyperparameters["mixed"]
    rows, features = list(runner.release.images(CONFIG, "near_ood")), store.features(CONFIG, "near_ood")
    images = np.stack([runner.model.preprocessing(row["image"]).numpy() for row in rows])
    expected = chosen["step"] * images.max((1, 2, 3)) + chosen["share"] * features.penultimate.sum(axis=1)
    scores = {
        row["id"]: row["score"]
        for row in read_scores(tmp_path / "scores.parquet")[0].to_pylist()
        if row["detector"] == "mixed"
    }
    assert np.allclose([scores[row["id"]] for row in rows], expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["mine", "without_rank_one"])
def test_outputs_of_a_pass_in_python_are_those_of_its_code(store, runner, tmp_path, monkeypatch, name):
    """Not those of one that had the name before, and rankfeat's stay its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def scores(factor):
        def run(model, images, ids, *, seed, by):
            return {"logits": factor * model.logits(images).detach().numpy()}

        class Mine(ImageDetector):
            image_pass = ImagePass(name, run, depends_on=("by",), random=False)

            def __init__(self, by="max"):
                self.by = by

            def _rows(self, logits):
                return logits.max(axis=1)

        return ud.score(store, [Mine(), "rankfeat"], splits=f"{CONFIG}/test").to_dict("records")

    logits = store.features(CONFIG, "test").logits
    expected, rank = logits.max(axis=1).astype(float), []
    for factor in (1, 10):
        rows = scores(factor)
        mine = [row["score"] for row in rows if row["detector"] == "Mine"]
        np.testing.assert_allclose(mine, factor * expected, rtol=1e-5)
        rank.append([row["score"] for row in rows if row["detector"] == "rankfeat"])
    assert rank[0] == rank[1] and not np.allclose(rank[0], expected)
    assert not list(tmp_path.iterdir()), "nothing is left"


def test_passes_of_one_name_are_of_the_detector_that_asks(store, runner):
    """Of two detectors of one's own in one run, the second once got what the first one's pass had given."""

    def detector(of, value):
        class Mine(ImageDetector):
            name = of
            image_pass = ImagePass("mine", lambda model, images, ids, seed: {"logits": np.full((len(ids), 1), value)})

            def _rows(self, logits):
                return logits[:, 0]

        return Mine

    table = ud.score(store, [detector("one", 1.0), detector("two", 2.0)], splits=f"{CONFIG}/test")
    assert table.groupby("detector")["score"].unique().to_dict() == {"one": [1.0], "two": [2.0]}


def test_near_values_have_passes_of_their_own(base, score):
    """Six digits of a value were the name of what is kept."""
    for epsilon in ("0.01", "0.0100000001"):
        flags = ("--no-search", "--set", f"odin.epsilon={epsilon}", "--splits", f"{CONFIG}/near_ood")
        assert score(*flags, detectors="odin")[0] == 0
        assert (base / "features" / "passes" / f"perturbed-epsilon={epsilon}-temperature=1000").is_dir()


def test_an_image_of_several_configs_is_looked_at_once(base, tmp_path, monkeypatch):
    other = f"{CONFIG}-other"
    splits = {f"{CONFIG}/validation": range(20), f"{CONFIG}/test": range(30), f"{other}/test": range(44, 19, -1)}
    small_release(tmp_path / "release", splits)
    shutil.copy(base / "weights.pt", tmp_path)
    model, out = [*model_flags(tmp_path), "--device", "cpu"], str(tmp_path / "features")
    assert main(["extract", *model, "--splits", f"{CONFIG},{other}", "--out", out]) == 0
    counts = []

    def spied(rows, preprocessing, parts, **how):
        counts.extend(map(len, parts))
        return load_batches(rows, preprocessing, parts, **how)

    monkeypatch.setattr("unknown_detection.evaluation.features.runner.load_batches", spied)
    for config, expected in ((CONFIG, [20, 30]), (other, [15])):
        counts.clear()
        flags = ["--features", out, "--splits", config, "--fit-splits", CONFIG, "--detectors", "odin", "--no-search"]
        assert main(["score", *model, *flags, "--out", str(tmp_path / f"{config}.parquet")]) == 0
        assert sorted(counts) == expected
    scores = [read_scores(tmp_path / f"{config}.parquet")[0].to_pylist() for config in (CONFIG, other)]
    first, second = ({row["id"]: row["score"] for row in rows} for rows in scores)
    shared = sorted(first.keys() & second.keys())
    assert len(shared) == 10
    assert [first[id_] for id_ in shared] == [second[id_] for id_ in shared]


def test_odin_is_tuned_on_external_rows(base, score, tmp_path):
    """Looks at validation and external rows alone are made; where nothing is perturbed, none is. The unified benchmark
    has 44 settings."""
    assert [len(values) for values in DETECTORS["odin"].search.values()] == [4, 11]
    few = ("--set", "odin.epsilon=0.002,0,0.1", "--set", "odin_max_logit.epsilon=0.002,0,0.1")
    code, out, _, _ = score(*few, detectors="odin,odin_max_logit")
    assert code == 0
    lines = (tmp_path / "scores.search.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 12
    assert out.count("the best of 12 with AUROC") == 2
    looks = {path.name for path in (base / "features" / "passes").glob("perturbed-*")}
    assert not any(name.startswith("perturbed-epsilon=0-") for name in looks)
    assert sum(name.endswith("temperature=10") for name in looks) == 2
    msp = {row["id"]: row for row in rows_of(score, tmp_path, "msp")}
    assert len(msp) == sum(len(rows) for key, rows in SPLITS.items() if key.startswith(f"{CONFIG}/"))
    for row in rows_of(score, tmp_path, "odin", "--set", "odin.temperature=1", "--set", "odin.epsilon=0"):
        assert row["score"] == pytest.approx(msp[row["id"]]["score"], abs=1e-6)
        assert row["prediction"] == msp[row["id"]]["prediction"]


def rows_of(score, tmp_path, detector, *flags):
    assert score("--no-search", *flags, detectors=detector)[0] == 0
    return read_scores(tmp_path / "scores.parquet")[0].to_pylist()


def test_scores_depend_on_neither_batch_size_nor_workers(base, score, tmp_path):
    """With one batch size, workers change nothing at all. With another, float32 sums change their order: features by
    1e-5 of a column's largest number (test_extract.py), and scores by 1e-4 of the spread of a detector's scores."""
    pytest.importorskip("sklearn", reason="scikit-learn fits one")
    names = [
        name
        for name, method in DETECTORS.items()
        if method.reads != "members" and name not in ("vim", "ens_v", "ens_r", *OF_TEXTS)
    ]
    runs = {}
    splits = f"{CONFIG}/test,{CONFIG}/validation,{CONFIG}-train/train"
    for out, size, workers, detectors in (("a", "64", "0", names), ("b", "64", "1", IMAGES), ("c", "7", "0", names)):
        flags = ("--batch-size", size, "--workers", workers)
        few = ("--set", "mc_dropout.samples=5", "--set", "mc_dropout_mi.samples=5")
        assert extract(base, tmp_path / out, "--splits", splits, *flags) == 0
        code, _, err, runs[out] = score(
            "--no-search", *flags, *few, detectors=",".join(detectors), features=tmp_path / out, out=f"{out}.parquet"
        )
        assert (code, err) == (0, "")
    for name in IMAGES:
        assert np.array_equal(runs["a"][name], runs["b"][name])
    for name in names:
        spread = np.ptp(runs["a"][name])
        assert spread > 0
        assert np.abs(runs["a"][name] - runs["c"][name]).max() < 1e-4 * spread, name


def test_a_release_or_a_model_that_the_features_are_not_of(base, score, tmp_path):
    small_release(tmp_path / "another", {f"{CONFIG}/test": range(3)})
    message = refused(score("--release", str(tmp_path / "another"), detectors="odin"))
    assert_sentence(message)
    message = refused(score("--weights", str(base / "other.pt"), detectors="odin"))
    assert_sentence(message, "small_models.py:with_dropout")


def test_dropout_where_there_is_none(base, score, tmp_path):
    torch.save(fitted(small_models.cnn).state_dict(), tmp_path / "cnn.pt")
    flags = [*model_flags(base, function="cnn"), "--weights", str(tmp_path / "cnn.pt"), "--splits", f"{CONFIG}/test"]
    assert main(["extract", *flags, "--device", "cpu", "--out", str(tmp_path / "cnn")]) == 0
    ours = ("--model", f"{FILE}:cnn", "--weights", str(tmp_path / "cnn.pt"))
    message = refused(score(*ours, detectors="mc_dropout", features=tmp_path / "cnn"))
    assert_sentence(message, "small_models.py:cnn")
    # Among all, it is left out with that reason.
    code, out, _, scores = score("--no-search", *ours, detectors="all", features=tmp_path / "cnn")
    assert code == 0
    assert "; mc_dropout (small_models.py:cnn has no dropout layers" in out
    assert "has no features of train, validation or held_out, on which" in out
    assert set(IMAGES) - set(scores) == {"mc_dropout", "mc_dropout_mi", "adascale_a", "adascale_l", "gram"}
