"""Checks the cells of an index against each other and against the manifest, a column at a time.

Tested by `tests/hf_scripts/checks/test_rows.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.release.entries import By, ConfigEntry, PartEntry, SplitEntry
from builders.release.images import BY_PIXELS, Stored
from builders.release.names import absolute_paths
from builders.release.schema import (
    ID_OVERLAP,
    ID_OVERLAP_KIND,
    PREPARED_SHA256,
    ROLES,
    UNKNOWN_ROLES,
    Column,
    arrow_schema,
    without_values,
)
from hf_scripts.checks.problems import Problems
from taxonomy.overlaps import CLOSENESS

HEX_SHA256 = "^[0-9a-f]{64}$"
_OF_CLASSES = ("class_id", "class_name", ID_OVERLAP.name)

_Rule = tuple[str, str, Any, str]
"""Kind of a problem, the column whose value breaks a rule, the rows where it does (booleans), and the rule."""


@dataclass(frozen=True)
class SplitFacts:
    """What the manifest says of a split: the facts that its rows are checked against.

    `key` is `config/split`, and `columns` are the config's own. `prepared` is the width and height of its images if
    they are prepared for a model's input; `sealed` says whether it has sealed residuals, and `demo` whether it is of
    demo sources. `compared` are the methods other than byte digests by which its images were compared with others.
    """

    key: str
    parts: tuple[PartEntry, ...]
    label_names: tuple[str, ...]
    columns: tuple[Column, ...]
    prepared: int
    sealed: bool
    demo: bool
    compared: frozenset[By]

    def schema(self, *, image: bool) -> pa.Schema:
        """Return the schema of the split's index, or with `image` of its shards."""
        return arrow_schema(self.label_names, self.columns, image=image, demo=self.demo)


def split_facts(
    key: str, config: ConfigEntry, entry: SplitEntry, *, demo: bool, compared: frozenset[By]
) -> SplitFacts:
    """Collect the facts from the manifest's entries of a config and its split."""
    prepared = entry.generator.prepared if entry.generator is not None else 0
    return SplitFacts(
        key, entry.parts, config.label_names, config.columns, prepared, bool(entry.sealed), demo, compared
    )


def check_values(rows: pa.Table, split: SplitFacts, path: str, first: int, problems: Problems) -> None:
    """Check some rows of the index `path`, of which the first has the number `first`."""
    empty = without_values(rows, split.columns)
    for name in empty:
        problems.add_rows(
            "value missing",
            pc.is_null(rows[name]),
            lambda i, name=name: f"{path} row {first + i}: {name} has no value",  # type: ignore[misc]
        )
    for kind, name, wrong, rule in _rules(rows, split) if not empty else ():
        problems.add_rows(
            kind,
            wrong,
            lambda i, name=name, rule=rule: f"{path} row {first + i}: {name} is {rows[name][i]}, {rule}",  # type: ignore[misc]
        )


def _rules(rows: pa.Table, split: SplitFacts) -> Iterator[_Rule]:
    yield from _parts(rows, split)
    yield from _labels(rows, split)
    expected = pc.binary_join_element_wise(rows["source"], rows["source_id"], "/")
    made = pc.is_in(rows["stored"], value_set=pa.array(sorted(BY_PIXELS)))
    differs = pc.not_equal(rows["id"], expected).to_numpy().copy()
    for i in np.flatnonzero(differs & made.to_numpy()):  # a generated image's id continues with the generator's name
        differs[i] = not rows["id"][i].as_py().startswith(expected[i].as_py())
    yield "id", "id", pa.array(differs), "which does not follow from its source and source_id"
    # The digest over the rows joins cells by tabs and newlines, so an id that contains them could hide a change.
    yield "id", "id", pc.match_substring_regex(rows["id"], "[\t\r\n]"), "which contains a tab or a line break"
    stored = pa.array(get_args(Stored))
    yield "stored", "stored", _outside(rows["stored"], stored), f"not one of {', '.join(stored.to_pylist())}"
    for name in ("content_sha256", *([PREPARED_SHA256.name] if split.sealed else [])):
        malformed = pc.invert(pc.match_substring_regex(rows[name], HEX_SHA256))
        yield "digest", name, malformed, "not a SHA-256 in lower-case hex"
    for name in rows.column_names:
        if pa.types.is_string(rows.schema.field(name).type):
            absolute = absolute_paths(rows[name], classes=name in _OF_CLASSES)
            yield "absolute path", name, absolute, "an absolute path"
    if "oodness" in rows.column_names:
        values = rows["oodness"]
        yield "oodness", "oodness", pc.or_(pc.invert(pc.is_finite(values)), pc.less(values, 0)), "not 0 or more"
    if ID_OVERLAP in split.columns:
        yield from _overlaps(rows, split)


