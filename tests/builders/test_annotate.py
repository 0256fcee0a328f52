"""The column `near_duplicate_of`: from pairs to rows, and what is remembered of a search."""

import numpy as np
import pyarrow as pa
import pytest

from builders.annotate import PAIRS_SCHEMA, near_duplicate_column, near_duplicate_pairs
from tests.builders.photographs import pieces


def rows(prefix, pictures, unreadable=()):
    return pa.table(
        {
            "id": [f"{prefix}/{i}" for i in range(len(pictures))],
            "content_sha256": [f"{prefix}-{i}-{picture[0, 0].tolist()}" for i, picture in enumerate(pictures)],
            "unreadable": ["broken" if i in unreadable else "" for i in range(len(pictures))],
            "place": [int(prefix == "train") * 100 + i for i in range(len(pictures))],
        }
    )


@pytest.fixture(scope="module")
def pictures():
    """Eight different training images; the tests copy some of them."""
    return [np.asarray(piece.resize((32, 32))) for piece in pieces(8, 100, seed=5)]


def pixels_of(training, testing):
    return lambda table: np.stack([(training if p >= 100 else testing)[p % 100] for p in table["place"].to_pylist()])


def test_copies_are_found_and_a_rerun_reads_no_pixels(tmp_path, pictures):
    testing = [pictures[3][:, ::-1], 255 - pictures[1]]
    queries, references = rows("test", testing), rows("train", pictures)
    found = near_duplicate_pairs(queries, references, tmp_path, pixels_of(pictures, testing), lambda _: None)
    assert found.schema.equals(PAIRS_SCHEMA)
    assert found.select(["id", "near_duplicate_of"]).to_pylist() == [{"id": "test/0", "near_duplicate_of": "train/3"}]
    again = near_duplicate_pairs(queries, references, tmp_path, lambda _: pytest.fail("read again"), lambda _: None)
    assert again.equals(found)


def test_images_that_could_not_be_made_are_no_ones_duplicates(tmp_path, pictures):
    testing = [pictures[3], pictures[4]]
    queries, references = rows("test", testing, unreadable={0}), rows("train", pictures, unreadable={4})
    found = near_duplicate_pairs(queries, references, tmp_path, pixels_of(pictures, testing), lambda _: None)
    assert found.num_rows == 0


def test_the_nearest_of_several_is_the_rows():
    pairs = pa.table(
        {
            "id": ["b", "b", "a", "c"],
            "near_duplicate_of": ["near", "far", "x", "y"],
            "distance": pa.array([0.1, 0.2, 0.0, 0.3], pa.float32()),
        },
        schema=PAIRS_SCHEMA,
    )
    ids = pa.chunked_array([["c", "none", "b"], ["a"]])
    assert near_duplicate_column(ids, pairs).to_pylist() == ["y", "", "near", "x"]
    assert near_duplicate_column(ids, PAIRS_SCHEMA.empty_table()).to_pylist() == ["", "", "", ""]
