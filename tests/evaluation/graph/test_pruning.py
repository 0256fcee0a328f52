"""The transition graph and its pruning: eighteen images counted by hand, and a plain loop over many."""

import csv
import random

import numpy as np
import pytest

pytest.importorskip("networkx", reason="needs the extra `evaluate`")

import networkx

from tests.evaluation.refusals import refusal
from unknown_detection.evaluation.graph.pruning import STEPS, heaviest, prune, write_edges, write_graphml
from unknown_detection.evaluation.graph.transitions import ClassifiedImage, Transitions, make_class

# Own class, predicted class, whether in-distribution, and the scores of these images.
IMAGES = (
    ("places365:fountain", "places365:fountain", True, (0.1, 0.1, 0.1)),
    ("places365:fountain", "places365:tower", True, (0.1, 0.9)),
    ("sun397:fountain", "places365:fountain", True, (0.2, 0.9)),
    ("sun397:water tower", "places365:water_tower", False, (0.1, 0.2, 0.3, 0.4)),
    ("imagenet:beagle", "places365:pet_shop", False, (0.5, 0.6, 0.7)),
    ("imagenet:beagle", "places365:kennel", False, (0.5,)),
    ("imagenet:bed", "places365:bedroom", True, (0.1, 0.2, 0.95)),
)


def transitions(lines=IMAGES, roles=True):
    images = [
        ClassifiedImage(*(make_class(*key.split(":")) for key in keys), score, known if roles else None)
        for *keys, known, scores in lines
        for score in scores
    ]
    return Transitions(images, "msp")


def edges(graph):
    """Weights and mean scores by the keys of both ends, in the graph's order of weights."""
    weights = heaviest(graph)
    return {(own, taken): (edge["weight"], pytest.approx(edge["mean_score"])) for own, taken, edge in weights}


def counts(stages):
    return {stage.step: (stage.nodes, stage.edges, stage.images) for stage in stages}


def test_every_step_takes_what_the_paper_takes_and_is_counted():
    # Of the 10 in-distribution images the detector accepts 7: five score 0.1, two 0.2. Four of them are left by then.
    graph, stages = prune(transitions(), min_weight=2, accepted=0.7)
    assert counts(stages) == {
        "": (10, 7, 18),
        "self-loops": (10, 6, 15),
        "evident-id": (10, 6, 11),
        "same-names": (10, 5, 10),
        "same-dataset": (10, 4, 9),
        "light-edges": (10, 2, 7),
        "isolated": (4, 2, 7),
    }
    assert list(edges(graph).items()) == [
        (("sun397:water tower", "places365:water_tower"), (4, 0.25)),
        (("imagenet:beagle", "places365:pet_shop"), (3, 0.6)),
    ]
    assert list(graph) == ["imagenet:beagle", "places365:pet_shop", "places365:water_tower", "sun397:water tower"]
    assert not any(stage.skipped for stage in stages)


def test_a_step_that_is_kept_takes_nothing():
    for step in STEPS:
        _, stages = prune(transitions(), min_weight=2, accepted=0.7, keep=[step])
        place = list(STEPS).index(step)
        assert [stage.step for stage in stages if stage.skipped] == [step]
        assert stages[place + 1].images == stages[place].images
        assert (stages[place + 1].nodes, stages[place + 1].edges) == (stages[place].nodes, stages[place].edges)


def test_without_roles_nobody_is_evidently_in_distribution():
    _, stages = prune(transitions(roles=False), min_weight=1)
    assert {stage.step: stage.skipped for stage in stages if stage.skipped} == {"evident-id": "roles are unknown"}
    assert counts(stages)["evident-id"] == counts(stages)["self-loops"]


@pytest.mark.parametrize(("accepted", "evident"), [(0.95, 95), (0.07, 7), (0.071, 8), (1, 100)])
def test_the_share_that_is_accepted_is_exact(accepted, evident):
    """0.07 * 100 is 7.000000000000001 in floats, which rounded up would accept 8."""
    lines = [
        ("imagenet:a", "places365:b", True, [number / 100 for number in range(100)]),
        ("imagenet:c", "places365:b", False, [0.0]),
    ]
    _, stages = prune(transitions(lines), min_weight=1, accepted=accepted)
    assert counts(stages)["evident-id"][2] == 101 - evident


