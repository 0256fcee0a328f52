"""`evaluate report` on a real release: figures against scikit-learn's, refusals, and files on disk."""

import csv
import functools
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

import unknown_detection as ud
from examples.digits_release import CONFIG
from tests.browser import look_at
from tests.builders.conftest import files_of
from tests.evaluation.refusals import refusal
from tests.evaluation.report.as_text import figures_of, page_of
from tests.examples.papers.scripts import script
from tests.sentences import assert_sentence
from unknown_detection.evaluation import releases
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.files import load_python
from unknown_detection.evaluation.protocols import PROTOCOLS, Protocol
from unknown_detection.evaluation.releases import load
from unknown_detection.evaluation.report import report as report_module
from unknown_detection.evaluation.scoring.fit_splits import in_fit_half
from unknown_detection.evaluation.scoring.scores import METADATA, Provenance, write_scores

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module", autouse=True)
def opened_once():
    """Lets all reports read the rows of one opened release; nothing here changes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(releases, "load", functools.cache(load))
        yield


@pytest.fixture(scope="module")
def rows(digits):
    """The rows of the config `digits` with made-up scores of two detectors and predictions, a set for each seed."""
    index_rows = load(str(digits)).index([CONFIG])

    def of_seed(seed):
        numbers = np.random.default_rng(seed)
        level = np.select([index_rows["role"] == "near_ood", index_rows["role"] == "far_ood"], [0.8, 1.6], 0.0)
        wrong, label = numbers.random(len(index_rows)) < 0.1, index_rows["label"].to_numpy()
        columns = {name: index_rows[name].to_numpy() for name in ("id", "role", "split", "label", "duplicate")}
        return columns | {
            "prediction": np.where(wrong, (label + 1) % 6, np.maximum(label, 0)),
            "msp": level + wrong + numbers.normal(size=len(index_rows)).round(1),
            "mine": 2 * level + numbers.normal(size=len(index_rows)).round(1),
        }

    return of_seed


def write(path, digits, columns, detectors=("msp", "mine"), seed=0, keep=None, **options):
    keep = np.ones(len(columns["id"]), bool) if keep is None else keep
    of_all = {name: columns[name][keep] for name in ("id", "prediction")}
    tables = [
        pa.table({**of_all, "detector": [name] * keep.sum(), "score": columns[name][keep]}) for name in detectors
    ]
    path.parent.mkdir(exist_ok=True)
    digest = load(str(digits)).digest
    model = f"folder/net.py:make {path.stem}"
    hyperparameters = {**{name: {} for name in detectors}, "mine": {"k": 3.0}}
    about = Provenance(digest, (CONFIG,), model, path.stem, seed, hyperparameters, {"torch": "2"}, **options)
    write_scores(path, pa.concat_tables(tables), about)
    return str(path)


@pytest.fixture(scope="module")
def path(tmp_path_factory, digits, rows):
    """The scores file of a run with seed 0. Read only."""
    return write(tmp_path_factory.mktemp("scores") / "run.parquet", digits, rows(0))


def report(out, digits, *words):
    return main(["report", "--release", str(digits), "--out", str(out), "--no-plots", *map(str, words)])


def refused(capsys, *words):
    """What a refused report says on stderr."""
    assert report(*words) == 2
    return capsys.readouterr().err


def value(figures, **named):
    (matching,) = [line["value"] for line in figures.to_dict("records") if named.items() <= line.items()]
    return matching


def test_figures_are_scikit_learn_s_on_the_rows_that_the_ids_name_and_say_of_what_they_are(tmp_path, digits, rows):
    columns = rows(0)
    shuffled = np.random.default_rng(1).permutation(len(columns["id"]))
    mixed = {name: values[shuffled] for name, values in columns.items()}
    assert report(tmp_path / "out", digits, "--scores", write(tmp_path / "run.parquet", digits, mixed, seed=7)) == 0
    figures = figures_of(tmp_path / "out")
    line = figures.to_dict("records")[-1]
    assert (line["release"], line["release_digest"]) == ("digits", load(str(digits)).digest)
    assert (line["run"], line["seed"], line["model_digest"]) == ("run", 7, "run")
    assert line["model"] == line["variant"] == "net.py:make run", "no path of this machine"
    assert (line["detector"], json.loads(line["hyperparameters"])) == ("mine", {"k": 3.0})
    versions = json.loads(line["versions"])
    assert (versions["scored"], versions["judged"]["numpy"]) == ({"torch": "2"}, np.__version__)
    for detector in ("msp", "mine"):
        for split in ("near_ood", "far_ood_noise", "far_ood_textures"):
            for kind, selected in (("as_published", True), ("without_duplicates", ~columns["duplicate"])):
                chosen = np.isin(columns["split"], ("test", split)) & selected
                expected = roc_auc_score(columns["split"][chosen] == split, columns[detector][chosen])
                named = {"detector": detector, "unknown": split, "metric": "auroc", "rows": kind}
                assert value(figures, **named, setting="ood_detection") == pytest.approx(expected, abs=1e-12)


def test_thresholds_are_chosen_on_rows_that_detectors_were_not_fitted_on(tmp_path, digits, rows, capsys):
    """Their rows have no scores, and a file that says so is whole without them."""
    columns = rows(0)
    validation = columns["split"] == "validation"
    fits = np.zeros(len(validation), bool)
    fits[validation] = in_fit_half(columns["id"][validation].tolist(), columns["label"][validation])
    path = write(tmp_path / "run.parquet", digits, columns, keep=~fits, fit_half=f"{CONFIG}/validation")
    assert report(tmp_path / "out", digits, "--scores", path, "--protocol", "od-test") == 0
    # The least of the thresholds with the best balanced accuracy on the tune half and near_ood.
    score = columns["mine"]
    known, unknown = score[validation & ~fits], score[columns["split"] == "near_ood"]
    cuts = np.unique([*known, *unknown])
    gains = (known[:, None] <= cuts).mean(axis=0) + (unknown[:, None] > cuts).mean(axis=0)
    cut = cuts[np.argmax(gains.round(12))]
    test, far = score[columns["split"] == "test"], score[columns["split"] == "far_ood_noise"]
    named = {"detector": "mine", "fitted_on": "near_ood", "unknown": "far_ood_noise", "rows": "as_published"}
    accuracy = value(figures_of(tmp_path / "out"), **named, setting="od_test", statistic="")
    assert accuracy == pytest.approx(((test <= cut).mean() + (far > cut).mean()) / 2)
    path = write(tmp_path / "other.parquet", digits, columns, keep=~fits)
    assert report(tmp_path / "other", digits, "--scores", path) == 2
    # A DataFrame cannot say so, and lacks the same rows.
    in_memory = pq.read_table(path).to_pandas()
    assert set(ud.evaluate(in_memory, digits, CONFIG)["detector"]) == {"msp", "mine"}


def test_detectors_that_were_fitted_on_the_rows_of_their_thresholds_are_named(tmp_path, digits, rows, capsys):
    """As temperature scaling, KL matching and mixtures are; training rows are no rows of thresholds."""
    tuned = f"{CONFIG}/validation"
    used = {"msp": {"threshold_on": tuned}, "mine": {"fitted_on": tuned, "threshold_on": tuned}}
    path = write(tmp_path / "run.parquet", digits, rows(0), rows=used)
    warning = f"od-test chooses the thresholds of mine on rows of {tuned} that they were fitted on"
    assert report(tmp_path / "out", digits, "--scores", path, "--protocol", "od-test") == 0
    assert f"note: {warning}\n" in capsys.readouterr().out
    assert report(tmp_path / "out", digits, "--scores", path) == 0
    assert "od-test chooses" not in capsys.readouterr().out, "a protocol without thresholds"


def test_a_csv_of_ids_and_scores_from_anywhere_is_enough(tmp_path, digits, rows, capsys):
    columns = rows(0)
    keep = ~np.isin(columns["split"], ("validation", "external_validation"))
    table = pa.table({"id": columns["id"][keep], "score": -columns["mine"][keep]})
    pa.csv.write_csv(table, tmp_path / "theirs.csv")
    assert report(tmp_path / "out", digits, "--splits", CONFIG, "--scores", tmp_path / "theirs.csv") == 0
    figures = figures_of(tmp_path / "out")
    assert set(figures["detector"]) == {"theirs"}
    assert set(figures["setting"]) == {"ood_detection"}, "what needs predictions is left out"
    output, page = capsys.readouterr().out, page_of(tmp_path / "out")
    for note in (
        "no predictions of theirs, so no figures of errors and of accuracy",
        "every AUROC of theirs is below 0.5, so its sign may be reversed: higher scores must mean more unknown",
    ):
        assert f"note: {note}\n" in output and f" {note}. " in page
    # Ids that no other config has decide: all rows of facets-digits are of this one, too.
    assert report(tmp_path / "by-ids", digits, "--scores", tmp_path / "theirs.csv") == 0
    assert figures_of(tmp_path / "by-ids").equals(figures)
    # Of the splits that are named alone, though the scores are of others, too.
    whole = ud.load(str(digits)).index()
    evaluated = ud.evaluate(dict(zip(whole["id"], np.arange(len(whole)), strict=True)), digits, CONFIG)
    assert {*evaluated["config"]} == {CONFIG}


def test_scores_that_may_be_of_two_configs_are_not_taken_for_either_s(digits):
    """They were evaluated as those of FACETS's mixed split, whose rows are all in the other config, too."""
    release = ud.load(digits)
    ids = release.rows("facets-digits", "test")["id"].to_pylist()
    scores = dict(zip(ids, range(len(ids)), strict=True))
    said = refusal(ud.evaluate, scores, release)
    assert said.startswith(f"{CONFIG}, facets-digits, broad-digits share ids, ")
    assert said.endswith(f"Name it, as in splits={CONFIG}, or several.")
    assert {*ud.evaluate(scores, release, "facets-digits")["config"]} == {"facets-digits"}


