"""Renders the page of a report: results, warnings, the plots and tables of each protocol, and the runs.

Tested by `tests/evaluation/report/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from unknown_detection.evaluation.protocols import Protocol, openood
from unknown_detection.evaluation.report.judging import Judged
from unknown_detection.evaluation.report.looks import Look
from unknown_detection.evaluation.report.names import shown_name
from unknown_detection.evaluation.report.pivot import Pivot
from unknown_detection.evaluation.runs import ScoredRun
from unknown_detection.pages.content import Cell, Entry, PageTable, Value, anchor, code
from unknown_detection.pages.content import table as page_table
from unknown_detection.pages.render import render_template

PAGE = "report.html"

_STYLE = """
.plots, .looks { display: flex; flex-wrap: wrap; gap: 0 2rem; align-items: flex-start; }
.looks { gap: 0 0.5rem; } .looks figure { width: 6.5rem; font-size: 0.7rem; overflow-wrap: anywhere; }
.facts { margin-top: 1.5rem; }
details caption { display: none; }
.page figure { max-width: 100%; }
.page figure svg { max-width: 100%; height: auto; }
.page figure svg.wide { max-width: max(100%, 40rem); }
tbody th { overflow-wrap: normal; }
tbody th small { font-weight: normal; opacity: 0.75; }
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
    judged: Judged,
    tables: Mapping[Protocol, Sequence[Pivot]],
    drawn: Sequence[tuple[Protocol, str, str]],
    looks: Mapping[str, Sequence[Look]],
    *,
    compared: Sequence[PageTable],
    demo: bool,
    warnings: Sequence[str],
    notes: Sequence[str],
) -> str:
    """Render the page as HTML, in one file that fetches nothing.

    `drawn` has the protocol of each picture, its title, and its SVG element, the first of which stands beside the
    first table of results. `compared` are tables that stand below those. Warnings come after the first one, notes
    at the end.
    """
    figures, runs = judged.figures, judged.runs
    sections: list[dict[str, Any]] = [
        {
            "anchor": anchor(protocol.name),
            "title": protocol.title,
            "paper": protocol.paper,
            "pictures": [(title, Markup(svg)) for by, title, svg in drawn[1:] if by is protocol],
            "tables": [table.page() for table in of],
        }
        for protocol, of in tables.items()
    ]
    results = [*(table.page() for table in judged.results), *compared, *_published(figures, runs)]
    origin = [table for table in (_fitting(runs), _runs(runs)) if table.rows]
    parts: list[tuple[str, str, Sequence[PageTable]]] = [
        ("results", "Results", results),
        *((section["anchor"], section["title"], section["tables"]) for section in sections),
        ("origin", "What the figures are of", origin),
    ]
    models = [*dict.fromkeys(run.about.model or "not stated" for run in runs)]
    facts: list[tuple[str, Value] | tuple[str, Value, str]] = [
        ("Model", models[0] if len(models) == 1 else f"{len(models)} models")
    ]
    accuracy = figures[(figures["metric"] == "accuracy") & (figures["rows"] == "as_published")]
    # Most detectors share the model's.
    accuracy = accuracy[accuracy["statistic"] == ""].drop_duplicates("run")["value"]
    if len(accuracy):
        ends = f"{100 * accuracy.min():.2f}", f"{100 * accuracy.max():.2f}"
        facts.append(("Accuracy", f"{' to '.join(dict.fromkeys(ends))} %"))
    facts += [("Detectors", figures["detector"].nunique()), ("Runs", len(runs))]
    facts += [("Release", "demo", "made to try the tools, never for a result")] * demo
    return render_template(
        "report.html.j2",
        folders=[Path(__file__).parent],
        style=_STYLE,
        title=f"Results on {figures['release'].iloc[0]}",
        contents=[
            Entry(at, title, [Entry(of.anchor, of.caption.removeprefix(f"{title}: ")) for of in below])
            for at, title, below in parts
        ],
        facts=facts,
        digest=figures["release_digest"].iloc[0][:12],
        warnings=warnings,
        notes=notes,
        results=results,
        first=(drawn[0][1], Markup(drawn[0][2])) if drawn else None,
        looks=looks,
        caution=CAUTION,
        origin=origin,
        sections=sections,
    )


def _published(figures: pd.DataFrame, runs: Sequence[ScoredRun]) -> list[PageTable]:
    """Tabulate published means beside the report's; no table without comparable rows."""
    lines = openood.beside_published(figures, {run.name: run.weights for run in runs})
    rows: list[Sequence[Value | Cell]] = [
        [shown_name(line["detector"]), line["run"], line["unknown"],
         *(Cell(f"{line[name]:.2f}", order=line[name]) for name in ("here", "published")),
         Cell(f"{line['here'] - line['published']:+.2f}", order=line["here"] - line["published"])]
        for line in lines.to_dict("records")
    ]  # fmt: skip
    titles = ["Detector", "Run", "Unknown", "AUROC here", "Published", "Difference"]
    note = "In percent; published by OpenOOD's leaderboard of July 2025, for the same images and weights. "
    note += openood.TURNED
    return [page_table("published", "Beside published figures", titles, rows, note=note)] if rows else []


def _runs(runs: Sequence[ScoredRun]) -> PageTable:
    titles = ("Run", "Training", "Seed", "Model", "Weights", "Scores file")
    rows: list[list[Value | Cell]] = [
        [run.name, run.variant, run.about.seed, run.about.model, code(run.about.model_digest[:12]), run.path.name]
        for run in runs
    ]
    return replace(page_table("runs", "Runs", titles, rows), searchable=False)


def _fitting(runs: Sequence[ScoredRun]) -> PageTable:
    """Tabulate the rows that the first run of each detector used, and the hyperparameters that it found."""
    titles = ("Detector", "Fitted on", "Tuned on", "Threshold from", "Hyperparameters of its first run")
    rows: dict[str, list[str | None]] = {}
    for run in runs:
        for name in run.rows:
            used, found = run.about.rows.get(name, {}), run.about.hyperparameters.get(name)
            if name not in rows and (used or found is not None):
                of = [used.get(key) or None for key in ("fitted_on", "tuned_on", "threshold_on")]
                values = ", ".join(f"{key} {value:g}" for key, value in (found or {}).items()) or None
                rows[name] = [shown_name(name), *of, values]
    note = "A dash: the detector uses no such rows. extract computes in exact float32, without TF32."
    return page_table("fitting", "What each detector was fitted and tuned on", titles, [*rows.values()], note=note)
