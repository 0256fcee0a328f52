"""Hyperparameters on the command line: what is set, what is searched, and what is refused."""

import re

import numpy as np
import pytest

from tests.sentences import stops
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.detectors import DETECTORS, ReAct
from unknown_detection.evaluation.detectors.choice import choose, parse_settings
from unknown_detection.evaluation.errors import EvaluationError


def test_every_value_of_a_grid_can_be_set():
    """And a hyperparameter without one: the temperature, which is fitted if it is not given."""
    for name, detector in DETECTORS.items():
        assert {*detector.search, *detector.ranges} <= detector.parameters().keys(), name
    texts = ["knn.k=50", "temperature.temperature=1000", "openmax.tail = 5,10", "openmax.rank_weight=0.5"]
    choices = choose("knn,temperature,openmax", parse_settings(texts))
    assert choices.scored["knn"].search == {"k": (50,)}
    assert choices.scored["temperature"].search == {"temperature": (1000.0,)}
    assert choices.scored["openmax"].search == {**DETECTORS["openmax"].search, "tail": (5, 10), "rank_weight": (0.5,)}
    # A part of a mixture that is scored.
    assert choose("ens_f", parse_settings(["energy.temperature=2"])).parts["energy"].search == {"temperature": (2.0,)}


@pytest.mark.parametrize(
    ("values", "grid"),
    [
        (np.int64(50), (50,)),
        (50, (50,)),
        ([1, 2.0], (1, 2)),
        (np.array([5, 10]), (5, 10)),
        ("5", (5,)),
    ],
)
def test_settings_in_python_are_one_value_or_several(values, grid):
    assert choose("knn", {"knn": {"k": values}}).scored["knn"].search == {"k": grid}


@pytest.mark.parametrize(
    "text",
    ["knn", "k=50", "kmn.k=50", "gen.large=50", "knn.features=1", "ens_f.seed=1", "msp.temperature=1", "knn.k=",
     "knn.k=2.5", "energy.temperature=most", "energy.temperature=nan", "knn.k=5 knn.k=6", "dice.sparsity=0.5",
     {"knn": {"k": []}}, {"KNNN": {"k": (7,)}}, {"knn": {"k": None}}, {"knn": 5}, ["knn.k=5"]],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_set(text):
    with stops(EvaluationError, re.match(r"\W*(\w*)", str(text)).group(1)):
        settings = parse_settings(text.split()) if isinstance(text, str) else text
        choose(["knn,msp,ens_f", ReAct(quantile=0.9)], settings)


def test_settings_count_for_an_instance_too():
    assert choose(ReAct(quantile=0.9)).scored["react"].search == {}
    assert choose(ReAct(quantile=0.9), {"react": {"quantile": 0.5}}).scored["react"].search == {"quantile": (0.5,)}


def test_the_help_names_each_with_its_range_and_search(capsys):
    assert main(["score", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "knn.k 50; 1 to the number of rows fitted on; searched: 1, 5, 10, 20, 50, 100, 200, 500, 1000" in text
    assert "openmax.rank_weight 0; 0 to 1; 0 for weights by rank" in text
    for name, detector in DETECTORS.items():
        assert all(f"{name}.{hyperparameter} " in text for hyperparameter in detector.parameters())
