import pytest

from unknown_detection.words import byte_text, quantity


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1 kB"),
        (4_567, "4.57 kB"),
        (5_687_054, "5.69 MB"),
        (999_600, "1 MB"),
        (123_456_789_012, "123 GB"),
        (2_500_000_000_000_000, "2,500 TB"),
    ],
)
def test_bytes_are_shown_with_three_digits(size, text):
    assert byte_text(size) == text


def test_one_is_singular_and_all_else_plural():
    assert [quantity(number, "image") for number in (0, 1, 2, 4041)] == [
        "0 images",
        "1 image",
        "2 images",
        "4,041 images",
    ]
