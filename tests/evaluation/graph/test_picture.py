"""The picture of a graph: what is drawn, that no two texts meet, and that it says what it leaves out."""

import itertools
import os
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")
pytest.importorskip("networkx", reason="needs the extra `evaluate`")

from evaluation.graph.classes import make_class
from evaluation.graph.clusters import CLASSES_A_SIDE, _arranged, _legible, clusters
from evaluation.graph.picture import LONGEST, draw_graph
from evaluation.graph.transition_graph import Graph
from evaluation.reports.plots import save


def made(edges):
    """A graph of weights by the keys of both ends."""
    ordered = sorted(edges.items(), key=lambda edge: (-edge[1], edge[0]))
    keys = sorted({key for ends in edges for key in ends})
    return Graph(
        classes=tuple(make_class(*key.split(":", 1)) for key in keys),
        nodes=np.arange(len(keys)),
        source=np.array([keys.index(source) for (source, _), _ in ordered]),
        target=np.array([keys.index(target) for (_, target), _ in ordered]),
        weight=np.array([weight for _, weight in ordered]),
        score=np.zeros(len(ordered)),
    )


def star(target, sources, weight=10):
    return {(f"imagenet:{name}", f"places365:{target}"): weight for name in sources}


def large():
    """Five hundred classes, a few of which attract most, as scene classifiers' predictions of objects do."""
    numbers = np.random.default_rng(0)
    hubs = (numbers.pareto(1.0, size=1500).clip(max=100) * 1.2).astype(int)
    sources, weights = numbers.integers(400, size=1500), numbers.integers(10, 100, size=1500)
    return made(
        {
            (
                f"{'imagenet' if source % 4 else 'sun397'}:class number {source}",
                f"places365:scene_{hub}/outdoor",
            ): weight
            for source, hub, weight in zip(sources.tolist(), hubs.tolist(), weights.tolist(), strict=True)
        }
    )


def names(graph, numbers):
    return [graph.classes[number].key for number in numbers]


def texts(figure):
    """Texts of a figure that have letters, and where they stand in pixels."""
    figure.draw_without_rendering()
    written = [*figure.axes[0].texts, *(text for legend in figure.legends for text in legend.get_texts())]
    return [(text.get_text(), text.get_window_extent()) for text in written if text.get_text()]


def said(figure):
    return [text for text, _ in texts(figure)]


def test_clusters_are_what_hangs_together_the_heaviest_first():
    small = star("kennel", ["beagle", "pug"], 12)
    graph = made(star("aquarium", ["ray", "shark", "eel"]) | small | {("sun397:ray pool", "places365:aquarium"): 11})
    first, second = clusters(graph)
    assert (first.classes, first.all_edges, first.weight) == (5, 4, 41)
    assert (second.classes, second.all_edges, second.weight) == (3, 2, 24)
    assert names(graph, first.right) == ["places365:aquarium"]
    assert names(graph, first.left)[0] == "sun397:ray pool", "the heaviest on top"
    assert sorted(names(graph, second.left)) == ["imagenet:beagle", "imagenet:pug"]
    assert graph.weight[first.edges].tolist() == [11, 10, 10, 10]


def crossings(edges, left, right):
    pairs = [(left.index(source), right.index(target)) for source, target in edges]
    return sum((one[0] - other[0]) * (one[1] - other[1]) < 0 for one, other in itertools.combinations(pairs, 2))


@pytest.mark.parametrize(
    "edges",
    [
        {(0, 9): 9, (1, 9): 1, (1, 8): 9, (2, 8): 8, (2, 7): 2},
        {(0, 9): 1, (1, 8): 1, (2, 7): 1, (3, 9): 5, (4, 8): 5, (5, 7): 5},
        {(number, 20 + (number * 7 + step) % 10): 1 for number in range(10) for step in (0, 7)} | {(0, 20): 9},
    ],
    ids=["a chain", "three pairs of two", "a ring"],
)
def test_columns_are_in_an_order_without_needless_crossings(edges):
    """Chains and separate stars can be drawn without a crossing; a ring of n and n cannot with less than n - 1."""
    ends = np.array(list(edges))
    left, right = _arranged(ends[:, 0], ends[:, 1], np.array(list(edges.values())))
    assert crossings(edges, left, right) <= (9 if len(edges) == 20 else 0)


def test_a_star_of_many_classes_fills_its_column_with_the_heaviest():
    edges = {(f"imagenet:{number:02d}", "places365:kennel"): 100 - number for number in range(40)}
    graph = made(edges)
    (found,) = clusters(graph)
    assert (found.classes, found.all_edges) == (41, 40)
    assert sorted(names(graph, found.left)) == [f"imagenet:{number:02d}" for number in range(CLASSES_A_SIDE)]


