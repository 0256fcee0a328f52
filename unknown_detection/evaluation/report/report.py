"""Writes a report of scores: the papers' figures, their tables, plots and a page.

Tested by `tests/evaluation/report/test_report.py`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from builders.errors import BuildError
from builders.storage.files import write_text
from unknown_detection.durable import finish, make_folder
from unknown_detection.evaluation.errors import require_packages
from unknown_detection.evaluation.files import require_folder_of
from unknown_detection.evaluation.frame import REDUCED
from unknown_detection.evaluation.metrics.metrics import find_metric
from unknown_detection.evaluation.protocols import Protocol, chosen
from unknown_detection.evaluation.protocols.protocol import AS_PUBLISHED
from unknown_detection.evaluation.releases import Release, load
from unknown_detection.evaluation.report import judging
from unknown_detection.evaluation.report.figures import FILE, over_runs, write_figures
from unknown_detection.evaluation.report.looks import confused_rows, look_at
from unknown_detection.evaluation.report.names import shown_name
from unknown_detection.evaluation.report.page import PAGE, render_page
from unknown_detection.evaluation.report.pictures import Scene
from unknown_detection.evaluation.report.pivot import Pivot, aligned_columns, best_first, full_tables, shown_tables
from unknown_detection.evaluation.report.plots import inline_svg, save
from unknown_detection.evaluation.runs import ALL_VARIANTS, ScoredRun, join_runs
from unknown_detection.terminal.progress import Log, bar

_SHOWN = 12
"""Detectors that a terminal shows of the first table; of others, a third."""

PLOT_SUFFIXES = (".pdf", ".png", ".svg")

_PARTS = (FILE, PAGE, "figures.csv", "plots", "tables", *(f"plots/*{suffix}" for suffix in PLOT_SUFFIXES))
_PARTS += ("tables/*.csv", "tables/*.tex")
"""Patterns of a report's files and folders, which a report replaces."""


@dataclass(frozen=True, repr=False)
class Report:
    """A report as it was written; a notebook shows the tables of results and where the page is.

    Attributes:
        figures: one line per figure, with the columns `figures.COLUMNS`.
        results: the tables of results, one for each protocol and config.
        page: the page.
        warnings: what changes a conclusion, in sentences.
    """

    figures: pd.DataFrame
    results: Sequence[Pivot]
    page: Path
    warnings: Sequence[str]

    def __repr__(self) -> str:
        return "\n".join([*_terminal_lines(self.results), f"<report: {self.page}>"])

    def _repr_html_(self) -> str:
        tables = [
            f"<p>{Markup.escape(table.title)}. {Markup.escape(table.note)}</p>{table.cells().to_html()}"
            for table in self.results
        ]
        return "".join(tables) + f"<p>The page: {Markup.escape(self.page)}</p>"

    def json(self) -> str:
        """Return the figures of the tables of results, one a record, with warnings and the page; rates from 0 to 1."""
        of_tables = [table.lines.assign(table=table.name) for table in self.results]
        results = json.loads(pd.concat(of_tables).to_json(orient="records", double_precision=15)) if of_tables else []
        return json.dumps({"page": str(self.page), "warnings": [*self.warnings], "results": results}, indent=1)


@dataclass(frozen=True)
class _Judged:
    """The figures of runs, and what tables and plots are made of.

    Attributes:
        runs: the runs.
        plan: the configs of each protocol.
        figures: one line per figure.
        lines: the same over runs.
        orders: (detector, variant) by protocol, the best first.
        results: the tables of results.
    """

    runs: Sequence[ScoredRun]
    plan: judging.Plan
    figures: pd.DataFrame
    lines: Mapping[Protocol, pd.DataFrame]
    orders: Mapping[Protocol, Sequence[tuple[str, str]]]
    results: Sequence[Pivot]


def _judge(runs: Sequence[ScoredRun], plan: judging.Plan, release: Release, *, quiet: bool = True) -> _Judged:
    figures = judging.compute_figures(runs, plan, release, quiet=quiet)
    over, known = over_runs(figures), {protocol.name: protocol for protocol in plan}
    lines = {known[name]: over[over["protocol"] == name] for name in figures["protocol"].unique()}
    orders = {protocol: best_first(protocol, of) for protocol, of in lines.items()}
    results = [table for protocol, of in lines.items() for table in shown_tables(protocol, of, orders[protocol])]
    return _Judged(runs, plan, figures, lines, orders, results)


