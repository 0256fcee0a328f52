"""Layouts of the papers' tables: which figure goes into which cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from evaluation.metrics.metrics import METRICS
from evaluation.protocols import broad, facets, od_test, openood, robustness, unknown_detection
from evaluation.protocols.figures import AS_PUBLISHED, WITHOUT_DUPLICATES, WITHOUT_OVERLAP
from evaluation.protocols.results import ALL_VARIANTS, Line, grouped
from evaluation.report.duplicate_tables import changes_tables, left_out_table, overlap_table
from evaluation.report.tables import Heading, Number, Row, Table, display_name
from evaluation.report.typesetting import TableBuilder, cell, distinct, figure_name, heading, number, over
from evaluation.scoring.duplicates import LeftOut, describe_left_out
from evaluation.scoring.overlap import Overlapping, describe_overlaps

LaidOutTables = Iterator[tuple[Table, bool]]
"""Tables, each with whether the summary shows it in full or only links it."""

BASELINE = "msp"
"""The baseline detector, if it was scored."""

_HEADLINES: Mapping[str, Mapping[str, str]] = {
    unknown_detection.NAME: {"setting": "unknown_detection", "metric": "aurc", "statistic": ""},
    facets.NAME: {"setting": "ood_detection", "metric": "auroc", "statistic": ""},
    broad.NAME: {"setting": "dsd", "metric": "auroc", "statistic": "mean"},
    od_test.NAME: {"setting": "od_test", "metric": "balanced_accuracy", "statistic": "mean"},
    openood.NAME: {"setting": "standard", "metric": "auroc", "statistic": "mean"},
}
"""The headline figure of each protocol."""

_MOST_COLUMNS = 8
"""Maximum number of detectors as columns; with more of them, detectors are rows."""

_MOST_CHANGES = 3
"""Maximum number of tables on the effect of duplicates that a summary shows; FACETS has one per config."""

_STATISTICS = {
    "mean": "mean",
    "standard_deviation": "std",
    "min": "min",
    "lower_quartile": "25 %",
    "median": "median",
    "upper_quartile": "75 %",
    "max": "max",
}


@dataclass(frozen=True)
class PlacedTable:
    """A table in a report.

    Attributes:
        table: the table.
        protocol: its protocol.
        shown: whether the summary shows it in full, or only links it.
    """

    table: Table
    protocol: str
    shown: bool


def paper_tables(
    summary: pa.Table,
    titles: Mapping[str, str],
    left_out: Sequence[LeftOut] = (),
    overlapping: Sequence[Overlapping] = (),
) -> list[PlacedTable]:
    """Lay out figures as in the papers' tables.

    Args:
        summary: the result of `results.over_runs`.
        titles: display names of the detectors.
        left_out: the splits that lose rows in figures without duplicates.
        overlapping: the classes that figures without overlap leave out.

    Returns:
        The tables of each protocol: per config if the paper has one for each, per training method, on all rows,
        without duplicates and without overlap; then the effect of both, the number of duplicates in each split, and
        the classes that overlap.
    """
    lines = summary.to_pylist()
    losing: dict[str, list[LeftOut]] = {}
    for one in left_out:
        losing.setdefault(one.protocol, []).append(one)
    of_protocol: dict[str, list[Overlapping]] = {}
    for each_class in overlapping:
        of_protocol.setdefault(each_class.protocol, []).append(each_class)
    remarks = {
        (protocol, rows): said
        for protocol in _HEADLINES
        for rows, said in (
            (WITHOUT_DUPLICATES, describe_left_out(losing.get(protocol, ()))),
            (WITHOUT_OVERLAP, describe_overlaps(of_protocol.get(protocol, ()))),
        )
    }
    variants = {line["variant"] for line in lines} - {ALL_VARIANTS}
    placed = []
    for (protocol, rows), of_rows in grouped(lines, "protocol", "rows"):
        # Robustness of detectors is over all training methods together.
        each = (
            [("", of_rows)]
            if protocol == robustness.NAME
            else [(v, found) for (v,), found in grouped(of_rows, "variant")]
        )
        for variant, found in each:
            labels = [variant] if len(variants) > 1 and variant else []
            labels += [] if rows == AS_PUBLISHED else [rows]
            remark = remarks.get((protocol, rows), "")
            for table, shown in _LAYOUTS[protocol](found, TableBuilder(tuple(labels), titles, remark)):
                placed.append(PlacedTable(table, protocol, shown and rows == AS_PUBLISHED))
    for (protocol, variant), found in grouped(lines, "protocol", "variant"):
        for rows in (WITHOUT_DUPLICATES, WITHOUT_OVERLAP):
            builder = TableBuilder((variant,) if len(variants) > 1 else (), titles, remarks.get((protocol, rows), ""))
            changes = list(changes_tables(protocol, found, builder, rows))
            placed += [PlacedTable(table, protocol, len(changes) <= _MOST_CHANGES) for table in changes]
    for protocol, splits in losing.items():
        placed.append(PlacedTable(left_out_table(protocol, splits, titles), protocol, True))
    for protocol, classes in of_protocol.items():
        placed.append(PlacedTable(overlap_table(protocol, classes, titles), protocol, False))
    return _numbered(placed)


def _numbered(placed: Sequence[PlacedTable]) -> list[PlacedTable]:
    """Number the names of tables that would share a file; that of the first stays."""
    seen: dict[str, int] = {}
    found = []
    for one in placed:
        name = one.table.name
        seen[name] = seen.get(name, 0) + 1
        table = one.table if seen[name] == 1 else replace(one.table, name=f"{name}-{seen[name]}")
        found.append(replace(one, table=table))
    return found


def headlines(lines: Sequence[Line], protocol: str) -> list[Line]:
    """Return the headline figure of a protocol, for every config, detector and run, on all rows.

    Args:
        lines: figures, or figures over runs.
        protocol: name of the protocol; those that compare runs have no headline.
    """
    named = {"protocol": protocol, "rows": AS_PUBLISHED, **_HEADLINES.get(protocol, {})}
    found = [line for line in lines if protocol in _HEADLINES and named.items() <= line.items()]
    # The last of BROAD's means is over all kinds of shift; the first of OpenOOD's is over the near splits.
    place = {broad.NAME: -1, openood.NAME: 0}.get(protocol)
    if place is None or not found:
        return found
    return [line for line in found if figure_name(line) == figure_name(found[place])]


def _unknown_detection(lines: Sequence[Line], builder: TableBuilder) -> LaidOutTables:
    """Lay out tables 6 and 7 of Kim, Koo and Hwang: accuracy, all unknowns, misclassifications, each OoD set."""
    groups = {"unknown_detection": "Unknown", "misclassification_detection": "Misclassified"}
    note = (
        "AURC and E-AURC are multiplied by 1,000, all other figures are in percent; known rows are positive for "
        "FPR@95%TPR. In unknown detection every row of an OoD set counts as an error."
    )
    for (config,), found in grouped(lines, "config"):
        columns: list[tuple[Heading, Line]] = []
        for line in distinct(found):
            group = groups.get(line["setting"]) or ("far mean" if line["statistic"] else display_name(line["unknown"]))
            if line["metric"] == "accuracy":
                columns.insert(0, (heading("", line), line))
            else:
                columns.append((heading(group, line), line))
        yield (
            builder.by_method(
                (unknown_detection.NAME, config), f"Unknown detection on {config}", note, columns, found
            ),
            True,
        )


def _facets(lines: Sequence[Line], builder: TableBuilder) -> LaidOutTables:
    """Lay out tables VI and VII of FACETS: datasets x methods, three metrics per cell; transposed for many methods."""
    for (setting,), found in grouped(lines, "setting"):
        cells: dict[tuple[str, str], tuple[Number, ...]] = {}
        for metric in facets.IN_TABLES:
            for line in found:
                if line["metric"] == metric:
                    cell = (line["config"], line["detector"])
                    cells[cell] = (*cells.get(cell, ()), number(line))
        methods = builder.methods(found)
        configs = {name: name for name in dict.fromkeys(line["config"] for line in found)}
        wide = len(methods) > _MOST_COLUMNS
        down, across = (methods, configs) if wide else (configs, methods)
        rows = [
            Row(title, tuple(cells.get((other, one) if wide else (one, other), ()) for other in across))
            for one, title in down.items()
        ]
        headings = [Heading(title, "FPR@95%TPR / Detection error / AUROC", "higher") for title in across.values()]
        title = f"FACETS: {facets.SETTINGS[setting]}"
        note = (
            "In percent; known rows are positive; FPR is interpolated at 95 % TPR, and the detection error is the "
            "least at 95 % TPR or more, as in the paper's tables; the best AUROC of each dataset is bold. "
            f"{over(found)}"
        )
        stub = "Method" if wide else "Dataset"
        ranked = "columns" if wide else "rows"
        yield builder.table((facets.NAME, setting), title, note, stub, headings, rows, ranked=ranked), True


def _broad(lines: Sequence[Line], builder: TableBuilder) -> LaidOutTables:
    """Lay out tables 2 and 8 of BROAD, the means by kind of shift, and tables 9 to 15, each set of shifted rows."""
    for (setting,), found in grouped(lines, "setting"):
        title = f"BROAD: {broad.SETTINGS[setting]}"
        note = "AUROC in percent."
        averages = [line for line in distinct(found) if line["statistic"]]
        if averages:  # CoComageNet-mono alone has none
            # The mean over kinds is last; it names the kinds in the order of their own means.
            kinds = [*averages[-1]["unknown"].split(" + "), "average"]
            columns = [
                (Heading("", display_name(kind), "higher"), line) for kind, line in zip(kinds, averages, strict=True)
            ]
            yield builder.by_method((broad.NAME, setting), title, note, columns, found), True
        splits = [line for line in distinct(found) if not line["statistic"]]
        columns = [(Heading("", display_name(line["unknown"].partition(",")[0]), "higher"), line) for line in splits]
        yield builder.by_method((broad.NAME, setting, "splits"), f"{title}, each split", note, columns, found), False


def _od_test(lines: Sequence[Line], builder: TableBuilder) -> LaidOutTables:
    """Lay out the statistics of balanced accuracy over pairs of OoD sets, next to the two-dataset setting."""
    note = (
        "Balanced accuracy in percent. OD-test: the threshold is fitted on one OoD set and evaluated on another, for "
        "all ordered pairs. Two datasets: fitted and evaluated on halves of the same set."
    )
    for (config,), found in grouped(lines, "config"):
        columns = []
        for line in distinct(found):
            if line["statistic"]:
                better = "" if line["statistic"] == "standard_deviation" else METRICS[line["metric"]].better
                heading = Heading(od_test.SETTINGS[line["setting"]], _STATISTICS[line["statistic"]], better)
                columns.append((heading, line))
        yield builder.by_method((od_test.NAME, config), f"OD-test on {config}", note, columns, found), True


def _openood(lines: Sequence[Line], builder: TableBuilder) -> LaidOutTables:
    """Lay out each setting of OpenOOD v1.5: the means over near, far and novel splits, and each split."""
    note = "In percent; unknown rows are positive for FPR@95%TPR. Known rows: {known}."
    for (config, setting, known), found in grouped(lines, "config", "setting", "known"):
        title = f"OpenOOD v1.5 on {config}: {openood.SETTINGS[setting]}"
        for what, wanted in (
            ((), [line for line in distinct(found) if line["statistic"]]),
            (("splits",), [line for line in distinct(found) if not line["statistic"]]),
        ):
            ends = " mean" if not what else ""
            columns = [(heading(display_name(line["unknown"]) + ends, line), line) for line in wanted]
            full = f"{title}, each split" if what else title
            parts = (openood.NAME, config, setting, *what)
            yield builder.by_method(parts, full, note.format(known=known), columns, found), not what


def _robustness(lines: Sequence[Line], builder: TableBuilder) -> LaidOutTables:
    """Lay out tables 4 and 5 of the optimizer paper for each OoD set, and the input of its table 10."""
    note = (
        "Mean and variance of the mixture over training methods, in percent and its square (AURC: in thousandths), "
        "and the robustness score: standard deviation times mean if lower values are better, else divided by it."
    )
    titles = {"mixture_mean": "mean", "mixture_variance": "variance", "robustness": "score"}
    over_variants = [line for line in lines if line["variant"] == ALL_VARIANTS]
    sets = {key: len(grouped(found, "unknown")) for key, found in grouped(over_variants, "config", "setting")}
    for (config, setting, unknown), found in grouped(over_variants, "config", "setting", "unknown"):
        if setting == "ood_detection":
            where = display_name(unknown)
        else:
            where = ", ".join([display_name(setting), *([display_name(unknown)] if sets[config, setting] > 1 else [])])
        columns = []
        for line in distinct(found):
            better = METRICS[line["metric"]].better if line["statistic"] == "mixture_mean" else "lower"
            columns.append((Heading(METRICS[line["metric"]].title, titles[line["statistic"]], better), line))
        title = f"Robustness of detectors to the training method on {config}, {where}"
        table = builder.by_method((robustness.NAME, config, where), title, note, columns, found)
        yield table, setting == "unknown_detection"
    of_variants = [line for line in lines if line["variant"] != ALL_VARIANTS and line["statistic"] == "robustness"]
    for (config, setting, metric), found in grouped(of_variants, "config", "setting", "metric"):
        yield _robust_variants(config, display_name(setting), metric, found, builder), False


def _robust_variants(config: str, setting: str, metric: str, lines: Sequence[Line], builder: TableBuilder) -> Table:
    """Lay out the robustness of each training method over all OoD sets, for each detector."""
    variants = list(dict.fromkeys(line["variant"] for line in lines))
    cells = {(line["detector"], line["variant"]): line for line in lines}
    rows = [
        Row(title, tuple(cell(cells.get((name, variant))) for variant in variants))
        for name, title in builder.methods(lines).items()
    ]
    title = f"Robustness of training methods on {config}, {setting}, {METRICS[metric].title}"
    note = "Robustness score of the mixture over all OoD sets; lower is more robust."
    headings = [Heading("", variant, "lower") for variant in variants]
    parts = (robustness.NAME, config, "variants", setting, metric)
    return builder.table(parts, title, note, "Method", headings, rows, digits=3, ranked="rows")


_LAYOUTS: Mapping[str, Callable[[Sequence[Line], TableBuilder], LaidOutTables]] = {
    unknown_detection.NAME: _unknown_detection,
    facets.NAME: _facets,
    broad.NAME: _broad,
    od_test.NAME: _od_test,
    openood.NAME: _openood,
    robustness.NAME: _robustness,
}
