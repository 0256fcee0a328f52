import pytest

from builders.sources.base import Stray
from builders.sources.datasets.sun397 import category_of
from taxonomy import tables
from tests.builders.facets_layouts import sun397_archive, sun397_kaggle
from tests.builders.trees import contents, link, opened, refusal, tree, write_tar
from tests.sentences import assert_sentence

NAMES = [row.category for row in tables.sun397()]
ABBEY, BALCONY = "sun_aqswjsnjlrfzzhiz.jpg", "sun_bvkmlcpyxfsbywqz.jpg"
TWO = {f"SUN397/a/abbey/{ABBEY}": b"1", f"SUN397/b/balcony/exterior/{BALCONY}": b"2"}
IDS = [f"a/abbey/{ABBEY}", f"b/balcony/exterior/{BALCONY}"]


@pytest.mark.parametrize(
    ("files", "first"),
    [
        (TWO | {f"SUN397/a/abattoir/{ABBEY}": ""}, "SUN397/a/abattoir"),
        (TWO | {f"SUN397/a/abattoir/indoor/{ABBEY}": ""}, "SUN397/a/abattoir"),
        (TWO | {f"SUN397/b/balcony/roof/{ABBEY}": ""}, "SUN397/b/balcony/roof"),
        # SUN2012's 16,873 images of the same database, beside their annotations and alone.
        (
            {f"Images/a/abbey/{ABBEY}": "", f"Images/a/abattoir/{BALCONY}": "", "Annotations/a.xml": ""},
            "Images/a/abattoir",
        ),
        ({f"a/abbey/{ABBEY}": "", f"a/abattoir/{BALCONY}": ""}, "a/abattoir"),
        ({f"train/abbey/{ABBEY}": "", f"train/abattoir/{BALCONY}": ""}, "train/abattoir"),
    ],
)
def test_categories_of_a_larger_edition(tmp_path, files, first):
    """Such as the SUN database's 908 categories, whose tree is the same."""
    message = refusal("sun397", tree(tmp_path, files))
    assert_sentence(message, "397", first, "SUN")


def test_empty_category_folders(tmp_path):
    (tmp_path / "SUN397" / "a" / "abbey").mkdir(parents=True)
    assert "hold no images named sun_<letters>.jpg. Give a copy" in refusal("sun397", tmp_path)


def test_a_category_has_several_spellings_and_shares_none():
    spellings = ("/b/balcony/exterior", "b_balcony_exterior", "balcony exterior", "balcony-exterior")
    assert {category_of(name) for name in spellings} == {"/b/balcony/exterior"}
    # The airfield is of Places365.
    assert {category_of(name) for name in ("exterior", "a_balcony_exterior", "airfield", "")} == {None}
    assert [category_of(name) for name in NAMES] == NAMES
    assert [category_of(name[3:].replace("/", "_")) for name in NAMES] == NAMES


def test_a_mirror_of_a_part_is_short(demo, tmp_path):
    root = sun397_kaggle(demo["sun397"], tmp_path)
    link(root / "train", tmp_path / "half" / "train")
    index = opened("sun397", tmp_path / "half")
    assert index.layouts == {"images": "category folders in train/train"}
    assert index.table.num_rows == 397 * 2


def test_two_spellings_of_a_category_side_by_side(tmp_path):
    tree(tmp_path, {f"train/a_abbey/{ABBEY}": "", f"train/abbey/{BALCONY}": "", "train/bar": "a file"})
    (partition,) = opened("sun397", tmp_path).partitions
    assert partition.table["file"].to_pylist() == [f"train/a_abbey/{ABBEY}", f"train/abbey/{BALCONY}"]
    assert partition.strays == (Stray("train/bar", "not a category folder"),)


def test_strays_in_an_archive_are_named(demo, tmp_path):
    (partition,) = opened("sun397", sun397_archive(demo["sun397"], tmp_path)).partitions
    assert sorted(stray.path for stray in partition.strays) == [
        "SUN397.tar.gz:SUN397/a/abbey/._sun_aqswjsnjlrfzzhiz.jpg",
        "SUN397.tar.gz:SUN397/b/balcony/exterior/balcón 陽台.jpg",
        "SUN397.tar.gz:SUN397/w/wine_cellar/Thumbs.db",
    ]
    reasons = {stray.reason for stray in partition.strays}
    assert reasons == {"not named sun_<letters>.jpg", "not named SUN397/a/abbey/sun_<letters>.jpg"}


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
@pytest.mark.parametrize("start", ["SUN397/", "./SUN397/", ""])
def test_an_archive_may_be_packed_from_elsewhere(tmp_path, ending, start):
    files = {name.replace("SUN397/", start): content for name, content in TWO.items()} | {"readme": b""}
    write_tar(tmp_path / f"SUN397.{ending}", files)
    index = opened("sun397", tmp_path)
    assert index.table["source_id"].to_pylist() == IDS
    assert index.table["class_id"].to_pylist() == ["/a/abbey", "/b/balcony/exterior"]
    assert list(contents(index).values()) == [b"1", b"2"]
    assert index.partitions[0].strays == (
        Stray(f"SUN397.{ending}:readme", "not named SUN397/a/abbey/sun_<letters>.jpg"),
    )


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"SUN2012/Images/a/abbey/" + ABBEY: b""}, "has no images like SUN397/a/abbey/"),
        ({"readme": b""}, "has no images like SUN397/a/abbey/"),
        (TWO | {f"SUN397/a/abattoir/{ABBEY}": b""}, "has images of 1 categories beside the 397"),
        (TWO | {f"./SUN397/a/abbey/{ABBEY}": b""}, f"has the image a/abbey/{ABBEY} twice"),
    ],
)
def test_an_archive_of_another_dataset(tmp_path, files, words):
    write_tar(tmp_path / "SUN397.tar.gz", files)
    message = refusal("sun397", tmp_path)
    assert words in message
    assert "SUN397.tar.gz" in message
