"""Writes a report of scores: the papers' figures, their tables, plots and a page.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from builders.storage.files import write_text
from unknown_detection.durable import finish, make_folder
from unknown_detection.evaluation.display.plots import inline_svg, save
from unknown_detection.evaluation.display.tables import aligned_columns, as_csv, as_latex, figure_metric
from unknown_detection.evaluation.errors import require_known, require_packages
from unknown_detection.evaluation.files import require_folder_of
from unknown_detection.evaluation.protocols import Protocol, calibration, protocol_of
from unknown_detection.evaluation.protocols.pictures import Scene
from unknown_detection.evaluation.protocols.protocol import best_first
from unknown_detection.evaluation.protocols.results import ALL_VARIANTS, AS_PUBLISHED, FILE, over_runs, write_figures
from unknown_detection.evaluation.releases import Release, load
from unknown_detection.evaluation.reports import judging
from unknown_detection.evaluation.reports.inputs import ScoredRun, choose_protocols, join_runs
from unknown_detection.evaluation.reports.page import PAGE, render_page
from unknown_detection.evaluation.reports.tables import Tables, paper_tables, several_methods, summaries
from unknown_detection.evaluation.scoring.rows import describe_left_out
from unknown_detection.terminal.progress import Log, bar

_SHOWN = 12
"""Detectors that a terminal shows of the first table; of others, a third."""

PLOT_SUFFIXES = (".pdf", ".png", ".svg")

_PARTS = (FILE, PAGE, "figures.csv", "plots", "tables", *(f"plots/*{suffix}" for suffix in PLOT_SUFFIXES))
_PARTS += ("tables/*.csv", "tables/*.tex")
"""Patterns of a report's files and folders, which a report replaces."""


def report(
    scores: Any,
    release: Release | str | Path,
    out: str | Path,
    *,
    splits: str | Iterable[str] | None = None,
    protocols: str | Protocol | Sequence[str | Protocol] = (),
    csv: bool = False,
    latex: bool = False,
    plots: bool | None = None,
    roc: str | None = None,
    dry_run: bool = False,
    quiet: bool = True,
    log: Log = lambda text: None,
) -> pd.DataFrame | None:
    """Compute the papers' figures from scores, and write them with a page that shows them.

        >>> figures = ud.report(scores, "build/digits", "build/report", plots=False)
        >>> sorted(path.name for path in Path("build/report").iterdir())
        ['figures.parquet', 'report.html']

    The folder gets `report.html` and `figures.parquet`: all figures in full precision and with their types, which
    `compare` and `read_figures` read.

    Args:
        scores: as for `evaluate`; `VARIANT=FILE` names the training method, too.
        release: the release whose rows were scored: a folder, ORG/NAME on the Hub, or an opened one.
        out: folder to write; a report there is replaced.
        splits: as for `evaluate`.
        protocols: one or several: names, `NAME=CONFIG,CONFIG`, or a `Protocol` of one's own; empty for the default
            protocol of each config.
        csv: also write the figures and each table as CSV.
        latex: also write each table as LaTeX.
        plots: True also writes the plots as PDF, PNG and SVG; False leaves them out of the page, too.
        roc: the detector whose ROC curves are drawn; None for the best of each config.
        dry_run: check the files and ids, log what would be computed, and write nothing.
        quiet: no progress bars.
        log: receives lines on what is evaluated, and notes.

    Returns:
        One line per figure, with the columns `results.COLUMNS`; None for a dry run.

    Raises:
        EvaluationError: as for `evaluate`, a protocol lacks rows that it needs, the folder has other files, or
            matplotlib is not installed.
    """
    if plots is not False:
        require_packages("matplotlib", to="draw plots", instead="give --no-plots (in Python plots=False)")
    target = Path(out)
    require_folder_of(target, "report", _PARTS if (target / FILE).is_file() else ())
    opened = load(release)
    runs, configs = join_runs(scores, opened, splits, quiet=quiet)
    plan = choose_protocols(protocols, runs, configs)
    require_known("detector with scores", [] if roc is None else [roc], {name for run in runs for name in run.rows})
    log(_described(opened, runs, plan))
    left_out = judging.rows_left_out(runs, plan)
    warnings = judging.warnings(opened, runs, plan)
    notes = [describe_left_out(kind, of) for kind, of in left_out.items()]
    scored = sorted({config for run in runs for config in run.about.configs})
    notes += [remark for config in scored for remark in opened.remarks_on_classes(config)]
    for note in (*warnings, *notes):
        log(f"note: {note}")
    if dry_run:
        log(f"dry run: nothing was written; the report would go to {out}")
        return None
    figures = judging.compute_figures(runs, plan, opened, quiet=quiet)
    for hint in judging.hints(figures, left_out):
        log(f"note: {hint}")
        warnings.append(hint)
    lines = over_runs(figures)
    short, tables = summaries(lines), paper_tables(lines, left_out)
    drawn_of = [] if plots is False else scenes(runs, figures, plan, roc)
    temporary = target.resolve().with_name(f".{os.getpid()}.{target.resolve().name}")
    make_folder(temporary.parent)
    try:
        temporary.mkdir()
        drawn = []
        with bar(len(drawn_of), "drawing", quiet=quiet, unit=" protocols") as progress:
            for scene in drawn_of:
                for picture in (picture for kind in scene.protocol.pictures for picture in kind(scene)):
                    drawn.append((scene.protocol.name, picture.title, inline_svg(picture.figure, picture.name)))
                    if plots:
                        save(picture.figure, temporary / "plots", picture.name, PLOT_SUFFIXES)
                progress.update(1)
        page = render_page(figures, short, tables, drawn, runs, warnings=warnings, notes=notes)
        write_text(temporary / PAGE, page)
        write_figures(temporary / FILE, figures)
        if csv:
            write_figures(temporary / "figures.csv", figures)
        for suffix, as_text in ((".csv", as_csv),) * csv + ((".tex", as_latex),) * latex:
            for table in (table for of in tables.values() for table in of):
                write_text(temporary / "tables" / f"{table.name}{suffix}", as_text(table))
        # Two renames, because none replaces a folder that has files.
        old = temporary.with_name(f".{os.getpid()}.old.{target.resolve().name}")
        if target.exists():
            target.resolve().replace(old)
        finish(temporary, target.resolve())
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for line in _terminal_lines(short):
        log(line)
    log(f"{'the page' if drawn else 'the page, without plots'}: {target / PAGE}")
    return figures


