"""`--splits CONFIG[/SPLIT],...`: what it chooses, and names that are not there."""

import pytest
from click.shell_completion import BashComplete

from builders.cli.split_choice import chosen_splits, offered
from builders.errors import BuildError
from tests.hf_scripts.samples import make_release
from unknown_detection.__main__ import make_command

KEYS = ("cifar/test", "cifar/near_ood", "cifar-train/train")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((), KEYS),
        (("cifar",), KEYS[:2]),
        (("cifar/near_ood",), KEYS[1:2]),
        (("near_ood,cifar-train",), KEYS[1:]),
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
        (("near_od",), "(did you mean cifar/near_ood?)"),
        (("zzz",), "Give configs (cifar, cifar-train) or splits such as cifar/test."),
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


@pytest.mark.parametrize(
    ("incomplete", "expected"),
    [
        ("", ["cifar", "cifar-train"]),
        ("cifar-", ["cifar-train"]),
        ("cifar/", ["cifar/test", "cifar/near_ood"]),
        ("cifar/t", ["cifar/test"]),
        ("cifar-train,cifar/n", ["cifar-train,cifar/near_ood"]),
        ("zzz", []),
    ],
)
def test_a_shell_offers_configs_and_then_their_splits(incomplete, expected):
    assert offered(KEYS, incomplete) == expected


@pytest.mark.parametrize("words", ["verify {}", "export {} --format openood", "audit sheet {}", "materialize {}"])
def test_a_shell_offers_the_splits_of_the_release_that_is_named(words, tmp_path):
    root = make_release(tmp_path / "release", {"bench/test": range(2), "bench-train/train": range(2)})
    shell = BashComplete(make_command(), {}, "unknown-detection", "COMPLETE")

    def offers(folder, incomplete):
        arguments = [*words.format(folder).split(), "--splits"]
        return [item.value for item in shell.get_completions(arguments, incomplete)]

    assert offers(root, "") == ["bench", "bench-train"]
    assert offers(root, "bench/") == ["bench/test"]
    assert offers(tmp_path / "nowhere", "") == []
