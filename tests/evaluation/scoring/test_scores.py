"""Scores files: what is written is read back, and what is no scores file is refused in a sentence."""

import json

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fuzz.harness import run_cases
from tests.sentences import stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.scoring.scores import (
    METADATA,
    Provenance,
    read_scores,
    summarize_ids,
    write_scores,
)

ABOUT = Provenance(
    release_digest="ab" * 32,
    configs=("cifar",),
    model="demo.py:small",
    model_digest="cd" * 32,
    seed=3,
    hyperparameters={"odin": {"temperature": 1000.0}},
    versions={"torch": "2.6.0"},
)


def table(**columns):
    return pa.table({"id": ["a", "b"], "score": [0.25, 0.5], **columns})


def csv(folder, text):
    path = folder / "mine.csv"
    path.write_bytes(text.encode())
    return path


def test_scores_and_where_they_come_from_are_read_back(tmp_path):
    written = table(detector=["msp", "msp"], prediction=pa.array([4, None], pa.int64()))
    write_scores(tmp_path / "run.parquet", written, ABOUT)
    scores, about = read_scores(tmp_path / "run.parquet")
    assert about == ABOUT
    expected = {"detector": ["msp", "msp"], "score": [0.25, 0.5], "prediction": [4, None]}
    assert scores.to_pydict() == {"id": ["a", "b"], **expected}
    metadata = json.loads(pq.read_schema(tmp_path / "run.parquet").metadata[METADATA])  # plain JSON, for others
    assert metadata["provenance"]["release_digest"] == "ab" * 32
    assert metadata["provenance"]["hyperparameters"] == {"odin": {"temperature": 1000.0}}
    write_scores(tmp_path / "again.parquet", written, ABOUT)
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "run.parquet").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.parquet", "run.parquet"]


def test_files_that_unpack_to_gigabytes_are_refused_in_time_and_memory():
    """In a child with limits; the first took 14 to 40 s before it was refused for its columns."""
    outcomes = run_cases("tests.fuzz.targets.evaluated:scores-parquet")
    assert outcomes.pop("another column").kind == "value"  # which is not read
    assert {outcome.kind for outcome in outcomes.values()} == {"refused"}
    words = {"neither id nor score": "needs the columns id and score", "ids": "unpacks to more than 1,000 times"}
    for name, text in (words | {"detectors": "unpacks to more than 1,000 times"}).items():
        assert text in outcomes[name].message


def test_a_refused_table_does_not_touch_the_file_that_is_there(tmp_path):
    write_scores(tmp_path / "run.parquet", table(), ABOUT)
    before = (tmp_path / "run.parquet").read_bytes()
    with stops(EvaluationError):
        write_scores(tmp_path / "run.parquet", pa.table({"id": ["a"], "score": [float("nan")]}), ABOUT)
    assert (tmp_path / "run.parquet").read_bytes() == before


def test_a_csv_of_ids_and_scores_is_one_detector_named_as_the_file(tmp_path):
    scores, about = read_scores(csv(tmp_path, "score,id\n0.5,00017\n1e-3,b\n"))
    assert about is None
    assert scores.to_pydict() == {"id": ["00017", "b"], "detector": ["mine", "mine"], "score": [0.5, 0.001]}


@pytest.mark.parametrize(
    "text",
    [
        "path,id,score,time\n/data/a.png,a,0.5,test\nx,b,2,\n",
        '"id","score","time"\n"a",0.5,1\n"b",2,2\n',
        "\ufeffid,score\r\na,0.5\r\nb,2\r\n",
    ],
    ids=["other columns", "quoted", "byte order mark"],
)
def test_a_csv_as_other_tools_write_it(tmp_path, text):
    scores, _ = read_scores(csv(tmp_path, text))
    assert scores.to_pydict() == {"id": ["a", "b"], "detector": ["mine", "mine"], "score": [0.5, 2.0]}


def test_a_column_has_the_seed_of_a_run(tmp_path):
    scores, _ = read_scores(csv(tmp_path, "id,score,seed\na,1,3\nb,2,3\n"))
    assert scores["seed"].to_pylist() == [3, 3]
    with stops(EvaluationError, "mine.csv"):
        read_scores(csv(tmp_path, "id,score,seed\na,1,3\nb,2,4\n"))


def test_float32_scores_are_widened_exactly(tmp_path):
    pq.write_table(pa.table({"id": ["a"], "score": pa.array([0.1], pa.float32())}), tmp_path / "mine.parquet")
    scores, _ = read_scores(tmp_path / "mine.parquet")
    assert scores["score"].to_pylist() == [float.fromhex("0x1.99999a0000000p-4")]


def test_columns_of_parquet_are_in_any_order_beside_others(tmp_path):
    table = pa.table({"time": [3], "score": [0.5], "detector": ["msp"], "id": ["a"]})
    pq.write_table(table, tmp_path / "mine.parquet")
    scores, _ = read_scores(tmp_path / "mine.parquet")
    assert scores.to_pydict() == {"id": ["a"], "detector": ["msp"], "score": [0.5]}


