"""Places tables and pictures in a report: each protocol's, the effects of duplicates, and the short tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from unknown_detection.evaluation.display.names import metric_name
from unknown_detection.evaluation.display.tables import Heading, ResultTable, TableRow
from unknown_detection.evaluation.protocols import calibration, robustness
from unknown_detection.evaluation.protocols.figures import AS_PUBLISHED, WITHOUT_DUPLICATES, WITHOUT_OVERLAP
from unknown_detection.evaluation.protocols.pictures import Scene
from unknown_detection.evaluation.protocols.protocol import Builder, heading
from unknown_detection.evaluation.protocols.registry import PROTOCOLS, protocol_of, setting_titles
from unknown_detection.evaluation.protocols.results import ALL_VARIANTS
from unknown_detection.evaluation.reports.inputs import ScoredRun
from unknown_detection.evaluation.reports.judging import confidences
from unknown_detection.evaluation.scoring.left_out import LeftOut, Overlapping, describe_left_out, describe_overlaps

_MOST_CHANGES = 3
"""Maximum number of tables on the effect of duplicates that a page shows open; FACETS has one per config."""

_WITHOUT = {WITHOUT_DUPLICATES: "duplicates", WITHOUT_OVERLAP: "overlap"}


@dataclass(frozen=True)
class PlacedTable:
    """A table in a report, with its protocol; the page shows it at once or folded."""

    table: ResultTable
    protocol: str
    shown: bool


def paper_tables(
    lines: pd.DataFrame, left_out: Sequence[LeftOut] = (), overlapping: Sequence[Overlapping] = ()
) -> list[PlacedTable]:
    """Lay out figures, the result of `results.over_runs`, as in the papers' tables.

    Returns:
        The tables of each protocol: per config if the paper has one for each, per training method, on all rows,
        without duplicates and without overlap; then the effect of both, the number of duplicates in each split, and
        the classes that overlap.
    """
    losing = {name: [split for split in left_out if split.protocol == name] for name in PROTOCOLS}
    classes = {name: [class_ for class_ in overlapping if class_.protocol == name] for name in PROTOCOLS}
    remarks = {(name, WITHOUT_DUPLICATES): describe_left_out(losing[name]) for name in PROTOCOLS}
    remarks |= {(name, WITHOUT_OVERLAP): describe_overlaps(classes[name]) for name in PROTOCOLS}
    several = len({*lines["variant"]} - {ALL_VARIANTS}) > 1
    titles = setting_titles()
    placed: list[PlacedTable] = []
    for (protocol, rows), of_rows in lines.groupby(["protocol", "rows"], sort=False):
        # Robustness of detectors is over all training methods together.
        groups = [("", of_rows)] if protocol == robustness.NAME else of_rows.groupby("variant", sort=False)
        for variant, group in groups:
            labels = [variant] if several and variant else []
            labels += [] if rows == AS_PUBLISHED else [rows]
            builder = Builder(tuple(labels), remarks.get((protocol, rows), ""), titles, protocol_of(protocol).headline)
            for table, shown in protocol_of(protocol).lay_out(group, builder):
                placed.append(PlacedTable(table, protocol, shown and rows == AS_PUBLISHED))
    for (protocol, variant), group in lines.groupby(["protocol", "variant"], sort=False):
        for rows in _WITHOUT:
            builder = Builder((variant,) if several else (), remarks.get((protocol, rows), ""))
            changed = list(_effects(protocol, group, builder, rows))
            placed += [PlacedTable(table, protocol, len(changed) <= _MOST_CHANGES) for table in changed]
    placed += [PlacedTable(_left_out(name, splits), name, True) for name, splits in losing.items() if splits]
    placed += [PlacedTable(_overlapping(name, of), name, False) for name, of in classes.items() if of]
    return _numbered(placed)


def summaries(lines: pd.DataFrame) -> list[PlacedTable]:
    """Tabulate the main figures on all rows, by protocol and config, the best detector first."""
    placed = []
    several = len({*lines["variant"]} - {ALL_VARIANTS}) > 1
    published = lines[lines["rows"] == AS_PUBLISHED]
    for (name, config), group in published.groupby(["protocol", "config"], sort=False):
        protocol = protocol_of(name)
        columns = protocol.columns(group)
        if columns:
            title = f"{protocol.title} on {config}" if config.count(" + ") < 2 else protocol.title
            builder = Builder(ranked=protocol.headline, variants=several)
            table = builder.by_detector((name, config), title, "", columns, group)
            placed.append(PlacedTable(table.best_first(), name, True))
    return placed


def pictures(
    scored: Sequence[ScoredRun], figures: pd.DataFrame, plan: Mapping[str, Sequence[str]], roc: str | None = None
) -> list[Scene]:
    """Return the scenes of the protocols' pictures; `scene.protocol.pictures(scene)` draws one after the other.

    ROC curves are of the detector `roc`; None for the best.
    """
    scenes = []
    variants = list(dict.fromkeys(run.origin.variant for run in scored))
    for variant in variants:
        runs = [run for run in scored if run.origin.variant == variant]
        runs.sort(key=lambda run: (run.origin.seed is None, run.origin.seed or 0, run.origin.name))
        variant_figures = figures[(figures["variant"] == variant) & (figures["rows"] == AS_PUBLISHED)]
        labels = [variant] if len(variants) > 1 else []
        for name, lines in variant_figures.groupby("protocol", sort=False):
            protocol, rows, names = protocol_of(name), {}, {}
            configs = plan.get(name) or lines["config"].unique().tolist()
            for of in [[config] for config in configs] if protocol.each_config else [configs]:
                for run in runs:  # the first with rows of the config
                    detectors = dict(confidences(run)) if name == calibration.NAME else run.rows
                    if set(of) & set(run.configs) and detectors:
                        place = of[0] if protocol.each_config else name
                        rows[place] = {name: run.of_configs(scores, of) for name, scores in detectors.items()}
                        names[place] = run.origin.name
                        break
            scenes.append(Scene(protocol, lines, rows, names, labels, roc))
    return scenes


def _numbered(placed: Sequence[PlacedTable]) -> list[PlacedTable]:
    """Number the names of tables that would share a file; that of the first stays."""
    seen: Counter[str] = Counter()
    numbered = []
    for entry in placed:
        name = entry.table.name
        seen[name] += 1
        table = entry.table if seen[name] == 1 else replace(entry.table, name=f"{name}-{seen[name]}")
        numbered.append(replace(entry, table=table))
    return numbered


def _effects(protocol: str, lines: pd.DataFrame, builder: Builder, without: str) -> Iterator[ResultTable]:
    """Tabulate a protocol's summary on all rows and without some; nothing if it lacks the latter."""
    if not (lines["rows"] == without).any():
        return
    kind, declared = _WITHOUT[without], protocol_of(protocol)
    for names, group in lines.groupby(["config"], sort=False) if declared.each_config else [((), lines)]:
        columns = [
            (heading(f"{head.group} {metric_name(line['metric'])}".strip(), line, title), {**line, "rows": rows})
            for head, line in declared.columns(group[group["rows"] == AS_PUBLISHED])
            for rows, title in ((AS_PUBLISHED, "all"), (without, "without"))
        ]
        if not columns:
            continue
        note = f"On all rows as published, and without {kind}."
        title = f"Effect of {kind} on {' '.join(names) or declared.title}"
        yield builder.by_detector((kind, protocol, *names), title, note, columns, group)


