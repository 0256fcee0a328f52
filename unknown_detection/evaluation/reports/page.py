"""The page of a report: what it is of, warnings, the best detectors, and each protocol's tables and plots.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from markupsafe import Markup

from unknown_detection.evaluation.protocols import calibration, robustness
from unknown_detection.evaluation.protocols.registry import PROTOCOLS
from unknown_detection.evaluation.protocols.results import COLUMNS, Line, grouped, over_runs
from unknown_detection.evaluation.reports.layouts import PlacedTable, headlines
from unknown_detection.evaluation.reports.names import BASELINE, detector_name, metric
from unknown_detection.evaluation.reports.pictures import Picture
from unknown_detection.evaluation.reports.tables import as_page, number, number_text
from unknown_detection.pages.content import Cell, Column, Entry, Table, Value, anchor
from unknown_detection.pages.render import render

PAGE = "report.html"

_PAPERS = {
    calibration.NAME: (calibration.TITLE, "Guo et al., On Calibration of Modern Neural Networks (2017)"),
    robustness.NAME: (
        "Robustness to the training method",
        "Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution "
        "Detection Approaches (2020)",
    ),
    **{name: (protocol.title, protocol.paper) for name, protocol in PROTOCOLS.items()},
}
"""Title and paper of each section."""

_STYLE = """
.plots { display: flex; flex-wrap: wrap; gap: 0 2rem; align-items: flex-start; }
.plots figure { max-width: 100%; }
.plots svg { max-width: 100%; height: auto; }
.plots svg.wide { max-width: max(100%, 40rem); }
tbody th { overflow-wrap: normal; }
.columns div { margin-bottom: 0.4rem; }
"""

CAUTION = (
    "The best detector is chosen on the very rows that it is evaluated on, so its figure is too good for new data: to "
    "choose a detector, use validation rows. Bold cells of the tables are chosen likewise. Only detectors with the "
    "most runs are compared."
)


def render_page(
    record: Mapping[str, Any],
    figures: pa.Table,
    tables: Sequence[PlacedTable],
    drawn: Sequence[tuple[Picture, str]] = (),
    fitting: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Render the page as HTML, in one file that fetches nothing.

    Args:
        record: what the report was made from, and its notes.
        figures: all figures, the result of `results.tidy`.
        tables: the papers' tables.
        drawn: the pictures, each with its SVG element.
        fitting: by detector, the rows that it was fitted on, tuned on and may have a threshold from, and its
            hyperparameters.
    """
    lines = over_runs(figures)
    protocols = dict.fromkeys(line["protocol"] for line in lines)
    sections = [_section(protocol, tables, drawn) for protocol in protocols]
    glance = _glance(lines)
    detectors = {line["detector"] for line in lines}
    above = [table for table in (glance, _runs(record), _fitting(fitting or {}), _times(record)) if table.rows]
    entries = [Entry("overview", "Overview", [Entry(table.anchor, table.caption) for table in above])]
    for section in sections:
        below = [Entry(table.anchor, table.caption) for table in section["shown"]]
        entries.append(Entry(section["anchor"], section["title"], below))
    return render(
        "report.html.j2",
        folders=[Path(__file__).parent],
        style=_STYLE,
        title=f"Results on {record['release']}",
        contents=[*entries, Entry("columns", "Columns of figures.parquet")],
        facts=[
            ("Figures", len(figures)),
            ("Detectors", len(detectors)),
            ("Runs", len(record["runs"])),
            ("Release digest", record["release_digest"][:12]),
        ],
        notes=record["notes"],
        glance=glance if glance.rows else None,
        caution=CAUTION,
        tables=[table for table in above if table is not glance],
        sections=sections,
        columns=[(name, description) for name, (_, description) in COLUMNS.items()],
    )


