"""What a release, its page and its export say of folders without class folders, and of their names."""

import pytest

from builders.commands import report
from hf_scripts import export
from tests.conftest import made_once
from tests.manifests import manifest_of
from tests.own_folders.law import build, said
from tests.own_folders.pictures import encoded
from tests.own_folders.trees import put, rng_of


@pytest.fixture(scope="session")
def release(plain, tmp_path_factory):
    """A release with flat folders of unknowns, of which one is called `food`."""

    def make(folder):
        for number, name in enumerate(("food", "textures")):
            put(folder / name, "0.png", encoded(rng_of(7, number), "png"))
        unknown = {name: folder / name for name in ("food", "textures")}
        assert build(plain, unknown, folder / "release").code == 0

    return made_once(tmp_path_factory, "flat-folders", make) / "release"


def test_images_without_class_folders_have_no_class_to_compare(release):
    splits = manifest_of(release)["configs"]["folder"]["splits"]
    sentence = "Its images have no class folders, so no class was compared."
    assert [splits[f"far_ood_{name}"]["compared"] for name in ("food", "textures")] == [[sentence]] * 2
    card = (release / "README.md").read_text(encoding="utf-8")
    assert f"- `folder/far_ood_food`: {sentence}" in card and "are no nouns of WordNet" not in card


def test_titles_keep_the_names_that_were_given(release):
    titles = {key: source["title"] for key, source in manifest_of(release)["sources"].items()}
    assert titles["folder-far-ood-food"] == "Far OoD food of folder"
    assert titles["folder-far-ood-textures"] == "Far OoD textures of folder"


def test_sentences_end_once_where_there_is_no_paper(release, tmp_path):
    assert said(report.main, release, f"--out={tmp_path / 'page.html'}").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<strong>Own images: folder</strong>, version 1.0.0. <span class="muted">Seed 0.' in page
    exported = said(export.main, release, "--format=openood", f"--out={tmp_path / 'out'}", "--splits=folder")
    assert exported.code == 0
    assert "Own images: folder, version 1.0.0\n\n" in (tmp_path / "out/README.txt").read_text(encoding="utf-8")
