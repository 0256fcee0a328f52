"""`evaluate graph` from a file to four files, and from a release's scores; errors in one sentence."""

import csv

import pyarrow as pa
import pytest

from tests.evaluation.facets_release import CONFIG, make_facets
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.releases import load
from unknown_detection.evaluation.scoring.scores import Provenance, write_scores

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")
pytest.importorskip("networkx", reason="needs the extra `evaluate`")

import networkx

LINES = (
    ("sun397:f/fountain", "places365:/f/fountain", 30),
    ("places365:/f/fountain", "places365:/f/fountain", 30),
    ("imagenet:beagle", "places365:kennel/outdoor", 12),
    ("imagenet:beagle", "places365:pet_shop", 9),
)
FILES = ["edges.csv", "graph.graphml", "graph.png", "graph.svg"]


def scores_file(folder, lines=LINES):
    path = folder / "mine.csv"
    written = ["id,class,prediction,score"]
    for own, predicted, count in lines:
        written += [f"{own}/{predicted}/{number},{own},{predicted},0.5" for number in range(count)]
    path.write_text("\n".join([*written, ""]), encoding="utf-8")
    return path


def test_from_names_to_a_graph(tmp_path, capsys):
    assert main(["graph", str(scores_file(tmp_path)), "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    assert output.out.startswith("81 images, scores of mine\n")
    table = {line.split()[0]: line.split()[-3:] for line in output.out.splitlines()[3:-1]}
    assert table == {
        "self-loops": ["5", "3", "51"],
        "evident-id": ["5", "3", "51"],
        "same-names": ["5", "2", "21"],
        "same-dataset": ["5", "2", "21"],
        "light-edges": ["5", "1", "12"],
        "isolated": ["2", "1", "12"],
    }
    assert output.out.splitlines()[2].split()[-3:] == ["5", "4", "81"]
    assert "evident-id    skipped: roles are unknown" in output.out
    assert "edges with few images, fewer than 10" in output.out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    graph = networkx.read_graphml(tmp_path / "out" / "graph.graphml")
    assert list(graph.edges(data="weight")) == [("imagenet:beagle", "places365:kennel/outdoor", 12)]
    assert graph.graph["steps"] == "self-loops, same-names, same-dataset, light-edges, isolated"
    assert graph.graph["scores"] == "mine.csv"


def test_steps_can_be_kept_and_runs_are_repeated_byte_for_byte(tmp_path):
    arguments = ["--keep", "same-names", "--keep", "light-edges", "--edges", "1"]
    for name in ("one", "two"):
        assert main(["graph", str(scores_file(tmp_path)), *arguments, "--out", str(tmp_path / name)]) == 0
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    with (tmp_path / "one" / "edges.csv").open(encoding="utf-8", newline="") as opened:
        assert [line["weight"] for line in csv.DictReader(opened)] == ["30", "12", "9"]


def test_from_a_release_s_scores(tmp_path, capsys):
    release = load(str(make_facets(tmp_path / "facets")))
    ids = [f"imagenet/n02088364/{number}.jpg" for number in range(3)] + ["places365/b/bedroom/0.jpg"]
    table = pa.table({"id": ids, "detector": ["msp"] * 4, "score": [3.0, 1.0, 2.0, 0.0], "prediction": [2, 2, 1, 0]})
    about = Provenance(release.digest, (CONFIG,), "model", "ab", 0, {}, {})
    write_scores(tmp_path / "run.parquet", table, about)
    arguments = ["--release", str(tmp_path / "facets"), "--min-weight", "2", "--out", str(tmp_path / "out")]
    assert main(["graph", str(tmp_path / "run.parquet"), *arguments]) == 0
    assert capsys.readouterr().out.startswith("4 images, scores of msp\n")
    graph = networkx.read_graphml(tmp_path / "out" / "graph.graphml")
    assert list(graph.edges(data="mean_score")) == [("imagenet:n02088364", "places365:kennel/outdoor", 2.0)]
    assert graph.nodes["imagenet:n02088364"]["label"] == "beagle"
    assert (graph.graph["config"], graph.graph["release_digest"]) == (CONFIG, release.digest)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--min-weight", "100"], "The step light-edges leaves no edge"),
        (["--splits", "facets-t1"], "--splits and --revision apply to a release only"),
        (["--splits", "a,b", "--release", "."], "A graph is of one config or split. Give one of a,b"),
        (["--detector", "msp"], "'msp'"),
        (["--release", "nowhere"], "There is no folder nowhere"),
        (["--keep", "loops"], "'loops' is not one of"),
        (["--accepted", "0"], "0 is not in the range"),
    ],
)
def test_errors_are_one_sentence_and_leave_nothing(tmp_path, capsys, arguments, says):
    assert main(["graph", str(scores_file(tmp_path)), *arguments, "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.out == ""
    assert not (tmp_path / "out").exists()
