"""What every method of the table keeps to: names, hyperparameters, and scores of a row that depend on nothing else."""

import dataclasses
import re

import numpy as np
import pytest

from tests.evaluation.detectors.toy import toy_features, toy_head
from tests.sentences import stops
from unknown_detection.evaluation import detectors
from unknown_detection.evaluation.detectors import DETECTORS, arrays, neighbors, table
from unknown_detection.evaluation.detectors.base import Detector, Together
from unknown_detection.evaluation.errors import EvaluationError

HEAD = toy_head()
ON_FEATURES = sorted(name for name, method in DETECTORS.items() if method.reads != "images")
FITTED_ON_ROWS = sorted(name for name in ON_FEATURES if DETECTORS[name].fits_on != "none")
NEEDS_SCIKIT_LEARN = {"combood", "oodl", "ens_v", "ens_r", "ens_f"}


def with_parts(fitted, features):
    """The features with the scores that mixtures read; those of image readers are the toy's own."""
    base_methods = {part for name in ON_FEATURES for part in DETECTORS[name].base_methods} - set(features.scores)
    scores = {part: DETECTORS[part].clone().fit(fitted, HEAD).score(features) for part in sorted(base_methods)}
    return dataclasses.replace(features, scores={**features.scores, **scores})


BARE = toy_features(rows=400, seed=1)
FITTED = with_parts(BARE, BARE)
TESTED = with_parts(BARE, toy_features(rows=60, seed=2, unknown=40))


def make(name):
    if name in NEEDS_SCIKIT_LEARN:
        pytest.importorskip("sklearn", reason=f"scikit-learn fits {name}")
    detector = DETECTORS[name].clone()
    return detector.fit(None if detector.fits_on == "none" else FITTED, HEAD)


@pytest.fixture(scope="module", params=ON_FEATURES)
def scored(request):
    detector = make(request.param)
    return detector, detector.score(TESTED)


def assert_close(scores, expected):
    # Matrix products of other shapes add in another order; 1e-12 of the largest score is a few thousand roundings.
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_scores_are_one_finite_double_a_row(scored):
    detector, scores = scored
    assert detector.score(TESTED.take(slice(0))).shape == (0,)
    assert scores.shape == (len(TESTED),)
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()
    # NAC-UE's are means over twelve neurons of counts of rows.
    assert len(np.unique(scores)) > len(scores) / (5 if detector.name == "nac_ue" else 2)


@pytest.mark.parametrize("batch", [1, 7])
def test_scores_follow_their_rows_in_any_order_and_batch(scored, batch):
    detector, scores = scored
    order = np.random.default_rng(0).permutation(len(TESTED))
    batches = [TESTED.take(order[start : start + batch]) for start in range(0, len(order), batch)]
    assert_close(np.concatenate([detector.score(rows) for rows in batches]), scores[order])


@pytest.mark.parametrize("name", ON_FEATURES)
def test_neither_fits_nor_scores_depend_on_the_pieces_they_are_computed_in(name, monkeypatch):
    fitted = make(name)
    expected = fitted.score(TESTED)
    monkeypatch.setattr(arrays, "_CHUNK", 500)
    monkeypatch.setattr(neighbors, "_BANK_ROWS", 33)
    assert_close(fitted.score(TESTED), expected)
    np.testing.assert_allclose(make(name).score(TESTED), expected, rtol=1e-8)


TOGETHER = {
    "knn": [{"k": count} for count in (7, 1, 120, 20)],
    "nnguide": [{"k": count} for count in (10, 1, 120)],
    "relation": [{"power": 2.0}, {"power": 1.0}, {"power": 1.0, "cutoff": 0.0}, {"power": 8.0}],
    "actsub": [{"pruned": 0.5}, {"pruned": 0.5, "weight": 1.0}, {"pruned": 0.9, "weight": 0.5}],
    "combood": [{"k": count} for count in (7, 120, 20)],
    "gen": [{"gamma": 0.1}, {"gamma": 0.1, "largest": 2}, {"gamma": 2.0, "largest": 3}, {"gamma": 0.5, "largest": 1}],
}


@pytest.mark.parametrize("name", [name for name in ON_FEATURES if isinstance(DETECTORS[name], Together)])
def test_several_score_together_as_each_does(name):
    detectors = [DETECTORS[name].clone(**values).fit(FITTED, HEAD) for values in TOGETHER[name]]
    together = detectors[0].score_together(detectors, TESTED)
    assert len({scores.tobytes() for scores in together}) == len(detectors)
    for detector, scores in zip(detectors, together, strict=True):
        assert_close(detector.score(TESTED), scores)


