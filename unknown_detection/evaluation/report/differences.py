"""Tabulates how far each detector is from the best one of its model, with intervals of a paired bootstrap."""

from __future__ import annotations

from unknown_detection.evaluation.evaluate import MEAN, lines_of
from unknown_detection.evaluation.metrics.metrics import METRICS
from unknown_detection.evaluation.report.judging import Judged
from unknown_detection.evaluation.report.names import set_name, shown_name
from unknown_detection.evaluation.runs import ScoredRun
from unknown_detection.pages.content import Cell, PageTable, Value, anchor
from unknown_detection.pages.content import table as page_table
from unknown_detection.terminal.progress import bar

_RUNS = 6
"""Runs that have such a table: the first of the best methods or models, as plots; ours."""


def differences(judged: Judged, samples: int, *, quiet: bool = True) -> list[PageTable]:
    """Return a table for the first run of each of the best methods, whose best detector is by the first protocol."""
    order, first = next(iter(judged.orders.values())), {run.variant: run for run in judged.runs[::-1]}
    runs = {variant: first[variant] for variant in dict.fromkeys(variant for _, variant in order) if variant in first}
    tables = []
    with bar(min(len(runs), _RUNS), "resampling", quiet=quiet, unit=" runs") as progress:
        for variant, run in [*runs.items()][:_RUNS]:
            names = [name for name, of in order if of == variant and name in run.rows]
            if len(names) > 1:
                tables.append(_table(run, names, samples))
            progress.update(1)
    return tables


def _table(run: ScoredRun, names: list[str], samples: int) -> PageTable:
    best, rows = names[0], dict[str, dict[str, Cell]]()
    lines = [*lines_of(run, {"AUROC": METRICS["auroc"]}, samples, best)]
    several = {(line["config"], line["role"]) for line in lines if line["split"] == MEAN}
    for line in lines:
        if (line["config"], line["role"]) in several and line["split"] != MEAN:
            continue
        mean = f"{set_name(line['role'])} mean" if line["split"] == MEAN else set_name(line["split"])
        low, value, high = (100 * line[f"AUROC_difference{end}"] for end in ("_low", "", "_high"))
        apart = low > 0 or high < 0
        cell = Cell(f"{value:+.2f} [{low:+.2f}, {high:+.2f}]", order=value, style="strong" if apart else "")
        rows.setdefault(line["detector"], {})[f"{mean}, {line['config']}"] = cell
    columns = [*dict.fromkeys(column for cells in rows.values() for column in cells)]
    cells: list[list[Value | Cell]] = [
        [shown_name(name), *(rows[name].get(column, Cell(None)) for column in columns)] for name in names[1:]
    ]
    note = (
        f"AUROC in points more than that of {shown_name(best)}, with the 95 % percentile interval of {samples:,} "
        "bootstrap samples, each of the same rows for both. Bold intervals exclude 0. They tell of chance in "
        "the rows, not in training. Of many detectors some exclude 0 by chance, and the best one was chosen here."
    )
    title = f"Differences from {shown_name(best)}, the best detector of {run.name}"
    return page_table(anchor("differences", run.name), title, ["Detector", *columns], cells, note=note)
