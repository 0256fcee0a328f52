"""The picture of a graph: what is drawn, that no two texts meet, and that it says what it leaves out."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")
pytest.importorskip("networkx", reason="needs the extra `evaluate`")

import networkx

from tests.evaluation.report.as_text import svg_texts
from unknown_detection.evaluation.graph.pruning import EDGES, LONGEST, _arranged, draw_graph
from unknown_detection.evaluation.report.plots import save


def graph_of(edges):
    """A graph of weights by the keys of both ends."""
    graph = networkx.DiGraph()
    for key in sorted({key for ends in edges for key in ends}):
        dataset, _, name = key.partition(":")
        graph.add_node(key, label=name, dataset=dataset)
    for (source, target), weight in edges.items():
        graph.add_edge(source, target, weight=weight)
    return graph


def large():
    """Five hundred classes, a few of which attract most, as scene classifiers' predictions of objects do."""
    numbers = np.random.default_rng(0)
    hubs = (numbers.pareto(1.0, size=1500).clip(max=100) * 1.2).astype(int)
    sources, weights = numbers.integers(400, size=1500), numbers.integers(10, 100, size=1500)
    names = [f"{'imagenet' if source % 4 else 'sun397'}:class number {source}" for source in sources.tolist()]
    ends = zip(names, [f"places365:scene_{hub}/outdoor" for hub in hubs.tolist()], strict=True)
    return graph_of(dict(zip(ends, weights.tolist(), strict=True)))


def texts(figure):
    """Texts of a figure, and where they stand in pixels."""
    figure.draw_without_rendering()
    written = [*figure.axes[0].texts, *(text for legend in figure.legends for text in legend.get_texts())]
    return [(text.get_text(), text.get_window_extent()) for text in written]


def words_of(figure):
    return [text for text, _ in texts(figure)]


def crossings(edges, left, right):
    pairs = [(left.index(source), right.index(target)) for source, target in edges]
    return sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in itertools.combinations(pairs, 2))


@pytest.mark.parametrize(
    "edges",
    [
        {("a", "z"): 9, ("b", "z"): 1, ("b", "y"): 9, ("c", "y"): 8, ("c", "x"): 2},
        {("a", "z"): 1, ("b", "y"): 1, ("c", "x"): 1, ("d", "z"): 5, ("e", "y"): 5, ("f", "x"): 5},
    ],
    ids=["a chain", "three pairs of two"],
)
def test_columns_are_in_an_order_without_needless_crossings(edges):
    """Chains and separate stars can be drawn without a crossing."""
    left, right = _arranged([(*ends, {"weight": weight}) for ends, weight in edges.items()])
    assert crossings(edges, left, right) == 0


def short():
    """Names that are shorter than what stands above them."""
    return graph_of({(f"i:{number}", f"p:{number + 3}"): 10**number for number in range(3)})


@pytest.mark.parametrize(("graph", "least"), [(large(), 60), (short(), 11)], ids=["large", "short names"])
def test_no_two_texts_meet_and_none_leaves_the_picture(graph, least):
    figure = draw_graph(graph, title="What images are taken for")
    placed = texts(figure)
    assert len(placed) >= least
    for (text, box), (other, other_box) in itertools.combinations(placed, 2):
        assert not box.overlaps(other_box), (text, other)
    width, height = figure.canvas.get_width_height()
    for text, box in placed:
        assert 0 <= box.x0 < box.x1 <= width, text
        assert 0 <= box.y0 < box.y1 <= height, text


def test_a_picture_says_what_it_draws_and_what_it_leaves_out():
    edges = {("i:ray", "p:aquarium"): 12, ("i:shark", "p:aquarium"): 11}
    edges |= {("i:pug", "p:kennel"): 30, ("i:ox", "p:zoo"): 5}
    words = words_of(draw_graph(graph_of(edges), title="Of three", shown=3))
    assert "Of three" in words
    assert "3 of 4 edges, the heaviest, with 53 of 58 images; the widest has 30" in words
    assert {"pug", "ray", "shark", "kennel", "aquarium", "i", "p"} <= set(words)
    assert not {"ox", "zoo"} & set(words)
    assert {"ox", "zoo"} <= set(words_of(draw_graph(graph_of(edges), title="Of three")))
    every = large()
    assert f"{EDGES} of {every.number_of_edges():,} edges" in " ".join(words_of(draw_graph(every, title="T")))


def test_long_names_lose_their_middle_and_dollars_are_letters():
    long = "a class whose name is longer than any of those that ImageNet has"
    words = words_of(draw_graph(graph_of({(f"d:{long}", "p:$x_1$ and $y^2$"): 3}), title="$T$"))
    (shortened,) = [text for text in words if text.startswith("a class whose")]
    assert len(shortened) == LONGEST
    assert shortened.endswith("ImageNet has")
    assert {"$x_1$ and $y^2$", "$T$"} <= set(words)


def test_each_dataset_has_its_colour_and_those_too_many_are_grey():
    figure = draw_graph(graph_of({(f"set{number}:a", "set0:b"): 1 for number in range(9)}), title="T")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [f"set{number}" for number in range(9)]
    colors = [handle.get_color() for handle in figure.legends[0].legend_handles]
    assert len(set(colors)) == 7
    assert set(colors[6:]) == {"#888888"}


def test_wider_edges_have_more_images():
    figure = draw_graph(graph_of({("a:x", "p:z"): 100, ("a:y", "p:z"): 25}), title="T")
    (edges,) = [lines for lines in figure.axes[0].collections if hasattr(lines, "get_segments")]
    widths = edges.get_linewidths()
    assert widths[0] == pytest.approx(2 * widths[1]), "the square of the width grows with the weight"


def test_a_graph_of_loops_and_edges_both_ways_is_drawn():
    words = words_of(draw_graph(graph_of({("p:a", "p:a"): 3, ("p:a", "p:b"): 2, ("p:b", "p:a"): 1}), title="T"))
    assert (words.count("a"), words.count("b")) == (2, 2)


def test_another_process_draws_the_same_bytes(tmp_path):
    save(draw_graph(large(), title="T", shown=3), tmp_path / "here", "graph")
    code = (
        "import sys; from pathlib import Path; from tests.evaluation.graph.test_picture import large\n"
        "from unknown_detection.evaluation.graph.pruning import draw_graph\n"
        "from unknown_detection.evaluation.report.plots import save\n"
        "save(draw_graph(large(), title='T', shown=3), Path(sys.argv[1]), 'graph')"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, tmp_path / "there"], env=environment, check=True)
    for name in ("graph.png", "graph.svg"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes(), name
    assert "imagenet" in svg_texts(tmp_path / "here" / "graph.svg")