def test_seeds_in_a_column_are_seeds_of_one_detector(tmp_path, digits, rows):
    """Not detectors of their own, the best seed of which would be the best detector."""
    for seed in (1, 2, 10):
        columns = rows(seed)
        table = pa.table({"id": columns["id"], "score": columns["mine"]})
        table = table.append_column("detector", pa.repeat("mine", len(table)))
        table = table.append_column("seed", pa.repeat(seed, len(table)))
        pa.csv.write_csv(table, tmp_path / f"mine-seed{seed}.csv")
    files = [tmp_path / f"mine-seed{seed}.csv" for seed in (1, 2, 10)]
    assert report(tmp_path / "out", digits, "--splits", CONFIG, "--scores", *files) == 0
    lines = figures_of(tmp_path / "out").to_dict("records")
    assert {(line["detector"], line["seed"]) for line in lines} == {("mine", 1), ("mine", 2), ("mine", 10)}
    page = page_of(tmp_path / "out")
    assert "over 3 runs" in page
    assert " mine " in page


def test_scores_of_one_detector_that_may_be_of_two_methods_are_not_averaged(tmp_path, digits, rows):
    """Two tables of MSP without provenance and seeds were the runs of one training method."""
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for seed, file in enumerate(files):
        table = {"id": rows(seed)["id"], "score": rows(seed)["msp"], "detector": ["msp"] * len(rows(seed)["id"])}
        pa.csv.write_csv(pa.table(table), file)
    given = functools.partial(ud.report, release=digits, out=tmp_path / "out", splits=CONFIG, plots=False)
    said = refusal(given, files)
    assert said.startswith("a and b both have msp, and nothing says whether they are runs of one training method.")
    over = [given([f"{name}={file}" for name, file in zip(names, files, strict=True)]) for names in ("cd", "cc")]
    assert [of.results[0].mean.shape[0] for of in over] == [2, 1]


