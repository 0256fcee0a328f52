"""The owners' lists of images and classes: cut, damaged or of another edition, they are refused in a sentence."""

import pytest

from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from tests.builders.trees import refusal, tree
from tests.sentences import assert_sentence

VAL = "ILSVRC2012_val_0000000"
TABLE = f"ImageId,PredictionString\n{VAL}1,n01440764 85 1 499 272 \n{VAL}2,n01443537 1 2 3 4 n01443537 5 6 7 8 \n"


def kaggle(root, table):
    images = {f"val/{VAL}{number}.JPEG": "" for number in (1, 2)}
    return tree(root, images | {"LOC_val_solution.csv": table})


@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["", "byte order mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_kaggles_table_as_any_system_writes_it(tmp_path, start, end):
    index = open_source(SOURCES["imagenet"], kaggle(tmp_path, start + TABLE.replace("\n", end)), ("val",))
    assert index.table["class_id"].to_pylist() == ["n01440764", "n01443537"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (TABLE[: TABLE.rindex("2,n") + 1], f"Line 3 of {{path}} does not give an image such as {VAL}1 and its class"),
        (TABLE[: TABLE.rindex("2,n") + 2], "Line 3 of {path} does not give an image"),
        (TABLE[: TABLE.rindex("2,n") + 5], "Line 3 of {path} does not give an image"),
        (TABLE[: TABLE.rindex(VAL)], f"has 1 lines and none for {VAL}2.JPEG"),
        (TABLE[:10], "{path} lacks the columns ImageId and PredictionString (found in line 1: ImageId, Pr)"),
        ("", "(found in line 1: nothing)"),
        (TABLE + f"{VAL}1,n01443537 1 2 3 4\n", f"Line 4 of {{path}} gives {VAL}1 a second class"),
        (TABLE.replace(f"{VAL}1", "ILSVRC2012_val_" + "9" * 5000), "Line 2 of {path} does not give an image"),
        (TABLE.replace("n01440764", "tench"), "Line 2 of {path} does not give an image"),
        (TABLE.replace("n01440764", '"n01440764'), "is not CSV"),
    ],
)
def test_kaggles_table_cut_or_changed(tmp_path, table, words):
    assert words.format(path=tmp_path / "LOC_val_solution.csv") in refusal("imagenet", kaggle(tmp_path, table), "val")


def test_kaggles_table_damaged(tmp_path):
    """By what makes a file no list of text; tests/builders/storage/test_text_files.py has more of that."""
    kaggle(tmp_path, TABLE.encode() + b"caf\xe9")
    message = refusal("imagenet", tmp_path, "val")
    assert_sentence(message, tmp_path / "LOC_val_solution.csv", "UTF-8")


LISTED = "Places365_val_00000001.jpg 0\n"


def places(root, val):
    return tree(root, {"val_256/Places365_val_00000001.jpg": "", "places365_val.txt": val})


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lists_of_places365_as_windows_writes_them(tmp_path, end):
    places(tmp_path, f"\ufeff{LISTED}".replace("\n", end))
    assert open_source(SOURCES["places365"], tmp_path, ("val",)).table["class_id"].to_pylist() == ["/a/airfield"]


@pytest.mark.parametrize(
    ("val", "words"),
    [
        ("Places365_val_00000002.jpg 0\n", "has no line for Places365_val_00000001.jpg"),
        ("Places365_val_00000001.jpg 365\n", "has labels outside 0 to 364, up to 365"),
        ("Places365_val_00000001.jpg\n", "has lines other than a name and a number"),
        ("Places365_val_00000001.jpg NA\n", "has lines other than a name and a number"),
        (f"Places365_val_00000001.jpg {'9' * 5000}\n", "has lines other than a name and a number"),
        (LISTED + "Places365_val_00000001.jpg 5\n", "lists Places365_val_00000001.jpg more than once"),
        (LISTED.encode() + b"\xff 1\n", "has lines other than a name and a number"),
        (LISTED.encode() + b"x" * 10**7, "has lines other than a name and a number"),
        (b"\0", "has lines other than a name and a number"),
        ("", "has lines other than a name and a number"),
    ],
)
def test_lists_of_places365_damaged(tmp_path, val, words):
    message = refusal("places365", places(tmp_path, val), "val")
    assert words in message
    assert message.isprintable()
    assert len(message) < 1000
