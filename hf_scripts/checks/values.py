"""Checks the cells of rows against each other and against the manifest, a column at a time.

Tested by `tests/hf_scripts/checks/test_rows.py`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.release.entries import By, ConfigEntry
from builders.release.images import BY_PIXELS, Stored
from builders.release.schema import (
    ID_OVERLAP,
    ID_OVERLAP_KIND,
    PREPARED_SHA256,
    ROLES,
    UNKNOWN_ROLES,
    Column,
    Role,
    without_values,
)
from builders.release.split_entries import SplitEntry
from hf_scripts.checks.problems import Problems
from taxonomy.overlaps import CLOSENESS

_STORED = pa.array(get_args(Stored))
HEX_SHA256 = "^[0-9a-f]{64}$"
_ABSOLUTE = r"^(/|~|\\|[A-Za-z]:[\\/]|file:)"
# Places365 names its classes /a/airfield: a slash, one letter, a slash.
_ABSOLUTE_CLASS = r"^(/[^/]([^/]|$)|/$|~/|\\|[A-Za-z]:[\\/]|file:)"


@dataclass(frozen=True)
class Kind:
    """A role and a source that rows of a split have; `labelled` if they have a label."""

    role: Role
    source: str
    labelled: bool


@dataclass(frozen=True)
class SplitFacts:
    """The facts of the manifest that a split's rows are checked against.

    `key` is `config/split`. `kinds` has several entries only if the split is joined from parts. `columns` are the
    config's own columns. `prepared` is the width and height of its images if they are prepared for a model's input;
    `sealed` says whether it has sealed residuals, and `demo` whether it is of demo sources. `compared` are the methods
    other than byte digests by which its images were compared with others.
    """

    key: str
    kinds: tuple[Kind, ...]
    label_names: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    prepared: int = 0
    sealed: bool = False
    demo: bool = False
    compared: frozenset[By] = frozenset()


def split_facts(
    key: str, config: ConfigEntry, entry: SplitEntry, *, demo: bool = False, compared: frozenset[By] = frozenset()
) -> SplitFacts:
    """Collect the facts from the manifest's entries of a config and its split."""
    kinds = [Kind(piece.role, piece.source, piece.labelled) for piece in entry.pieces()]
    prepared = entry.generator.prepared if entry.generator is not None else 0
    columns = config.columns
    different, sealed = tuple(dict.fromkeys(kinds)), bool(entry.sealed)
    return SplitFacts(key, different, config.label_names, columns, prepared, sealed, demo, compared)


def check_values(rows: pa.Table, split: SplitFacts, path: str, first: int, problems: Problems) -> None:
    """Check all columns but the image.

    Args:
        rows: some rows of a file.
        split: the facts of the manifest.
        path: the file, for messages.
        first: number of the first row in the file.
        problems: collects the problems.
    """
    checker = _Checker(rows, split, path, first, problems)
    if not checker.missing():
        checker.label()
        checker.role()
        checker.identity()
        checker.text()
        checker.oodness()
        checker.overlap()


