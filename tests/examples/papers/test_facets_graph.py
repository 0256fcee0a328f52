"""FACETS's transition graph: images counted by hand, and the classes that a release's rows and labels name."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason="draws the graph")
networkx = pytest.importorskip("networkx", reason="writes the graph")

import unknown_detection as ud  # noqa: E402
from tests.examples.papers.facets_release import CONFIG, ROWS, make_facets  # noqa: E402
from tests.examples.papers.scripts import run, script  # noqa: E402

# True class, predicted class, whether in-distribution, and the scores of these images.
IMAGES = (
    ("places365:fountain", "places365:fountain", True, (0.1,) * 14),
    ("places365:fountain", "places365:tower", True, (0.1, 0.9)),
    ("sun397:fountain", "places365:fountain", True, (0.2, 0.95)),
    ("imagenet:beagle", "places365:pet_shop", False, (0.5,) * 12),
    ("imagenet:beagle", "places365:kennel", False, (0.5,)),
    ("imagenet:bed", "places365:bedroom", True, (0.1, 0.2)),
)


def images_of(lines=IMAGES):
    ends = [(true, predicted, known, score) for true, predicted, known, scores in lines for score in scores]
    images = pd.DataFrame(ends, columns=["true", "predicted", "known", "score"])
    names = {f"{side}_name": images[side].str.partition(":")[2] for side in ("true", "predicted")}
    return images.assign(id=range(len(images)), **names)


def test_every_step_takes_what_the_paper_takes_and_is_counted():
    # The detector accepts 19 of the 20 in-distribution images, all but that of SUN397 with 0.95.
    left, stages = script("facets_graph")["prune"](images_of())
    assert stages[["edges", "images"]].to_numpy().tolist() == [[6, 33], [5, 19], [3, 14], [2, 13], [2, 13], [1, 12]]
    (edge,) = script("facets_graph")["edges"](left).to_dict("records")
    names = {"true_name": "beagle", "predicted_name": "pet_shop"}
    assert edge == {"true": "imagenet:beagle", "predicted": "places365:pet_shop", **names} | {
        "weight": 12,
        "mean_score": 0.5,
    }


@pytest.fixture
def scores(tmp_path):
    """Scores of a release like FACETS T1; images of dogs are taken for kennels, all others are right."""
    release = make_facets(tmp_path / "release")
    index = ud.load(release).index([CONFIG]).astype({"id": str})
    predictions = index["class_id"].map({"/b/bedroom": 0, "/f/fountain": 1, "n03388043": 1}).fillna(2).astype(int)
    table = pd.DataFrame({"id": index["id"], "detector": "msp", "score": np.arange(len(index)) / 100})
    return release, table.assign(prediction=predictions)


def test_the_release_tells_own_classes_and_which_dataset_is_predicted(scores):
    """SUN397 has most rows that have a label here, but Places365 has rows of most labels."""
    images = script("facets_graph")["transitions"](scores[1], scores[0], CONFIG)
    assert len(images) == 21
    pairs = images[["true", "predicted", "predicted_name"]].drop_duplicates().to_numpy().tolist()
    assert sorted(pairs) == [
        ["imagenet:n02088364", "places365:k/kennel/outdoor", "kennel/outdoor"],
        ["imagenet:n03388043", "places365:f/fountain", "fountain"],
        ["places365:b/bedroom", "places365:b/bedroom", "bedroom"],
        ["places365:f/fountain", "places365:f/fountain", "fountain"],
        ["places365:k/kennel/outdoor", "places365:k/kennel/outdoor", "kennel/outdoor"],
        ["sun397:f/fountain", "places365:f/fountain", "fountain"],
    ]


def test_edges_graph_and_picture_are_written_and_nothing_where_no_edge_is_left(tmp_path):
    dogs = ("test", "imagenet", "n02088364", "beagle", "near_ood")
    for name, count in (("few", 9), ("many", 12)):
        release = make_facets(tmp_path / name, {CONFIG: [*ROWS[:3], (*dogs, count)]})
        index = ud.load(release).index([CONFIG]).astype({"id": str})
        scores = pd.DataFrame({"id": index["id"], "detector": "msp", "score": 0.5, "prediction": 2})
        scores.to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(AssertionError, match="No edge is left"):
        run("facets_graph", tmp_path / "few.parquet", tmp_path / "few", CONFIG, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    run("facets_graph", tmp_path / "many.parquet", tmp_path / "many", CONFIG, tmp_path / "out")
    graph = networkx.read_graphml(tmp_path / "out" / "graph.graphml")
    edge = ("imagenet:n02088364", "places365:k/kennel/outdoor", 12)
    assert list(graph.edges(data="weight")) == [edge]
    assert pd.read_csv(tmp_path / "out" / "edges.csv")[["true", "predicted", "weight"]].to_numpy().tolist() == [
        [*edge]
    ]
    assert (tmp_path / "out" / "graph.png").read_bytes().startswith(b"\x89PNG")