def _left_out(protocol: str, left_out: Sequence[LeftOut]) -> ResultTable:
    """Tabulate the rows left out of each split that a protocol evaluates."""
    headings = [Heading("", name) for name in ("Rows", "Duplicates", "Made from duplicates", "Left out")]
    rows = [TableRow(f"{split.config}/{split.split}") for split in left_out]
    counts = [[split.rows, split.duplicates, split.made_from_duplicates, split.left_out] for split in left_out]
    title, parts = "Rows left out as duplicates", ("duplicates", "left-out", protocol)
    note = describe_left_out(left_out)
    return Builder().table(parts, title, note, "Split", headings, rows, np.array(counts, float), digits=0)


def _overlapping(protocol: str, overlapping: Sequence[Overlapping]) -> ResultTable:
    """Tabulate the classes that figures without overlap leave out, with their known classes."""
    rows = [TableRow(f"{class_.config}/{class_.split}, {class_.class_id}, {class_.known}") for class_ in overlapping]
    counts = np.array([[class_.left_out] for class_ in overlapping], float)
    title, parts = "Classes left out for their overlap with known ones", ("overlap", "left-out", protocol)
    stub, note = "Split, class and known class", describe_overlaps(overlapping)
    return Builder().table(parts, title, note, stub, [Heading("", "Left out")], rows, counts, digits=0)
