"""MNIST's idx files as folders, and the way from there to a model of the optimizer paper."""

import gzip

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from builders.folder_benchmark import main as build
from examples import mnist_folders
from tests.examples.paths import EXAMPLES

SIZES = {"train": 80, "t10k": 20}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Eight training and two test images of each digit, as in the format's description: the folder, and the arrays."""
    root, numbers, arrays = tmp_path_factory.mktemp("idx"), np.random.default_rng(0), {}
    for stem, count in SIZES.items():
        images = numbers.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for kind, values in (("images-idx3", images), ("labels-idx1", labels)):
            head = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
            content = head + values.tobytes()
            if stem == "train":
                (root / f"{stem}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
            else:
                (root / f"{stem}-{kind}-ubyte").write_bytes(content)
        arrays[stem] = images, labels
    return root, arrays


def run(*words):
    return CliRunner().invoke(mnist_folders.main, [str(word) for word in words])


def test_every_pixel_is_in_the_folder_of_its_class(written, tmp_path):
    root, arrays = written
    assert run("--idx", root, "--out", tmp_path / "mnist").output.startswith("80 training and 20 test images are in ")
    for part, stem in (("train", "train"), ("test", "t10k")):
        files = sorted((tmp_path / "mnist" / part).rglob("*.png"))
        assert len(files) == SIZES[stem]
        for path in files:
            images, labels = arrays[stem]
            assert path.parent.name == str(labels[int(path.stem)])
            assert np.array_equal(np.asarray(Image.open(path)), images[int(path.stem)])


def test_noise_has_the_moments_of_its_distribution():
    """Uniform: mean 1/2, deviation 1/sqrt(12). N(1/2, 1) clipped to [0, 1]: below 0 and above 1 lie 30.85 % each."""
    drawn = {
        kind: np.stack([mnist_folders.noise(kind, n) for n in range(400)]) / 255 for kind in ("gaussian", "uniform")
    }
    error = 5 / np.sqrt(400 * 784)
    assert drawn["uniform"].mean() == pytest.approx(0.5, abs=error)
    assert drawn["uniform"].std() == pytest.approx(12**-0.5, abs=error)
    # Rounding to bytes adds those within half a step of the ends.
    assert (drawn["gaussian"] == 0).mean() == pytest.approx(0.3085 + 0.35 / 510, abs=error)
    assert (drawn["gaussian"] == 1).mean() == pytest.approx(0.3085 + 0.35 / 510, abs=error)
    assert not np.array_equal(drawn["uniform"][0], drawn["uniform"][1])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path.unlink(), "There is no t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz in"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "is no idx file of bytes with 1 dimensions"),
        (lambda path: path.write_bytes(b""), "is no idx file of bytes with 1 dimensions"),
        (lambda path: path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 1, 7])), "20 test images and 1 labels"),
    ],
)
def test_damaged_files_are_refused_before_anything_is_written(written, tmp_path, spoil, says):
    for path in written[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    spoil(tmp_path / "t10k-labels-idx1-ubyte")
    done = run("--idx", tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 2 and says in done.output
    assert not (tmp_path / "out").exists()


def test_the_folders_become_a_release_on_which_a_model_trains(written, tmp_path):
    """With the noises as far unknowns, the paper's network and one of its optimizers."""
    pytest.importorskip("pytorch_ood", reason="training needs pytorch-ood, of the extra train")
    from examples import train

    assert run("--idx", written[0], "--out", tmp_path / "mnist", "--noise", tmp_path / "noise").exit_code == 0
    unknown = [f"--unknown=far:{kind}={tmp_path / 'noise' / kind}" for kind in ("gaussian", "uniform")]
    release = tmp_path / "release"
    flags = [f"--in-distribution={tmp_path / 'mnist'}", *unknown, "--name=mnist", f"--out={release}", "--quiet"]
    assert build(flags) == 0
    words = [f"--release={release}", "--known=mnist-train", f"--model={EXAMPLES / 'mnist_cnn.py'}:mnist_cnn"]
    with pytest.raises(SystemExit) as ended:
        train.main([*words, "--optimizer=adam", "--epochs=2", "--device=cpu", f"--out={tmp_path / 'adam'}"])
    assert ended.value.code == 0
    assert (tmp_path / "adam" / "weights.safetensors").is_file()
