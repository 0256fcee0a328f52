"""Names are checked against the readers that trip over them: `datasets` itself, and each system's documented rules."""

import io
import re
from urllib.parse import unquote

import datasets.data_files as data_files
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from builders.errors import BuildError
from hf_scripts.exports.names import class_folder, extension, file_stem
from taxonomy import tables
from tests.sentences import stops

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SPLIT_WORDS = sorted({word for words in data_files.SPLIT_KEYWORDS.values() for word in words})


@pytest.mark.parametrize(
    ("class_id", "folder"),
    [
        # By hand, from RFC 3986 and the UTF-8 of the characters.
        ("n01443537", "n01443537"),
        ("133.lightning", "133.lightning"),
        ("apple_pie", "apple_pie"),
        ("/a/airfield", "%2Fa%2Fairfield"),
        ("crème brûlée", "cr%C3%A8me%20br%C3%BBl%C3%A9e"),
        ("雷", "%E9%9B%B7"),
        ('a<b>c:d"e\\f|g?h*i', "a%3Cb%3Ec%3Ad%22e%5Cf%7Cg%3Fh%2Ai"),
        ("50%", "50%25"),
        ("..", "%2E%2E"),
        (".hidden", "%2Ehidden"),
        ("-rf", "%2Drf"),
        ("__pycache__", "%5F_pycache__"),
        ("end.", "end%2E"),
        ("CON", "CO%4E"),
        ("nul.txt", "nu%6C.txt"),
        ("Lpt9", "Lpt%39"),
        ("console", "console"),
        ("train", "trai%6E"),
        ("val.test", "va%6C.tes%74"),
        ("training", "trainin%67"),
        ("trains", "trains"),
        ("tab\there\n", "tab%09here%0A"),
        ("", "_"),
        ("_", "%5F"),
    ],
)
def test_a_class_becomes_a_folder(class_id, folder):
    assert class_folder(class_id) == folder


@given(TEXT)
def test_a_folder_is_safe_everywhere_and_gives_the_class_back(class_id):
    folder = class_folder(class_id)
    assert re.fullmatch(r"[A-Za-z0-9%_][A-Za-z0-9._~%+-]*", folder)
    assert not folder.endswith(".")
    assert len(folder) <= 100
    assert ("+" in folder) or unquote(folder) == class_id or (class_id, folder) == ("", "_")


def test_long_names_are_cut_and_stay_different():
    long = ["雷" * 300, "雷" * 300 + "x", "a" * 101, "a" * 102]
    folders = [class_folder(class_id) for class_id in long]
    assert [len(folder) for folder in folders] == [100] * 4
    assert len(set(folders)) == 4
    assert class_folder("a" * 100) == "a" * 100


@pytest.mark.parametrize("word", SPLIT_WORDS)
def test_datasets_takes_no_name_for_a_split(word, tmp_path):
    # get_data_patterns guesses the splits of a folder; where no name speaks of one, all files are `train`.
    everything = {"train": ["**"]}
    classes = [word, f"{word}_station", f"bullet {word}", f"2{word}1", f"a-{word}.b_{word}", f"/x/{word}"]
    names = [f"{word}.jpg", f"ILSVRC2012_{word}_00000001.JPEG", f"x {word}.png", f"{word}-{word}"]
    for class_id in classes:
        (tmp_path / "safe" / class_folder(class_id)).mkdir(parents=True)
        for name in names:
            (tmp_path / "safe" / class_folder(class_id) / f"{file_stem(name, class_id)}.jpg").touch()
    assert data_files.get_data_patterns(str(tmp_path / "safe")) == everything
    (tmp_path / "plain" / f"{word}_station").mkdir(parents=True)
    (tmp_path / "plain" / f"{word}_station" / "1.jpg").touch()
    assert data_files.get_data_patterns(str(tmp_path / "plain")) != everything


@pytest.mark.parametrize(
    "names",
    [
        [row.wnid for row in tables.imagenet1k()],
        [row.fine for row in tables.cifar100()],
        list(tables.food101()),
        [row.folder for row in tables.caltech256()],
        [row.category for row in tables.places365()],
    ],
)
def test_sorted_folders_are_in_the_order_of_sorted_classes(names):
    # torchvision's ImageFolder numbers sorted folders; labels count sorted class ids.
    ordered = sorted(names)
    assert sorted(map(class_folder, ordered)) == list(map(class_folder, ordered))
    assert len({class_folder(name).casefold() for name in names}) == len(names)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ILSVRC2012_val_00000293.JPEG", "ILSVRC2012_VAL_00000293-"),
        ("133_0001.jpg", "133_0001-"),
        ("relámpago 雷.jpg", "rel_mpago-"),
        ("-x y.tar.gz", "x_y_tar-"),
        (".jpg", "jpg-"),
        ("雷.png", ""),
        ("", ""),
        ("x" * 300 + ".jpg", "x" * 60 + "-"),
    ],
)
def test_a_file_shows_what_is_plain_in_its_name(name, shown):
    stem = file_stem(name, "source/" + name)
    assert re.fullmatch(re.escape(shown) + "[0-9a-f]{12}", stem)


@given(TEXT, TEXT, TEXT)
def test_files_of_one_name_are_told_apart_by_their_rows(name, first, second):
    stems = [file_stem(name, row_id) for row_id in (first, second)]
    assert (stems[0] == stems[1]) is (first == second)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", stem) for stem in stems)


KINDS = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp", "GIF": "gif", "BMP": "bmp", "TIFF": "tif", "PPM": "ppm"}


@pytest.mark.parametrize(("form", "kind"), KINDS.items())
def test_an_extension_is_that_of_the_bytes(form, kind):
    buffer = io.BytesIO()
    Image.new("RGB", (9, 7)).save(buffer, form)
    assert extension(buffer.getvalue()[:12], "here") == kind


def test_netpbm_numbers_its_formats():
    """Plain and raw bitmaps, grey maps and pixel maps (netpbm's manual: pbm, pgm and ppm)."""
    numbered = [extension(f"P{number}\n9 7\n".encode(), "here") for number in range(1, 7)]
    assert numbered == ["pbm", "pgm", "ppm", "pbm", "pgm", "ppm"]


@pytest.mark.parametrize(
    ("data", "shown"), [(b"", "missing"), (b"RIFF0000WAVE", "524946463030303057415645"), (b"\xff", "ff")]
)
def test_bytes_of_no_image_are_refused(data, shown):
    with stops(BuildError, "JPEG", shown):
        extension(data, "here")