def test_images_that_tie_with_the_last_accepted_are_accepted_too():
    lines = [("imagenet:a", "places365:b", True, [1, 2, 2, 2, 3])]
    _, stages = prune(transitions(lines), min_weight=1, accepted=0.4)
    assert counts(stages)["evident-id"][2] == 1


def test_names_are_the_same_only_letter_by_letter():
    lines = [
        ("sun397:" + own, "places365:" + predicted, False, [0])
        for own, predicted in [("a b", "a_b"), ("a b", "b a"), ("A b", "a b"), ("a b", "a b")]
    ]
    _, stages = prune(transitions(lines), min_weight=1)
    assert counts(stages)["same-names"][2] == 3


@pytest.mark.parametrize("write", [write_edges, write_graphml])
def test_the_order_of_images_makes_no_difference(tmp_path, write):
    """The sums of these scores depend on the order that they are added in."""
    images = transitions().images
    scores = (np.random.default_rng(0).normal(size=len(images)) * 1e3).tolist()
    images = [image._replace(score=score) for image, score in zip(images, scores, strict=True)]
    for name, ordered in (("one", images), ("two", random.Random(0).sample(images, len(images)))):
        graph, _ = prune(Transitions(ordered, "msp"), min_weight=1, keep=["same-names", "same-dataset"])
        write(graph, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def of_graph(lines, **options):
    return refusal(prune, transitions(lines), **options)


def test_the_step_that_leaves_nothing_is_named():
    assert "The step self-loops leaves no edge: it removes the last 1 " in of_graph(IMAGES[:1])
    assert "The step evident-id leaves no edge: it removes the last 1 " in of_graph(IMAGES[6:], accepted=1)
    assert "The step same-dataset leaves no edge: it removes the last 1 " in of_graph(IMAGES[:2], accepted=0.1)
    assert "The step same-names leaves no edge: it removes the last 1 " in of_graph(IMAGES[2:3], accepted=0.1)
    # 95 % of 10 images is all of them, so that the three edges of unknown images are left.
    message = of_graph(IMAGES)
    assert "The step light-edges leaves no edge: it removes the last 3 " in message
    assert "at most 4 images each, but the minimum is 10. Lower --min-weight." in message
    assert "'self-loop' is not a pruning step; the closest names are self-loops" in of_graph(
        IMAGES, keep=["self-loop"]
    )


def test_edges_are_a_table_with_the_heaviest_first(tmp_path):
    graph, _ = prune(transitions(), min_weight=2, accepted=0.7)
    write_edges(graph, tmp_path / "edges.csv")
    with (tmp_path / "edges.csv").open(encoding="utf-8", newline="") as opened:
        lines = list(csv.DictReader(opened))
    assert [float(line.pop("mean_score")) for line in lines] == pytest.approx([0.25, 0.6])
    names = ["source", "target", "weight", "source_dataset", "source_name", "target_dataset", "target_name"]
    assert [list(line) for line in lines] == [names, names]
    assert [list(line.values()) for line in lines] == [
        ["sun397:water tower", "places365:water_tower", "4", "sun397", "water tower", "places365", "water_tower"],
        ["imagenet:beagle", "places365:pet_shop", "3", "imagenet", "beagle", "places365", "pet_shop"],
    ]


def test_graphml_is_read_back_by_networkx(tmp_path):
    graph, _ = prune(transitions(), min_weight=2, accepted=0.7)
    graph.nodes["imagenet:beagle"]["label"] = 'Beagle <"&"> ü'
    graph.graph["detector"] = "msp"
    write_graphml(graph, tmp_path / "g.graphml")
    read = networkx.read_graphml(tmp_path / "g.graphml")
    assert read.is_directed()
    assert read.graph["detector"] == "msp"
    assert sorted(read) == list(graph)
    assert read.nodes["imagenet:beagle"] == {"label": 'Beagle <"&"> ü', "dataset": "imagenet"}
    data = {ends: (read.edges[ends]["weight"], read.edges[ends]["mean_score"]) for ends in read.edges}
    assert data == edges(graph)
