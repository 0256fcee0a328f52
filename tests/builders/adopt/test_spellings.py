"""Names of classes in copies, lists and mirrors, in other cases and encodings (NFD and full width of UAX #15)."""

import pytest

from builders.adopt.folders import ClassNames
from builders.sources.image_folder import ALL, FolderImages, image_folder
from builders.sources.readers.folders import by_spelling

NAMES = ("caf\u00e9", "sea_lion")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cafe\u0301", NAMES[0]),
        ("\uff23af\u00e9", NAMES[0]),
        ("\uff33EA \uff2cion", NAMES[1]),
        ("cafe", None),  # without its accent, which is another name
    ],
)
def test_classes_in_other_encodings(text, name):
    images = FolderImages(None, {ALL: tuple((f"{of}/0.png", of) for of in NAMES)}, {ALL: ()}, frozenset())
    assert ClassNames(image_folder("own", "Own images", images)).of_folder(text) == name
    assert by_spelling({of: of for of in NAMES})(text) == name
