"""Writes a report of scores: the papers' figures, their tables, plots and a page."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from builders.storage.files import write_text
from unknown_detection.durable import finish, make_folder
from unknown_detection.evaluation.errors import EvaluationError, require_packages
from unknown_detection.evaluation.files import require_folder_of, require_writable
from unknown_detection.evaluation.frame import REDUCED
from unknown_detection.evaluation.metrics.bootstrap import require_samples
from unknown_detection.evaluation.metrics.metrics import find_metrics
from unknown_detection.evaluation.protocols import Protocol, chosen
from unknown_detection.evaluation.releases import Release, load
from unknown_detection.evaluation.report import judging
from unknown_detection.evaluation.report.comparing import compare
from unknown_detection.evaluation.report.differences import differences
from unknown_detection.evaluation.report.figures import FILE, write_figures
from unknown_detection.evaluation.report.looks import confused_rows, look_at
from unknown_detection.evaluation.report.names import shown_name
from unknown_detection.evaluation.report.page import PAGE, render_page
from unknown_detection.evaluation.report.pictures import draw
from unknown_detection.evaluation.report.pivot import Pivot, full_tables, shown_tables
from unknown_detection.evaluation.report.plots import inline_svg, save
from unknown_detection.evaluation.runs import join_runs
from unknown_detection.terminal.progress import Log

_SHOWN = 12
"""Detectors that a terminal shows of the first table; of others, a third."""

PLOT_SUFFIXES = (".pdf", ".png", ".svg")

_PARTS = (FILE, PAGE, "figures.csv", "plots", "tables", *(f"plots/*{suffix}" for suffix in PLOT_SUFFIXES))
_PARTS += ("tables/*.csv", "tables/*.tex")
"""Patterns of a report's files and folders, which a report replaces."""


@dataclass(frozen=True, repr=False)
class Report:
    """A written report; a notebook shows its tables of results, and where its page is.

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
        return "\n".join([*_terminal_lines(self.results), f"the page: {self.page}"]).removeprefix("\n")

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


def report(
    scores: Any,
    release: Release | str | Path,
    out: str | Path,
    *,
    splits: str | Iterable[str] | None = None,
    protocols: str | Protocol | Sequence[str | Protocol] = (),
    metrics: str | Callable[..., float] | Sequence[str | Callable[..., float]] = (),
    intervals: int = 0,
    csv: bool = False,
    latex: bool = False,
    plots: bool | None = None,
    quiet: bool = True,
    log: Log = lambda text: None,
) -> Report:
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
        metrics: more metrics of each split of unknown rows, with the means of each role: names, such as `oscr`, or
            functions of your own, as for `evaluate`.
        intervals: number of bootstrap samples, such as 1000 and at least 100, for a table of how far each detector is
            from the best one of a model, with intervals on the same drawn rows; 0 for none.
        csv: also write the figures and each table as CSV.
        latex: also write each table as LaTeX.
        plots: also write the plots as PDF, PNG and SVG, or, if false, draw none for the page either, so that
            matplotlib is not needed; None for the page alone.
        quiet: no progress bars.
        log: receives lines on what is evaluated, and notes.

    Returns:
        The report, with its `figures` as a DataFrame.

    Raises:
        EvaluationError: as for `evaluate`, a protocol lacks rows that it needs, the folder has other files, or
            matplotlib is not installed.
    """
    require_samples(intervals)
    if plots is not False:
        require_packages("matplotlib", to="draw plots", instead="give plots=False")
    target, place, here = Path(out), Path(out).resolve(), Path.cwd()
    if place in (here, *here.parents):
        raise EvaluationError(
            f"A report replaces its folder, and {target} is the current one or has it. Choose a folder in it, such as "
            f"{target / 'report'}."
        )
    require_folder_of(target, "report", _PARTS if (target / FILE).is_file() else ())
    require_writable(target.parent)
    more = find_metrics(metrics)
    opened = load(release)
    runs, configs = join_runs(scores, opened, splits, quiet=quiet)
    plan = judging.choose_protocols(protocols, runs, configs)
    if more:
        plan[chosen.protocol_of(more)] = tuple(dict.fromkeys(config for of in plan.values() for config in of))
    described = judging.describe_left_out(runs, plan)
    warnings = judging.warnings(opened, runs, plan)
    scored = sorted({config for run in runs for config in run.about.configs})
    notes = [*described.values(), *(remark for config in scored for remark in opened.remarks_on_classes(config))]
    for note in (*warnings, *notes):
        log(f"note: {note}")
    judged = judging.judge(runs, plan, opened, quiet=quiet)
    hints, comparisons = judging.reversed_signs(judged.figures), compare(judged)
    try:
        best, rows = _best_rows(judged)
        looks = {f"{title} to {best}": look_at(opened, of) for title, of in confused_rows(rows).items()}
    except EvaluationError as error:
        looks, hints = {}, [*hints, f"no pictures of rows are shown: {error}"]
    without_ranks = [comparison.note for comparison in comparisons if comparison.note]
    for note in (*hints, *without_ranks):
        log(f"note: {note}")
    tables = {protocol: [*full_tables(protocol, of, judged.orders[protocol])] for protocol, of in judged.lines.items()}
    for protocol, of in judged.lines.items():
        for kind in REDUCED:
            tables[protocol] += shown_tables(protocol, of, judged.orders[protocol], kind, described.get(kind, ""))
    temporary = place.with_name(f".{os.getpid()}.{place.name}")
    make_folder(temporary.parent)
    try:
        temporary.mkdir()
        drawn = []
        compared = (picture for comparison in comparisons for picture in comparison.pictures())
        for picture in () if plots is False else itertools.chain(compared, draw(judged, quiet=quiet)):
            drawn.append((picture.protocol, picture.title, inline_svg(picture.figure, picture.name)))
            if plots:
                save(picture.figure, temporary / "plots", picture.name, PLOT_SUFFIXES)
        found: dict[str, Any] = {
            "warnings": [*warnings, *hints],
            "notes": [*notes, *without_ranks],
            "demo": opened.is_demo,
        }
        found["compared"] = [comparison.table() for comparison in comparisons if comparison.ranks]
        found["compared"] += differences(judged, intervals, quiet=quiet) if intervals else []
        write_text(temporary / PAGE, render_page(judged, tables, drawn, looks, **found))
        write_figures(temporary / FILE, judged.figures)
        if csv:
            write_figures(temporary / "figures.csv", judged.figures)
        for table in [*judged.results, *(table for of in tables.values() for table in of)]:
            for suffix, text in ((".csv", table.csv),) * csv + ((".tex", table.latex),) * latex:
                write_text(temporary / "tables" / f"{table.name}{suffix}", text())
        # Two renames, because none replaces a folder that has files.
        old = place.with_name(f".{os.getpid()}.old.{place.name}")
        if place.exists():
            place.replace(old)
        finish(temporary, place)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Report(judged.figures, judged.results, target / PAGE, found["warnings"])


def short_results(scores: Any, release: Release) -> list[str]:
    """Return the tables of results on all rows as text for a terminal, by the default protocol of each config."""
    runs, _ = join_runs(scores, release, None)
    return _terminal_lines(judging.judge(runs, judging.choose_protocols((), runs, ()), release).results)


def _best_rows(judged: judging.Judged) -> tuple[str, pd.DataFrame]:
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
