"""Layouts of the papers' tables: which figure goes into which cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from unknown_detection.evaluation.protocols import (
    broad,
    calibration,
    equal_numbers,
    facets,
    od_test,
    openood,
    robustness,
    unknown_detection,
)
from unknown_detection.evaluation.protocols.figures import AS_PUBLISHED, WITHOUT_DUPLICATES, WITHOUT_OVERLAP
from unknown_detection.evaluation.protocols.registry import PROTOCOLS
from unknown_detection.evaluation.protocols.results import ALL_VARIANTS, Line, grouped
from unknown_detection.evaluation.reports.names import (
    detector_name,
    metric,
    metric_name,
    set_name,
    setting_name,
    statistic_name,
)
from unknown_detection.evaluation.reports.tables import (
    Builder,
    Columns,
    Heading,
    Number,
    Row,
    Table,
    cell,
    distinct,
    figure_name,
    heading,
    number,
    over,
)
from unknown_detection.evaluation.scoring.left_out import LeftOut, Overlapping, describe_left_out, describe_overlaps

_MOST_COLUMNS = 8
"""Maximum number of detectors as columns; with more of them, detectors are rows."""

_MOST_CHANGES = 3
"""Maximum number of tables on the effect of duplicates that a page shows open; FACETS has one per config."""

_WITHOUT = {WITHOUT_DUPLICATES: "duplicates", WITHOUT_OVERLAP: "overlap"}


@dataclass(frozen=True)
class PlacedTable:
    """A table in a report, with its protocol; the page shows it at once or folded."""

    table: Table
    protocol: str
    shown: bool


def paper_tables(
    lines: Sequence[Line], left_out: Sequence[LeftOut] = (), overlapping: Sequence[Overlapping] = ()
) -> list[PlacedTable]:
    """Lay out figures as in the papers' tables.

    Args:
        lines: the result of `results.over_runs`.
        left_out: the splits that lose rows in figures without duplicates.
        overlapping: the classes that figures without overlap leave out.

    Returns:
        The tables of each protocol: per config if the paper has one for each, per training method, on all rows,
        without duplicates and without overlap; then the effect of both, the number of duplicates in each split, and
        the classes that overlap.
    """
    losing = {name: [one for one in left_out if one.protocol == name] for name in PROTOCOLS}
    classes = {name: [one for one in overlapping if one.protocol == name] for name in PROTOCOLS}
    remarks = {(name, WITHOUT_DUPLICATES): describe_left_out(losing[name]) for name in PROTOCOLS}
    remarks |= {(name, WITHOUT_OVERLAP): describe_overlaps(classes[name]) for name in PROTOCOLS}
    several = len({line["variant"] for line in lines} - {ALL_VARIANTS}) > 1
    placed: list[PlacedTable] = []
    for (protocol, rows), of_rows in grouped(lines, "protocol", "rows"):
        # Robustness of detectors is over all training methods together.
        each = [(("",), of_rows)] if protocol == robustness.NAME else grouped(of_rows, "variant")
        for (variant,), found in each:
            labels = [variant] if several and variant else []
            labels += [] if rows == AS_PUBLISHED else [rows]
            builder = Builder(tuple(labels), remarks.get((protocol, rows), ""))
            for table, shown in _LAYOUTS[protocol](found, builder):
                placed.append(PlacedTable(table, protocol, shown and rows == AS_PUBLISHED))
    for (protocol, variant), found in grouped(lines, "protocol", "variant"):
        for rows in _WITHOUT:
            builder = Builder((variant,) if several else (), remarks.get((protocol, rows), ""))
            changed = list(_effects(protocol, found, builder, rows))
            placed += [PlacedTable(table, protocol, len(changed) <= _MOST_CHANGES) for table in changed]
    placed += [PlacedTable(_left_out(name, found), name, True) for name, found in losing.items() if found]
    placed += [PlacedTable(_overlapping(name, found), name, False) for name, found in classes.items() if found]
    return _numbered(placed)


def headlines(lines: Sequence[Line], protocol: str) -> list[Line]:
    """Return the headline figure of a protocol, for every config, detector and run, on all rows."""
    headline = PROTOCOLS[protocol].headline if protocol in PROTOCOLS else {}
    named = {"protocol": protocol, "rows": AS_PUBLISHED, **headline}
    found = [line for line in lines if headline and named.items() <= line.items()]
    # The last of BROAD's means is over all kinds of shift; the first of OpenOOD's is over the near splits.
    place = {broad.NAME: -1, openood.NAME: 0}.get(protocol)
    if place is None or not found:
        return found
    return [line for line in found if figure_name(line) == figure_name(found[place])]


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


LaidOutTables = Iterator[tuple[Table, bool]]
"""Tables, each with whether the page shows it at once."""


def _calibration(lines: Sequence[Line], builder: Builder) -> LaidOutTables:
    note = "In percent. ECE: mean gap between confidence and accuracy over 15 bins, known test rows only."
    columns = [(heading(line["config"], line), line) for line in distinct(lines)]
    yield builder.by_method((calibration.NAME,), calibration.TITLE, note, columns, lines), True


def _unknown_detection(lines: Sequence[Line], builder: Builder) -> LaidOutTables:
    """Lay out tables 6 and 7 of Kim, Koo and Hwang: accuracy, all unknowns, misclassifications, each OoD set."""
    groups = {"unknown_detection": "Unknown", "misclassification_detection": "Misclassified"}
    note = (
        "AURC and E-AURC are multiplied by 1,000, all other figures are in percent; known rows are positive for "
        "FPR@95%TPR. In unknown detection every row of an OoD set counts as an error."
    )
    for (config,), found in grouped(lines, "config"):
        columns: Columns = []
        for line in distinct(found):
            group = groups.get(line["setting"]) or ("Far mean" if line["statistic"] else set_name(line["unknown"]))
            if line["metric"] == "accuracy":
                columns.insert(0, (heading("", line), line))
            else:
                columns.append((heading(group, line), line))
        parts = (unknown_detection.NAME, config)
        yield builder.by_method(parts, f"Unknown detection on {config}", note, columns, found), True


def _facets(lines: Sequence[Line], builder: Builder) -> LaidOutTables:
    """Lay out tables VI and VII of FACETS: datasets x methods, three metrics per cell; transposed for many methods."""
    for (setting,), found in grouped(lines, "setting"):
        cells: dict[tuple[str, str], tuple[Number, ...]] = {}
        for name in facets.IN_TABLES:
            for line in found:
                if line["metric"] == name:
                    key = (line["config"], line["detector"])
                    cells[key] = (*cells.get(key, ()), number(line))
        methods = {line["detector"]: detector_name(line["detector"]) for line in found}
        configs = {line["config"]: line["config"] for line in found}
        wide = len(methods) > _MOST_COLUMNS
        down, across = (methods, configs) if wide else (configs, methods)
        rows = [
            Row(title, tuple(cells.get((other, one) if wide else (one, other), ()) for other in across))
            for one, title in down.items()
        ]
        headings = [Heading(title, "FPR@95%TPR / Detection error / AUROC", "higher") for title in across.values()]
        note = (
            "In percent; known rows are positive; FPR is interpolated at 95 % TPR, and the detection error is the "
            "least at 95 % TPR or more, as in the paper's tables; the best AUROC of each dataset is bold. "
            f"{over(found)}"
        )
        stub, ranked = ("Method", "columns") if wide else ("Dataset", "rows")
        title = f"FACETS: {setting_name(setting)}"
        yield builder.table((facets.NAME, setting), title, note, stub, headings, rows, ranked=ranked), True


def _broad(lines: Sequence[Line], builder: Builder) -> LaidOutTables:
    """Lay out tables 2 and 8 of BROAD, the means by kind of shift, and tables 9 to 15, each set of shifted rows."""
    for (setting,), found in grouped(lines, "setting"):
        title = f"BROAD: {setting_name(setting)}"
        note = "AUROC in percent."
        averages = [line for line in distinct(found) if line["statistic"]]
        if averages:  # CoComageNet-mono alone has none
            # The mean over kinds is last; it names the kinds in the order of their own means.
            kinds = [*averages[-1]["unknown"].split(" + "), "average"]
            columns = [(heading("", line, set_name(kind)), line) for kind, line in zip(kinds, averages, strict=True)]
            yield builder.by_method((broad.NAME, setting), title, note, columns, found), True
        splits = [line for line in distinct(found) if not line["statistic"]]
        columns = [(heading("", line, set_name(line["unknown"].partition(",")[0])), line) for line in splits]
        yield builder.by_method((broad.NAME, setting, "splits"), f"{title}, each split", note, columns, found), False


def _od_test(lines: Sequence[Line], builder: Builder) -> LaidOutTables:
    """Lay out the statistics of balanced accuracy over pairs of OoD sets, next to the two-dataset setting."""
    note = (
        "Balanced accuracy in percent. OD-test: the threshold is fitted on one OoD set and evaluated on another, for "
        "all ordered pairs. Two datasets: fitted and evaluated on halves of the same set."
    )
    for (config,), found in grouped(lines, "config"):
        columns = [
            (heading(setting_name(line["setting"]), line, statistic_name(line["statistic"])), line)
            for line in distinct(found)
            if line["statistic"]
        ]
        yield builder.by_method((od_test.NAME, config), f"OD-test on {config}", note, columns, found), True


def _openood(lines: Sequence[Line], builder: Builder) -> LaidOutTables:
    """Lay out each setting of OpenOOD v1.5: the means over near, far and novel splits, accuracy, and each split."""
    accuracies = [line for line in lines if line["metric"] == "accuracy"]
    others = [line for line in lines if line["metric"] != "accuracy"]
    for (config, setting, known), found in grouped(others, "config", "setting", "known"):
        title = f"OpenOOD v1.5 on {config}: {setting_name(setting)}"
        note = f"In percent; unknown rows are positive for FPR@95%TPR, AUPR is by trapezoids. Known rows: {known}."
        means, splits = (
            [line for line in distinct(found) if bool(line["statistic"]) == mean] for mean in (True, False)
        )
        parts = (openood.NAME, config, setting)
        columns = [(heading(f"{set_name(line['unknown'])} mean", line), line) for line in means]
        if setting != "open_set":  # OSCR has the accuracy in it
            of = [line for line in accuracies if (line["config"], line["known"]) == (config, f"{known}, right")]
            columns += [(heading("", line), line) for line in distinct(of)]
            found = [*found, *of]
        yield builder.by_method(parts, title, note, columns, found), True
        columns = [(heading(set_name(line["unknown"]), line), line) for line in splits]
        yield builder.by_method((*parts, "splits"), f"{title}, each split", note, columns, found), False


def _equal_numbers(lines: Sequence[Line], builder: Builder) -> LaidOutTables:
    """Lay out the rows of tables 2 and 3 of the optimizer paper: five metrics of each OoD set."""
    note = "In percent; known rows are positive for FPR and detection error. Of the larger side a part is drawn."
    for (config,), found in grouped(lines, "config"):
        columns = [(heading(set_name(line["unknown"]), line), line) for line in distinct(found)]
        yield builder.by_method((equal_numbers.NAME, config), f"Equal numbers on {config}", note, columns, found), True


def _robustness(lines: Sequence[Line], builder: Builder) -> LaidOutTables:
    """Lay out tables 4 and 5 of the optimizer paper for each OoD set, and the input of its table 10."""
    note = (
        "Mean and variance of the mixture over training methods, in percent and its square (AURC: in thousandths), "
        "and the robustness score: standard deviation times mean if lower values are better, else divided by it."
    )
    over_variants = [line for line in lines if line["variant"] == ALL_VARIANTS]
    sets = {key: len(grouped(found, "unknown")) for key, found in grouped(over_variants, "config", "setting")}
    for (config, setting, unknown), found in grouped(over_variants, "config", "setting", "unknown"):
        names = [] if setting == "ood_detection" else [setting_name(setting)]
        names += [set_name(unknown)] if not names or sets[config, setting] > 1 else []
        where = ", ".join(names)
        columns = [
            (heading(metric(line["metric"]).title, line, statistic_name(line["statistic"])), line)
            for line in distinct(found)
        ]
        title = f"Robustness of detectors to the training method on {config}, {where}"
        table = builder.by_method((robustness.NAME, config, where), title, note, columns, found)
        yield table, setting in ("unknown_detection", equal_numbers.SETTING)
    of_variants = [line for line in lines if line["variant"] != ALL_VARIANTS and line["statistic"] == "robustness"]
    note = "Robustness score of the mixture over all OoD sets; lower is more robust."
    for (config, setting, name), found in grouped(of_variants, "config", "setting", "metric"):
        cells = {(line["detector"], line["variant"]): line for line in found}
        variants, detectors = (dict.fromkeys(line[column] for line in found) for column in ("variant", "detector"))
        rows = [
            Row(detector_name(one), tuple(cell(cells.get((one, variant))) for variant in variants))
            for one in detectors
        ]
        title = f"Robustness of training methods on {config}, {setting_name(setting)}, {metric(name).title}"
        headings = [Heading("", variant, "lower") for variant in variants]
        parts = (robustness.NAME, config, "variants", setting, name)
        yield builder.table(parts, title, note, "Method", headings, rows, digits=3, ranked="rows"), False


_LAYOUTS: Mapping[str, Callable[[Sequence[Line], Builder], LaidOutTables]] = {
    calibration.NAME: _calibration,
    unknown_detection.NAME: _unknown_detection,
    facets.NAME: _facets,
    broad.NAME: _broad,
    od_test.NAME: _od_test,
    openood.NAME: _openood,
    equal_numbers.NAME: _equal_numbers,
    robustness.NAME: _robustness,
}


def _effects(protocol: str, lines: Sequence[Line], builder: Builder, without: str) -> Iterator[Table]:
    """Tabulate a protocol's main figures on all rows and without some; nothing if it lacks the latter."""
    if protocol not in PROTOCOLS or all(line["rows"] != without for line in lines):
        return
    what = _WITHOUT[without]
    # BROAD's figures span several configs.
    for names, found in grouped(lines, *([] if protocol == broad.NAME else ["config"])):
        columns: Columns = []
        for line in _main(protocol, distinct(line for line in found if line["rows"] == AS_PUBLISHED)):
            group = setting_name(line["setting"])
            by_split = protocol in (unknown_detection.NAME, openood.NAME, equal_numbers.NAME)
            if by_split and metric(line["metric"]).takes != "errors":
                group = "Far mean" if " + " in line["unknown"] else set_name(line["unknown"])
            for rows, title in ((AS_PUBLISHED, "all"), (without, "without")):
                columns.append(
                    (heading(f"{group} {metric_name(line['metric'])}", line, title), {**line, "rows": rows})
                )
        note = f"On all rows as published, and without {what}."
        title = f"Effect of {what} on {' '.join(names) or 'BROAD'}"
        yield builder.by_method((what, protocol, *names), title, note, columns, found)