def _outside(values: pa.ChunkedArray, allowed: pa.Array) -> Any:
    return pc.invert(pc.is_in(values, value_set=allowed))


def _of(part: PartEntry, rows: pa.Table) -> Any:
    return pc.and_(pc.equal(rows["role"], ROLES.index(part.role)), pc.equal(rows["source"], part.source))


def _parts(rows: pa.Table, split: SplitFacts) -> Iterator[_Rule]:
    codes = {ROLES.index(part.role): part.role for part in split.parts}
    named = " or ".join(f"{code} ({role})" for code, role in codes.items())
    other_role = _outside(rows["role"], pa.array(codes, pa.int64()))
    yield "role", "role", other_role, f"not {named} as manifest.json lists for {split.key}"
    sources = list(dict.fromkeys(part.source for part in split.parts))
    other_source = _outside(rows["source"], pa.array(sources))
    yield "source", "source", other_source, f"not {' or '.join(sources)}"
    of_none = pc.invert(functools.reduce(pc.or_, [_of(part, rows) for part in split.parts]))
    alone = pc.and_(of_none, pc.invert(pc.or_(other_role, other_source)))
    yield "role of another source", "role", alone, f"which rows of its source do not have in {split.key}"


def _labels(rows: pa.Table, split: SplitFacts) -> Iterator[_Rule]:
    label, names = rows["label"], split.label_names
    every = pc.is_valid(label)
    if len({part.labelled for part in split.parts}) == 1:
        labelled = every if split.parts[0].labelled else pc.invert(every)
    else:
        labelled = functools.reduce(pc.or_, [_of(part, rows) for part in split.parts if part.labelled])
    unlabelled = pc.and_(pc.invert(labelled), pc.not_equal(label, -1))
    yield "label of an unlabelled row", "label", unlabelled, f"not -1, although {split.key} has no label of such rows"
    inside = pc.and_(pc.greater_equal(label, 0), pc.less(label, len(names)))
    yield "label out of range", "label", pc.and_(labelled, pc.invert(inside)), f"outside 0 to {len(names) - 1}"
    named = pa.array(names, pa.string()).take(pc.if_else(inside, label, None))
    differs = pc.not_equal(named, rows["class_id"]).fill_null(False)
    yield "label of another class", "label", pc.and_(labelled, differs), "not that of its class_id"


def _overlaps(rows: pa.Table, split: SplitFacts) -> Iterator[_Rule]:
    name, values = ID_OVERLAP.name, rows[ID_OVERLAP.name]
    valid = pc.is_valid(values)
    unnamed = _outside(values, pa.array(split.label_names, pa.string()))
    yield "overlap", name, pc.and_(valid, unnamed), f"no known class of {split.key}"
    of_known = _outside(rows["role"], pa.array([ROLES.index(role) for role in UNKNOWN_ROLES], pa.int64()))
    yield "overlap", name, pc.and_(valid, of_known), "although the row's class is known"
    if ID_OVERLAP_KIND in split.columns:
        kind = pc.is_in(rows[ID_OVERLAP_KIND.name], value_set=pa.array(list(CLOSENESS), pa.string()))
        rule = "no kind of overlap, or one without the other column"
        yield "overlap", ID_OVERLAP_KIND.name, pc.not_equal(kind, valid), rule
