"""Hyperparameters on the command line: what is set, what is searched, and what is refused."""

import numpy as np
import pytest

from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.detectors import METHODS, ReAct, check_settings, parse_settings, settable
from unknown_detection.evaluation.detectors.own import choose
from unknown_detection.evaluation.errors import EvaluationError


def test_every_value_of_a_grid_can_be_set():
    """And a hyperparameter without one: the temperature, which is fitted if it is not given."""
    for name, method in METHODS.items():
        assert method.search.keys() <= settable(method).keys(), name
        assert method.ranges.keys() <= settable(method).keys(), name
    texts = ["knn.k=50", "temperature.temperature=1000", "openmax.tail = 5,10", "openmax.rank_weight=0.5"]
    assert parse_settings(texts, choose("knn,temperature,openmax")[0]) == {
        "knn": {"k": (50,)},
        "temperature": {"temperature": (1000.0,)},
        "openmax": {"tail": (5, 10), "rank_weight": (0.5,)},
    }
    # A part of a mixture that is scored.
    assert parse_settings(["energy.temperature=2"], choose("ens_f")[0]) == {"energy": {"temperature": (2.0,)}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("knn", "does not name a hyperparameter and a value. Write it as in --set knn.k=50"),
        ("k=50", "does not name a hyperparameter and a value"),
        ("kmn.k=50", "'kmn' is not a detector; the closest names are knn"),
        ("gen.large=50", "'large' is not a hyperparameter of gen; the closest names are largest"),
        ("knn.features=1", "'features' is not a hyperparameter of knn"),
        ("ens_f.seed=1", "'seed' is not a hyperparameter of ens_f"),
        ("msp.temperature=1", "msp has no hyperparameters"),
        ("knn.k=", "'' in --set knn.k= is not a whole number"),
        ("knn.k=2.5", "'2.5' in --set knn.k=2.5 is not a whole number"),
        ("react.quantile=most", "'most' in --set react.quantile=most is not a number"),
        ("react.quantile=nan", "is not a number"),
        ("knn.k=5 knn.k=6", "gives knn.k twice"),
        ("dice.sparsity=0.5", "is of dice, which is not scored. Add it to --detectors"),
    ],
)
def test_what_cannot_be_set(text, sentence):
    with pytest.raises(EvaluationError) as refused:
        parse_settings(text.split(), choose("knn,react,msp,ens_f")[0])
    assert sentence in str(refused.value)


def test_settings_in_python_are_those_of_the_command_line():
    chosen = choose("knn,temperature,ens_f")[0]
    given = {"knn": {"k": np.int64(50)}, "temperature": {"temperature": 1000}, "energy": {"temperature": [1, 2.0]}}
    assert check_settings(given, chosen) == {
        "knn": {"k": (50,)},
        "temperature": {"temperature": (1000.0,)},
        "energy": {"temperature": (1.0, 2.0)},
    }
    assert check_settings({"knn": {"k": np.array([5, 10])}}, chosen) == {"knn": {"k": (5, 10)}}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"KNN": {"k": (7,)}}, "'KNN' is not a detector; "),
        ({"knn": {"kk": (7,)}}, "'kk' is not a hyperparameter of knn; the closest names are k."),
        ({"energy": {"temperature": 7}}, "setting energy.temperature=7 is of energy, which is not scored. Add"),
        ({"knn": {"k": ()}}, "setting knn.k= has no value. Give one, or several to search among."),
        ({"knn": {"k": 2.5}}, "'2.5' in setting knn.k=2.5 is not a whole number. Give one."),
        ({"knn": {"k": None}}, "'None' in setting knn.k=None is not a whole number. Give one."),
        ({"react": {"quantile": 0.5}}, "react is an instance, whose hyperparameters stay. Set quantile there"),
    ],
)
def test_what_cannot_be_set_in_python(settings, sentence):
    with pytest.raises(EvaluationError) as refused:
        check_settings(settings, choose(["knn,msp", ReAct(quantile=0.9)])[0])
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize("settings", [["knn.k=5"], {"knn": 5}])
def test_settings_of_another_shape(settings):
    with pytest.raises(TypeError, match="Settings are values by detector and hyperparameter, such as"):
        check_settings(settings, choose("knn")[0])


def test_the_help_names_each_with_its_range_and_search(capsys):
    assert main(["score", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "knn.k 50; 1 to the number of rows fitted on; searched: 1, 5, 10, 20, 50, 100, 200, 500, 1000" in text
    assert "openmax.rank_weight 0; 0 to 1; 0 for weights by rank" in text
    for name, method in METHODS.items():
        assert all(f"{name}.{hyperparameter} " in text for hyperparameter in settable(method))
