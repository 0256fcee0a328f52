import pytest

from builders.sources.base import Stray
from taxonomy import tables
from tests.builders.trees import opened, refusal, tree, write_parquet

NAMES = list(tables.dtd())
BANDED, BLOTCHY = "banded_0002.jpg", "blotchy_0003.jpg"


def test_only_names_of_the_folders_texture_are_images(tmp_path):
    names = (BANDED, BLOTCHY, "banded_002.jpg", "banded_0002.JPG", ".directory")
    (piece,) = opened("dtd", tree(tmp_path, {f"images/banded/{name}": "" for name in names} | {"images/x": ""})).pieces
    assert piece.table["source_id"].to_pylist() == [f"banded/{BANDED}"]
    reason = "not named banded_<4 digits>.jpg"
    assert piece.strays == (
        Stray("images/banded/.directory", reason),
        Stray("images/banded/banded_0002.JPG", reason),
        Stray("images/banded/banded_002.jpg", reason),
        Stray(f"images/banded/{BLOTCHY}", reason),
        Stray("images/x", "not a texture's folder"),
    )


@pytest.mark.parametrize(
    ("row", "names", "words"),
    [
        ((None, 0, b""), NAMES, "image.path has no file name (row 1 of"),
        (
            ("banded_2.jpg", 0, b""),
            NAMES,
            "the file name banded/banded_2.jpg is not like <texture>/<texture>_<4 digits>.jpg (row 1 of",
        ),
        (("train/banded_0002.jpg", 0, b""), NAMES, "the file name train/banded_0002.jpg is not"),
        (("image_0002.jpg", 0, b""), NAMES, "the file name image_0002.jpg is not"),
        (("image_0002.jpg", 0, b""), None, "the file name image_0002.jpg is not"),
    ],
)
def test_mirror_rows(tmp_path, row, names, words):
    write_parquet(tmp_path / "data" / "train-00000-of-00001.parquet", [(BLOTCHY, 1, b""), row], names)
    assert words in refusal("dtd", tmp_path)


def test_a_mirror_may_number_the_textures_otherwise(tmp_path):
    names = NAMES[::-1]
    rows = [(BANDED, names.index("banded"), b""), ("polka-dotted_0001.jpg", names.index("polka-dotted"), b"")]
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", rows, names)
    index = opened("dtd", tmp_path)
    assert index.table["source_id"].to_pylist() == [f"banded/{BANDED}", "polka-dotted/polka-dotted_0001.jpg"]
    assert index.table["class_id"].to_pylist() == ["banded", "polka-dotted"]


def test_an_image_in_two_splits_of_a_mirror(tmp_path):
    for split in ("train", "test"):
        write_parquet(tmp_path / "data" / f"{split}-00000-of-00001.parquet", [(BANDED, 0, b"")], NAMES)
    assert f"has the image banded/{BANDED} twice" in refusal("dtd", tmp_path)
