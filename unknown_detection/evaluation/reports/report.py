"""Writes reports on scores files: figures, one page, and tables and plots as files on demand."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from unknown_detection.durable import finish, make_folder
from unknown_detection.evaluation.display.canvas import inline_svg, save
from unknown_detection.evaluation.display.tables import aligned_columns, as_csv, as_latex
from unknown_detection.evaluation.errors import EvaluationError, require_packages
from unknown_detection.evaluation.files import write_text
from unknown_detection.evaluation.protocols.registry import PROTOCOLS
from unknown_detection.evaluation.protocols.results import FILE, over_runs, read_figures, tidy, write_figures
from unknown_detection.evaluation.protocols.robustness import DetectorFigures
from unknown_detection.evaluation.releases import Release, load
from unknown_detection.evaluation.reports import judging
from unknown_detection.evaluation.reports.inputs import (
    ScoredRun,
    ScoresFile,
    choose_protocols,
    join_runs,
    parse_splits,
    scores_files,
)
from unknown_detection.evaluation.reports.page import PAGE, render_page
from unknown_detection.evaluation.reports.placed import PlacedTable, paper_tables, pictures, summaries
from unknown_detection.terminal.progress import Log, bar

Record = dict[str, Any]

_SHOWN = 12
"""Detectors that a terminal shows of the first table; of others, a third."""

PLOT_SUFFIXES = (".pdf", ".png", ".svg")


def report(
    scores: Any,
    release: Release | str | Path,
    out: str | Path,
    *,
    splits: str | Iterable[str] | None = None,
    protocols: Sequence[str] = (),
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
        protocols: names of protocols, or `NAME=CONFIG,CONFIG`; empty for the default protocol of each config.
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
        require_packages("matplotlib", to="draw plots", instead="give --no-plots")
    target = Path(out)
    _check_output_folder(target)
    files, opened = scores_files(scores), load(release)
    chosen = parse_splits(splits)
    with bar(len(files), "joining", quiet=quiet, unit=" files") as progress:
        scored = join_runs(files, opened, chosen, progress.update)
    plan = choose_protocols(protocols, scored, tuple(chosen))
    log(_described(opened, scored, plan))
    left_out = judging.rows_left_out(scored, plan)
    warnings = judging.warnings(opened, scored, plan)
    notes = judging.row_notes(opened, scored, left_out)
    for note in (*warnings, *notes):
        log(f"note: {note}")
    if dry_run:
        log(f"dry run: nothing was written; the report would go to {out}")
        return None
    with bar(sum(len(run.rows) for run in scored), "judging", quiet=quiet, unit=" detectors") as progress:
        evaluated = judging.compute_figures(scored, plan, progress.update)
    for hint in (*judging.reversed_signs(evaluated), *judging.too_few_left(evaluated, left_out)):
        log(f"note: {hint}")
        warnings.append(hint)
    figures = _tabulate(evaluated, opened)
    record = {**_record(figures, files, scored, plan, left_out), "warnings": warnings, "notes": notes}
    lines = over_runs(figures)
    short, tables = summaries(lines), paper_tables(lines, left_out.duplicates or (), left_out.overlapping or ())
    scenes = [] if plots is False else pictures(scored, figures, plan, roc)
    temporary = target.resolve().with_name(f".{os.getpid()}.{target.resolve().name}")
    make_folder(temporary.parent)
    try:
        temporary.mkdir()
        inline = []
        with bar(len(scenes), "drawing", quiet=quiet, unit=" protocols") as progress:
            for scene in scenes:
                for picture in scene.protocol.pictures(scene):
                    svg = inline_svg(picture.figure, picture.name)
                    inline.append((scene.protocol.name, picture.title, svg))
                    if plots:
                        save(picture.figure, temporary / "plots", picture.name, PLOT_SUFFIXES)
                progress.update(1)
        write_text(temporary / PAGE, render_page(record, figures, short, tables, inline, scored))
        for suffix, as_text in ((".csv", as_csv),) * csv + ((".tex", as_latex),) * latex:
            for placed in tables:
                write_text(temporary / "tables" / f"{placed.table.name}{suffix}", as_text(placed.table))
        if csv:
            write_figures(temporary / "figures.csv", figures)
        written = [path.relative_to(temporary).as_posix() for path in temporary.rglob("*") if path.is_file()]
        write_figures(temporary / FILE, figures, {**record, "files": sorted([*written, FILE])})
        _put(temporary, target.resolve())
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for line in terminal_lines(short):
        log(line)
    log(f"{'the page' if inline else 'the page, without plots'}: {target / PAGE}")
    return figures


def short_results(scores: Path, release: Release, splits: Mapping[str, set[str]]) -> list[str]:
    """Return the main figures of a scores file for a terminal, on all rows, by the protocol of each config."""
    scored = join_runs([ScoresFile(scores)], release, splits, lambda _: None)
    plan = choose_protocols((), scored, ())
    evaluated = [
        (run.origin, detector, PROTOCOLS[name].figures(run.of_configs(rows, configs)))
        for run in scored
        for name, configs in plan.items()
        for detector, rows in run.rows.items()
    ]
    return terminal_lines(summaries(over_runs(_tabulate(evaluated, release))))


def terminal_lines(short: Sequence[PlacedTable]) -> list[str]:
    """Return the short tables of results for a terminal: the best few detectors of each protocol and config."""
    lines = []
    for number, table in enumerate(placed.table for placed in short):
        limit = _SHOWN if not number else _SHOWN // 3
        hidden = len(table.rows) - limit
        lines += ["", f"{table.title}, best first", *table.in_order(range(min(limit, len(table.rows)))).lines()]
        lines += [f"and {hidden} more"] * (hidden > 0)
        lines += [table.note]
    return [*lines, ""] if lines else []


def _check_output_folder(out: Path) -> None:
    """Check that a folder does not exist, is empty, or has a report and nothing else."""
    if not out.exists():
        return
    if not out.is_dir():
        raise EvaluationError(f"{out} is a file, not a folder for the report; choose another name.")
    try:
        listed = read_figures(out).attrs.get("files")
    except EvaluationError:
        listed = None  # no report, or none that this version can tell from other files
    names = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir())
    foreign = [name for name in names if not isinstance(listed, list) or name not in listed]
    if foreign:
        raise EvaluationError(
            f"{out} has files that are not part of a report: {len(foreign):,}, such as {foreign[0]}. Choose another "
            "folder."
        )


def _described(release: Release, scored: Sequence[ScoredRun], plan: judging.Plan) -> str:
    lines = [["run", "training", "detectors", "configs"]]
    for run in scored:
        lines.append([run.origin.name, run.origin.variant or "-", str(len(run.rows)), ", ".join(run.configs)])
    protocols = [f"{name}: {', '.join(of)}" for name, of in plan.items()]
    head = f"release  {release.name}, digest {release.digest[:12]}"
    return "\n".join([head, *aligned_columns(lines, left=(0, 1, 3)), *protocols])


def _tabulate(evaluated: Sequence[DetectorFigures], release: Release) -> pd.DataFrame:
    return tidy(
        evaluated,
        release=judging.release_name(release),
        release_digest=release.digest,
        duplicates_sha256=release.duplicates_digest,
    )


def _record(
    figures: pd.DataFrame, files: Sequence[ScoresFile], scored: Sequence[ScoredRun], plan: judging.Plan,
    left_out: judging.RowsLeftOut,
) -> Record:  # fmt: skip
    """Return the record of a report: its release, protocols, runs, and the rows left out."""
    runs = []
    for file, run in zip(files, scored, strict=True):
        entry = {name: getattr(run.origin, name) for name in ("variant", "seed", "model", "model_digest", "weights")}
        entry |= {"run": run.origin.name, "scores": file.path.name, "scores_sha256": file.sha256}
        runs.append(entry | {"times": dict(run.times)})
    first = figures.iloc[0]
    return {
        **{name: first[name] for name in ("release", "release_digest", "duplicates_sha256")},
        "protocols": {name: list(configs) for name, configs in plan.items()},
        "left_out": None if left_out.duplicates is None else [*map(asdict, left_out.duplicates)],
        "overlapping": None if left_out.overlapping is None else [*map(asdict, left_out.overlapping)],
        "runs": runs,
    }


def _put(temporary: Path, out: Path) -> None:
    """Move the new folder into place with two renames, because no rename replaces a folder that has files."""
    old = out.with_name(f".{os.getpid()}.old.{out.name}")
    if out.exists():
        out.replace(old)
    finish(temporary, out)
    shutil.rmtree(old, ignore_errors=True)