def test_scores_leave_what_they_read_as_it_was(scored):
    detector, _ = scored
    before = [TESTED.logits.copy(), TESTED.penultimate.copy(), *(block.copy() for block in TESTED.blocks)]
    detector.score(TESTED)
    for array, copy in zip((TESTED.logits, TESTED.penultimate, *TESTED.blocks), before, strict=True):
        np.testing.assert_array_equal(array, copy)


# ASH-S and SCALE multiply a row by exp(sum / sum of the kept), and of twelve features they keep one or two: flat rows
# win. A residual is as long as its row is, and here unknown rows are short.
@pytest.mark.parametrize("name", [name for name in ON_FEATURES if name not in ("ash", "scale", "residual")])
def test_rows_of_no_class_get_higher_scores(name):
    scores = make(name).score(TESTED)
    unknown = TESTED.labels < 0
    assert np.median(scores[unknown]) > np.median(scores[~unknown])


@pytest.mark.parametrize("name", FITTED_ON_ROWS)
def test_rows_without_one_of_the_classes_are_not_fitted(name):
    beyond = np.where(np.arange(len(FITTED)) == 5, 4, FITTED.labels)
    for features, sentence in (
        (toy_features(rows=40, unknown=3), rf"^3 of 43 rows to fit {name} on have no label.*label -1\. Fit on an in-"),
        (dataclasses.replace(FITTED, labels=beyond), rf"rows to fit {name} on have no label from 0 to 3.*label 4"),
        (FITTED.take(slice(0)), f"no rows to fit {name} on; extract the split"),
    ):
        with pytest.raises(EvaluationError, match=sentence):
            DETECTORS[name].clone().fit(features, HEAD)


@pytest.mark.parametrize("name", [name for name in FITTED_ON_ROWS if not name.startswith("ens_")])
def test_fits_do_not_depend_on_the_order_of_rows(name):
    """Nor does the draw of some of them, which another seed makes otherwise. Mixtures begin at rows by place."""
    some = {"rows": 50} if "rows" in DETECTORS[name].parameters() else {}
    order = np.random.default_rng(0).permutation(len(FITTED))
    one, other = (DETECTORS[name].clone(**some).fit(rows, HEAD).score(TESTED) for rows in (FITTED, FITTED.take(order)))
    np.testing.assert_allclose(one, other, rtol=1e-8)
    if some:
        assert not np.array_equal(one, DETECTORS[name].clone(**some, seed=1).fit(FITTED, HEAD).score(TESTED))


@pytest.mark.parametrize("name", FITTED_ON_ROWS)
def test_nan_in_the_fitted_rows_is_refused(name):
    logits, penultimate, *blocks = (of.copy() for of in (FITTED.logits, FITTED.penultimate, *FITTED.blocks))
    for values in (logits, penultimate, *blocks):
        values[7, 3] = np.nan
    spoilt = dataclasses.replace(FITTED, logits=logits, penultimate=penultimate, blocks=blocks)
    with stops(EvaluationError, FITTED.ids[7]):
        DETECTORS[name].clone().fit(spoilt, HEAD)


OUTSIDE = {
    "above 0, below 1": (0, 1.0),
    "above 0, up to 1": (0.0, 1.1),
    "above 0": (0, -1.0, np.nan, np.inf),
    "0 to below 1": (-0.1, 1.0, np.nan),
    "0 to 1": (-0.1, 1.1),
    "0 or 1": (0.5, 2),
    "0 or more": (-1, np.inf),
    "1 or more": (0, np.inf),
    "2 or more": (1, 0),
    "4 or more, even": (2, 5),
    "10 or more": (9,),
    "0.003 or more": (0.001,),
    "0.6 to below 1": (0.5, 1.0),
    "1 to the number of classes": (0,),
    "1 to the number of rows": (),  # known only then: test_refusals.py
    "0 to below the number of features": (),
}
"""Values that are not as these words say, by the words with which a range begins."""


@pytest.mark.parametrize("name", [name for name, detector in DETECTORS.items() if detector.parameters()])
def test_values_out_of_range_or_of_a_wrong_type_are_refused(name):
    for hyperparameter, default in DETECTORS[name].parameters().items():
        allowed = DETECTORS[name].ranges[hyperparameter]
        outside = next(values for words, values in OUTSIDE.items() if allowed.startswith(words))
        for value in ("5", [5], *(() if default is None else (None,)), *outside):
            found = f"{hyperparameter} of {name} must be {allowed}, found {value!r}; give another."
            with pytest.raises(EvaluationError, match=f"^{re.escape(found)}$"):
                DETECTORS[name].clone(**{hyperparameter: value}).fit(FITTED, HEAD)


