"""Tables on duplicates and overlaps: rows left out of each split, and the effect on figures.

Tested by `tests/evaluation/report/test_layouts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from evaluation.metrics.metrics import METRICS
from evaluation.protocols import broad, facets, od_test, unknown_detection
from evaluation.protocols.figures import AS_PUBLISHED, WITHOUT_DUPLICATES, WITHOUT_OVERLAP
from evaluation.protocols.results import Line, grouped
from evaluation.report.tables import Heading, Number, Row, Table, display_name
from evaluation.report.typesetting import TableBuilder, distinct
from evaluation.scoring.duplicates import LeftOut, describe_left_out
from evaluation.scoring.overlap import Overlapping, describe_overlaps

_WHAT = {WITHOUT_DUPLICATES: "duplicates", WITHOUT_OVERLAP: "overlap"}

Compared = Sequence[tuple[str, Line]]
"""Lines to show on all rows and without duplicates, each with the group of its column."""


def left_out_table(protocol: str, left_out: Sequence[LeftOut], titles: Mapping[str, str]) -> Table:
    """Tabulate the rows left out of each split that a protocol evaluates.

    Args:
        protocol: name of the protocol.
        left_out: its splits that lose rows, one or more.
        titles: display names of the detectors.
    """
    headings = [Heading("", name) for name in ("Rows", "Duplicates", "Made from duplicates", "Left out")]
    rows = []
    for one in left_out:
        counts = (one.rows, one.duplicates, one.made_from_duplicates, one.left_out)
        rows.append(Row(f"{one.config}/{one.split}", tuple((Number(float(count)),) for count in counts)))
    return TableBuilder((), titles).table(
        ("duplicates", "left-out", protocol),
        "Rows left out as duplicates",
        describe_left_out(left_out),
        "Split",
        headings,
        rows,
        digits=0,
        ranked="",
    )


def overlap_table(protocol: str, overlapping: Sequence[Overlapping], titles: Mapping[str, str]) -> Table:
    """Tabulate the classes that figures without overlap leave out, with their known classes.

    Args:
        protocol: name of the protocol.
        overlapping: the classes, one or more.
        titles: display names of the detectors.
    """
    return TableBuilder((), titles).table(
        ("overlap", "left-out", protocol),
        "Classes left out for their overlap with known ones",
        describe_overlaps(overlapping),
        "Split, class and known class",
        [Heading("", "Left out")],
        [
            Row(f"{one.config}/{one.split}, {one.class_id}, {one.known}", ((Number(float(one.left_out)),),))
            for one in overlapping
        ],
        digits=0,
        ranked="",
    )


def changes_tables(
    protocol: str, lines: Sequence[Line], builder: TableBuilder, without: str = WITHOUT_DUPLICATES
) -> Iterator[Table]:
    """Tabulate a protocol's main figures on all rows and without some; nothing if it lacks the latter.

    Args:
        protocol: name of the protocol.
        lines: its figures for one training method.
        builder: builds the tables; its remark states what is left out.
        without: the rows of the latter, such as `WITHOUT_DUPLICATES`.
    """
    if protocol not in _COMPARED or all(line["rows"] != without for line in lines):
        return
    what = _WHAT[without]
    # BROAD's figures span several configs.
    for names, found in grouped(lines, *([] if protocol == broad.NAME else ["config"])):
        columns = []
        for group, line in _COMPARED[protocol]([line for line in found if line["rows"] == AS_PUBLISHED]):
            metric = METRICS[line["metric"]]
            for rows, title in ((AS_PUBLISHED, "all"), (without, "without")):
                columns.append((Heading(f"{group} {metric.title}", title, metric.better), {**line, "rows": rows}))
        where = " ".join(names) or "BROAD"
        note = f"On all rows as published, and without {what}."
        yield builder.by_method((what, protocol, *names), f"Effect of {what} on {where}", note, columns, found)


def _unknown_detection(lines: Sequence[Line]) -> Compared:
    found = []
    for line in distinct(lines):
        far = line["unknown"].startswith("far_ood") and not line["statistic"]
        if line["metric"] in ("accuracy", "aurc") or (line["metric"] == "auroc" and not far):
            group = (
                display_name(line["unknown"]) if line["setting"] == "ood_detection" else display_name(line["setting"])
            )
            found.append(("far mean" if line["statistic"] else group, line))
    return found


def _facets(lines: Sequence[Line]) -> Compared:
    return [(facets.SETTINGS[line["setting"]], line) for line in distinct(lines) if line["metric"] == "auroc"]


def _broad(lines: Sequence[Line]) -> Compared:
    # The mean over kinds of shift is last.
    last = {line["setting"]: line for line in distinct(lines) if line["statistic"]}
    return [(broad.SETTINGS[setting], line) for setting, line in last.items()]


def _od_test(lines: Sequence[Line]) -> Compared:
    return [(od_test.SETTINGS[line["setting"]], line) for line in distinct(lines) if line["statistic"] == "mean"]


_COMPARED: Mapping[str, Callable[[Sequence[Line]], Compared]] = {
    unknown_detection.NAME: _unknown_detection,
    facets.NAME: _facets,
    broad.NAME: _broad,
    od_test.NAME: _od_test,
}
