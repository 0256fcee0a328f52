"""Tables of duplicates: how many rows of each split are left out, and what leaving them out changes.

Tested by `tests/evaluation/report/test_layouts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from evaluation.metrics.metrics import METRICS
from evaluation.protocols import broad, facets, od_test, unknown_detection
from evaluation.protocols.figures import AS_PUBLISHED, WITHOUT_DUPLICATES
from evaluation.protocols.results import Line, grouped
from evaluation.report.tables import Heading, Number, Row, Table, words
from evaluation.report.typesetting import Setter, distinct
from evaluation.scoring.duplicates import LeftOut, sentence

Compared = Sequence[tuple[str, Line]]
"""Figures that are shown on all rows and without duplicates, each with what heads its columns."""


def left_out_table(protocol: str, left_out: Sequence[LeftOut], titles: Mapping[str, str]) -> Table:
    """How many rows of each split that a protocol judges are left out.

    Args:
        protocol: its name.
        left_out: its splits that lose rows, one or more.
        titles: of detectors.
    """
    headings = [Heading("", name) for name in ("Rows", "Duplicates", "Made from duplicates", "Left out")]
    rows = []
    for one in left_out:
        counts = (one.rows, one.duplicates, one.made_from_duplicates, one.left_out)
        rows.append(Row(f"{one.config}/{one.split}", tuple((Number(float(count)),) for count in counts)))
    return Setter((), titles).table(
        ("duplicates", "left-out", protocol),
        "Rows left out as duplicates",
        sentence(left_out),
        "Split",
        headings,
        rows,
        digits=0,
        ranked="",
    )


def changes_tables(protocol: str, lines: Sequence[Line], setter: Setter) -> Iterator[Table]:
    """A protocol's chief figures on all rows and without duplicates, side by side; none without the latter.

    Args:
        protocol: its name.
        lines: its figures of one way of training.
        setter: sets the tables; its remark says what is left out.
    """
    if protocol not in _COMPARED or all(line["rows"] != WITHOUT_DUPLICATES for line in lines):
        return
    # BROAD's figures are of several configs together.
    for names, found in grouped(lines, *([] if protocol == broad.NAME else ["config"])):
        columns = []
        for group, line in _COMPARED[protocol]([line for line in found if line["rows"] == AS_PUBLISHED]):
            metric = METRICS[line["metric"]]
            for rows, title in ((AS_PUBLISHED, "all"), (WITHOUT_DUPLICATES, "without")):
                columns.append((Heading(f"{group} {metric.title}", title, metric.better), {**line, "rows": rows}))
        where = " ".join(names) or "BROAD"
        note = "On all rows as published, and without duplicates."
        yield setter.by_method(
            ("duplicates", protocol, *names), f"What duplicates change on {where}", note, columns, found
        )


def _unknown_detection(lines: Sequence[Line]) -> Compared:
    found = []
    for line in distinct(lines):
        far = line["unknown"].startswith("far_ood") and not line["statistic"]
        if line["metric"] in ("accuracy", "aurc") or (line["metric"] == "auroc" and not far):
            group = words(line["unknown"]) if line["setting"] == "ood_detection" else words(line["setting"])
            found.append(("far mean" if line["statistic"] else group, line))
    return found


def _facets(lines: Sequence[Line]) -> Compared:
    return [(facets.SETTINGS[line["setting"]], line) for line in distinct(lines) if line["metric"] == "auroc"]


def _broad(lines: Sequence[Line]) -> Compared:
    # The mean over kinds of shift comes last.
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
