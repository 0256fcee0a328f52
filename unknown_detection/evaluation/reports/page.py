"""Renders the page of a report: results, warnings, each protocol's tables and plots, and the runs they are of.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from unknown_detection.evaluation.display.tables import as_page
from unknown_detection.evaluation.protocols import published
from unknown_detection.evaluation.protocols.registry import protocol_of
from unknown_detection.evaluation.protocols.results import COLUMNS
from unknown_detection.evaluation.reports.inputs import ScoredRun
from unknown_detection.evaluation.reports.placed import PlacedTable
from unknown_detection.pages.content import Cell, Entry, PageColumn, PageTable, Value, anchor
from unknown_detection.pages.render import render_template

PAGE = "report.html"

_FIRST = 12
"""Rows of a table that a page shows before the reader asks for all."""

_STYLE = """
.plots { display: flex; flex-wrap: wrap; gap: 0 2rem; align-items: flex-start; }
.page figure { max-width: 100%; }
.page figure svg { max-width: 100%; height: auto; }
.page figure svg.wide { max-width: max(100%, 40rem); }
tbody th { overflow-wrap: normal; }
tbody th small { font-weight: normal; opacity: 0.75; }
.columns div { margin-bottom: 0.4rem; }
@media (max-width: 30rem) {
  table { font-size: 0.85rem; }
  tbody th small { display: block; }
  td.number { white-space: nowrap; }
}
"""

CAUTION = (
    "The best detector is chosen on the very rows that it is evaluated on, so its figure is too good for new data: to "
    "choose a detector, use validation rows. Bold cells are chosen likewise, among detectors with several runs where "
    "there are such."
)

Drawn = tuple[str, str, str]
"""The protocol of a picture, its title, and its SVG element."""


def render_page(
    record: Mapping[str, Any],
    figures: pd.DataFrame,
    short: Sequence[PlacedTable],
    tables: Sequence[PlacedTable],
    drawn: Sequence[Drawn],
    scored: Sequence[ScoredRun],
) -> str:
    """Render the page as HTML, in one file that fetches nothing.

    Args:
        record: what the report was made from, its warnings and its notes.
        figures: all figures, the result of `results.tidy`.
        short: the short tables of results.
        tables: the papers' tables.
        drawn: the pictures; the first of the first short table's protocol stands beside it.
        scored: the runs.
    """
    first = next((drawing for drawing in drawn if short and drawing[0] == short[0].protocol), None)
    other_pictures = [drawing for drawing in drawn if drawing is not first]
    sections = [_section(protocol, tables, other_pictures) for protocol in figures["protocol"].unique()]
    results = [replace(as_page(placed.table, _FIRST), anchor=anchor("results", placed.table.name)) for placed in short]
    results += _leaderboard(record, figures)
    origin = [table for table in (_fitting(scored), _times(scored), _runs(record)) if table.rows]
    entries = [Entry("results", "Results", [Entry(table.anchor, table.caption) for table in results])]
    for section in sections:
        below = [Entry(table.anchor, table.caption) for table in section["shown"]]
        entries.append(Entry(section["anchor"], section["title"], below))
    below = [Entry(table.anchor, table.caption) for table in origin]
    entries.append(Entry("origin", "What the figures are of", below))
    return render_template(
        "report.html.j2",
        folders=[Path(__file__).parent],
        style=_STYLE,
        title=f"Results on {record['release']}",
        contents=[*entries, Entry("columns", "Columns of figures.parquet")],
        facts=[
            ("Figures", len(figures)),
            ("Detectors", figures["detector"].nunique()),
            ("Runs", len(record["runs"])),
            ("Release digest", record["release_digest"][:12]),
        ],
        warnings=record["warnings"],
        notes=record["notes"],
        results=results,
        first=None if first is None else (first[1], Markup(first[2])),
        caution=CAUTION,
        origin=origin,
        sections=sections,
        columns=[(name, description) for name, (_, description) in COLUMNS.items()],
    )


def _section(protocol: str, tables: Sequence[PlacedTable], drawn: Sequence[Drawn]) -> dict[str, Any]:
    """Return a protocol's part of the page: tables shown at once and folded, and pictures with their SVG elements."""
    pictures = [(title, Markup(svg)) for name, title, svg in drawn if name == protocol]
    placed: dict[bool, list[PageTable]] = {True: [], False: []}
    for entry in tables:
        if entry.protocol == protocol:
            placed[entry.shown].append(as_page(entry.table))
    declared = protocol_of(protocol)
    described = {"anchor": anchor(protocol), "title": declared.title, "paper": declared.paper}
    return {**described, "shown": placed[True], "pictures": pictures, "folded": placed[False]}


