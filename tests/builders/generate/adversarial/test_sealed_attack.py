"""The whole way of a sealed image: attack, round, store, seal, publish, materialize without torch, load."""

import hashlib
import subprocess
import sys

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest

from builders.broad_benchmark import main
from builders.release.images import decode
from hf_scripts import push, verify
from tests.builders.conftest import files_of
from tests.builders.generate.adversarial import real
from tests.hub.fixtures import api, hub
from tests.hub.guard import only_loopback
from tests.sentences import assert_sentence

__all__ = ["api", "hub", "only_loopback"]

REPO = "org/name"
SPLIT = "pgd_tf_efficientnet_lite0"

# What neither the core install nor its dependencies have: an import of it ends the process.
CORE_ONLY = """
import sys
for name in ("torch", "torchvision", "timm", "torchattacks", "diffusers", "sklearn", "matplotlib"):
    sys.modules[name] = None
from hf_scripts import materialize
sys.exit(materialize.main())
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A source of 2 pictures, and the release of an attack with BROAD's settings on the half that is not held out."""
    root = tmp_path_factory.mktemp("sealed-attack")
    weights, source = real.write_weights(root / "lite0.pt"), real.write_source(root / "imagenet", count=2)
    flags = [f"--imagenet={source}", f"--model={real.MODEL}", f"--weights={weights}", "--no-accuracy-check"]
    flags += ["--attack=pgd", "--splits=broad-adversarial", "--allow-partial", "--quiet", "--workers=1"]
    assert main([*flags, f"--out={root / 'release'}"]) == 0
    return source, root / "release"


def published(release, monkeypatch, *flags):
    monkeypatch.chdir(release.parent)
    return push.main([release.name, f"--repo={REPO}", "--tag=v1.0.0", "--workers=1", *flags])


def materialized(hub, source, folder):
    """Run the command in a process without torch; returns what it said."""
    place = [f"--imagenet={source}", f"--out={folder / 'out'}"]
    arguments = [REPO, "--splits=broad-adversarial", "--revision=v1.0.0", *place]
    return subprocess.run(
        [sys.executable, "-c", CORE_ONLY, *arguments, "--workers=1", "--quiet"],
        env=hub.environment(folder / "home"),
        capture_output=True,
        text=True,
        check=False,
    )


@real.REAL
def test_from_the_attack_to_a_reader_without_torch(world, hub, api, only_loopback, tmp_path, monkeypatch, capsys):
    source, release = world
    # The pixels are of ImageNet: not in public, but their residuals are.
    assert published(release, monkeypatch) == 2
    message = capsys.readouterr().err
    assert_sentence(message, "ImageNet-1k", "--index-only")
    assert published(release, monkeypatch, "--index-only") == 0, capsys.readouterr()
    paths = set(hub.files(REPO, "v1.0.0"))
    assert f"sealed/broad-adversarial/{SPLIT}-00000-of-00001.parquet" in paths
    assert not [path for path in paths if path.startswith("data/")]

    done = materialized(hub, source, tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert f"broad-adversarial/{SPLIT}: 2 rows" in done.stdout
    ours, theirs = files_of(tmp_path / "out"), files_of(release)
    images = f"data/broad-adversarial/{SPLIT}-00000-of-00001.parquet"
    assert ours[images] == theirs[images]
    assert verify.main([str(tmp_path / "out"), "--workers=1"]) == 0

    rows = datasets.load_dataset(
        str(tmp_path / "out"), "broad-adversarial", split=SPLIT, cache_dir=str(tmp_path / "cache")
    )
    stored = {row["id"]: row for row in pq.read_table(release / images).to_pylist()}
    assert len(rows) == len(stored) == 2
    for row in rows:
        pixels = np.asarray(row["image"])
        assert np.array_equal(pixels, np.asarray(decode(stored[row["id"]]["image"]["bytes"])))
        assert row["content_sha256"] == hashlib.sha256(b"RGB 224 224\n" + pixels.tobytes()).hexdigest()
