import pytest

from unknown_detection.words import byte_text, first_few, quantity


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


def test_the_first_few_items_of_a_list():
    assert first_few([]) == ""
    assert first_few(["a", "b", "c"]) == "a, b, c"
    assert first_few("abcdefgh") == "a, b, c and 5 more"
    assert first_few([7, 8], 1) == "7 and 1 more"
    assert first_few(range(2000), 2) == "0, 1 and 1,998 more"