def test_a_report_ends_with_the_main_figures_the_best_detector_first(tmp_path, digits, rows, capsys):
    files = [write(tmp_path / f"r{seed}.parquet", digits, rows(seed), seed=seed) for seed in (0, 1)]
    assert report(tmp_path / "out", digits, "--scores", *(f"net={path}" for path in files)) == 0
    lines = capsys.readouterr().out.splitlines()
    warning = "digits is a demo release: its figures only show that the tools work"
    assert f"note: {warning}" in lines
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    order = ["<dt>Model</dt>", "<dt>Accuracy</dt>", "<dd>demo", "Unknown detection on digits"]
    order += ["Before you use the figures", f"{warning}.", 'id="unknown-detection"', "The release has the digest"]
    body = page[page.index("<main") :]
    accuracies = [
        np.mean(of["prediction"][test] == of["label"][test])
        for of in map(rows, (0, 1))
        for test in [of["split"] == "test"]
    ]
    ends = " to ".join(f"{100 * value:.2f}" for value in sorted(accuracies))
    assert f"<dd>{ends} %</dd>" in body
    assert sorted(order, key=body.index) == order, "what it is of, results, warnings, the rest"
    start = lines.index("Unknown detection on digits, best first")
    assert lines[start + 1].split()[0] == "detector"
    figures = figures_of(tmp_path / "out")
    figures = figures[(figures["rows"] == "as_published") & (figures["protocol"] == "unknown-detection")]
    table = figures.groupby(["detector", "setting", "metric", "unknown", "statistic"])["value"].agg(["mean", "std"])
    far = "far_ood_noise + far_ood_textures"
    # AUROC is first: AURC stands for the papers that use it.
    cells = [
        *(("ood_detection", "auroc", *of, 100) for of in (("near_ood", ""), (far, "mean"))),
        ("unknown_detection", "aurc", f"test, wrong + near_ood + {far}", "", 1000),
        *(("ood_detection", "fpr_at_95_tpr_known_positive", *of, 100) for of in (("near_ood", ""), (far, "mean"))),
    ]
    for line, name in zip(lines[start + 2 :], ("mine", "msp"), strict=False):
        numbers = [table.loc[(name, *cell[:4])] * cell[4] for cell in cells]
        assert line.split() == [
            name,
            *" ".join(f"{number['mean']:.2f} ± {number['std']:.2f}" for number in numbers).split(),
        ]
    assert lines[-1] == f"the page: {tmp_path / 'out' / 'report.html'}"


