"""Which figures stand where in the papers' tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from evaluation.metrics.metrics import METRICS
from evaluation.protocols import broad, facets, od_test, robustness, unknown_detection
from evaluation.protocols.figures import AS_PUBLISHED
from evaluation.protocols.results import ALL_VARIANTS, Line, grouped
from evaluation.report.duplicate_tables import changes_tables, left_out_table
from evaluation.report.tables import Heading, Number, Row, Table, words
from evaluation.report.typesetting import Setter, cell, distinct, figure_name, heading, number, over
from evaluation.scoring.duplicates import LeftOut, sentence

Laid = Iterator[tuple[Table, bool]]
"""Tables, and whether the summary shows them or only links them."""

BASELINE = "msp"
"""The detector that others are held against, where it is there."""

_HEADLINES: Mapping[str, Mapping[str, str]] = {
    unknown_detection.NAME: {"setting": "unknown_detection", "metric": "aurc", "statistic": ""},
    facets.NAME: {"setting": "ood_detection", "metric": "auroc", "statistic": ""},
    broad.NAME: {"setting": "dsd", "metric": "auroc", "statistic": "mean"},
    od_test.NAME: {"setting": "od_test", "metric": "balanced_accuracy", "statistic": "mean"},
}
"""The figure of each protocol that says most."""

_MOST_COLUMNS = 8
"""Detectors that fit beside each other; more of them become rows."""

_MOST_CHANGES = 3
"""Tables of what duplicates change that a summary shows; FACETS has one for each of its many configs."""

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
class Placed:
    """A table in a report.

    Attributes:
        table: the table.
        protocol: whose it is.
        shown: whether the summary shows it, or only links it.
    """

    table: Table
    protocol: str
    shown: bool


def paper_tables(summary: pa.Table, titles: Mapping[str, str], left_out: Sequence[LeftOut] = ()) -> list[Placed]:
    """Set figures as the papers do.

    Args:
        summary: what `results.over_runs` gives.
        titles: of detectors, for people.
        left_out: the splits that lose rows in figures without duplicates.

    Returns:
        The tables of each protocol: of each config where the paper has one for each, of each way of training, of all
        rows and of those without duplicates; then what duplicates change, and how many rows of each split they are.
    """
    lines = summary.to_pylist()
    losing: dict[str, list[LeftOut]] = {}
    for one in left_out:
        losing.setdefault(one.protocol, []).append(one)
    remarks = {protocol: sentence(losing.get(protocol, ())) for protocol in _HEADLINES}
    variants = {line["variant"] for line in lines} - {ALL_VARIANTS}
    placed = []
    for (protocol, rows), of_rows in grouped(lines, "protocol", "rows"):
        # How robust detectors are is asked of all ways of training together.
        each = (
            [("", of_rows)]
            if protocol == robustness.NAME
            else [(v, found) for (v,), found in grouped(of_rows, "variant")]
        )
        for variant, found in each:
            labels = [variant] if len(variants) > 1 and variant else []
            labels += [] if rows == AS_PUBLISHED else [rows]
            remark = "" if rows == AS_PUBLISHED else remarks.get(protocol, "")
            for table, shown in _LAYOUTS[protocol](found, Setter(tuple(labels), titles, remark)):
                placed.append(Placed(table, protocol, shown and rows == AS_PUBLISHED))
    for (protocol, variant), found in grouped(lines, "protocol", "variant"):
        setter = Setter((variant,) if len(variants) > 1 else (), titles, remarks.get(protocol, ""))
        changes = list(changes_tables(protocol, found, setter))
        placed += [Placed(table, protocol, len(changes) <= _MOST_CHANGES) for table in changes]
    for protocol, of_protocol in losing.items():
        placed.append(Placed(left_out_table(protocol, of_protocol, titles), protocol, True))
    return placed


def headlines(lines: Sequence[Line], protocol: str) -> list[Line]:
    """The figure of a protocol that says most, of every config, detector and run, on all rows.

    Args:
        lines: figures, or figures over runs.
        protocol: its name; one that compares runs has none.
    """
    named = {"protocol": protocol, "rows": AS_PUBLISHED, **_HEADLINES.get(protocol, {})}
    found = [line for line in lines if protocol in _HEADLINES and named.items() <= line.items()]
    # Of BROAD's means the last is over all kinds of shift.
    return [line for line in found if protocol != broad.NAME or figure_name(line) == figure_name(found[-1])]


def _unknown_detection(lines: Sequence[Line], setter: Setter) -> Laid:
    """Tables 6 and 7 of Kim, Koo and Hwang: accuracy, all unknowns, mistakes, then each set of unknowns."""
    groups = {"unknown_detection": "Unknown", "misclassification_detection": "Misclassified"}
    note = (
        "AURC and E-AURC are multiplied by 1,000, all else is in percent; known rows are positive for FPR@95%TPR. In "
        "unknown detection every row of an unknown set is an error."
    )
    for (config,), found in grouped(lines, "config"):
        columns: list[tuple[Heading, Line]] = []
        for line in distinct(found):
            group = groups.get(line["setting"]) or ("far mean" if line["statistic"] else words(line["unknown"]))
            if line["metric"] == "accuracy":
                columns.insert(0, (heading("", line), line))
            else:
                columns.append((heading(group, line), line))
        yield (
            setter.by_method((unknown_detection.NAME, config), f"Unknown detection on {config}", note, columns, found),
            True,
        )


def _facets(lines: Sequence[Line], setter: Setter) -> Laid:
    """Tables VI and VII of FACETS: data sets x methods, three metrics a cell; turned where methods are many."""
    for (setting,), found in grouped(lines, "setting"):
        cells: dict[tuple[str, str], tuple[Number, ...]] = {}
        for metric in facets.METRICS:
            for line in found:
                if line["metric"] == metric:
                    cell = (line["config"], line["detector"])
                    cells[cell] = (*cells.get(cell, ()), number(line))
        methods = setter.methods(found)
        configs = {name: name for name in dict.fromkeys(line["config"] for line in found)}
        wide = len(methods) > _MOST_COLUMNS
        down, across = (methods, configs) if wide else (configs, methods)
        rows = [
            Row(title, tuple(cells.get((other, one) if wide else (one, other), ()) for other in across))
            for one, title in down.items()
        ]
        headings = [Heading(title, "FPR@95%TPR / Detection error / AUROC", "higher") for title in across.values()]
        title = f"FACETS: {facets.SETTINGS[setting]}"
        note = f"In percent; known rows are positive; the best AUROC of each data set is bold. {over(found)}"
        stub = "Method" if wide else "Data set"
        ranked = "columns" if wide else "rows"
        yield setter.table((facets.NAME, setting), title, note, stub, headings, rows, ranked=ranked), True


def _broad(lines: Sequence[Line], setter: Setter) -> Laid:
    """Tables 2 and 8 of BROAD, the means by kind of shift, and tables 9 to 15, each set of shifted rows."""
    for (setting,), found in grouped(lines, "setting"):
        title = f"BROAD: {broad.SETTINGS[setting]}"
        note = "AUROC in percent."
        averages = [line for line in distinct(found) if line["statistic"]]
        # The mean over kinds comes last and names the kinds, in the order in which their own means come.
        kinds = [*averages[-1]["unknown"].split(" + "), "average"]
        columns = [(Heading("", words(kind), "higher"), line) for kind, line in zip(kinds, averages, strict=True)]
        yield setter.by_method((broad.NAME, setting), title, note, columns, found), True
        splits = [line for line in distinct(found) if not line["statistic"]]
        columns = [(Heading("", words(line["unknown"].partition(",")[0]), "higher"), line) for line in splits]
        yield setter.by_method((broad.NAME, setting, "splits"), f"{title}, each split", note, columns, found), False


def _od_test(lines: Sequence[Line], setter: Setter) -> Laid:
    """How balanced accuracies are distributed over pairs of unknown sets, beside those of two data sets."""
    note = (
        "Balanced accuracy in percent. OD-test: the threshold is fitted on one set of unknowns and judged on another, "
        "for all ordered pairs. Two datasets: fitted and judged on halves of the same set."
    )
    for (config,), found in grouped(lines, "config"):
        columns = []
        for line in distinct(found):
            if line["statistic"]:
                better = "" if line["statistic"] == "standard_deviation" else METRICS[line["metric"]].better
                heading = Heading(od_test.SETTINGS[line["setting"]], _STATISTICS[line["statistic"]], better)
                columns.append((heading, line))
        yield setter.by_method((od_test.NAME, config), f"OD-test on {config}", note, columns, found), True


def _robustness(lines: Sequence[Line], setter: Setter) -> Laid:
    """Tables 4 and 5 of the optimizer paper for each set of unknowns, and what its table 10 is read off."""
    note = (
        "Mean and variance of the mixture over ways of training, in percent and its square (AURC: in thousandths), "
        "and the score: standard deviation times mean where lower values are better, else divided by it."
    )
    titles = {"mixture_mean": "mean", "mixture_variance": "variance", "robustness": "score"}
    over_variants = [line for line in lines if line["variant"] == ALL_VARIANTS]
    for (config, setting, unknown), found in grouped(over_variants, "config", "setting", "unknown"):
        where = words(unknown) if setting == "ood_detection" else words(setting)
        columns = []
        for line in distinct(found):
            better = METRICS[line["metric"]].better if line["statistic"] == "mixture_mean" else "lower"
            columns.append((Heading(METRICS[line["metric"]].title, titles[line["statistic"]], better), line))
        title = f"Robustness of detectors to the way of training on {config}, {where}"
        table = setter.by_method((robustness.NAME, config, where), title, note, columns, found)
        yield table, setting == "unknown_detection"
    of_variants = [line for line in lines if line["variant"] != ALL_VARIANTS and line["statistic"] == "robustness"]
    for (config, setting, metric), found in grouped(of_variants, "config", "setting", "metric"):
        yield _robust_variants(config, words(setting), metric, found, setter), False


def _robust_variants(config: str, setting: str, metric: str, lines: Sequence[Line], setter: Setter) -> Table:
    """How robust each way of training is over all sets of unknowns, for each detector."""
    variants = list(dict.fromkeys(line["variant"] for line in lines))
    cells = {(line["detector"], line["variant"]): line for line in lines}
    rows = [
        Row(title, tuple(cell(cells.get((name, variant))) for variant in variants))
        for name, title in setter.methods(lines).items()
    ]
    title = f"Robustness of ways of training on {config}, {setting}, {METRICS[metric].title}"
    note = "The score of the mixture over all sets of unknowns; lower is more robust."
    headings = [Heading("", variant, "lower") for variant in variants]
    parts = (robustness.NAME, config, "variants", setting, metric)
    return setter.table(parts, title, note, "Method", headings, rows, digits=3, ranked="rows")


_LAYOUTS: Mapping[str, Callable[[Sequence[Line], Setter], Laid]] = {
    unknown_detection.NAME: _unknown_detection,
    facets.NAME: _facets,
    broad.NAME: _broad,
    od_test.NAME: _od_test,
    robustness.NAME: _robustness,
}
