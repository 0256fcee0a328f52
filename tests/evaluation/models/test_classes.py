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


def test_names_in_another_case_or_encoding(tmp_path):
    """As macOS writes an accented letter (NFD). A line with the release's own spelling goes before another."""
    path = write(tmp_path / "map.csv", "class,index\nDog,7\ncafe\u0301,3\nCat,1\ncat,0\n")
    assert read_classes(path, ("cat", "dog", "caf\u00e9"), 10) == (0, 7, 3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("class,index\ncat,0\ndog,1\n", "lacks 1 of the release's 3 classes, such as newt. Add them"),
        ("class,index\ncat,0\ndog,1\nnewt,10\n", "Line 4 .* has the index '10', but the model's logits are 0 to 9"),
        ("class,index\ncat,0\ndog,1\nnewt,-1\n", "has the index '-1'"),
        ("class,index\ncat,0\ndog,1\nnewt,\u0663\n", "Line 4"),
        ("class,index\ncat,0\ncat,1\n", r"Line 3 .* repeats a class or an index \(cat, 1\)"),
        ("class,index\ncat,0\ndog,0\n", r"Line 3 .* repeats a class or an index \(dog, 0\)"),
        (
            "index\n0\n",
            "lacks the columns class and index .found in line 1: index.. Write it with the columns class,index",
        ),
        ("class,index\ncat\n", "has the index ''"),
        ("", "lacks the columns class and index"),
        (b"class,index\n\xff,1\n", "Line 2 of .*map.csv is not UTF-8"),
        ('class,index\n"cat,1\n', "Line . of .*map.csv is not CSV"),
    ],
)
def test_a_file_that_is_no_label_map(tmp_path, text, sentence):
    with pytest.raises(EvaluationError, match=sentence):
        read_classes(write(tmp_path / "map.csv", text), NAMES, 10)


def test_a_file_that_is_not_there(tmp_path):
    with stops(EvaluationError):
        read_classes(tmp_path / "map.csv", NAMES, 10)


def test_wnids_are_in_the_order_of_imagenets_classes():
    """Which is that of the sorted wnids for ImageNet-1k (ILSVRC2012); tench is 0, the hammerhead 4, tissue 999."""
    pytest.importorskip("timm", reason="has the lists of wnids")
    assert of_wnids(("n15075141", "n01440764", "n01494475"), 1000) == (999, 0, 4)
    assert of_wnids(("n01440764", "cat"), 1000) is None
    assert of_wnids(("n01440764",), 7) is None
    from timm.data import ImageNetInfo

    names = ImageNetInfo("imagenet-1k").label_names()
    assert np.array_equal(of_wnids(sorted(names), 1000), range(1000))
