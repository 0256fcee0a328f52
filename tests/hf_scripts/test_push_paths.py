"""Manifests whose names and paths lead elsewhere: nothing is written outside, even by a dry run without a token."""

import json
from pathlib import Path

import pytest

from hf_scripts import card, export, materialize, verify
from tests.hf_scripts.samples import REPO
from tests.sentences import assert_sentence

VICTIM = "/victim-of-a-name"
"""A path at the root, which no test creates."""

ENTRY = {"bytes": 1, "sha256": "0" * 64}


def renamed(mapping, old, new):
    return {new if key == old else key: value for key, value in mapping.items()}


def rename_config(manifest, name):
    manifest["configs"] = renamed(manifest["configs"], "bench", name)


def rename_split(manifest, name):
    config = manifest["configs"]["bench"]
    config["splits"] = renamed(config["splits"], "test", name)


EDITS = {
    "config": rename_config,
    "split": rename_split,
    "index": lambda m, path: m["configs"]["bench"]["splits"]["test"]["index"].update(path=path),
    "data": lambda m, path: m["configs"]["bench"]["splits"]["test"]["data"][0].update(path=path),
    "excluded": lambda m, path: m["configs"]["bench"]["excluded"].update(path=path),
    "duplicates": lambda m, path: m.update(duplicates={**ENTRY, "path": path, "rows": 0, "compared": []}),
    "card": lambda m, path: m["card"].update(path=path),
    "changelog": lambda m, path: m.update(version="1.0.0", previous="", changelog=[{**ENTRY, "path": path}]),
}


def tree(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if "home" not in path.parts)


@pytest.fixture
def edited(release):
    """Edits the manifest of the release, as anybody can."""
    path = release / "manifest.json"
    text = path.read_text(encoding="utf-8")
    path.unlink()

    def edit(change, value):
        manifest = json.loads(text)
        change(manifest, value)
        path.write_text(json.dumps(manifest), encoding="utf-8")

    return edit


@pytest.mark.parametrize("change", EDITS)
def test_names_and_paths_that_lead_elsewhere(push, hub, release, edited, tmp_path, monkeypatch, capsys, change):
    monkeypatch.delenv("HF_TOKEN")
    hub.create(REPO)
    out = ["--out", str(tmp_path / "out")]
    for value in (VICTIM, "../victim", "data/../../victim", "data\\..\\..\\victim"):
        edited(EDITS[change], value)
        before = tree(tmp_path)
        assert "manifest.json" in push("release", "--dry-run").error
        for run in (
            lambda: card.main([str(release)]),
            lambda: export.main([str(release), "--format", "openood", *out]),
            lambda: materialize.main([str(release), "--splits=bench", *out]),
        ):
            assert run() == 2
        assert verify.main([str(release), "--workers", "1"]) == 1
        capsys.readouterr()
        assert tree(tmp_path) == before and not Path(VICTIM).exists()
    assert (hub.files(REPO), hub.uploads()) == ({}, {})


def test_a_published_manifest_that_leads_elsewhere(push, hub, release, tmp_path):
    """What lies on the Hub was written by somebody else, too."""
    push("release")
    manifest = json.loads(hub.read(REPO, "manifest.json"))
    rename_config(manifest, "../../../victim")
    hub.commit(REPO, {"manifest.json": json.dumps(manifest).encode()})
    before = tree(tmp_path)
    for flags in ([], ["--dry-run"]):
        assert "the manifest.json of org/name at" in push("release", *flags, tag="v1.1.0").error
    assert tree(tmp_path) == before


def test_folders_of_an_export_that_are_links_to_others(release, tmp_path, capsys):
    (tmp_path / "victim").mkdir()
    command = [str(release), "--format", "openood", "--out", str(tmp_path / "out"), "--splits"]
    assert export.main([*command, "bench/test"]) == 0
    (tmp_path / "out/images/bench/near_ood").symlink_to(tmp_path / "victim")
    assert export.main([*command, "bench/near_ood"]) == 2
    assert_sentence(capsys.readouterr().err, tmp_path / "out")
    (tmp_path / "new").mkdir()
    (tmp_path / "new/.export").symlink_to(tmp_path / "victim")
    assert export.main([str(release), "--format", "openood", "--out", str(tmp_path / "new")]) == 2
    assert_sentence(capsys.readouterr().err, tmp_path / "new")
    assert list((tmp_path / "victim").iterdir()) == []
