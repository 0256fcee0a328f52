"""Adopting the authors' text indexes: what they list is built exactly, what is wrong with one gets one sentence."""

import pyarrow.parquet as pq
import pytest

from builders.adopt.copies import adopt
from builders.adopt.lists import read_list
from builders.errors import BuildError
from builders.facets_benchmark import BENCHMARK
from builders.sources.opening import open_source
from taxonomy import tables
from taxonomy.rules import facets
from tests.builders.conftest import build_demo, digests
from tests.manifests import rows_in

T1 = {"facets-t1/validation": "facets_ood_val_t1.txt", "facets-t1/test": "facets_ood_test_t1.txt"}
WORDS = {place: word for word, place in BENCHMARK.index_words.items()}
CLASSES = {
    "places365": [row.category for row in tables.places365()],
    "imagenet": [row.wnid for row in tables.imagenet1k()],
    "sun397": [row.category for row in tables.sun397()],
}


@pytest.fixture(scope="module")
def drawn(demo, tmp_path_factory):
    """The rows that our rules draw for T1 and the inter-dataset config, by split."""
    root = tmp_path_factory.mktemp("drawn")
    splits = (*T1, "facets-inter-dataset/validation")
    build_demo(demo, root, benchmark=BENCHMARK, splits=splits, index_only=True)
    return {key: pq.read_table(root / "index" / f"{key}.parquet").to_pylist() for key in splits}


def line_of(row, oodness):
    """A row in the authors' format: paths as in their copies, which have folders of their own."""
    source, source_id = row["source"], row["source_id"]
    partition = "images" if source == "sun397" else source_id.partition("/")[0]
    path = f"{row['class_id']}/{source_id.rpartition('/')[2]}" if source == "imagenet" else source_id
    path = path.removeprefix("val/") if source == "places365" else path
    return f"{oodness} {WORDS[source, partition]} {CLASSES[source].index(row['class_id'])} {path}"


def binary(row):
    return line_of(row, int(row["role"] != 0))


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def built(demo, copy, out, *splits):
    manifest = build_demo(demo, out, benchmark=BENCHMARK, splits=splits, adopt=copy, index_only=True)
    rows = {key: pq.read_table(out / "index" / f"{key}.parquet").to_pylist() for key in splits}
    return manifest, rows


def test_lists_are_built_exactly(drawn, demo, tmp_path):
    # Half of what we draw, in the folders that the authors' repository has.
    listed = {key: drawn[key][::2] for key in T1}
    for key, name in T1.items():
        write(tmp_path / "copy" / "FACETS OOD Detection" / "T1" / name, map(binary, listed[key]))
    manifest, rows = built(demo, tmp_path / "copy", tmp_path / "out", *T1)
    for key in T1:
        assert sorted(row["id"] for row in rows[key]) == sorted(row["id"] for row in listed[key])
        expected = {row["id"]: (row["role"], row["label"], row["class_id"]) for row in listed[key]}
        assert {row["id"]: (row["role"], row["label"], row["class_id"]) for row in rows[key]} == expected
        assert {row["oodness"] for row in rows[key]} == {0.0, 1.0}
        entry = manifest["configs"]["facets-t1"]["splits"][key.partition("/")[2]]
        assert rows_in(entry) == len(listed[key])
        for part in entry["parts"]:
            assert part["adopted"] and part["rows"] + sum(part["excluded_by_rule"].values()) == part["available"]


def test_lists_of_two_splits_are_adopted_in_two_runs_as_in_one(drawn, demo, tmp_path):
    """Also where the first run builds the split that draws after the other, whose list it then needs."""
    for key, name in T1.items():
        write(tmp_path / "copy" / name, map(binary, drawn[key][::5]))
    together, _ = built(demo, tmp_path / "copy", tmp_path / "one", *T1)
    for key in ("facets-t1/test", "facets-t1/validation"):
        apart, _ = built(demo, tmp_path / "copy", tmp_path / "two", key)
    assert digests(apart) == digests(together)
    excluded = "excluded/facets-t1.csv"
    assert sorted((tmp_path / "two" / excluded).read_text().splitlines()) == sorted(
        (tmp_path / "one" / excluded).read_text().splitlines()
    )


