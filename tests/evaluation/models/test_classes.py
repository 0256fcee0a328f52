"""Label maps: which logits are a release's classes, from a file and by wnids."""

import numpy as np
import pytest

from tests.sentences import stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.models import of_wnids, read_classes

NAMES = ("cat", "dog", "newt")


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_gives_the_logit_of_each_class_in_the_order_of_the_release(tmp_path):
    """Other classes may stand there, in any order and quoted."""
    path = write(tmp_path / "map.csv", '\ufeffclass,index\ndog,7\n"wolf, grey",3\ncat,0\nnewt,9\n')
    assert read_classes(path, NAMES, 10) == (0, 7, 9)


def test_a_dictionary_is_as_good_as_a_file():
    assert read_classes({"dog": 7, "wolf": 3, "Cat": 0, "newt": "9"}, NAMES, 10) == (0, 7, 9)
    for given in ({"cat": 0}, {"cat": 0, "dog": 0, "newt": 1}, {"cat": 0, "dog": 1.5, "newt": 2}, {"cat": True}):
        with stops(EvaluationError, "classes="):
            read_classes(given, NAMES, 10)


def test_names_in_another_case_or_encoding(tmp_path):
    """As macOS writes an accented letter (NFD)."""
    path = write(tmp_path / "map.csv", "class,index\nDog,7\ncafe\u0301,3\nCat,0\n")
    assert read_classes(path, ("cat", "dog", "caf\u00e9"), 10) == (0, 7, 3)


@pytest.mark.parametrize(
    "lines",
    ["cat,0 dog,1", "cat,0 dog,1 newt,10", "cat,0 dog,1 newt,-1", "cat,0 dog,1 newt,\u0663", "cat,0 cat,1",
     "cat,0 dog,0", "cat", b"\xff,1", '"cat,1'],
    ids=["one less", "too large", "negative", "Arabic", "class twice", "logit twice", "no index", "bytes", "quote"],
)  # fmt: skip
def test_a_file_that_is_no_label_map(tmp_path, lines):
    lines = lines if isinstance(lines, bytes) else "\n".join(lines.split()).encode()
    with stops(EvaluationError, "map.csv"):
        read_classes(write(tmp_path / "map.csv", b"class,index\n" + lines + b"\n"), NAMES, 10)


def test_a_file_of_other_columns_or_that_is_not_there(tmp_path):
    for text in ("index\n0\n", ""):
        with stops(EvaluationError, "class", "index"):
            read_classes(write(tmp_path / "map.csv", text), NAMES, 10)
    with stops(EvaluationError):
        read_classes(tmp_path / "nowhere.csv", NAMES, 10)


def test_wnids_are_in_the_order_of_imagenets_classes():
    """Which is that of the sorted wnids for ImageNet-1k (ILSVRC2012); tench is 0, the hammerhead 4, tissue 999."""
    pytest.importorskip("timm", reason="has the lists of wnids")
    assert of_wnids(("n15075141", "n01440764", "n01494475"), 1000) == (999, 0, 4)
    assert of_wnids(("n01440764", "cat"), 1000) is None
    assert of_wnids(("n01440764",), 7) is None
    from timm.data import ImageNetInfo

    names = ImageNetInfo("imagenet-1k").label_names()
    assert np.array_equal(of_wnids(sorted(names), 1000), range(1000))
