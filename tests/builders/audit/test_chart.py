"""Tables as pictures: their cells' colours, and texts that fit."""

import numpy as np
from PIL import Image

from builders.audit.chart import HeatCell, colour, heat_table


def test_colours_go_from_white_to_red_and_are_clipped():
    assert colour(0) == colour(-1) == (255, 255, 255)
    assert colour(1) == colour(7)
    red, green, blue = colour(0.5)
    assert red > green and red > blue and colour(1)[1] < green < 255


def has(picture, colour_value):
    return bool((np.asarray(picture) == colour_value).all(axis=2).any())


def test_a_cell_has_its_colour_and_a_marked_one_a_frame():
    plain = heat_table("title", ["a"], [("row", [HeatCell("1", 0.7)])], "note")
    marked = heat_table("title", ["a"], [("row", [HeatCell("1", 0.7, marked=True)])], "note")
    assert has(plain, colour(0.7)) and not has(plain, (120, 0, 0))
    assert has(marked, colour(0.7)) and has(marked, (120, 0, 0))
    assert not has(heat_table("title", ["a"], [("row", [HeatCell("1")])], "note"), colour(0.7))


def test_the_picture_grows_with_its_texts_and_rows():
    small = heat_table("t", ["a"], [("row", [HeatCell("1")])], "n")
    assert heat_table("t", ["a"], [("a much longer name", [HeatCell("1")])], "n").width > small.width
    assert heat_table("t", ["a"], [("row", [HeatCell("1")])], "a note much longer than the table").width > small.width
    assert heat_table("t", ["a"], [("row", [HeatCell("1")])] * 4, "n").height > small.height
    assert isinstance(heat_table("t", ["a"], [], "n"), Image.Image)