def _section(protocol: str, tables: Sequence[PlacedTable], drawn: Sequence[tuple[Picture, str]]) -> dict[str, Any]:
    """Return a protocol's part of the page: tables shown at once and folded, and pictures with their SVG elements."""
    mine = [placed for placed in tables if placed.protocol == protocol]
    pictures = [(one.title, Markup(svg)) for one, svg in drawn if one.protocol == protocol]
    shown, folded = ([as_page(one.table) for one in mine if one.shown is shown] for shown in (True, False))
    title, paper = _PAPERS[protocol]
    named = {"anchor": anchor(protocol), "title": title, "paper": paper}
    return {**named, "shown": shown, "pictures": pictures, "folded": folded}


def _glance(lines: Sequence[Line]) -> Table:
    """Tabulate the best detector by each protocol's headline figure, next to the baseline."""
    rows: list[Sequence[Value | Cell]] = []
    baseline = detector_name(BASELINE)
    trained = any(line["variant"] for line in lines)
    for protocol, described in PROTOCOLS.items():
        for (config, variant), found in grouped(headlines(lines, protocol), "config", "variant"):
            of = metric(found[0]["metric"])
            sign = -1 if of.better == "higher" else 1
            most = max(line["runs"] for line in found)
            compared = [line for line in found if line["runs"] == most]
            best = min(compared, key=lambda line: (line["mean"] != line["mean"], sign * line["mean"]))
            beside = [number_text(number(line)) for line in found if line["detector"] == BASELINE]
            rows.append([
                described.title,
                config,
                *([variant] if trained else []),
                f"{of.title} {'↑' if of.better == 'higher' else '↓'}",
                Cell(detector_name(best["detector"]), style="strong"),
                number_text(number(best)),
                *(beside or ["-"]),
            ])  # fmt: skip
    names = ["Protocol", "Config", *(["Training"] if trained else []), "Figure", "Best", "Its value", baseline]
    columns = [Column(name, name in ("Its value", baseline)) for name in names]
    return Table("glance", "At a glance", columns, rows)


def _runs(record: Mapping[str, Any]) -> Table:
    columns = [Column(name) for name in ("Run", "Training", "Seed", "Model", "Weights", "Scores file", "SHA-256")]
    rows = [
        [run["run"], run["variant"], run["seed"], run["model"], Cell(run["model_digest"][:12], style="code"),
         run["scores"], Cell(run["scores_sha256"][:12], style="code")]
        for run in record["runs"]
    ]  # fmt: skip
    return Table("runs", "Runs", columns, rows, first=12)


def _fitting(fitting: Mapping[str, Mapping[str, Any]]) -> Table:
    names = ("Detector", "Fitted on", "Tuned on", "Threshold from", "Hyperparameters of its first run")
    rows: list[Sequence[Value | Cell]] = []
    for name, told in fitting.items():
        values = ", ".join(f"{key} {value:g}" for key, value in told["hyperparameters"].items())
        used = [told.get(key) or None for key in ("fitted_on", "tuned_on", "threshold_on")]
        rows.append([detector_name(name), *used, values or None])
    note = "A dash: the detector uses no such rows. extract computes in exact float32, without TF32."
    columns = [Column(name) for name in names]
    return Table("fitting", "What each detector was fitted and tuned on", columns, rows, note, True, 12)


def _times(record: Mapping[str, Any]) -> Table:
    """Lay out table 5 of BROAD: forward passes that each detector takes as long as, by run."""
    timed = [run for run in record["runs"] if run.get("times")]
    names = dict.fromkeys(name for run in timed for name in run["times"])
    rows: list[Sequence[Value | Cell]] = [
        [
            "Forward pass" if name == "forward" else detector_name(name),
            *(Cell(f"{found:.2f}", order=found) if (found := run["times"].get(name)) else None for run in timed),
        ]
        for name in names
    ]
    note = "Relative to a forward pass of the model, on one batch; where a detector reads an ordinary one, with it."
    columns = [Column("Detector"), *(Column(run["run"], True) for run in timed)]
    return Table("times", "Time of each detector", columns, rows, note, True, 12)
