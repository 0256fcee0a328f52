from builders.errors import one_line


def test_text_of_unknown_origin_stays_on_one_line():
    assert one_line("crème brûlée/雷.jpg") == "crème brûlée/雷.jpg"
    assert one_line("a\nb\x1b[31m\0\udce9\u202e") == "a\\nb\\x1b[31m\\x00\\udce9\\u202e"
    assert one_line("a" * 1000, 10) == "aaaaaaaaaa..."
