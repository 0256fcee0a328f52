"""Tabulates how far each detector is from the best one of its model, with intervals of a paired bootstrap."""

from __future__ import annotations

import pandas as pd

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
    order, tables = next(iter(judged.orders.values())), []
    variants = [*dict.fromkeys(variant for _, variant in order)][:_RUNS]
    with bar(len(variants), "resampling", quiet=quiet, unit=" runs") as progress:
        for variant in variants:
            run = next(run for run in judged.runs if run.variant == variant)
            names = [name for name, of in order if of == variant and name in run.rows]
            if len(names) > 1:
                tables.append(_table(run, names, samples))
            progress.update(1)
    return tables


def _table(run: ScoredRun, names: list[str], samples: int) -> PageTable:
    best, columns = names[0], dict[str, dict[str, Cell]]()
    lines = pd.DataFrame(lines_of(run, {"AUROC": METRICS["auroc"]}, samples, best))
    # The mean of a role, which comes after its splits, stands for them.
    for line in lines.drop_duplicates(["detector", "config", "role"], keep="last").to_dict("records"):
        of = f"{set_name(line['role'])} mean" if line["split"] == MEAN else set_name(line["split"])
        low, value, high = (100 * line[f"AUROC_difference{end}"] for end in ("_low", "", "_high"))
        apart = low > 0 or high < 0
        cell = Cell(f"{value:+.2f} [{low:+.2f}, {high:+.2f}]", order=value, style="strong" if apart else "")
        columns.setdefault(f"{of}, {line['config']}", {})[line["detector"]] = cell
    rows: list[list[Value | Cell]] = [
        [shown_name(name), *(column.get(name, Cell(None)) for column in columns.values())] for name in names[1:]
    ]
    note = (
        f"AUROC in points more than that of {shown_name(best)}, with the 95 % percentile interval of {samples:,} "
        "bootstrap samples, each of the same rows for both. Bold intervals exclude 0. They tell of chance in "
        "the rows, not in training. Of many detectors some exclude 0 by chance, and the best one was chosen here."
    )
    title = f"Differences from {shown_name(best)}, the best detector of {run.name}"
    return page_table(anchor("differences", run.name), title, ["Detector", *columns], rows, note=note)