@pytest.mark.parametrize(
    "text",
    ["id\na\n", "id;score\na;0,5\n", "id,score,pred\na,1,2\n", "id,score,score\na,1,2\n", "ID,Score\na,1\n",
     "id,score\n", "id,score\na,\n", "id,score\na,nan\nb,1\nc,inf\nd,-inf\ne,nan\n", "id,score\n,1\n",
     "id,score,detector\na,1,\n", ""],
)  # fmt: skip
def test_what_is_no_scores_file_is_refused(tmp_path, text):
    with stops(EvaluationError, "mine.csv"):
        read_scores(csv(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.csv", b"id,score\na,high\n", "Cannot read scores from .*a.csv: "),
        ("a.csv", b"id\rscore,seed\na,1,2\n", "Cannot read scores from .*a.csv: "),
        ("a.csv", b"id,score,prediction\na,1,2.5\n", "Cannot read scores from .*a.csv: "),
        ("a.parquet", b"PAR1", "Cannot read scores from .*a.parquet as Parquet: "),
        ("a.parquet", pa.table({"id": ["a"], "score": ["high"]}), "scores are numbers"),
        ("a.json", b"[]", "convert"),
        ("a.csv", None, "no scores file"),
    ],
)
def test_damaged_missing_and_other_files_are_refused(tmp_path, name, data, says):
    if isinstance(data, pa.Table):
        pq.write_table(data, tmp_path / name)
    elif data:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(EvaluationError, match=says):
        read_scores(tmp_path / name)


def test_names_that_would_change_a_terminal_and_predictions_that_are_no_classes_are_refused():
    """ESC in a file's detector reached the terminal and the page; true was taken for class 1."""
    columns = [{"detector": ["msp", "\x1b[2Jmsp"]}, {"detector": ["a\nb", "a"]}, {"prediction": [True, False]}]
    for column in columns:
        with stops(EvaluationError, "The table of scores"):
            read_scores(table(**column))


def test_ids_are_counted_and_the_first_shown():
    assert summarize_ids(pa.array(["a"])) == "1 id (a)"
    assert summarize_ids(pa.array(list("abcd"))) == "4 ids (a, b, c, ...)"
    assert summarize_ids(pa.array(["a\n\x1b[2J"])) == "1 id (a\\n\\x1b[2J)"
    assert len(summarize_ids(pa.array(["a" * 10**6] * 5))) < 1000


PROVENANCE = json.loads(json.dumps(msgspec.to_builtins(ABOUT)))
NO_RECORD = ["", "\udcff", "[" * 100_000, "9" * 5000, "[]", '{"provenance": {}}', '{"provenance": []}']
CHANGED = [{"more": 1}, {"configs": "cifar"}, {"configs": [3]}, {"model": None}, {"model": "it\n\x1b[2J"}]
CHANGED += [{"hyperparameters": of} for of in ([], {"odin": 3}, {"odin": {"t": "x"}})]
CHANGED += [{"versions": {"torch": 2}}, {"seed": "3"}]


@pytest.mark.parametrize(
    "text",
    [*NO_RECORD, *(json.dumps({"provenance": PROVENANCE | change}) for change in CHANGED)],
    ids=lambda text: text[-40:],
)
def test_provenance_of_any_shape(tmp_path, text):
    record = text.encode(errors="surrogateescape")
    pq.write_table(table().replace_schema_metadata({METADATA: record}), tmp_path / "mine.parquet")
    with stops(EvaluationError):
        read_scores(tmp_path / "mine.parquet")


def test_ids_that_are_not_utf8(tmp_path):
    ids = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    pq.write_table(pa.table({"id": ids, "score": [1.0]}), tmp_path / "mine.parquet")
    with pytest.raises(EvaluationError, match=r"Cannot read scores from .*mine\.parquet as Parquet: .*Invalid UTF8"):
        read_scores(tmp_path / "mine.parquet")
    path = tmp_path / "mine.csv"
    path.write_bytes(b"id,score\n\xff,1\n")
    with pytest.raises(EvaluationError, match=r"Cannot read scores from .*mine\.csv: .*UTF8"):
        read_scores(path)
    path.write_bytes(b"id,score,\xff\na,1,\n")
    with pytest.raises(EvaluationError, match=r"Cannot read scores from .*mine\.csv: .*utf-8"):
        read_scores(path)


def test_large_and_view_types_are_read(tmp_path):
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        pq.write_table(pa.table({"id": pa.array(["a", "b"]).cast(kind), "score": [0.25, 0.5]}), tmp_path / "x.parquet")
        assert read_scores(tmp_path / "x.parquet")[0]["id"].to_pylist() == ["a", "b"]