def report(
    scores: Any,
    release: Release | str | Path,
    out: str | Path,
    *,
    splits: str | Iterable[str] | None = None,
    protocols: str | Protocol | Sequence[str | Protocol] = (),
    metrics: str | Callable[..., float] | Sequence[str | Callable[..., float]] = (),
    csv: bool = False,
    latex: bool = False,
    plots: bool | None = None,
    dry_run: bool = False,
    quiet: bool = True,
    log: Log = lambda text: None,
) -> Report | None:
    """Compute the papers' figures from scores, and write them with a page that shows them.

        >>> report = ud.report(scores, "build/digits", "build/report", plots=False)
        >>> sorted(path.name for path in Path("build/report").iterdir())
        ['figures.parquet', 'report.html']

    The folder gets `report.html` and `figures.parquet`: all figures in full precision and with their types.

    Args:
        scores: as for `evaluate`; `VARIANT=FILE` names the training method, too.
        release: the release whose rows were scored: a folder, ORG/NAME on the Hub, or an opened one.
        out: folder to write; a report there is replaced.
        splits: as for `evaluate`.
        protocols: one or several: names, `NAME=CONFIG,CONFIG`, or a `Protocol` of one's own; empty for the default
            protocol of each config.
        metrics: more metrics, as for `evaluate`, of each split of unknown rows, with the means of each role.
        csv: also write the figures and each table as CSV.
        latex: also write each table as LaTeX.
        plots: True also writes the plots as PDF, PNG and SVG; False leaves them out of the page, too.
        dry_run: check the files and ids, log what would be computed, and write nothing.
        quiet: no progress bars.
        log: receives lines on what is evaluated, and notes.

    Returns:
        The report, with its `figures` as a DataFrame; None for a dry run.

    Raises:
        EvaluationError: as for `evaluate`, a protocol lacks rows that it needs, the folder has other files, or
            matplotlib is not installed.
    """
    if plots is not False:
        require_packages("matplotlib", to="draw plots", instead="give plots=False")
    target = Path(out)
    require_folder_of(target, "report", _PARTS if (target / FILE).is_file() else ())
    asked = [metrics] if isinstance(metrics, str) or callable(metrics) else metrics
    found = [find_metric(metric) for metric in asked]
    opened = load(release)
    runs, configs = join_runs(scores, opened, splits, quiet=quiet)
    plan = judging.choose_protocols(protocols, runs, configs)
    if found:
        plan[chosen.protocol_of(found)] = tuple(dict.fromkeys(config for of in plan.values() for config in of))
    log(_described(opened, runs, plan))
    left_out = judging.left_out_counts(runs, plan)
    described = judging.describe_left_out(left_out)
    warnings = judging.warnings(opened, runs, plan)
    scored = sorted({config for run in runs for config in run.about.configs})
    notes = [*described.values(), *(remark for config in scored for remark in opened.remarks_on_classes(config))]
    for note in (*warnings, *notes):
        log(f"note: {note}")
    if dry_run:
        log(f"dry run: nothing was written; the report would go to {out}")
        return None
    judged = _judge(runs, plan, opened, quiet=quiet)
    hints = judging.reversed_signs(judged.figures)
    try:
        best, rows = _best_rows(judged)
        looks = {f"{title} to {best}": look_at(opened, of) for title, of in confused_rows(rows).items()}
    except BuildError as error:
        looks, hints = {}, [*hints, f"no pictures of rows are shown: {error}"]
    for hint in hints:
        log(f"note: {hint}")
    tables = {protocol: [*full_tables(protocol, of, judged.orders[protocol])] for protocol, of in judged.lines.items()}
    for protocol, of in judged.lines.items():
        for kind in REDUCED:
            tables[protocol] += shown_tables(protocol, of, judged.orders[protocol], kind, described.get(kind, ""))
    temporary = target.resolve().with_name(f".{os.getpid()}.{target.resolve().name}")
    make_folder(temporary.parent)
    try:
        temporary.mkdir()
        drawn = []
        drawn_of = [] if plots is False else scenes(judged)
        with bar(len(drawn_of), "drawing", quiet=quiet, unit=" protocols") as progress:
            for scene in drawn_of:
                for picture in scene.pictures():
                    drawn.append((scene.protocol.name, picture.title, inline_svg(picture.figure, picture.name)))
                    if plots:
                        save(picture.figure, temporary / "plots", picture.name, PLOT_SUFFIXES)
                progress.update(1)
        said: dict[str, Any] = {"warnings": [*warnings, *hints], "notes": notes, "demo": opened.is_demo}
        write_text(
            temporary / PAGE,
            render_page(judged.figures, judged.results, tables, drawn, looks, runs, **said, left_out=left_out),
        )
        write_figures(temporary / FILE, judged.figures)
        if csv:
            write_figures(temporary / "figures.csv", judged.figures)
        for table in [*judged.results, *(table for of in tables.values() for table in of)]:
            for suffix, text in ((".csv", table.csv),) * csv + ((".tex", table.latex),) * latex:
                write_text(temporary / "tables" / f"{table.name}{suffix}", text())
        # Two renames, because none replaces a folder that has files.
        old = temporary.with_name(f".{os.getpid()}.old.{target.resolve().name}")
        if target.exists():
            target.resolve().replace(old)
        finish(temporary, target.resolve())
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for line in _terminal_lines(judged.results):
        log(line)
    log(f"{'the page' if drawn else 'the page, without plots'}: {target / PAGE}")
    return Report(judged.figures, judged.results, target / PAGE, said["warnings"])


