"""What the evaluation reads besides manifests: tables of a release, features, scores, figures."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from builders.errors import BuildError
from tests.fuzz.target import Target
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.store import FORMAT, FeatureStore, Identity
from unknown_detection.evaluation.files import read_untrusted
from unknown_detection.evaluation.models.models import read_classes
from unknown_detection.evaluation.scoring.scores import METADATA, read_scores

IDENTITY = Identity("a" * 64, "it.py:model", "b" * 64, ("x", "y", "z"), ("layer1",), {"size": [8, 8]})
SOURCE = {"address": "https://hub/timm/it", "accuracy": "80.2", "logits": "3,0,12", "width": "13"}
PROVENANCE = {
    "release_digest": "ab" * 32,
    "configs": ["cifar"],
    "model": "it.py:model",
    "model_digest": "cd" * 32,
    "seed": 3,
    "hyperparameters": {"odin": {"temperature": 1000.0}},
    "versions": {"torch": "2.6.0"},
}


def refused(read: Callable[[Path], object]) -> Callable[[Path], object]:
    """The same reader, with the error that the harness knows."""

    @wraps(read)
    def wrapped(folder: Path) -> object:
        try:
            return read(folder)
        except EvaluationError as error:
            raise BuildError(str(error)) from error

    return wrapped


def parquet(table: pa.Table, **options: object) -> bytes:
    """A small Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **{"row_group_size": 4} | options)
    return buffer.getvalue()


def scores() -> list[bytes]:
    """Scores files with and without provenance."""
    table = pa.table({"id": [f"a/{n}" for n in range(9)], "score": np.linspace(0, 1, 9), "prediction": [0, 1, 2] * 3})
    with_provenance = table.replace_schema_metadata({METADATA: json.dumps({"provenance": PROVENANCE})})
    return [parquet(table, compression="zstd"), parquet(with_provenance, compression="none", write_page_checksum=True)]


def repeating_scores() -> dict[str, bytes]:
    """Short files of which one column repeats a text of 60 kB until it has 4.4 GB."""
    rows = 73_000
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), ["x" * 60_000])
    columns = {"id": [f"a/{n}" for n in range(rows)], "score": np.zeros(rows)}
    tables = {
        "neither id nor score": {"text": long},
        "another column": columns | {"text": long},
        "ids": columns | {"id": long},
        "detectors": columns | {"detector": long},
    }
    # As text, which the schema of Arrow would say to be a dictionary.
    options = {"compression": "zstd", "store_schema": False, "row_group_size": rows}
    return {name: parquet(pa.table(of), **options) for name, of in tables.items()}


TARGETS = (
    Target(
        "scores-parquet",
        "x.parquet",
        scores,
        refused(lambda folder: read_scores(folder / "x.parquet")[0].to_pydict()),
        cases=repeating_scores,
    ),
    Target(
        "scores-csv",
        "x.csv",
        lambda: [
            b"id,score,prediction\na/1,0.5,2\na/2,1e-3,\n",
            b"\xef\xbb\xbfid,detector,score\r\na,msp,1\r\nb,msp,2\r\n",
        ],
        refused(lambda folder: read_scores(folder / "x.csv")[0].to_pydict()),
    ),
    Target(
        "table-of-a-release",
        "x.parquet",
        scores,
        refused(lambda folder: read_untrusted(folder / "x.parquet", "it").to_pydict()),
    ),
    Target(
        "identity-json",
        "identity.json",
        lambda: [
            json.dumps({"format": FORMAT, **msgspec.to_builtins(identity)}, indent=1).encode()
            for identity in (IDENTITY, replace(IDENTITY, source=SOURCE, linear=False))
        ],
        refused(FeatureStore.open),
    ),
    Target(
        "label-map",
        "map.csv",
        lambda: [b"class,index\nx,3\ny,0\nz,12\n", b'\xef\xbb\xbfclass,index\r\n"x",1\r\ny,2\r\nz,3\r\nother,4\r\n'],
        refused(lambda folder: read_classes(folder / "map.csv", IDENTITY.label_names, 13)),
    ),
)
