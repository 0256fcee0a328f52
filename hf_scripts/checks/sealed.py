"""Checks files of sealed residuals, as far as possible without the originals.

Tested by `tests/builders/generate/test_sealed_release.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.errors import BuildError
from builders.release.schema import demo_metadata
from builders.storage.parquet import open_parquet, row_batches
from builders.storage.sealed_files import SCHEMA, check_size, read_sealed_header
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.rows import FileTask, IndexRows, Outcome, other_metadata
from hf_scripts.checks.values import SplitFacts

_BATCH_ROWS = 64


@dataclass(frozen=True)
class SealedTask(FileTask):
    """Checks one file of sealed residuals: its columns, the header of each residual, and its row ids.

    The ids are compared with the rows of the file `index` from row `first` on, unless `index` is None.
    """

    split: SplitFacts
    index: str | None
    first: int

    def check_contents(self, problems: Problems) -> Outcome:
        """Check the schema, and each residual."""
        path = self.file.path
        with open_parquet(self.root / path, pre_buffer=False) as parquet:
            if not parquet.schema_arrow.equals(SCHEMA):
                columns = ", ".join(f"{field.name} {field.type}" for field in parquet.schema_arrow)
                problems.add("columns", f"{path}: wrong columns: expected id string, sealed binary; found {columns}")
                return Outcome(problems)
            expected = SCHEMA.with_metadata(demo_metadata(demo=self.split.demo))
            if not parquet.schema_arrow.equals(expected, check_metadata=True):
                problems.add("features", f"{path}: {other_metadata(parquet.schema_arrow, expected)}")
            self._check_rows(parquet, problems)
            return Outcome(problems, parquet.metadata.num_rows)

    def _check_rows(self, parquet: pq.ParquetFile, problems: Problems) -> None:
        index = IndexRows(self.root / self.index, self.split, self.first) if self.index else None
        first = 0
        for batch in row_batches(parquet, _BATCH_ROWS):
            empty = pc.or_(pc.is_null(batch["id"]), pc.is_null(batch["sealed"]))
            problems.add_rows("value missing", empty, lambda i, at=first: f"{self._row(at + i)}: a cell has no value")  # type: ignore[misc]
            if index is not None:
                self._compare(batch["id"], index.take(batch.num_rows), first, problems)
            cells = zip(batch["id"].to_pylist(), batch["sealed"].to_pylist(), strict=True)
            for number, (name, sealed) in enumerate(cells, start=first):
                if name is not None and sealed is not None:
                    self._check_residual(name, sealed, number, problems)
            first += batch.num_rows

    def _compare(self, ids: pa.Array, index: pa.Table, first: int, problems: Problems) -> None:
        expected_ids = index["id"].to_pylist() if index.num_rows else []
        for number, (row_id, expected_id) in enumerate(zip(ids.to_pylist(), expected_ids, strict=False), start=first):
            if row_id != expected_id:
                problems.add(
                    "id differs from the index",
                    f"{self._row(number)}: id is {row_id}, and {expected_id} in {self.index}",
                )

    def _check_residual(self, name: str, sealed: bytes, number: int, problems: Problems) -> None:
        try:
            check_size(read_sealed_header(sealed, name), name, self.split.prepared)
        except BuildError as error:
            problems.add("sealed residual", f"{self._row(number)}: {str(error).partition('. ')[0]}")

    def _row(self, number: int) -> str:
        return f"{self.file.path} row {number}"
