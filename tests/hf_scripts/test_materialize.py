"""`python -m hf_scripts.materialize`: a published index, on the stand-in Hub or in a folder, becomes the release."""

import json

import pytest

from builders.openood_benchmark import BENCHMARK as OPENOOD
from builders.release import images
from builders.release.duplicates import read_pairs
from builders.release.layout import Layout
from builders.release.manifest import read_manifest
from hf_scripts import verify
from hf_scripts.materialize import main
from tests.builders.conftest import files_of
from tests.hf_scripts.samples import REPO


@pytest.fixture
def published(push, cifar_release, tmp_path):
    """A config of the CIFAR-scale demo release on the Hub, without pixels."""
    (tmp_path / "cifar").symlink_to(cifar_release, target_is_directory=True)
    flags = ("--index-only", "--allow-demo", "--splits", "cifar-train", "--check", "fast")
    assert push("cifar", *flags).code == 0


ONE_OF_EACH = ("openood-imagenet200", "openood-imagenet200-shifted", "openood-cifar10", "mos", "imagenet-ood")
"""Configs that have every source between them; those of the other scales have the same."""

ALL = [config.name for config in OPENOOD.configs]


@pytest.mark.parametrize(
    ("configs", "count"),
    [(ONE_OF_EACH, 26), pytest.param(ALL, 48, marks=pytest.mark.slow)],
    ids=["one of each", "all"],
)
def test_openood_goes_to_the_hub_and_comes_back_byte_by_byte(push, openood_release, demo, tmp_path, configs, count):
    (tmp_path / "openood").symlink_to(openood_release, target_is_directory=True)
    splits = [key for key in OPENOOD.usual() if key.partition("/")[0] in configs and key != "mos/sun"]
    assert push("openood", "--index-only", "--allow-demo", "--splits", ",".join(splits)).code == 0
    sources = [f"--{source.key}={demo[source.key]}" for source in OPENOOD.sources() if source.key != "sun397"]
    out = tmp_path / "built"
    flags = ["--revision", "v1.0.0", "--splits", ",".join(splits), "--out", str(out), "--workers", "1", "--quiet"]
    assert main([REPO, *sources, *flags]) == 0
    built, expected = files_of(out), files_of(openood_release)
    names = {name for name in expected if name.startswith(tuple(f"data/{key}-" for key in splits))}
    assert len(names) == len(splits) == count
    assert {name: built.get(name) for name in names} == {name: expected[name] for name in names}


def test_splits_are_built_one_by_one_to_the_same_release(cifar_release, demo, tmp_path, capsys):
    sources = [f"--{key}={demo[key]}" for key in ("cifar100", "svhn")]

    def built(out, *splits):
        for names in splits:
            flags = [f"--splits={names}", *sources, "--out", str(tmp_path / out), "--workers", "1", "--quiet"]
            assert main([str(cifar_release), *flags]) == 0
        return files_of(tmp_path / out)

    together = built("together", "cifar/test,cifar/far_ood_svhn,cifar-train")
    assert capsys.readouterr().out.count(" as published\n") == 3
    assert {name for name in together if name.startswith("data/")} == {
        f"data/{name}-00000-of-00001.parquet" for name in ("cifar-train/train", "cifar/far_ood_svhn", "cifar/test")
    }
    assert built("one-by-one", "cifar/far_ood_svhn", "cifar-train", "cifar/test") == together
    assert verify.main([str(tmp_path / "together"), "--workers", "1"]) == 0


def test_images_whose_pairs_are_published_are_not_decoded(cifar_release, demo, tmp_path, monkeypatch):
    """But for the samples in the card: the table is carried over, so that nothing is compared again."""
    decoded, decode = [], images.decode
    monkeypatch.setattr(images, "decode", lambda data: decoded.append(len(data)) or decode(data))
    out, splits = tmp_path / "built", ["cifar-train/train", "cifar/test", "cifar/near_ood"]
    flags = [f"--splits={','.join(splits)}", "--out", str(out), "--workers", "1", "--quiet"]
    assert main([str(cifar_release), f"--cifar100={demo['cifar100']}", *flags]) == 0
    layout, made = Layout(out), read_manifest(out)
    listed = [pair for pair in read_pairs(Layout(cifar_release).duplicates) if {*pair.splits} <= {*splits}]
    assert read_pairs(layout.duplicates) == listed
    assert any(pair.distance for pair in listed)
    assert len(decoded) <= 8 < min(made.by_key()[key].rows for key in splits)


def test_a_dry_run_looks_for_the_rows_and_writes_nothing(cifar_release, demo, tmp_path, capsys):
    flags = ["--splits=cifar-train", "--out", str(tmp_path / "out"), "--workers", "1", "--quiet", "--dry-run"]
    source = f"--cifar100={demo['cifar100']}"
    assert main([str(cifar_release), *flags, source]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main([str(cifar_release), *flags, source, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (split,) = document["splits"]
    assert [split["split"], f"{split['rows']:,}", split["digest"][:12]] == lines[1].split()
    assert (document["command"], document["rows"], document["release"]) == ("materialize", 160, str(cifar_release))
    assert lines[-1].startswith("dry run: nothing was written")
    assert main([str(cifar_release), *flags, f"--cifar100={demo['svhn']}"]) == 2  # another source's folder
    assert not (tmp_path / "out").exists()


def test_what_is_not_on_the_hub_gets_one_sentence(published, tmp_path, capsys):
    out = ["--out", str(tmp_path / "built")]
    for arguments, sentence in (
        ([REPO, "--splits=cifar-train", *out], "building from the Hub needs a revision"),
        ([REPO, "--splits=cifar-train", "--revision", "v9.9.9", *out], "has no revision v9.9.9 on"),
        ([REPO, "--splits=absent", "--revision", "v1.0.0", *out], "has no config or split absent"),
        ([REPO, "--splits=cifar-train", "--revision", "v1.0.0", *out], "No folder was given for 1 source"),
    ):
        assert main(arguments) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "built").exists()
