"""What may come from somebody else's file is escaped before it is shown."""

import sys
import unicodedata

import pytest

from unknown_detection.words import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2J\nwhole: all is well", "a\\x1b[2J\\nwhole: all is well"),
        ("\x9b31m\x07\x00", "\\x9b31m\\x07\\x00"),
        ("a\u202eb\u2066\u200f", "a\\u202eb\\u2066\\u200f"),
        ("\ud800", "\\ud800"),
        ("\u2028\u2029\ufeff", "\\u2028\\u2029\\ufeff"),
        ("Grüße, 画像 n°1 \\x1b", "Grüße, 画像 n°1 \\x1b"),
    ],
)
def test_what_a_terminal_obeys_is_escaped(text, shown):
    assert printable(text) == shown


def test_lines_of_a_message_may_stay():
    assert printable("one\ntwo\r\x1b", keep="\n") == "one\ntwo\\r\\x1b"


def test_every_control_and_bidirectional_character_is_escaped():
    """As Unicode's own tables have them."""
    bidirectional = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        obeyed = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        obeyed |= unicodedata.bidirectional(character) in bidirectional
        if obeyed:
            assert printable(character).isascii()
