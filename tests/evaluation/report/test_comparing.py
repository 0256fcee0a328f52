"""Several models in a report: the heat map, the ranks and the accuracies are those of the figures."""

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

import unknown_detection as ud
from examples.digits_release import CONFIG
from tests.evaluation.report.as_text import figures_of, page_of
from unknown_detection.evaluation.releases import load
from unknown_detection.evaluation.report import judging
from unknown_detection.evaluation.report.comparing import compare
from unknown_detection.evaluation.runs import join_runs
from unknown_detection.evaluation.scoring.scores import Provenance, read_scores, write_scores

DETECTORS = ("msp", "knn", "vim", "energy")
MODELS = 5


@pytest.fixture(scope="module")
def files(digits, tmp_path_factory):
    """Scores of five models of rising quality; the last one has none of `energy`."""
    release, folder = load(str(digits)), tmp_path_factory.mktemp("models")
    index = release.index([CONFIG])
    unknown, label = ~index["known"].to_numpy(), index["label"].to_numpy()
    written = []
    for model in range(MODELS):
        numbers = np.random.default_rng(model)
        wrong = numbers.random(len(index)) < 0.3 - 0.05 * model
        names = DETECTORS[: 3 if model == MODELS - 1 else 4]
        columns = {"id": index["id"].to_numpy(), "prediction": np.where(wrong, (label + 1) % 6, np.maximum(label, 0))}
        tables = [
            pa.table({**columns, "detector": [name] * len(index), "score": score})
            for place, name in enumerate(names)
            for score in [numbers.normal(size=len(index)) + unknown * (0.5 + 0.3 * model + 0.4 * place)]
        ]
        about = Provenance(
            release.digest, (CONFIG,), f"timm:net{model}", f"{model}", 0, {name: {} for name in names}, {}
        )
        written.append(folder / f"net{model}.parquet")
        write_scores(written[-1], pa.concat_tables(tables), about)
    return written


def test_the_page_compares_models(digits, files, tmp_path):
    """Each cell of the heat map is the mean over sets of unknowns, and ranks are scipy's of these."""
    release = load(str(digits))
    ud.report([str(path) for path in files], release, tmp_path / "report", plots=False)
    figures = figures_of(tmp_path / "report")
    aurocs = figures[
        (figures["metric"] == "auroc") & (figures["statistic"] == "") & (figures["rows"] == "as_published")
    ]
    runs, _ = join_runs([str(path) for path in files], release, None)
    (found,) = compare(judging.judge(runs, judging.choose_protocols((), runs, ()), release))
    for (model, detector), of in aurocs.groupby(["variant", "detector"]):
        assert found.areas.loc[model, detector] == pytest.approx(of["value"].mean(), abs=1e-12)
    assert found.areas.index[0] == "timm:net4" and np.isnan(found.areas.loc["timm:net4", "energy"])
    whole = found.areas.drop(columns="energy")
    assert found.ranks.mean.to_dict() == pytest.approx(whole.rank(axis=1, ascending=False).mean().to_dict())
    expected = stats.friedmanchisquare(*whole.to_numpy().T)
    accuracy = figures[(figures["metric"] == "accuracy") & (figures["rows"] == "as_published")]
    assert found.accuracy.to_dict() == pytest.approx(accuracy.groupby("variant")["value"].first().to_dict())
    page = page_of(tmp_path / "report")
    assert f"over 5 models: chi-squared {expected.statistic:.2f}, p = {expected.pvalue:.2g}" in page
    assert "1 detectors without scores of all models" in page and "rough for so few models" in page
    best = found.ranks.mean.sort_values()
    assert f"Near the best {best.index[0]} {best.iloc[0]:.2f} {100 * whole[best.index[0]].mean():.2f}" in page


def test_means_are_over_the_sets_that_all_models_have(digits, files, tmp_path):
    """A model that was scored on the near set alone had a mean over it beside others' means over all sets."""
    release, index = load(str(digits)), load(str(digits)).index([CONFIG])
    near = pa.array(index["id"][index["split"].isin(["test", "near_ood"])].astype(str), pa.string())
    table, about = read_scores(files[0])
    about = msgspec.structs.replace(about, splits=(f"{CONFIG}/test", f"{CONFIG}/near_ood"))
    write_scores(tmp_path / "near.parquet", table.filter(pc.is_in(table["id"], near)), about)
    paths = [str(tmp_path / "near.parquet"), *map(str, files[1:])]
    runs, _ = join_runs(paths, release, None)
    (found,) = compare(judging.judge(runs, judging.choose_protocols((), runs, ()), release))
    aurocs = ud.evaluate(paths, release, metrics="AUROC")
    near = aurocs[aurocs["split"] == "near_ood"].set_index(["model", "detector"])["AUROC"]
    assert found.areas.stack().dropna().to_dict() == pytest.approx(near.to_dict())
    assert found.left_out == ["far_ood_noise", "far_ood_textures"]
    ud.report(paths, release, tmp_path / "report", plots=False)
    assert "far_ood_noise, far_ood_textures without scores of all models" in page_of(tmp_path / "report")


def of_some(file, path, wanted, release, splits=None):
    """Write the scores in a file that are of some detectors, and of some splits."""
    table, about = read_scores(file)
    kept = pc.is_in(table["detector"], value_set=pa.array(wanted))
    hyperparameters = {name: {} for name in wanted}
    if splits:
        index = release.index([CONFIG])
        ids = pa.array(index["id"][index["split"].isin(splits)].astype(str), pa.string())
        kept = pc.and_(kept, pc.is_in(table["id"], value_set=ids))
        about = msgspec.structs.replace(about, splits=tuple(f"{CONFIG}/{split}" for split in splits))
    write_scores(path, table.filter(kept), msgspec.structs.replace(about, hyperparameters=hyperparameters))
    return str(path)


def test_a_page_without_ranks_says_why(digits, files, tmp_path):
    """Of three models with two detectors in common, and of three without a common set of unknown rows."""
    release, said = load(str(digits)), []
    pairs = [("msp", "knn", "vim"), ("msp", "knn", "energy"), ("msp", "knn")]
    paths = [of_some(file, tmp_path / file.name, of, release) for file, of in zip(files, pairs, strict=False)]
    ud.report(paths, release, tmp_path / "report", plots=False, log=said.append)
    page = page_of(tmp_path / "report")
    assert "ranks of detectors over" not in page
    assert "3 models have 2 detectors in common" in page and any("2 detectors in common" in of for of in said)
    sets = [("test", name) for name in ("near_ood", "far_ood_noise", "far_ood_textures")]
    paths = [
        of_some(file, tmp_path / f"one-{file.name}", DETECTORS[:3], release, of)
        for file, of in zip(files, sets, strict=False)
    ]
    ud.report(paths, release, tmp_path / "other", plots=False)
    assert "3 models have no set of unknown rows in common" in page_of(tmp_path / "other")
    ud.report([str(path) for path in files], release, tmp_path / "all", plots=False)
    assert "in common" not in page_of(tmp_path / "all")


def test_plots_of_the_best_models_and_of_all_together(digits, files, tmp_path):
    """The heat map of models stands beside the first table."""
    ud.report([str(path) for path in files[:3]], load(str(digits)), tmp_path / "report", plots=True)
    names = {path.stem for path in (tmp_path / "report" / "plots").glob("*.pdf")}
    assert {f"{kind}-unknown-detection" for kind in ("models", "ranks", "accuracy")} <= names
    page = (tmp_path / "report" / "report.html").read_text()
    assert page.index("Mean AUROC by model and detector") < page.index("Chosen on test data")
