"""Do the cells of a row fit each other and the manifest? Whole columns at a time.

Tested by `tests/hf_scripts/checks/test_rows.py`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.release.columns import Column
from builders.release.entries import ConfigEntry, SplitEntry
from builders.release.schema import ROLES, Role
from hf_scripts.checks.problems import Problems

_STORED = pa.array(["source", "metadata_removed", "pixels"])
_SHA256 = "^[0-9a-f]{64}$"
_ABSOLUTE = r"^(/|~|\\|[A-Za-z]:[\\/]|file:)"
# Places365 names its classes /a/airfield: a slash, one letter, a slash.
_ABSOLUTE_CLASS = r"^(/[^/]([^/]|$)|/$|~/|\\|[A-Za-z]:[\\/]|file:)"


@dataclass(frozen=True)
class Kind:
    """Rows of one role and source; `labelled` ones have a label."""

    role: Role
    source: str
    labelled: bool


@dataclass(frozen=True)
class Split:
    """What the manifest says of a split's rows.

    `key` is `config/split`; `kinds` are the rows that it may have, of several kinds only where it is joined from
    parts; `columns` are the config's own.
    """

    key: str
    kinds: tuple[Kind, ...]
    label_names: tuple[str, ...]
    columns: tuple[Column, ...] = ()


def split_of(key: str, config: ConfigEntry, entry: SplitEntry) -> Split:
    """What the entries of a config and a split of it say of the split's rows."""
    kinds = [Kind(piece.role, piece.source, piece.labelled) for piece in entry.pieces()]
    return Split(key, tuple(dict.fromkeys(kinds)), config.label_names, config.own_columns())


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
        checker.oodness()


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
        for kind in self.split.kinds:
            if not kind.labelled:
                has_one = pc.and_(self.of(kind), pc.not_equal(label, -1))
                what = kind.role if len(self.split.kinds) == 1 else f"{kind.role} from {kind.source}"
                name = "label of an unknown" if kind.role != "in_distribution" else "label of an unlabelled row"
                self.expect("label", name, has_one, f"label -1 since {self.split.key} is {what}")
        labelled = [self.of(kind) for kind in self.split.kinds if kind.labelled]
        if not labelled:
            return
        outside = pc.or_(pc.less(label, 0), pc.greater_equal(label, len(names)))
        outside = pc.and_(functools.reduce(pc.or_, labelled), outside)
        self.expect("label", "label out of range", outside, f"a label from 0 to {len(names) - 1}")
        inside = pc.and_(pc.greater_equal(label, 0), pc.less(label, len(names)))
        named = pa.array(names).take(pc.if_else(inside, label, None))
        class_ids = self.rows["class_id"]
        self.problems.add_rows(
            "label of another class",
            pc.and_(functools.reduce(pc.or_, labelled), pc.not_equal(named, class_ids).fill_null(False)),
            lambda i: (
                f"{self.path} row {self.first + i}: expected the label of {class_ids[i]}, found that of {named[i]}"
            ),
        )

    def of(self, kind: Kind) -> pa.ChunkedArray | pa.Array:
        """Which rows are of a kind; those of the only one all are, whatever their cells say."""
        if len(self.split.kinds) == 1:
            return pc.is_valid(self.rows["role"])
        of_role = pc.equal(self.rows["role"], ROLES.index(kind.role))
        return pc.and_(of_role, pc.equal(self.rows["source"], kind.source))

    def role(self) -> None:
        codes = {ROLES.index(kind.role): kind.role for kind in self.split.kinds}
        wrong = pc.invert(pc.is_in(self.rows["role"], value_set=pa.array(codes, pa.int64())))
        named = " or ".join(f"{code} ({role})" for code, role in codes.items())
        self.expect("role", "role", wrong, f"role {named} as {self.split.key} is declared")

    def identity(self) -> None:
        sources = list(dict.fromkeys(kind.source for kind in self.split.kinds))
        wrong = pc.invert(pc.is_in(self.rows["source"], value_set=pa.array(sources)))
        self.expect("source", "source", wrong, f"source {' or '.join(sources)}")
        if len(self.split.kinds) > 1:
            together = functools.reduce(pc.or_, [self.of(kind) for kind in self.split.kinds])
            known = {(ROLES.index(kind.role), kind.source) for kind in self.split.kinds}
            roles = {code for code, _ in known}
            alone = pc.and_(pc.invert(wrong), pc.is_in(self.rows["role"], value_set=pa.array(roles, pa.int64())))
            self.problems.add_rows(
                "role of another source",
                pc.and_(alone, pc.invert(together)),
                lambda i: (
                    f"{self.path} row {self.first + i}: expected a role that {self.rows['source'][i]} has in "
                    f"{self.split.key}, found {ROLES[self.rows['role'][i].as_py()]}"
                ),
            )
        wanted = pc.binary_join_element_wise(self.rows["source"], self.rows["source_id"], "/")
        made = pc.equal(self.rows["stored"], "pixels")
        other = pc.not_equal(self.rows["id"], wanted).to_numpy().copy()
        for i in np.flatnonzero(other & made.to_numpy()):
            # Where we made the image, the id goes on with what was done.
            other[i] = not self.rows["id"][i].as_py().startswith(wanted[i].as_py())
        self.problems.add_rows(
            "id",
            pa.array(other),
            lambda i: f"{self.path} row {self.first + i}: expected id {wanted[i]}, found {self.rows['id'][i]}",
        )

    def oodness(self) -> None:
        if "oodness" in self.rows.column_names:
            values = self.rows["oodness"]
            wrong = pc.or_(pc.invert(pc.is_finite(values)), pc.less(values, 0))
            self.expect("oodness", "oodness", wrong, "an oodness of 0 or more")

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
