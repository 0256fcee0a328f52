"""Copies and releases on the Hub, on its stand-in."""

import json

import pytest

from builders.commands.compare import main as compare
from builders.commands.doctor import main as doctor
from tests.builders import cifar_layouts


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_known_mirror_is_downloaded_and_looked_at(hub, api, only_loopback, demo, tmp_path, naps, capsys):
    root = cifar_layouts.cifar100_parquet(demo["cifar100"], tmp_path / "mirror")
    hub.create("uoft-cs/cifar100")
    hub.commit(
        "uoft-cs/cifar100",
        {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.parquet"))},
    )
    assert doctor(["hf://datasets/uoft-cs/cifar100", "--json", "--workers", "1"]) == 1  # a demo has few images
    assert "CIFAR-100" in json.dumps(json.loads(capsys.readouterr().out))


def test_another_repository_is_refused(hub, api, only_loopback, capsys):
    assert doctor(["hf://datasets/org/other"]) == 2
    assert "hf://datasets/org/other is no mirror" in capsys.readouterr().err


def test_a_release_on_the_hub_is_compared_with_a_folder(hub, api, only_loopback, imagenet_release, capsys):
    files = {path.relative_to(imagenet_release).as_posix(): path for path in sorted(imagenet_release.rglob("*"))}
    hub.create("org/small")
    hub.commit(
        "org/small",
        {name: path.read_bytes() for name, path in files.items() if path.is_file() and not name.startswith(".")},
    )
    assert compare([str(imagenet_release), "org/small"]) == 0
    assert compare(["org/small", "org/nowhere"]) == 2
    assert "org/nowhere" in capsys.readouterr().err