@pytest.mark.parametrize("name", ["she", "vim", "relation", "nnguide", "knn", "react", "dice", "ash", "scale"])
def test_numpy_refuses_features_of_another_width(name):
    """And names both numbers; 5 features in place of 12."""
    with pytest.raises(ValueError, match=r"\b5\b.*\b12\b|\b12\b.*\b5\b"):
        make(name).score(dataclasses.replace(TESTED, penultimate=TESTED.blocks[0]))


@pytest.mark.parametrize("name", sorted(DETECTORS))
def test_grids_search_parameters_that_exist_from_their_defaults(name):
    method = DETECTORS[name]
    parameters = method.parameters()
    for hyperparameter, values in method.search.items():
        assert values[0] == parameters[hyperparameter]
        assert len(set(values)) == len(values)


@pytest.mark.parametrize("name", ON_FEATURES)
def test_every_value_searched_makes_a_detector(name):
    method = DETECTORS[name]
    if name in NEEDS_SCIKIT_LEARN:
        pytest.importorskip("sklearn", reason=f"scikit-learn fits {name}")
    for hyperparameter, values in method.search.items():
        for value in values:
            fitted = toy_features(rows=1000, seed=1) if name == "knn" else FITTED  # as many as its neighbours
            detector = method.clone(**{hyperparameter: value}).fit(None if method.fits_on == "none" else fitted, HEAD)
            assert np.isfinite(detector.score(TESTED)).all()


@pytest.mark.parametrize("name", ON_FEATURES)
def test_detectors_that_read_the_last_layer_say_so_and_others_need_none(name):
    method = DETECTORS[name].clone()
    fitted = None if method.fits_on == "none" else FITTED
    if method.reads_head:
        with stops(EvaluationError, name):
            method.fit(fitted)
    else:
        np.testing.assert_array_equal(method.fit(fitted).score(TESTED), make(name).score(TESTED))


def test_names_are_unique_keys_with_titles_and_sources():
    def below(kind):
        return {kind}.union(*map(below, kind.__subclasses__()))

    ours = {kind for kind in below(Detector) if kind.__module__.startswith(f"{detectors.__name__}.")}
    names = [kind.name for kind in ours if kind.name]
    assert sorted(names) == sorted(DETECTORS)
    assert all(name == method.name for name, method in DETECTORS.items())
    assert len({method.title for method in DETECTORS.values()}) == len(DETECTORS)
    assert all(method.source for method in DETECTORS.values())
    assert {part for method in DETECTORS.values() for part in method.base_methods} <= {*DETECTORS}


@pytest.mark.parametrize("name", sorted(name for name in DETECTORS if DETECTORS[name].fits_on != "none"))
def test_a_detector_that_is_not_fitted_says_so(name):
    with stops(EvaluationError, name):
        DETECTORS[name].clone().score(TESTED)
    with stops(EvaluationError, name):
        DETECTORS[name].clone().fit(None, HEAD)


def test_the_table_has_a_line_for_each_detector():
    lines = {line["name"]: line for line in table().to_dict("records")}
    assert list(lines) == list(DETECTORS)
    knn = {"class": "KNN", "title": "KNN", "paper": "Sun et al. 2022, section 3", "year": "2022"}
    knn |= {"needs": "features, train", "cost": "search", "compared with": "pytorch-ood 0.4"}
    assert lines["knn"] == {"name": "knn", **knn, "fitted on": "train", "searched": "k"}
    assert lines["vim"]["needs"] == "features, logits, head, train"
    assert (lines["odin"]["needs"], lines["odin"]["cost"]) == ("images", "gradients")
    assert lines["mahalanobis_all"]["needs"] == "features of blocks, train"
    assert (lines["deep_ensemble"]["needs"], lines["deep_ensemble"]["cost"]) == ("several models", "values")
    assert lines["ens_f"]["needs"] == (
        "scores of msp max_logit mahalanobis_all mahalanobis energy, validation, sklearn"
    )
    assert lines["mahalanobis_first"]["compared with"] == "a formula of the tests"
    assert all(re.fullmatch(r"20\d\d", line["year"]) for line in lines.values())
    assert all(hasattr(detectors, line["class"]) for line in lines.values())