def test_the_lists_decide_the_roles_and_not_our_grades(drawn, demo, tmp_path):
    # The other way round for all of SUN397: what we grade as known is unknown here.
    rows = [row for row in drawn["facets-t1/validation"] if row["source"] == "sun397"]
    lines = [line_of(row, int(row["role"] == 0)) for row in rows]
    copy = write(tmp_path / "facets_ood_val_t1.txt", lines)
    _, built_rows = built(demo, copy, tmp_path / "out", "facets-t1/validation")
    flipped = {row["id"]: row["role"] for row in built_rows["facets-t1/validation"]}
    assert {row["id"]: int(row["role"] == 0) for row in rows} == flipped


def test_a_list_of_grades_is_divided_at_the_configs_limit(drawn, demo, tmp_path):
    grades = {row.class_id: row.grade for row in facets.grades("sun397")}
    rows = [row for row in drawn["facets-t1/validation"] if row["source"] == "sun397"]
    copy = write(tmp_path / "facets_ood_val_t1.txt", [line_of(row, grades[row["class_id"]]) for row in rows])
    _, built_rows = built(demo, copy, tmp_path / "out", "facets-t1/validation")
    for row in built_rows["facets-t1/validation"]:
        assert row["oodness"] == grades[row["class_id"]]
        assert (row["role"] == 0) == (grades[row["class_id"]] <= 1)


@pytest.fixture(scope="module")
def refused(demo):
    """Gives the sentence with which a list is refused."""
    sources = {source.key: source for source in BENCHMARK.sources() if source.key in CLASSES}
    indexes = {key: open_source(source, demo[key], tuple(source.expected())) for key, source in sources.items()}

    def sentence(copy, *splits):
        parts = [part for key in splits or ("facets-t1/validation",) for part in BENCHMARK.splits[key]]
        with pytest.raises(BuildError) as caught:
            adopt(BENCHMARK, parts, copy, indexes, lambda _: None, seed=0)
        return str(caught.value)

    return sentence


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 places 165 Places365_val_00000067.jpg", "unknown dataset places (known: places_val, sun, in_val,"),
        ("0 places_val Places365_val_00000067.jpg", "is not `oodness dataset class_index path`, such as"),
        (f"0 places_val {'9' * 5000} Places365_val_00000067.jpg", "is not `oodness dataset class_index path`"),
        ("nan places_val 1 Places365_val_00000067.jpg", "is not `oodness dataset class_index path`, such as"),
        ("-1 places_val 1 Places365_val_00000067.jpg", "is not `oodness dataset class_index path`, such as"),
        ("0 places_val 365 Places365_val_00000067.jpg", "the class index 365 is not from 0 to 364"),
        ("0 in_val 1000 ILSVRC2012_val_00000001.JPEG", "the class index 1000 is not from 0 to 999"),
        ("1 sun 397 a/abbey/sun_x.jpg", "the class index 397 is not from 0 to 396"),
        ("1 sun 0 a/abbey/sun_absent.jpg", "sun_absent.jpg of class 0 (/a/abbey) is not an image of SUN397"),
        ("1 places_val 0 Places365_val_00000001.jpg", "takes places_val as in_distribution, which oodness 1 is not"),
        ("0 in_train 0 n01440764/n01440764_0.JPEG", "takes in_train as near_ood, which oodness 0 is not"),
    ],
)
def test_a_wrong_line_gets_one_sentence_with_its_number(drawn, refused, tmp_path, line, expected):
    good = [binary(row) for row in drawn["facets-t1/validation"][:2]]
    copy = write(tmp_path / "facets_ood_val_t1.txt", [*good, line])
    sentence = refused(copy)
    assert expected in sentence
    assert f"Line 3 of {copy}" in sentence
    assert "orrect " in sentence.rpartition(". ")[2]  # the next step: "Correct it.", "Correct the list, or ..."


