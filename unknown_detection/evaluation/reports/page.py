"""Renders the page of a report: results, warnings, each protocol's tables and plots, and the runs they are of.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from unknown_detection.evaluation.display.tables import as_page
from unknown_detection.evaluation.protocols import openood, protocol_of
from unknown_detection.evaluation.protocols.results import COLUMNS
from unknown_detection.evaluation.reports.inputs import ScoredRun
from unknown_detection.evaluation.reports.tables import Tables
from unknown_detection.pages.content import Cell, Entry, PageColumn, PageTable, Value, anchor, code
from unknown_detection.pages.content import table as page_table
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


def render_page(
    figures: pd.DataFrame,
    short: Tables,
    tables: Tables,
    drawn: Sequence[tuple[str, str, str]],
    runs: Sequence[ScoredRun],
    *,
    warnings: Sequence[str],
    notes: Sequence[str],
) -> str:
    """Render the page as HTML, in one file that fetches nothing.

    `drawn` has the protocol of each picture, its title, and its SVG element; the first of the protocol of the first
    short table stands beside it. Warnings come after that table, notes at the end.
    """
    first = next((picture for picture in drawn if picture[0] in [*short][:1]), None)
    others = [picture for picture in drawn if picture is not first]
    sections = []
    for name in figures["protocol"].unique():
        protocol, of = protocol_of(name), tables.get(name, ())
        section: dict[str, Any] = {"anchor": anchor(name), "title": protocol.title, "paper": protocol.paper}
        section["shown"] = [as_page(table) for table in of if table.shown]
        section["folded"] = [as_page(table) for table in of if not table.shown]
        section["pictures"] = [(picture[1], Markup(picture[2])) for picture in others if picture[0] == name]
        sections.append(section)
    results = [as_page(table, _FIRST) for of in short.values() for table in of]
    results = [replace(table, anchor=table.anchor.replace("table", "results", 1)) for table in results]
    results += _leaderboard(figures, runs)
    origin = [table for table in (_fitting(runs), _times(runs), _runs(runs)) if table.rows]
    parts = [
        ("results", "Results", results),
        *((section["anchor"], section["title"], section["shown"]) for section in sections),
        ("origin", "What the figures are of", origin),
        ("columns", "Columns of figures.parquet", []),
    ]
    return render_template(
        "report.html.j2",
        folders=[Path(__file__).parent],
        style=_STYLE,
        title=f"Results on {figures['release'].iloc[0]}",
        contents=[Entry(at, title, [Entry(of.anchor, of.caption) for of in below]) for at, title, below in parts],
        facts=[
            ("Figures", len(figures)),
            ("Detectors", figures["detector"].nunique()),
            ("Runs", len(runs)),
            ("Release digest", figures["release_digest"].iloc[0][:12]),
        ],
        warnings=warnings,
        notes=notes,
        results=results,
        first=None if first is None else (first[1], Markup(first[2])),
        caution=CAUTION,
        origin=origin,
        sections=sections,
        columns=[(name, _with_code(description)) for name, (_, description) in COLUMNS.items()],
    )


def _with_code(text: str) -> Markup:
    """Return a text with what stands between backticks as code."""
    return Markup(re.sub("`(.+?)`", r"<code>\1</code>", str(escape(text))))


def _leaderboard(figures: pd.DataFrame, runs: Sequence[ScoredRun]) -> list[PageTable]:
    """Tabulate OpenOOD's published means beside the report's; no table without comparable rows."""
    lines = openood.compare_with_leaderboard(figures, {run.name: run.weights for run in runs})
    if lines.empty:
        return []
    columns, rows = [PageColumn("Detector"), PageColumn("Run")], lines[["detector", "run"]].to_numpy().tolist()
    for of in ("near", "far"):
        columns += [PageColumn(name, True, f"{of.title()} AUROC") for name in ("here", "published", "difference")]
        for row, ours, theirs in zip(rows, lines[of], lines[f"published {of}"], strict=True):
            row += [Cell(f"{value:.2f}", order=value) for value in (ours, theirs)]
            row.append(Cell(f"{ours - theirs:+.2f}", order=ours - theirs))
    note = "In percent; the published figures are those of OpenOOD's leaderboard of July 2025, for the same weights. "
    note += openood.TURNED
    detectors = {name for run in runs for name in openood.of_other_version(run.weights).index}
    note += "".join(f" {name}'s row is not comparable: {openood.OTHER_VERSION[name]}." for name in sorted(detectors))
    return [PageTable("leaderboard", "Beside OpenOOD's leaderboard", columns, rows, note, False, _FIRST)]


def _runs(runs: Sequence[ScoredRun]) -> PageTable:
    titles = ("Run", "Training", "Seed", "Model", "Weights", "Scores file", "SHA-256")
    rows: list[list[Value | Cell]] = [
        [run.name, run.variant, run.about.seed, run.about.model, code(run.about.model_digest[:12]), run.path.name,
         code(run.sha256[:12])]
        for run in runs
    ]  # fmt: skip
    return PageTable("runs", "Runs", [*map(PageColumn, titles)], rows, first=_FIRST)


def _fitting(runs: Sequence[ScoredRun]) -> PageTable:
    """Tabulate the rows that the first run of each detector used, and the hyperparameters that it found."""
    titles = ("Detector", "Fitted on", "Tuned on", "Threshold from", "Hyperparameters of its first run")
    rows: dict[str, list[str | None]] = {}
    for run in runs:
        for name in run.rows:
            used, found = run.about.rows.get(name, {}), run.about.hyperparameters.get(name)
            if name not in rows and (used or found is not None):
                of = [used.get(key) or None for key in ("fitted_on", "tuned_on", "threshold_on")]
                rows[name] = [name, *of, ", ".join(f"{key} {value:g}" for key, value in (found or {}).items()) or None]
    note = "A dash: the detector uses no such rows. extract computes in exact float32, without TF32."
    return page_table("fitting", "What each detector was fitted and tuned on", titles, [*rows.values()], note=note)


def _times(runs: Sequence[ScoredRun]) -> PageTable:
    """Tabulate each detector's time in forward passes, by run, as table 5 of BROAD."""
    timed = [run for run in runs if run.times]
    rows: list[list[str | Cell | None]] = []
    for name in dict.fromkeys(name for run in timed for name in run.times):
        times = [run.times.get(name) for run in timed]
        title = "Forward pass" if name == "forward" else name
        rows.append([title, *(Cell(f"{time:.2f}", order=time) if time else None for time in times)])
    note = "Relative to a forward pass of the model, on one batch; where a detector reads an ordinary one, with it."
    return page_table("times", "Time of each detector", ["Detector", *(run.name for run in timed)], rows, note=note)
