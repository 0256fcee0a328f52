from pathlib import Path

import pytest

from builders.sources.datasets.imagenet_o import classes
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from taxonomy import tables
from taxonomy.wordnet import nouns
from tests.builders.trees import opened, refusal, tree, write_parquet
from tests.sentences import assert_sentence

FOLDERS = Path(__file__).parents[5] / "shared" / "reference" / "published" / "imagenet_o_200.txt"
TETRA = "n01443537/cardinal_tetra_Paracheirodon_axelrodi_0.99767953.JPEG"


def rows(root):
    table = open_source(SOURCES["imagenet_o"], root, ("images",)).table
    return {row["source_id"]: row for row in table.to_pylist()}


def test_class_prediction_and_confidence_are_in_the_name(tmp_path):
    row = rows(tree(tmp_path, {f"imagenet-o/{TETRA}": ""}))[TETRA]
    # WordNet 3.0 has one synset with these lemmas; the folder is the goldfish's.
    (synset,) = nouns.load_wordnet().senses("Paracheirodon_axelrodi")
    assert row["class_id"] == nouns.load_wordnet().wnid(synset)
    assert classes()[row["class_id"]] == "cardinal tetra, Paracheirodon axelrodi"
    assert (row["source_class"], row["predicted_wnid"]) == ("cardinal_tetra_Paracheirodon_axelrodi", "n01443537")
    assert row["confidence"] == 0.99767953


def test_lemmas_of_several_synsets_are_the_class_themselves(tmp_path):
    names = ("n01704323/tooth_0.9914603.JPEG", "n01704323/no_such_thing_9.9e-1.JPEG", "n01704323/odd_1.0.JPEG")
    row_of = rows(tree(tmp_path, dict.fromkeys(names, "")))
    assert row_of[names[0]]["class_id"] == "tooth"
    assert names[1] not in row_of
    assert row_of[names[2]]["class_id"] == "unknown"
    assert row_of[names[2]]["source_class"] == "odd"


def test_images_of_imagenet_1k_whose_number_is_0_or_1_are_none(tmp_path):
    assert "is not in" in refusal("imagenet_o", tree(tmp_path, {"n01443537/n01443537_1.JPEG": ""}))


def test_no_class_is_one_of_the_thousand_and_every_examined_name_has_one():
    known = {row.wnid for row in tables.imagenet1k()}
    assert not known & set(classes())
    # All 400 names that NINCO's annotations hold are lemmas of the full release's synsets.
    assert list(classes())[-1] == "unknown"


def test_the_demo_has_the_examined_images_and_their_flags(demo):
    table = opened("imagenet_o", demo["imagenet_o"]).table
    assert set(table["source_id"].to_pylist()) == {
        image.source_id for image in tables.examined_images() if image.source == "imagenet_o"
    }
    assert "unknown" not in table["class_id"].to_pylist()
    # SPEC and the NINCO paper's table of cleaning: 78 of the 400 show an ImageNet-1k object.
    assert sum(table["known_object_seen"].to_pylist()) == 78
    assert all(table["examined"].to_pylist())


@pytest.mark.skipif(not FOLDERS.is_file(), reason=f"no {FOLDERS.name} beside this checkout")
def test_the_demo_uses_folders_of_the_real_set(demo):
    table = opened("imagenet_o", demo["imagenet_o"]).table
    assert set(table["predicted_wnid"].to_pylist()) <= set(FOLDERS.read_text(encoding="utf-8").split())


@pytest.mark.parametrize(("names", "label"), [(None, 0), (["goldfish"], 0), (["n01443537"], 1), (["n01443537"], -1)])
def test_a_mirror_without_the_folders_is_refused(tmp_path, names, label):
    write_parquet(tmp_path / "default" / "test" / "0000.parquet", [(TETRA.partition("/")[2], label, b"")], names)
    message = refusal("imagenet_o", tmp_path)
    assert_sentence(message, "<wnid>/<lemmas>_<confidence>.JPEG", "cais/imagenet-o")