def short_results(scores: Any, release: Release) -> list[str]:
    """Return the main figures of scores for a terminal, on all rows, by the protocol of each config."""
    runs, _ = join_runs(scores, release, None)
    return _terminal_lines(_judge(runs, judging.choose_protocols((), runs, ()), release).results)


def scenes(judged: _Judged) -> list[Scene]:
    """Return what the pictures of each protocol and training method are of, the best method first."""
    drawn_of = []
    variants = [*dict.fromkeys(variant for order in judged.orders.values() for _, variant in order)]
    variants = [variant for variant in variants if variant != ALL_VARIANTS]
    for variant in variants:
        of_variant = [run for run in judged.runs if run.variant == variant]
        of_variant.sort(key=lambda run: (run.about.seed is None, run.about.seed or 0, run.name))
        figures = judged.figures[(judged.figures["variant"] == variant) & (judged.figures["rows"] == AS_PUBLISHED)]
        for protocol, pairs in judged.orders.items():
            order, rows, names = [name for name, of in pairs if of == variant], {}, {}
            configs = judged.plan[protocol]
            for of in [[config] for config in configs] if protocol.each_config else [configs]:
                run = next((run for run in of_variant if {*of} & {*run.about.configs}), None)
                if run is not None:
                    place = of[0] if protocol.each_config else protocol.name
                    whole = {name: run.of_configs(of, name) for name in order if name in run.rows}
                    rows[place] = {name: one[protocol.drawn(one)] for name, one in whole.items()}
                    names[place] = run.name
            lines, labels = figures[figures["protocol"] == protocol.name], [variant] * (len(variants) > 1)
            drawn_of.append(Scene(protocol, lines, rows, names, order, labels))
    return drawn_of


def _best_rows(judged: _Judged) -> tuple[str, pd.DataFrame]:
    """Return the name of the best detector of the first protocol, and the rows of its first run."""
    protocol, order = next(iter(judged.orders.items()))
    configs = judged.plan[protocol]
    return next(
        (shown_name(detector), run.of_configs(configs, detector))
        for detector, variant in order
        for run in judged.runs
        if run.variant == variant and detector in run.rows and {*configs} & {*run.about.configs}
    )


def _terminal_lines(short: Sequence[Pivot]) -> list[str]:
    """Return the tables of results for a terminal: the best few detectors of each protocol and config."""
    lines = []
    for number, table in enumerate(short):
        lines += ["", *table.text(_SHOWN if not number else _SHOWN // 3)]
    return [*lines, ""] if lines else []


def _described(release: Release, runs: Sequence[ScoredRun], plan: judging.Plan) -> str:
    lines = [[run.name, run.variant or "-", str(len(run.rows)), ", ".join(run.about.configs)] for run in runs]
    protocols = [f"{protocol.name}: {', '.join(of)}" for protocol, of in plan.items()]
    head = f"release  {release.name}, digest {release.digest[:12]}"
    table = aligned_columns([["run", "training", "detectors", "configs"], *lines], left=(0, 1, 3))
    return "\n".join([head, *table, *protocols])