def scenes(runs: Sequence[ScoredRun], figures: pd.DataFrame, plan: judging.Plan, roc: str | None) -> list[Scene]:
    """Return what the pictures of each protocol and training method are of.

    ROC curves are of the detector `roc`; None for the best.
    """
    drawn_of = []
    several = several_methods(figures)
    for variant in methods_best_first(figures):
        of_variant = [run for run in runs if run.variant == variant]
        of_variant.sort(key=lambda run: (run.about.seed is None, run.about.seed or 0, run.name))
        chosen = figures[(figures["variant"] == variant) & (figures["rows"] == AS_PUBLISHED)]
        for name, lines in chosen.groupby("protocol", sort=False):
            protocol, rows, names = protocol_of(name), {}, {}
            configs = plan.get(name) or lines["config"].unique().tolist()
            for of in [[config] for config in configs] if protocol.each_config else [configs]:
                for run in of_variant:  # the first with rows of the config
                    detectors = dict(judging.confidences(run)) if name == calibration.NAME else run.rows
                    if set(of) & set(run.about.configs) and detectors:
                        place = of[0] if protocol.each_config else name
                        rows[place] = {name: run.of_configs(scores, of) for name, scores in detectors.items()}
                        names[place] = run.name
                        break
            drawn_of.append(Scene(protocol, lines, rows, names, [variant] * several, roc).where(protocol.drawn))
    return drawn_of


def methods_best_first(figures: pd.DataFrame) -> list[str]:
    """Return the training methods: by the best headline figure of the first protocol, then those without one."""
    lines = over_runs(figures[figures["rows"] == AS_PUBLISHED])
    lines = lines[lines["variant"] != ALL_VARIANTS]
    first = protocol_of(lines["protocol"].iloc[0])
    headline = first.headline(lines[lines["protocol"] == first.name])
    if headline.empty:
        return [*lines["variant"].unique()]
    means = headline.groupby(["detector", "variant"], sort=False, as_index=False)["mean"].mean()
    order = best_first(means["mean"], figure_metric(headline["metric"].iloc[0]).better)
    return [*pd.unique(pd.concat([means["variant"].iloc[order], lines["variant"]]))]


def short_results(scores: pa.Table, release: Release) -> list[str]:
    """Return the main figures of a table of scores for a terminal, on all rows, by the protocol of each config."""
    runs, _ = join_runs(scores, release, None)
    figures = judging.compute_figures(runs, choose_protocols((), runs, ()), release)
    return _terminal_lines(summaries(over_runs(figures)))


def _terminal_lines(short: Tables) -> list[str]:
    """Return the short tables of results for a terminal: the best few detectors of each protocol and config."""
    lines = []
    for number, table in enumerate(table for of in short.values() for table in of):
        limit = _SHOWN if not number else _SHOWN // 3
        shown, hidden = range(len(table.rows))[:limit], len(table.rows) - limit
        lines += ["", f"{table.title}, best first", *table.in_order(shown).lines()]
        lines += [f"and {hidden} more"] * (hidden > 0) + [table.note]
    return [*lines, ""] if lines else []


def _described(release: Release, runs: Sequence[ScoredRun], plan: judging.Plan) -> str:
    lines = [[run.name, run.variant or "-", str(len(run.rows)), ", ".join(run.about.configs)] for run in runs]
    protocols = [f"{name}: {', '.join(of)}" for name, of in plan.items()]
    head = f"release  {release.name}, digest {release.digest[:12]}"
    table = aligned_columns([["run", "training", "detectors", "configs"], *lines], left=(0, 1, 3))
    return "\n".join([head, *table, *protocols])