def test_a_protocol_of_one_s_own_is_a_file_with_figures_tables_and_a_headline(tmp_path, digits, rows, capsys):
    """Of `examples/own_protocol.py`, whose AUROC is scikit-learn's over all unknown rows."""
    columns, own = rows(0), EXAMPLES / "own_protocol.py"
    path = write(tmp_path / "run.parquet", digits, columns)
    words = ["--protocol", f"{own}:POOLED={CONFIG}", "--scores", path]
    assert report(tmp_path / "out", digits, *words, "--csv") == 0
    output = capsys.readouterr().out
    judged = np.isin(columns["split"], ("test", "near_ood", "far_ood_noise", "far_ood_textures"))
    expected = roc_auc_score(columns["split"][judged] != "test", columns["mine"][judged])
    auroc = value(
        figures_of(tmp_path / "out"), protocol="pooled", detector="mine", metric="auroc", rows="as_published"
    )
    assert auroc == pytest.approx(expected, abs=1e-12)
    assert re.search(rf"All unknowns together on digits, best first\n.*\nmine +{100 * expected:.2f} ", output)
    assert "All unknowns together" in page_of(tmp_path / "out")
    assert {"tables/pooled-digits.csv", "tables/duplicates-pooled-digits.csv"} < {*files_of(tmp_path / "out")}
    pooled = load_python(f"{own}:POOLED", "protocol")[0]
    for number, protocols in enumerate(("pooled", ["od-test", pooled])):
        figures = ud.report(path, digits, tmp_path / str(number), protocols=protocols, plots=False).figures
        same = {"protocol": "pooled", "detector": "mine", "metric": "auroc", "rows": "as_published"}
        assert value(figures, **same) == auroc
    (tmp_path / "broken.py").write_text("POOLED = 3")
    assert report(tmp_path / "no", digits, "--protocol", f"{tmp_path / 'broken.py'}:POOLED", "--scores", path) == 2
    assert_sentence(capsys.readouterr().err)


def test_several_ways_of_training_with_several_seeds_stand_beside_each_other(tmp_path, digits, rows):
    """By a protocol of `examples/papers`, and mixed by the script of the optimizer paper (`tests/examples/papers`)."""
    files = []
    for number, variant in enumerate(("adam", "sgd")):
        for seed in range(2):
            path = tmp_path / f"{variant}-{seed}.parquet"
            files.append(f"{variant}={write(path, digits, rows(10 * number + seed), seed=seed)}")
    drawn = ("--protocol", f"{EXAMPLES}/papers/equal_numbers.py:EQUAL_NUMBERS")
    assert report(tmp_path / "equal", digits, *drawn, "--scores", *files) == 0
    equal = figures_of(tmp_path / "equal")
    assert (equal["n_known"] == equal["n_unknown"]).all()
    assert "OoD detection on equal numbers of rows on digits" in page_of(tmp_path / "equal")
    mixed = script("optimizer_robustness")["mixtures"](equal)
    assert {*mixed["variant"]} == {"*", "adam", "sgd"}
    # One way of training is mixed over the three sets of unknowns.
    assert {*mixed["unknown"][mixed["variant"] == "adam"]} == {"near_ood + far_ood_noise + far_ood_textures"}