class _Checker:
    def __init__(self, rows: pa.Table, split: SplitFacts, path: str, first: int, problems: Problems) -> None:
        self.rows = rows
        self.split = split
        self.path = path
        self.first = first
        self.problems = problems

    def report(self, name: str, kind: str, wrong: pa.ChunkedArray | pa.Array, rule: str) -> None:
        """Report the marked rows with their value of the column `name` and the rule that it breaks."""
        self.problems.add_rows(
            kind, wrong, lambda i: f"{self.path} row {self.first + i}: {name} is {self.rows[name][i]}, {rule}"
        )

    def missing(self) -> bool:
        """Report cells without a value. Returns whether there are any, since the other checks need all values."""
        empty = without_values(self.rows, self.split.columns)
        for name in empty:
            self.problems.add_rows(
                "value missing",
                pc.is_null(self.rows[name]),
                lambda i, name=name: f"{self.path} row {self.first + i}: {name} has no value",  # type: ignore[misc]
            )
        return bool(empty)

    def label(self) -> None:
        label, names = self.rows["label"], self.split.label_names
        for kind in self.split.kinds:
            if not kind.labelled:
                wrong = pc.and_(self.of(kind), pc.not_equal(label, -1))
                rows = kind.role if len(self.split.kinds) == 1 else f"{kind.role} from {kind.source}"
                name = "label of an unknown" if kind.role != "in_distribution" else "label of an unlabelled row"
                self.report("label", name, wrong, f"not -1, although {self.split.key} is {rows}")
        labelled = [self.of(kind) for kind in self.split.kinds if kind.labelled]
        if not labelled:
            return
        outside = pc.or_(pc.less(label, 0), pc.greater_equal(label, len(names)))
        outside = pc.and_(functools.reduce(pc.or_, labelled), outside)
        self.report("label", "label out of range", outside, f"outside 0 to {len(names) - 1}")
        inside = pc.and_(pc.greater_equal(label, 0), pc.less(label, len(names)))
        named = pa.array(names).take(pc.if_else(inside, label, None))
        class_ids = self.rows["class_id"]
        self.problems.add_rows(
            "label of another class",
            pc.and_(functools.reduce(pc.or_, labelled), pc.not_equal(named, class_ids).fill_null(False)),
            lambda i: f"{self.path} row {self.first + i}: label is that of {named[i]}, class_id is {class_ids[i]}",
        )

    def of(self, kind: Kind) -> pa.ChunkedArray | pa.Array:
        """Mark the rows of a kind; if the split has only one kind, all rows, whatever their role and source."""
        if len(self.split.kinds) == 1:
            return pc.is_valid(self.rows["role"])
        of_role = pc.equal(self.rows["role"], ROLES.index(kind.role))
        return pc.and_(of_role, pc.equal(self.rows["source"], kind.source))

    def role(self) -> None:
        codes = {ROLES.index(kind.role): kind.role for kind in self.split.kinds}
        wrong = pc.invert(pc.is_in(self.rows["role"], value_set=pa.array(codes, pa.int64())))
        named = " or ".join(f"{code} ({role})" for code, role in codes.items())
        self.report("role", "role", wrong, f"not {named} as manifest.json lists for {self.split.key}")

    def identity(self) -> None:
        sources = list(dict.fromkeys(kind.source for kind in self.split.kinds))
        wrong = pc.invert(pc.is_in(self.rows["source"], value_set=pa.array(sources)))
        self.report("source", "source", wrong, f"not {' or '.join(sources)}")
        if len(self.split.kinds) > 1:
            together = functools.reduce(pc.or_, [self.of(kind) for kind in self.split.kinds])
            known = {(ROLES.index(kind.role), kind.source) for kind in self.split.kinds}
            roles = {code for code, _ in known}
            alone = pc.and_(pc.invert(wrong), pc.is_in(self.rows["role"], value_set=pa.array(roles, pa.int64())))
            self.problems.add_rows(
                "role of another source",
                pc.and_(alone, pc.invert(together)),
                lambda i: (
                    f"{self.path} row {self.first + i}: role is {ROLES[self.rows['role'][i].as_py()]}, which rows of "
                    f"{self.rows['source'][i]} do not have in {self.split.key}"
                ),
            )
        expected = pc.binary_join_element_wise(self.rows["source"], self.rows["source_id"], "/")
        generated = pc.is_in(self.rows["stored"], value_set=pa.array(sorted(BY_PIXELS)))
        differs = pc.not_equal(self.rows["id"], expected).to_numpy().copy()
        for i in np.flatnonzero(differs & generated.to_numpy()):
            # The id of a generated image continues with the name of its generator.
            differs[i] = not self.rows["id"][i].as_py().startswith(expected[i].as_py())
        self.problems.add_rows(
            "id",
            pa.array(differs),
            lambda i: f"{self.path} row {self.first + i}: id is {self.rows['id'][i]}, not {expected[i]}",
        )

    def oodness(self) -> None:
        if "oodness" in self.rows.column_names:
            values = self.rows["oodness"]
            wrong = pc.or_(pc.invert(pc.is_finite(values)), pc.less(values, 0))
            self.report("oodness", "oodness", wrong, "not 0 or more")

    def overlap(self) -> None:
        if ID_OVERLAP not in self.split.columns:
            return
        values = self.rows[ID_OVERLAP.name]
        not_known = pc.invert(pc.is_in(values, value_set=pa.array(self.split.label_names, pa.string())))
        self.report(
            ID_OVERLAP.name, "overlap", pc.and_(pc.is_valid(values), not_known), f"no known class of {self.split.key}"
        )
        unknown = pa.array([ROLES.index(role) for role in UNKNOWN_ROLES], pa.int64())
        of_known = pc.invert(pc.is_in(self.rows["role"], value_set=unknown))
        self.report(
            ID_OVERLAP.name, "overlap", pc.and_(pc.is_valid(values), of_known), "although the row's class is known"
        )
        if ID_OVERLAP_KIND in self.split.columns:
            kinds = self.rows[ID_OVERLAP_KIND.name]
            known = pc.is_in(kinds, value_set=pa.array(list(CLOSENESS), pa.string()))
            wrong = pc.not_equal(known, pc.is_valid(values))
            self.report(ID_OVERLAP_KIND.name, "overlap", wrong, "no kind of overlap, or one without the other column")

    def text(self) -> None:
        rows = self.rows
        allowed = ", ".join(_STORED.to_pylist())
        self.report(
            "stored", "stored", pc.invert(pc.is_in(rows["stored"], value_set=_STORED)), f"not one of {allowed}"
        )
        for name in ("content_sha256", *([PREPARED_SHA256.name] if self.split.sealed else [])):
            malformed = pc.invert(pc.match_substring_regex(rows[name], HEX_SHA256))
            self.report(name, "digest", malformed, "not a SHA-256 in lower-case hex")
        # The digest over the rows joins cells by tabs and newlines, so an id that contains them could hide a change.
        breaks = pc.match_substring_regex(rows["id"], "[\t\r\n]")
        self.report("id", "id", breaks, "which contains a tab or a line break")
        for name in rows.column_names:
            if pa.types.is_string(rows.schema.field(name).type):
                pattern = _ABSOLUTE_CLASS if name in ("class_id", "class_name", ID_OVERLAP.name) else _ABSOLUTE
                absolute = pc.fill_null(pc.match_substring_regex(rows[name], pattern), False)
                self.report(name, "absolute path", absolute, "an absolute path")
