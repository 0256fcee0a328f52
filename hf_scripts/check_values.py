"""Do the cells of a row fit each other and the manifest? Whole columns at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.benchmark import ROLES, Role
from hf_scripts.problems import Problems

_STORED = pa.array(["source", "metadata_removed", "pixels"])
_SHA256 = "^[0-9a-f]{64}$"
_ABSOLUTE = r"^(/|~|\\|[A-Za-z]:[\\/]|file:)"
# Places365 names its classes /a/airfield: a slash, one letter, a slash.
_ABSOLUTE_CLASS = r"^(/[^/]([^/]|$)|/$|~/|\\|[A-Za-z]:[\\/]|file:)"


@dataclass(frozen=True)
class Split:
    """What the manifest says of a split's rows; `key` is `config/split`, `columns` are the config's own."""

    key: str
    role: Role
    source: str
    label_names: tuple[str, ...]
    columns: tuple[str, ...] = ()


def check_values(rows: pa.Table, split: Split, path: str, first: int, problems: Problems) -> None:
    """Check everything but the image.

    Args:
        rows: some rows of a file.
        split: what the manifest says.
        path: the file, for messages.
        first: number of the first row in the file.
        problems: where to add what is wrong.
    """
    checker = _Checker(rows, split, path, first, problems)
    if not checker.missing():
        checker.label()
        checker.role()
        checker.identity()
        checker.text()


class _Checker:
    def __init__(self, rows: pa.Table, split: Split, path: str, first: int, problems: Problems) -> None:
        self.rows = rows
        self.split = split
        self.path = path
        self.first = first
        self.problems = problems

    def expect(self, name: str, kind: str, wrong: pa.ChunkedArray | pa.Array, expected: str) -> None:
        """Report the marked rows by the value that one column has there."""
        self.problems.add_rows(
            kind,
            wrong,
            lambda i: f"{self.path} row {self.first + i}: expected {expected}, found {self.rows[name][i]}",
        )

    def missing(self) -> bool:
        """Report cells without a value; True when there are any, which the other checks cannot look at."""
        empty = [name for name in self.rows.column_names if self.rows[name].null_count]
        for name in empty:
            self.expect(name, "value missing", pc.is_null(self.rows[name]), f"a value for {name}")
        return bool(empty)

    def label(self) -> None:
        label, names = self.rows["label"], self.split.label_names
        if self.split.role != "in_distribution":
            kind = "label of an unknown"
            self.expect(
                "label", kind, pc.not_equal(label, -1), f"label -1 since {self.split.key} is {self.split.role}"
            )
            return
        outside = pc.or_(pc.less(label, 0), pc.greater_equal(label, len(names)))
        self.expect("label", "label out of range", outside, f"a label from 0 to {len(names) - 1}")
        named = pa.array(names).take(pc.if_else(outside, None, label))
        class_ids = self.rows["class_id"]
        self.problems.add_rows(
            "label of another class",
            pc.and_(pc.invert(outside), pc.not_equal(named, class_ids).fill_null(False)),
            lambda i: (
                f"{self.path} row {self.first + i}: expected the label of {class_ids[i]}, found that of {named[i]}"
            ),
        )

    def role(self) -> None:
        code = ROLES.index(self.split.role)
        wrong = pc.not_equal(self.rows["role"], code)
        self.expect("role", "role", wrong, f"role {code} ({self.split.role}) as {self.split.key} is declared")

    def identity(self) -> None:
        source = self.split.source
        self.expect("source", "source", pc.not_equal(self.rows["source"], source), f"source {source}")
        wanted = pc.binary_join_element_wise(self.rows["source"], self.rows["source_id"], "/")
        made = pc.equal(self.rows["stored"], "pixels")
        wrong = pc.not_equal(self.rows["id"], wanted).to_numpy().copy()
        for i in np.flatnonzero(wrong & made.to_numpy()):
            # Where we made the image, the id goes on with what was done.
            wrong[i] = not self.rows["id"][i].as_py().startswith(wanted[i].as_py())
        self.problems.add_rows(
            "id",
            pa.array(wrong),
            lambda i: f"{self.path} row {self.first + i}: expected id {wanted[i]}, found {self.rows['id'][i]}",
        )

    def text(self) -> None:
        rows = self.rows
        allowed = ", ".join(_STORED.to_pylist())
        self.expect("stored", "stored", pc.invert(pc.is_in(rows["stored"], value_set=_STORED)), f"one of {allowed}")
        digests = rows["content_sha256"]
        malformed = pc.invert(pc.match_substring_regex(digests, _SHA256))
        self.expect("content_sha256", "digest", malformed, "a SHA-256 in content_sha256")
        # Ids are joined by tabs and newlines under the rows' digest, so one that holds such could hide a difference.
        self.expect("id", "id", pc.match_substring_regex(rows["id"], "[\t\r\n]"), "an id on one line and without tabs")
        for name in rows.column_names:
            if pa.types.is_string(rows.schema.field(name).type):
                pattern = _ABSOLUTE_CLASS if name in ("class_id", "class_name") else _ABSOLUTE
                found = pc.match_substring_regex(rows[name], pattern)
                self.expect(name, "absolute path", found, f"no absolute path in {name}")