def test_scores_that_are_not_those_of_the_rows_are_refused(tmp_path, digits, rows, capsys):
    table = pq.read_table(write(tmp_path / "run.parquet", digits, rows(0)))
    about = json.loads(table.schema.metadata[METADATA])["provenance"]
    other = Provenance(**{**about, "configs": (CONFIG,), "release_digest": "ab" * 32})
    write_scores(tmp_path / "run.parquet", table, other)
    message = refused(capsys, tmp_path / "out", digits, "--scores", tmp_path / "run.parquet")
    assert_sentence(message)
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_judged_is_refused(tmp_path, digits, rows, path, capsys, monkeypatch):
    asked = ("--protocol unkown-detection", "--protocol od-test=cifar", "--splits facets-digits", "--protocol facets")
    for words in asked:
        assert_sentence(refused(capsys, tmp_path / "out", digits, *words.split(), "--scores", path))
    (tmp_path / "b").mkdir()
    paths = [write(tmp_path / name / "run.parquet", digits, rows(0)) for name in (".", "b")]
    copy = tmp_path / "again.parquet"
    copy.write_bytes((tmp_path / "run.parquet").read_bytes())
    for scores in (paths, (paths[0], copy), (f"x y={paths[0]}", f"x/y={copy}")):
        assert_sentence(refused(capsys, tmp_path / "out", digits, "--scores", *scores))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["report", "--release", str(digits), "--out", str(tmp_path / "out"), "--scores", path]) == 2
    assert_sentence(capsys.readouterr().err)


def test_python_gives_the_same_report_as_the_command_with_tables_on_demand(tmp_path, digits, path):
    lines = []
    options = {"splits": CONFIG, "plots": False, "csv": True, "latex": True}
    written = ud.report([path], digits, tmp_path / "python", **options, log=lines.append)
    figures = written.figures
    words = ("--splits", CONFIG, "--csv", "--latex")
    assert report(tmp_path / "out", digits, "--scores", path, *words) == 0
    files = files_of(tmp_path / "out")
    assert files_of(tmp_path / "python") == files
    assert figures.equals(figures_of(tmp_path / "python"))
    assert any("demo release" in text for text in lines)
    name = "tables/unknown-detection-digits"
    assert {"figures.csv", f"{name}.csv", f"{name}.tex", f"{name}-results.tex"} < set(files)
    lines = csv.DictReader(files[f"{name}-results.csv"].decode().splitlines())
    (line,) = [line for line in lines if line["detector"] == "mine"]
    auroc = value(figures, detector="mine", metric="auroc", unknown="near_ood", rows="as_published")
    assert float(line["Near-OoD AUROC, n = 120"]) == 100 * auroc, "in full precision"
    assert f"mine & {100 * auroc:.2f}" in files[f"{name}-results.tex"].decode().replace(r"\textbf{", "").replace(
        "}", ""
    )
    assert f">{100 * auroc:.2f}<" in written._repr_html_() and str(written.page) in written._repr_html_()
    assert f" {100 * auroc:.2f} " in repr(written)
    assert len(files["figures.csv"].splitlines()) == 1 + len(figures)


