from importlib import resources

import numpy as np

from taxonomy.compile_wordnet import main
from taxonomy.wordnet.nouns import DATA_FILE
from tests.sentences import assert_sentence


def test_the_packaged_arrays_are_what_wordnet_compiles_to(wordnet_folder, tmp_path):
    out = tmp_path / "nouns.npz"
    assert main(["--wordnet", str(wordnet_folder), "--out", str(out)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["nouns.npz"]
    with (
        np.load(out) as compiled,
        resources.as_file(resources.files("taxonomy") / "data" / DATA_FILE) as path,
        np.load(path) as packaged,
    ):
        assert set(compiled) == set(packaged)
        for name in compiled:
            assert compiled[name].dtype == packaged[name].dtype
            assert np.array_equal(compiled[name], packaged[name])


def test_another_version_is_refused_in_one_sentence(tmp_path, capsys):
    (tmp_path / "data.noun").write_text("00001740 03 n 01 entity 0 000 | of version 3.1\n")
    out = tmp_path / "nouns.npz"
    assert main(["--wordnet", str(tmp_path), "--out", str(out)]) == 2
    message = capsys.readouterr().err
    assert_sentence(message, "3.0", "SHA-256", "fea17d2f", str(tmp_path / "data.noun"))
    assert message.count("\n") == 1
    assert not out.exists()


def test_a_folder_without_wordnet_is_refused(tmp_path, capsys):
    assert main(["--wordnet", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert_sentence(message, tmp_path / "data.noun")


def test_the_licence_of_wordnet_travels_along():
    notice = (resources.files("taxonomy") / "data" / "WORDNET-LICENSE.txt").read_text(encoding="utf-8")
    assert "WordNet 3.0 Copyright 2006 by Princeton University.  All rights reserved." in notice
    assert "appear on ALL copies" in notice