def _leaderboard(record: Mapping[str, Any], figures: pd.DataFrame) -> list[PageTable]:
    """Tabulate OpenOOD's published means beside the report's; no table without comparable rows."""
    weights = {run["run"]: run["weights"] for run in record["runs"]}
    lines = published.compare_with_leaderboard(figures, weights)
    if lines.empty:
        return []
    columns, rows = [PageColumn("Detector"), PageColumn("Run")], lines[["detector", "run"]].to_numpy().tolist()
    for of in ("near", "far"):
        columns += [PageColumn(name, True, f"{of.title()} AUROC") for name in ("here", "published", "difference")]
        for row, ours, theirs in zip(rows, lines[of], lines[f"published {of}"], strict=True):
            row += [Cell(f"{value:.2f}", order=value) for value in (ours, theirs)]
            row.append(Cell(f"{ours - theirs:+.2f}", order=ours - theirs))
    note = "In percent; the published figures are those of OpenOOD's leaderboard of July 2025, for the same weights."
    detectors = {name for file in weights.values() for name in published.of_other_version(file)}
    note += "".join(f" {name}'s row is not comparable: {published.OTHER_VERSION[name]}." for name in sorted(detectors))
    return [PageTable("leaderboard", "Beside OpenOOD's leaderboard", columns, rows, note, False, _FIRST)]


def _runs(record: Mapping[str, Any]) -> PageTable:
    columns = [PageColumn(name) for name in ("Run", "Training", "Seed", "Model", "Weights", "Scores file", "SHA-256")]
    rows = [
        [run["run"], run["variant"], run["seed"], run["model"], Cell(run["model_digest"][:12], style="code"),
         run["scores"], Cell(run["scores_sha256"][:12], style="code")]
        for run in record["runs"]
    ]  # fmt: skip
    return PageTable("runs", "Runs", columns, rows, first=_FIRST)


def _fitting(scored: Sequence[ScoredRun]) -> PageTable:
    """Tabulate the rows that the first run of each detector used, and the hyperparameters that it found."""
    names = ("Detector", "Fitted on", "Tuned on", "Threshold from", "Hyperparameters of its first run")
    rows: dict[str, Sequence[Value | Cell]] = {}
    for run in scored:
        for name in run.rows:
            if name not in rows and (name in run.used or name in run.origin.hyperparameters):
                used = [run.used.get(name, {}).get(key) or None for key in ("fitted_on", "tuned_on", "threshold_on")]
                values = run.origin.hyperparameters.get(name, {}).items()
                rows[name] = [name, *used, ", ".join(f"{key} {value:g}" for key, value in values) or None]
    note = "A dash: the detector uses no such rows. extract computes in exact float32, without TF32."
    columns, title = [PageColumn(name) for name in names], "What each detector was fitted and tuned on"
    return PageTable("fitting", title, columns, [*rows.values()], note, True, _FIRST)


def _times(scored: Sequence[ScoredRun]) -> PageTable:
    """Tabulate each detector's time in forward passes, by run, as table 5 of BROAD."""
    timed = [run for run in scored if run.times]
    rows: list[Sequence[Value | Cell]] = []
    for name in dict.fromkeys(name for run in timed for name in run.times):
        times = [run.times.get(name) for run in timed]
        title = "Forward pass" if name == "forward" else name
        rows.append([title, *(Cell(f"{time:.2f}", order=time) if time else None for time in times)])
    note = "Relative to a forward pass of the model, on one batch; where a detector reads an ordinary one, with it."
    columns = [PageColumn("Detector"), *(PageColumn(run.origin.name, True) for run in timed)]
    return PageTable("times", "Time of each detector", columns, rows, note, True, _FIRST)
