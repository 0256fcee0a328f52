"""`--splits CONFIG[/SPLIT],...`: what it chooses, and names that are not there."""

import pytest

from builders.cli.split_choice import chosen_splits, is_named, named
from builders.errors import BuildError

KEYS = ("cifar/test", "cifar/near_ood", "cifar-train/train")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((), KEYS),
        (("cifar",), KEYS[:2]),
        (("cifar/near_ood",), KEYS[1:2]),
        (("cifar-train,cifar/test",), (KEYS[0], KEYS[2])),
        (("cifar-train", " cifar/test "), (KEYS[0], KEYS[2])),
        (("cifar/test,cifar/test,cifar",), KEYS[:2]),
    ],
)
def test_a_config_stands_for_its_splits_and_the_order_is_the_release_s(wanted, expected):
    assert chosen_splits(wanted, KEYS, "R") == expected


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (("cifar/tset",), "R has no config or split cifar/tset (did you mean cifar/test?)."),
        (("cifar-train/test",), "no config or split cifar-train/test"),
        (("zzz",), "Give configs (cifar, cifar-train) or splits such as cifar/test with --splits."),
        (("\x1b[2J",), "no config or split \\x1b[2J"),
        (("",), "--splits '' has an empty name"),
        (("cifar,",), "--splits 'cifar,' has an empty name"),
        (("cifar", ""), "has an empty name"),
    ],
)
def test_names_that_are_not_there_are_refused(wanted, sentence):
    with pytest.raises(BuildError) as refused:
        chosen_splits(wanted, KEYS, "R")
    assert sentence in str(refused.value)


def test_a_config_is_no_prefix_of_another():
    assert not is_named("cifar-train/train", ["cifar"])
    assert named(["a, b", "c"]) == ["a", "b", "c"]