def test_an_image_of_another_class_is_named(drawn, refused, tmp_path):
    row = next(row for row in drawn["facets-t1/validation"] if row["source"] == "places365")
    other = (CLASSES["places365"].index(row["class_id"]) + 1) % 365
    name = row["source_id"].removeprefix("val/")
    copy = write(tmp_path / "facets_ood_val_t1.txt", [f"0 places_val {other} {name}"])
    assert f"it is of class {row['class_id']} in" in refused(copy)


def test_an_image_twice_and_a_class_with_two_values_are_refused(drawn, refused, tmp_path):
    sun = [row for row in drawn["facets-t1/validation"] if row["source"] == "sun397"]
    row = next(row for row in sun if row["role"] == 1)
    copy = write(tmp_path / "facets_ood_val_t1.txt", [line_of(row, 2), line_of(row, 2)])
    sentence = refused(copy)
    assert f"Line 2 of {copy}" in sentence and "is already in line 1. Correct the list" in sentence
    same_class = [other for other in sun if other["class_id"] == row["class_id"]]
    write(copy, [line_of(same_class[0], 2), line_of(same_class[1], 3)])
    sentence = refused(copy)
    assert f"Line 2 of {copy}: oodness 3 of a class that has 2 in line 1. Correct the list" in sentence


def test_lists_of_one_config_share_no_image(drawn, refused, tmp_path):
    lines = [binary(row) for row in drawn["facets-t1/validation"][:9]]
    write(tmp_path / "copy" / "facets_ood_test_t1.txt", lines[:1])
    sentence = refused(tmp_path / "copy", *T1)
    assert "has facets-t1/test.places365 but not facets-t1/validation.places365, and" in sentence
    write(tmp_path / "copy" / "facets_ood_val_t1.txt", lines)
    sentence = refused(tmp_path / "copy", *T1)
    assert "facets-t1/validation.places365 and facets-t1/test.places365 must not share images, but " in sentence
    assert sentence.endswith("Give lists or sets that belong together.")


def test_a_split_without_a_list_takes_what_the_list_of_the_other_leaves(drawn, demo, tmp_path):
    write(tmp_path / "copy" / "facets_ood_val_t1.txt", map(binary, drawn["facets-t1/validation"][::2]))
    _, rows = built(demo, tmp_path / "copy", tmp_path / "out", *T1)
    validation, test = ({row["id"] for row in rows[key]} for key in T1)
    assert validation and test and not validation & test


@pytest.mark.parametrize(("name", "text"), [("list.txt", "0 sun 0 x\n"), ("facets_ood_val_t1.txt", "\n")])
def test_a_file_of_another_name_and_an_empty_list_are_refused(refused, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    sentence = refused(tmp_path / name)
    assert ("facets_ood_val_t1.txt for facets-t1/validation" in sentence) == (name == "list.txt")
    assert ("has no lines of `oodness" in sentence) == (name != "list.txt")


def test_a_list_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "facets_ood_val_t1.txt"
    path.write_bytes(b"\n0 sun 1\x1b[2J a")
    with pytest.raises(BuildError) as caught:
        list(read_list(path))
    sentence = f"Line 2 of {path} has the control character \\x1b. Give the authors' list"
    assert str(caught.value).startswith(sentence)


def test_lines_are_read_with_blanks_backslashes_and_spaces(tmp_path):
    # The first line is as the authors' viewer shows it.
    text = "\ufeff0 places_val 165 Places365_val_00000067.jpg\r\n\r\n0.25 in_train 7 a folder\\n01514668_1.JPEG\n"
    (tmp_path / "x.txt").write_bytes(text.encode())
    lines = [
        (line.number, line.oodness, line.dataset, line.class_index, line.name)
        for line in read_list(tmp_path / "x.txt")
    ]
    assert lines == [
        (1, 0.0, "places_val", 165, "Places365_val_00000067.jpg"),
        (3, 0.25, "in_train", 7, "n01514668_1.JPEG"),
    ]
