"""The flags of adversarial images: what they ask for, and what each mistake gets."""

import zipfile

import pytest

from builders.broad_benchmark import BENCHMARK, main
from builders.declare.benchmark import split_of
from builders.errors import BuildError
from builders.generate.adversarial import flags
from tests.builders.generate.adversarial.real import TORCH, needed
from tests.sentences import assert_sentence, stops

DECLARED = ("pgd_resnet50", "autoattack_resnet50", "pgd_vit", "autoattack_vit")
DEFAULTS = {flag.name: () if flag.multiple else flag.default for flag in flags.FLAGS}


def asked(**values):
    return flags.generators(DEFAULTS | {name.replace("_", "-"): value for name, value in values.items()})


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "weights.pth"
    path.write_bytes(b"abc")
    return str(path)


def test_the_benchmark_declares_the_papers_four_splits_without_weights():
    assert tuple(flags.declared_generators()) == DECLARED
    keys = [key for key in BENCHMARK.splits if key.startswith("broad-adversarial/")]
    assert keys == [f"broad-adversarial/{name}" for name in DECLARED]
    for key in keys:
        split = BENCHMARK.parts[key]
        # The same originals, in the same order, as the clean side.
        assert (split.role, split.ranked_as) == ("adversarial", "broad-reference/test")
        model = key.rpartition("_")[2]
        assert split.generator.size == (split.generator.prepared,) * 2
        assert split.generator.size == {"resnet50": (224, 224), "vit": (384, 384)}[model]
        assert BENCHMARK.needs(key) == f"--model {model} --weights FILE"
        assert BENCHMARK.count(key).rows == BENCHMARK.count(key).paper == 5_000
    assert not set(keys) & set(BENCHMARK.ready())
    assert BENCHMARK.with_settings(DEFAULTS, ["broad-adversarial"]) is BENCHMARK


@needed(*TORCH, "torchattacks")
def test_a_model_and_its_weights_make_its_two_splits(weights):
    generators = asked(model=("vit",), weights=(weights,))
    assert tuple(generators) == ("pgd_vit", "autoattack_vit")
    for generator in generators.values():
        assert generator.needs == ""
        assert generator.weights[0].sha256.startswith("ba7816bf")  # of "abc"
        assert generator.parameters["accuracy_check"] is True
    assert "torchattacks" not in generators["pgd_vit"].parameters
    assert generators["autoattack_vit"].parameters["torchattacks"]
    # Croce and Hein's standard version, and BROAD's PGD.
    assert generators["autoattack_vit"].parameters.items() >= {"steps": 100, "targets": 9, "queries": 5_000}.items()
    assert generators["pgd_vit"].parameters.items() >= {"steps": 40, "epsilon": 0.05}.items()
    benchmark = BENCHMARK.with_settings(DEFAULTS | {"model": ("vit",), "weights": (weights,)}, ["broad-adversarial"])
    ready = [key for key in benchmark.ready() if split_of(key).startswith("broad-adversarial")]
    assert ready == ["broad-adversarial/pgd_vit", "broad-adversarial/autoattack_vit"]
    assert list(benchmark.splits) == list(BENCHMARK.splits)
    one_more = asked(model=("timm:resnet18",), weights=(weights,), attack=("pgd",), no_accuracy_check=True)
    assert tuple(one_more) == ("pgd_resnet18",)


@needed(*TORCH)
def test_wrong_values_get_a_sentence(weights, tmp_path):
    valid = {"model": ("resnet50",), "weights": (weights,), "attack": ("pgd",)}
    for values, sentence in (
        (valid | {"weights": ()}, "--model was given 1 times and --weights 0 times"),
        (valid | {"model": ("resnet",)}, "--model resnet is no model"),
        (valid | {"weights": (str(tmp_path / "none"),)}, "No such file"),
        (valid | {"weights": (str(tmp_path),)}, str(tmp_path)),
        (valid | {"epsilon": 0.0}, "--epsilon 0 is out of range"),
        (valid | {"pgd_step_size": -1.0}, "--pgd-step-size -1 is out of range"),
        (valid | {"model": ("timm:resnet18",)}, "The accuracy of timm:resnet18 is not known here"),
    ):
        with pytest.raises(BuildError) as caught:
            asked(**values)
        assert sentence in str(caught.value)


@needed(*TORCH)
@pytest.mark.parametrize("models", [("resnet50", "resnet50"), ("timm:resnet50", "resnet50")])
def test_two_models_of_one_name_are_refused(weights, models):
    """The later one took the place of the earlier one, whose weights were ignored without a word."""
    with stops(BuildError, models[0], models[1], "resnet50", "--out"):
        asked(model=models, weights=(weights, weights), attack=("pgd",), no_accuracy_check=True)


@needed(*TORCH)
def test_a_gpu_that_is_not_there_is_refused(weights):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with stops(BuildError, "CUDA"):
        asked(model=("resnet50",), weights=(weights,), attack=("pgd",), device="cuda")


def test_without_the_extra_one_sentence_names_it(weights, uninstalled):
    uninstalled("timm", "torch", "torchattacks")
    with pytest.raises(BuildError) as caught:
        asked(model=("vit",), weights=(weights,))
    assert_sentence(str(caught.value), "3.3.0", "unknown-detection[generate]")


def test_the_authors_images_and_own_attacks_exclude_each_other(weights, tmp_path, capsys):
    out = tmp_path / "out"
    for flag in (f"--weights={weights}", "--model=vit", "--epsilon=0.1"):
        assert main([f"--adopt-partial-broad={tmp_path}", flag, f"--out={out}"]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        assert all(word in message for word in ("--adopt-partial-broad", flag.partition("=")[0], "broad-adversarial"))
    assert not out.exists()
    # Without one, the authors' take the place of all that needs weights.
    adopted = BENCHMARK.with_variants(["adopt-partial-broad"])
    assert set(adopted.splits) == set(BENCHMARK.splits) == set(adopted.ready())


def test_without_weights_the_command_says_what_to_give(tmp_path, capsys):
    out = tmp_path / "out"
    for splits in ("broad-adversarial", "broad-adversarial/pgd_vit"):
        assert main([f"--splits={splits}", f"--out={out}", "--quiet"]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        assert splits in message and "--weights FILE" in message
    assert not out.exists()


def test_the_demos_weights_say_nothing_of_the_process_that_wrote_them(tmp_path):
    """Its number was in the file, by way of the temporary name, so each demo had other digests of weights."""
    pytest.importorskip("timm")
    flags.write_classifiers(tmp_path, [])
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    for file in files:
        assert {name.partition("/")[0] for name in zipfile.ZipFile(file).namelist()} == {"archive"}