def test_the_current_folder_is_not_replaced(tmp_path, digits, path, monkeypatch):
    """Where it was empty, the report was deleted with it, and the command said where its page is."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for out in (".", "", "..", tmp_path / "here"):
        assert_sentence(refusal(ud.report, path, digits, out, plots=False), "folder")
    assert not [*(tmp_path / "here").iterdir()] and Path.cwd().is_dir()


def test_a_protocol_without_figures_makes_no_report(tmp_path, digits, path, monkeypatch):
    """It ended in a StopIteration."""
    protocol = Protocol(name="nothing", title="", paper="", judge=lambda rows: [])
    monkeypatch.setitem(PROTOCOLS, "nothing", protocol)
    with pytest.raises(EvaluationError, match="The protocol nothing has no figures of these scores"):
        ud.report(path, digits, tmp_path / "report", protocols=protocol, plots=False)
    assert not (tmp_path / "report").exists()


def test_a_report_is_replaced_but_nothing_else_and_not_by_half_of_one(tmp_path, digits, path, capsys, monkeypatch):
    out = tmp_path / "out"
    assert report(out, digits, "--scores", path, "--csv") == 0
    (out / "left-over.md").write_text("mine")
    assert "not part of a report (left-over.md). Choose another folder" in refused(
        capsys, out, digits, "--scores", path
    )
    (out / "left-over.md").unlink()
    assert report(out, digits, "--protocol", "od-test", "--scores", path) == 0
    assert sorted(files_of(out)) == ["figures.parquet", "report.html"]
    assert "is a file, not a folder for the report. Choose another" in refused(capsys, path, digits, "--scores", path)
    before = files_of(out)
    monkeypatch.setattr(report_module, "render_page", lambda *words, **named: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report(out, digits, "--scores", path)
    assert files_of(out) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_metrics_of_one_s_own_are_beside_the_protocol_s_and_results_are_json(tmp_path, digits, rows, capsys):
    """FPR at 90 % TPR by its definition; means are over the splits of a role."""
    columns, own = rows(0), f"{EXAMPLES / 'own_metric.py'}:fpr_at_90"
    path = write(tmp_path / "run.parquet", digits, columns)
    words = ["--scores", path, "--metrics", f"oscr,{own}", "--json"]
    assert report(tmp_path / "out", digits, *words) == 0
    printed = json.loads(capsys.readouterr().out)
    known = np.sort(columns["mine"][columns["split"] == "test"])
    cut = known[int(np.ceil(0.9 * len(known))) - 1]
    far = [columns["mine"][columns["split"] == f"far_ood_{name}"] <= cut for name in ("noise", "textures")]
    figures = figures_of(tmp_path / "out")
    named = {"protocol": "metrics", "detector": "mine", "metric": "fpr_at_90", "rows": "as_published"}
    for split, of in zip(("far_ood_noise", "far_ood_textures"), far, strict=True):
        assert value(figures, **named, unknown=split, statistic="") == pytest.approx(of.mean())
    mean = value(figures, **named, unknown="far_ood", statistic="mean")
    assert mean == pytest.approx((far[0].mean() + far[1].mean()) / 2)
    of_mean = {"detector": "mine", "metric": "fpr_at_90", "unknown": "far_ood"}
    (line,) = [line for line in printed["results"] if of_mean.items() <= line.items()]
    assert line["mean"] == pytest.approx(mean)
    assert printed["page"] == str(tmp_path / "out" / "report.html")
    assert any("demo release" in warning for warning in printed["warnings"])
    evaluated = ud.evaluate(path, digits, CONFIG, metrics=["auroc", own])
    of_far = evaluated[(evaluated["detector"] == "mine") & (evaluated["split"] == "mean")]
    assert of_far["fpr_at_90"].item() == pytest.approx(mean)


@pytest.mark.parametrize("name", ["own_metric", "own_protocol"])
def test_the_docs_show_the_file_that_is_run(name):
    code = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").split('"""\n\n', 1)[1]
    assert code in (EXAMPLES.parent / "docs" / "extending.md").read_text(encoding="utf-8")


NAMES = {
    "auroc-unknown-detection-digits",
    "densities-unknown-detection-digits",
    "risk-coverage-unknown-detection-digits",
    "roc-unknown-detection-digits",
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, digits, rows):
    """A report with plots."""
    pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")
    folder = tmp_path_factory.mktemp("drawn")
    path = write(folder / "run.parquet", digits, rows(0))
    assert main(["report", "--release", str(digits), "--out", str(folder / "out"), "--scores", path, "--plots"]) == 0
    return folder / "out"


def test_pictures_are_drawn_on_the_page_and_as_files(drawn):
    files = files_of(drawn)
    plots = {f"plots/{name}.{suffix}" for name in NAMES for suffix in ("pdf", "png", "svg")}
    assert set(files) == plots | {"figures.parquet", "report.html"}
    page = files["report.html"].decode()
    assert page.count("<svg") == len(NAMES)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)), "pictures on one page have ids of their own"
    assert all(f"#{anchor}" in page for anchor in ("results", "unknown-detection", "origin"))


def test_the_page_reads_well_in_a_browser(drawn, open_page):
    page = look_at(open_page, drawn / "report.html")
    assert page.title() == "Results on digits"
    page.get_by_role("link", name="Unknown detection", exact=True).first.click()
    assert page.url.endswith("#unknown-detection")
