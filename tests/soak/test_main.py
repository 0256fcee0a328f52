"""Which trials a soak makes."""

import collections
import itertools

from tests.soak.__main__ import chosen_trials

KINDS = ("SIGKILL", "disk full", "S3: refuses")


def kind_of(number):
    return KINDS[number % len(KINDS)]


def test_each_wanted_kind_is_tried_so_often():
    trials = list(chosen_trials(itertools.count(7), kind_of, KINDS[1:], 20))
    assert collections.Counter(map(kind_of, trials)) == {"disk full": 20, "S3: refuses": 20}
    assert trials[0] == 7


def test_without_a_number_there_are_always_more_of_the_kinds_that_are_wanted():
    assert len(list(itertools.islice(chosen_trials(itertools.count(), kind_of, KINDS), 500))) == 500
    assert list(chosen_trials(iter([17]), kind_of, ["S3: refuses"])) == [17]
    assert list(chosen_trials(iter([17]), kind_of, ["SIGKILL"])) == []
