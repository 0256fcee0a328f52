"""The recipes on a CUDA device: `pytest -m gpu tests/examples/test_train_gpu.py`. They skip where torch finds none."""

import pytest

torch = pytest.importorskip("torch", reason="computes on a GPU")
pytest.importorskip("pytorch_ood", reason="training needs pytorch-ood, of the extra train")

from examples import train  # noqa: E402
from tests.examples.test_train import KILLED, NETS, QUICK, log, run, same  # noqa: E402
from tests.killing import killed_at_rename  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")]

CUDA = "--device=cuda"


@pytest.fixture(scope="module")
def start(digits_release, tmp_path_factory):
    """Weights to fine-tune, trained on the device."""
    out = tmp_path_factory.mktemp("start")
    assert run(digits_release, out, "--method=ce", "--rate=0.03", CUDA) == 0
    return out / "weights.safetensors"


def options(method, start):
    if method == "energy":
        return ["--method=energy", "--rate=0.001", "--margins", "-5", "-1", f"--init={start}"]
    return [f"--method={method}", "--rate=0.03"]


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("method", train.METHODS)
def test_every_method_learns_digits_and_its_seed_gives_the_same_weights(
    digits_release, start, tmp_path, method, precision
):
    """Chance is one in six. Equal weights show that a run has no operation whose result varies on this device."""
    model = "small_dropout" if method == "mcdropout" else "small"
    flags = [*options(method, start), CUDA, f"--precision={precision}"]
    for name in ("one", "other"):
        assert run(digits_release, tmp_path / name, *flags, model=model) == 0
    assert log(tmp_path / "one")[-1]["validation_accuracy"] > 0.7
    assert same(tmp_path / "one", tmp_path / "other")


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_killed_run_goes_on_to_the_same_weights(digits_release, tmp_path, precision):
    """With `float16` the scaler's state goes on, too."""
    flags = [*options("crl", None), CUDA, f"--precision={precision}"]
    assert run(digits_release, tmp_path / "whole", *flags) == 0
    killed = [f"--model={NETS}:small", *QUICK, *flags]
    killed_at_rename(3, KILLED, digits_release, tmp_path / "out", tmp_path / "cache", *killed)
    assert [line["epoch"] for line in log(tmp_path / "out")] == [1, 2]
    assert run(digits_release, tmp_path / "out", *flags) == 0
    assert same(tmp_path / "whole", tmp_path / "out") and log(tmp_path / "whole") == log(tmp_path / "out")


def test_a_compiled_model_learns_and_its_weights_have_the_names_of_a_plain_one(digits_release, start, tmp_path):
    assert run(digits_release, tmp_path / "out", *options("ce", start), CUDA, "--compile") == 0
    assert log(tmp_path / "out")[-1]["validation_accuracy"] > 0.7
    tuned = [*options("energy", tmp_path / "out" / "weights.safetensors"), CUDA]
    assert run(digits_release, tmp_path / "tuned", *tuned) == 0  # which loads them into a plain model


def test_images_stay_in_memory_where_the_device_is_too_small(digits_release, tmp_path):
    """The same weights, since the place of the images changes no number."""
    for name, more in (("cpu", ["--images-on=cpu"]), ("cuda", [])):
        assert run(digits_release, tmp_path / name, *options("ce", None), CUDA, *more) == 0
    assert same(tmp_path / "cpu", tmp_path / "cuda")
