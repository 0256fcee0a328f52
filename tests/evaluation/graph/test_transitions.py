"""Which class each image is of and which it is taken for: from names in a file, and from a release's rows."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.evaluation.facets_release import CONFIG, ROWS, make_facets
from tests.evaluation.refusals import refusal
from unknown_detection.evaluation.graph.transitions import (
    DatasetClass,
    make_class,
    read_class,
    read_transitions,
    scored_transitions,
)
from unknown_detection.evaluation.releases import load
from unknown_detection.evaluation.scoring.scores import METADATA


def written(folder, text, name="mine.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def pairs(transitions):
    return [(image.true.key, image.predicted.key) for image in transitions.images]


def scored(transitions):
    return [image.score for image in transitions.images]


def known(transitions):
    return [image.known for image in transitions.images]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("places365:/f/fountain", DatasetClass("places365", "fountain", "fountain")),
        ("sun397:f/fountain", DatasetClass("sun397", "fountain", "fountain")),
        ("in:fountain", DatasetClass("in", "fountain", "fountain")),
        ("imagenet:n03388043", DatasetClass("imagenet", "n03388043", "n03388043")),
        (" places365 : /k/kennel/outdoor ", DatasetClass("places365", "kennel/outdoor", "kennel/outdoor")),
        ("d:outdoor/kennel", DatasetClass("d", "outdoor/kennel", "outdoor/kennel")),
        ("d:a/banana", DatasetClass("d", "a/banana", "a/banana")),
        ("d:b:c", DatasetClass("d", "b:c", "b:c")),
        ("fountain", None),
        (":fountain", None),
        ("places365:", None),
    ],
)
def test_a_class_is_read_without_the_folder_of_its_first_letter(text, parsed):
    assert read_class(text) == parsed


def test_two_spellings_are_one_class(tmp_path):
    text = "id,class,prediction,score\n1,p:/f/fountain,p:fountain,0.5\n2,p:f/fountain,p:/t/tower,1\n"
    transitions = read_transitions(written(tmp_path, text))
    assert pairs(transitions) == [("p:fountain", "p:fountain"), ("p:fountain", "p:tower")]
    assert scored(transitions) == [0.5, 1.0]
    assert known(transitions) == [None, None]
    assert (transitions.detector, transitions.config, transitions.left_out) == ("mine", "", 0)


def test_roles_in_the_file_tell_who_is_in_distribution(tmp_path):
    text = "id,class,prediction,score,role\n1,a:x,p:y,1,in_distribution\n2,a:x,p:y,1,near_ood\n3,a:x,p:y,1,\n"
    assert known(read_transitions(written(tmp_path, text))) == [True, False, False]


def test_one_detector_of_several_is_taken(tmp_path):
    lines = [f"{number},{name},a:x,p:y,{score}" for name, score in (("energy", 1), ("msp", 2)) for number in range(3)]
    path = written(tmp_path, "\n".join(["id,detector,class,prediction,score", *lines, ""]))
    assert scored(read_transitions(path)) == [2, 2, 2]
    assert scored(read_transitions(path, detector="energy")) == [1, 1, 1]
    assert "the closest names are energy" in refusal(read_transitions, path, detector="enrgy")
    other = written(tmp_path, path.read_text().replace("msp", "odin"), "other.csv")
    assert "energy, odin. Name one with --detector" in refusal(read_transitions, other)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,score,prediction\n1,1,p:y\n", r"lacks the columns class\. Add them, or give --release"),
        ("id,score\n1,1\n", "lacks the columns class and prediction"),
        ("id,class,prediction\n1,a:x,p:y\n", "columns id and score"),
        ("id,class,prediction,score\n1,a:x,y,1\n2,a:x,z,1\n", r"not name a class: 'y' and the like at 2 ids \(1, 2\)"),
        ("id,class,prediction,score\n1,a:x,p:y,1\n2,x,p:y,1\n", r"The class in .* not name a class: 'x' .* \(2\)"),
        ("id,class,prediction,score\n1,a:x,,1\n", r"The prediction in .* not name a class: '' and the like at 1 id"),
        ("id,class,prediction,score\n1,a:x,p:y,1\n1,a:x,p:z,1\n", r"several lines of mine for 1 id \(1\)"),
    ],
)
def test_what_names_no_classes_is_refused(tmp_path, text, says):
    message = refusal(read_transitions, written(tmp_path, text))
    assert re.search(says, message)
    assert "mine.csv" in message


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return load(str(make_facets(tmp_path_factory.mktemp("facets"))))


IDS = ("places365/b/bedroom/0.jpg", "sun397/f/fountain/3.jpg", "imagenet/n02088364/1.jpg", "imagenet/n03388043/2.jpg")
EXPECTED = [
    ("places365:bedroom", "places365:bedroom"),
    ("sun397:fountain", "places365:fountain"),
    ("imagenet:n02088364", "places365:kennel/outdoor"),
    ("imagenet:n03388043", "places365:fountain"),
]


def scores(column, values, ids=IDS, **columns):
    return pa.table({"id": ids, "score": [0.1] * len(ids), column: values, **columns})


def read(folder, table, release, **how):
    pq.write_table(table, folder / "mine.parquet")
    return scored_transitions(folder / "mine.parquet", release, **how)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("prediction", [0, 1, 2, 1]),
        ("class", ["/b/bedroom", "/f/fountain", "/k/kennel/outdoor", "/f/fountain"]),
        ("prediction", ["bedroom", "fountain", "kennel/outdoor", "/f/fountain"]),
        ("prediction", ["places365:bedroom", "places365:/f/fountain", "places365:kennel/outdoor", "1"]),
        ("prediction", ["Bedroom", "\uff46ountain", "PLACES365:kennel/outdoor", "1"]),  # other case, full width
    ],
)
def test_the_release_tells_own_classes_and_which_dataset_is_predicted(tmp_path, release, column, values):
    """SUN397 has most rows that have a label here, but Places365 has rows of most labels."""
    transitions = read(tmp_path, scores(column, values), release)
    assert pairs(transitions) == EXPECTED
    assert known(transitions) == [True, True, False, True]
    assert {class_.key: class_.name for image in transitions.images for class_ in image[:2]} == {
        "places365:bedroom": "bedroom",
        "places365:fountain": "fountain",
        "places365:kennel/outdoor": "kennel/outdoor",
        "sun397:fountain": "fountain",
        "imagenet:n02088364": "beagle",
        "imagenet:n03388043": "fountain",
    }
    assert transitions.config == CONFIG


def test_the_release_knows_better_than_the_file(tmp_path, release):
    table = scores("prediction", [0, 1, 2, 1], **{"class": ["a:b"] * 4, "role": ["far_ood"] * 4})
    transitions = read(tmp_path, table, release)
    assert pairs(transitions) == EXPECTED
    assert known(transitions) == [True, True, False, True]


@pytest.mark.parametrize("value", ["3", "-1", "sun397:fountain", "Bedrooms"])
def test_a_prediction_that_is_no_label_is_refused(tmp_path, release, value):
    message = refusal(read, tmp_path, scores("prediction", ["0", "1", "2", value]), release)
    assert f"Give one of the 3 classes of {CONFIG}." in message
    assert f"does not name a class: {value!r} and the like at 1 id ({IDS[3]})" in message


ABOUT = {"model": "m", "model_digest": "", "seed": 0, "hyperparameters": {}, "versions": {}}


def noted(table, **about):
    return table.replace_schema_metadata({METADATA: json.dumps({"provenance": ABOUT | about})})


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (scores("detector", ["msp"] * 4), "no column prediction (or class)"),
        (scores("prediction", [0] * 3, ids=[IDS[0], "x", "y"]), "has 2 ids (x, y) that"),
        (noted(scores("prediction", [0, 1, 2, 1]), release_digest="ab" * 32, configs=[CONFIG]), "digest abababababab"),
    ],
)
def test_scores_alone_unknown_ids_and_another_release_are_refused(tmp_path, release, table, says):
    assert says in refusal(read, tmp_path, table, release)


def test_of_several_configs_one_is_named_and_rows_of_the_others_are_left_out(tmp_path):
    root = make_facets(tmp_path / "facets", {CONFIG: ROWS, "facets-baseline": ROWS[:3], "facets-t2": ROWS[:5]})
    release = load(str(root))
    configs = noted(
        scores("prediction", [0, 1, 2, 1]), release_digest=release.digest, configs=["facets-baseline", CONFIG]
    )
    message = refusal(read, tmp_path, configs, release)
    assert "several configs: facets-baseline, facets-t1. Name one with --splits" in message
    transitions = read(tmp_path, configs, release, config="facets-baseline")
    assert pairs(transitions) == EXPECTED[:1]
    assert transitions.left_out == 3
    assert "; the closest names are facets-t2" in refusal(read, tmp_path, configs, release, config="facets-t3")
    only = noted(scores("prediction", [0, 1, 2, 1]), release_digest=release.digest, configs=["facets-t2"])
    assert "has 1 id (imagenet/n03388043/2.jpg) that" in refusal(read, tmp_path, only, release)


def test_validation_rows_are_left_out_unless_they_are_asked_for_or_all_there_is(tmp_path, release):
    bedroom = "sun397/b/bedroom/1.jpg"
    table = scores("prediction", [0, 1, 2, 1, 0], ids=[*IDS, bedroom])
    transitions = read(tmp_path, table, release)
    assert (pairs(transitions), transitions.splits, transitions.left_out) == (EXPECTED, ("test",), 1)
    validation = read(tmp_path, table, release, split="validation")
    assert pairs(validation) == [("sun397:bedroom", "places365:bedroom")]
    assert (validation.splits, validation.left_out) == (("validation",), 4)
    only_validation = read(tmp_path, scores("prediction", [0], ids=[bedroom]), release)
    assert (pairs(only_validation), only_validation.splits) == (pairs(validation), ("validation",))
    message = refusal(read, tmp_path, table, release, split="tests")
    assert f"split of {CONFIG} with scores in " in message
    assert "the closest names are test" in message


def test_scores_of_none_of_its_rows_are_refused(tmp_path):
    release = load(str(make_facets(tmp_path / "facets", {CONFIG: ROWS, "facets-baseline": ROWS[:3]})))
    table = scores("prediction", [1], ids=IDS[1:2])
    assert "has no scores of facets-baseline" in refusal(read, tmp_path, table, release, config="facets-baseline")


def test_a_release_whose_labels_are_no_classes_is_refused(tmp_path):
    lines = [(*ROWS[4][:5], 2)]
    release = load(str(make_facets(tmp_path / "facets", {CONFIG: lines})))
    assert "has its label as its class" in refusal(read, tmp_path, scores("prediction", [0], ids=IDS[2:3]), release)


def test_names_may_be_missing():
    assert make_class("places365", "/b/bedroom") == DatasetClass("places365", "bedroom", "bedroom")
    assert make_class("imagenet", "n1", "") == DatasetClass("imagenet", "n1", "n1")