def _main(protocol: str, lines: Sequence[Line]) -> Iterable[Line]:
    """Choose the figures that the effect of leaving rows out is shown on."""
    if protocol == broad.NAME:  # the mean over kinds of shift is last
        return {line["setting"]: line for line in lines if line["statistic"]}.values()
    if protocol in (od_test.NAME, openood.NAME):
        return [
            line for line in lines if line["statistic"] == "mean" and line["metric"] in ("balanced_accuracy", "auroc")
        ]
    if protocol in (facets.NAME, equal_numbers.NAME):
        return [line for line in lines if line["metric"] == "auroc"]
    far = [line for line in lines if line["unknown"].startswith("far_ood") and not line["statistic"]]
    return [line for line in lines if line["metric"] in ("accuracy", "aurc", "auroc") and line not in far]


def _left_out(protocol: str, left_out: Sequence[LeftOut]) -> Table:
    """Tabulate the rows left out of each split that a protocol evaluates."""
    headings = [Heading("", name) for name in ("Rows", "Duplicates", "Made from duplicates", "Left out")]
    rows = []
    for one in left_out:
        counts = (one.rows, one.duplicates, one.made_from_duplicates, one.left_out)
        rows.append(Row(f"{one.config}/{one.split}", tuple((Number(count),) for count in counts)))
    title, parts = "Rows left out as duplicates", ("duplicates", "left-out", protocol)
    return Builder().table(parts, title, describe_left_out(left_out), "Split", headings, rows, digits=0, ranked="")


def _overlapping(protocol: str, overlapping: Sequence[Overlapping]) -> Table:
    """Tabulate the classes that figures without overlap leave out, with their known classes."""
    rows = [
        Row(f"{one.config}/{one.split}, {one.class_id}, {one.known}", ((Number(one.left_out),),))
        for one in overlapping
    ]
    title, parts = "Classes left out for their overlap with known ones", ("overlap", "left-out", protocol)
    stub, headings = "Split, class and known class", [Heading("", "Left out")]
    return Builder().table(parts, title, describe_overlaps(overlapping), stub, headings, rows, digits=0, ranked="")
