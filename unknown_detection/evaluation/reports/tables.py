"""The tables of a report.

Tested by `tests/evaluation/reports/test_tables.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from unknown_detection.evaluation.display.tables import Heading, ResultTable, TableRow, metric_name, set_name
from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.protocols import protocol_of, robustness
from unknown_detection.evaluation.protocols.protocol import by_detector, tables_of
from unknown_detection.evaluation.protocols.results import ALL_VARIANTS, AS_PUBLISHED, FIGURE_KEY, Line
from unknown_detection.evaluation.reports.judging import LeftOutRows
from unknown_detection.evaluation.scoring.rows import REDUCED, WITHOUT_DUPLICATES, WITHOUT_OVERLAP, describe_left_out

Tables = Mapping[str, Sequence[ResultTable]]
"""Tables by protocol."""

_MOST_CHANGES = 3
"""Maximum number of tables on the effect of duplicates that a page shows open; FACETS has one per config."""

_COUNTED = {
    WITHOUT_DUPLICATES: (
        "duplicates",
        "Rows left out as duplicates",
        "Split",
        {"Rows": "rows", "Duplicates": "duplicates", "Made from duplicates": "made_from_duplicates"},
    ),
    WITHOUT_OVERLAP: (
        "overlap",
        "Classes left out for their overlap with known ones",
        "Split, class and known class",
        {},
    ),
}
"""What figures may be without: in a word, the title and the rows of a table that counts it, and its first columns."""


def paper_tables(lines: pd.DataFrame, left_out: LeftOutRows) -> Tables:
    """Lay out figures, the result of `results.over_runs`, as in the papers' tables.

    Those of a protocol are per config if the paper has one for each, per training method, on all rows, without
    duplicates and without overlap; then the effect of both, the duplicates of each split, and classes that overlap.
    """
    losing = {
        (name, kind): counted[counted["protocol"] == name]
        for name in lines["protocol"].unique()
        if name != robustness.NAME  # whose figures are of figures, not of rows
        for kind, counted in left_out.items()
    }
    remarks = {key: describe_left_out(key[1], counted) for key, counted in losing.items()}
    several = several_methods(lines)
    tables: dict[str, list[ResultTable]] = defaultdict(list)
    for (name, rows), of_rows in lines.groupby(["protocol", "rows"], sort=False):
        # Robustness of detectors is over all training methods together.
        groups = [("", of_rows)] if name == robustness.NAME else of_rows.groupby("variant", sort=False)
        for variant, group in groups:
            labels = [variant] * bool(several and variant) + [rows] * (rows != AS_PUBLISHED)
            for table in tables_of(protocol_of(name), group):
                labelled = _labelled(table, labels, remarks.get((name, rows), ""))
                tables[name].append(replace(labelled, shown=table.shown and rows == AS_PUBLISHED))
    for (name, variant), group in lines.groupby(["protocol", "variant"], sort=False):
        for kind in REDUCED:
            changed = list(_effects(name, group, kind))
            effects = [_labelled(table, [variant] * several, remarks.get((name, kind), "")) for table in changed]
            tables[name] += [replace(table, shown=len(changed) <= _MOST_CHANGES) for table in effects]
    for (name, kind), counted in losing.items():
        tables[name] += [_counts(name, kind, counted)] if len(counted) else []
    return tables


def summaries(lines: pd.DataFrame) -> Tables:
    """Tabulate the main figures on all rows, by protocol, for each config; the best detector first."""
    short: dict[str, list[ResultTable]] = defaultdict(list)
    published = lines[lines["rows"] == AS_PUBLISHED]
    for (name, config), group in published.groupby(["protocol", "config"], sort=False):
        protocol = protocol_of(name)
        if parts := protocol.shown(group):
            title = f"{protocol.title} on {config}" if config.count(" + ") < 2 else protocol.title
            short[name].append(by_detector((name, config), title, "", pd.concat(parts), _group))
    return short


def several_methods(lines: pd.DataFrame) -> bool:
    """Return whether there are several training methods."""
    return len({*lines["variant"]} - {ALL_VARIANTS}) > 1


def _labelled(table: ResultTable, labels: Sequence[str], remark: str) -> ResultTable:
    """Return a table with labels, such as its training method, in its name and title, and a remark in its note."""
    title = ", ".join([table.title, *(label.replace("_", " ") for label in labels)])
    return replace(table, name=safe_file_name(table.name, *labels), title=title, note=f"{table.note} {remark}".strip())


def _group(line: Line) -> str:
    return str(line["group"].format(set=set_name(line["unknown"])))


def _effects(name: str, lines: pd.DataFrame, kind: str) -> Iterator[ResultTable]:
    """Tabulate a protocol's summary on all rows and without some; nothing if it lacks the latter."""
    if not (lines["rows"] == kind).any():
        return
    protocol, what = protocol_of(name), _COUNTED[kind][0]
    compared = lines[lines["rows"].isin([AS_PUBLISHED, kind])]
    for config, group in compared.groupby("config", sort=False) if protocol.each_config else [("", compared)]:
        but_rows = [key for key in FIGURE_KEY if key != "rows"]
        pairs = [pair for part in protocol.shown(group) for _, pair in part.groupby(but_rows, sort=False)]
        if pairs:
            title = f"Effect of {what} on {config or protocol.title}"
            note = f"On all rows as published, and without {what}."
            parts = [what, name, *([config] if config else [])]
            yield by_detector(parts, title, note, pd.concat(pairs), _all_or_without)


def _all_or_without(line: Line) -> tuple[str, str]:
    group = f"{_group(line)} {metric_name(line['metric'])}".strip()
    return group, "all" if line["rows"] == AS_PUBLISHED else "without"


def _counts(protocol: str, kind: str, counted: pd.DataFrame) -> ResultTable:
    """Tabulate the rows left out of each split that a protocol evaluates, or of each class."""
    what, title, stub, first = _COUNTED[kind]
    columns = {**first, "Left out": "left_out"}
    names = [f"{config}/{split}" for config, split in zip(counted["config"], counted["split"], strict=True)]
    if kind == WITHOUT_OVERLAP:
        names = [", ".join(of) for of in zip(names, counted["class_id"], counted["overlap"], strict=True)]
    counts = counted[[*columns.values()]].to_numpy(float)
    return ResultTable(
        safe_file_name(what, "left-out", protocol), title, describe_left_out(kind, counted), stub,
        [Heading("", name) for name in columns], [*map(TableRow, names)], counts, np.full(counts.shape, np.nan),
        digits=0, shown=kind == WITHOUT_DUPLICATES,
    )  # fmt: skip