def test_a_class_that_attracts_many_leaves_room_for_its_neighbours():
    """Twenty classes go to one target heavily; five of them go to another as well, which has more of its own.

    By hand: each target brings five classes, which makes ten; the heaviest edges bring the four that still fit.
    """
    edges = {(f"i:a{number:02d}", "p:kennel"): 90 for number in range(20)}
    edges |= {(f"i:a{number:02d}", "p:pet_shop"): 60 for number in range(5)}
    edges |= {(f"i:b{number:02d}", "p:pet_shop"): 50 for number in range(10)}
    graph = made(edges)
    drawn = _legible(graph, np.arange(len(edges)))
    expected = [f"i:a{number:02d}" for number in range(9)] + [f"i:b{number:02d}" for number in range(5)]
    assert sorted(names(graph, np.unique(graph.source[drawn]))) == expected
    assert len(drawn) == 9 + 5 + 5


def short():
    """Three clusters with names that are shorter than what stands above them."""
    return made({(f"i:{number}", f"p:{number + 3}"): 10**number for number in range(3)})


@pytest.mark.parametrize(("graph", "least"), [(large(), 200), (short(), 20)], ids=["large", "short names"])
def test_no_two_texts_meet_and_none_leaves_the_picture(graph, least):
    figure = draw_graph(graph, title="What images are taken for")
    found = texts(figure)
    assert len(found) >= least
    for (one, box), (other, another) in itertools.combinations(found, 2):
        assert not box.overlaps(another), (one, other)
    width, height = figure.canvas.get_width_height()
    for text, box in found:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text


def test_a_picture_says_what_it_draws_and_what_it_leaves_out():
    graph = made(star("aquarium", ["ray", "shark"]) | star("kennel", ["pug"], 30) | star("zoo", ["ox"], 5))
    words = said(draw_graph(graph, title="Of three", shown=2))
    assert "Of three" in words
    note = " ".join(next(text for text in words if text.startswith("Drawn: ")).split())
    assert (
        "2 of 3 clusters, with 5 of 7 classes, 3 of 4 edges and 50 of 55 images. Left out: lighter clusters." in note
    )
    assert {"pug", "ray", "shark", "kennel (30)", "aquarium (20)", "imagenet", "places365", "30 images"} <= set(words)
    assert "1   2 classes, 30 images, 1 edge" in words
    assert not {"ox", "zoo (5)"} & set(words)
    words = said(draw_graph(graph, title="Of three"))
    assert "Left out" not in " ".join(words)
    assert {"ox", "zoo (5)"} <= set(words)


def test_long_names_lose_their_middle_and_dollars_are_letters():
    long = "a class whose name is longer than any that ImageNet has"
    words = said(draw_graph(made({(f"d:{long}", "p:$x_1$ and $y^2$"): 3}), title="T"))
    (short,) = [text for text in words if text.startswith("a class whose")]
    assert len(short) == LONGEST
    assert short.endswith("ImageNet has")
    assert "$x_1$ and $y^2$ (3)" in words


def test_each_dataset_has_its_colour_and_those_too_many_share_one():
    figure = draw_graph(made({(f"set{number}:a", "set0:b"): 1 for number in range(9)}), title="T")
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [*(f"set{number}" for number in range(6)), "3 other datasets"]
    colors = [handle.get_color() for handle in figure.legends[0].legend_handles]
    assert len(set(colors)) == 7


def test_wider_edges_have_more_images():
    from matplotlib.patches import PathPatch

    figure = draw_graph(made({("a:x", "p:z"): 100, ("a:y", "p:z"): 25}), title="T")
    widths = [patch.get_linewidth() for patch in figure.axes[0].patches if isinstance(patch, PathPatch)]
    assert widths[0] == pytest.approx(2 * widths[1]), "the square of the width grows with the weight"


def test_a_graph_of_loops_and_edges_both_ways_is_drawn():
    words = said(draw_graph(made({("p:a", "p:a"): 3, ("p:a", "p:b"): 2, ("p:b", "p:a"): 1}), title="T"))
    assert {"a", "b", "a (4)", "b (2)"} <= set(words)


def test_another_process_draws_the_same_bytes(tmp_path):
    save(draw_graph(large(), title="T", shown=3), tmp_path / "here", "graph")
    code = (
        "import sys; from pathlib import Path; from tests.evaluation.graph.test_picture import large\n"
        "from evaluation.graph.picture import draw_graph; from evaluation.reports.plots import save\n"
        "save(draw_graph(large(), title='T', shown=3), Path(sys.argv[1]), 'graph')"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, tmp_path / "there"], env=environment, check=True)
    for name in ("graph.png", "graph.svg"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes(), name
    svg = (tmp_path / "here" / "graph.svg").read_text(encoding="utf-8")
    assert "imagenet" in re.findall(r"<text[^>]*>([^<]+)</text>", svg)
