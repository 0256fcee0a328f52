"""Compares models: a heat map of models by detectors, ranks of detectors over models, and accuracy against AUROC.

Tested by `tests/evaluation/report/test_comparing.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from unknown_detection.evaluation import frame
from unknown_detection.evaluation.metrics.ranks import LEVEL, Ranks, compare_ranks
from unknown_detection.evaluation.protocols.protocol import AS_PUBLISHED, Protocol
from unknown_detection.evaluation.report import plots
from unknown_detection.evaluation.report.judging import Judged
from unknown_detection.evaluation.report.names import BASELINE, shown_name
from unknown_detection.evaluation.report.pictures import Picture
from unknown_detection.pages.content import Cell, PageTable, Value, anchor
from unknown_detection.pages.content import table as page_table
from unknown_detection.words import first_few, quantity

FEWEST = 3
"""Models that are compared, at least; ours. Two stand beside each other in every table."""

MANY = 10
"""Models above which Friedman's statistic has the chi-squared distribution, by Demšar."""

_SET = ["config", "known", "unknown"]
"""The columns of figures that identify a set of unknown rows, and the known rows beside it."""


@dataclass(frozen=True)
class ComparedModels:
    """Models, or training methods, by a protocol.

    Attributes:
        protocol: the protocol.
        areas: mean AUROC over the sets of unknown rows, models x detectors, the best first; NaN for missing ones. It
            has no columns where models have no set in common.
        accuracy: by model, on the labelled known rows of `test`; NaN without predictions.
        ranks: those of the detectors that all models have; None for fewer than three of them.
        left_out: sets of unknown rows that some models have no scores of, and over which no mean is.
    """

    protocol: Protocol
    areas: pd.DataFrame
    accuracy: pd.Series
    ranks: Ranks | None
    left_out: Sequence[str] = ()

    @property
    def note(self) -> str:
        """Why there are no ranks, or no comparison; empty where there are."""
        models = f"{self.protocol.title}: {len(self.areas)} models have"
        if self.areas.empty:
            return f"{models} no set of unknown rows in common and are not compared. Score the same splits with each."
        if self.ranks is not None:
            return ""
        shared = quantity(self.areas.notna().all().sum(), "detector")
        left_out = f" {first_few(self.left_out)} without scores of all models: left out." * bool(self.left_out)
        return f"{models} {shared} in common, and ranks are of three or more. Score the same ones with each.{left_out}"

    def table(self) -> PageTable:
        """Return the ranks as a table of the page."""
        ranks = self.ranks
        assert ranks is not None
        of_all = self.areas[ranks.mean.index]
        order, wins = ranks.mean.sort_values(kind="stable"), of_all.eq(of_all.max(axis=1), axis=0).sum()
        rows: list[list[Value | Cell]] = []
        for name, rank in order.items():
            areas = [100 * area for area in (of_all[name].mean(), of_all[name].min(), of_all[name].max())]
            cells = [Cell(f"{number:.2f}", order=float(number)) for number in (rank, *areas)]
            near = "yes" if rank - order.iloc[0] <= ranks.difference else "no"
            rows.append([shown_name(str(name)), *cells, int(wins[name]), near])
        left_out, models = len(self.areas.columns) - len(order), len(self.areas)
        note = (
            f"Friedman's test over {models} models: chi-squared {ranks.chi_squared:.2f}, p = {ranks.p:.2g}. Mean "
            f"ranks more than {ranks.difference:.2f} apart differ at {LEVEL:g} (Nemenyi's critical difference). AUROC "
            "in percent, the mean over the sets of unknown rows."
        )
        note += " The p-values are rough for so few models." * (models <= MANY)
        note += f" {left_out} detectors without scores of all models are left out." * bool(left_out)
        note += f" {first_few(self.left_out)} without scores of all models: left out." * bool(self.left_out)
        titles = ["Detector", "Mean rank", "Mean AUROC", "Lowest", "Highest", "Models it is best of", "Near the best"]
        title = f"{self.protocol.title}: ranks of detectors over {models} models"
        return page_table(anchor("ranks", self.protocol.name), title, titles, rows, note=note)

    def pictures(self) -> Iterator[Picture]:
        """Draw the heat map, the mean ranks, and AUROC against accuracy."""
        if self.areas.empty:
            return
        name, title = self.protocol.name, self.protocol.title
        head = f"Mean AUROC by model and detector: {title}"
        shown = self.areas.rename(columns=shown_name)
        yield Picture(self.protocol, f"models-{name}", head, plots.plot_heatmap(shown, title=head, bar="AUROC (%)"))
        if self.ranks is not None:
            ranks = self.ranks.mean.rename(shown_name).sort_values(kind="stable")
            head = f"Mean ranks over {len(self.areas)} models: {title}"
            figure = plots.plot_ranks(ranks, self.ranks.difference, title=head)
            yield Picture(self.protocol, f"ranks-{name}", head, figure)
        if self.accuracy.nunique() > 1:
            best = self.areas.columns[0] if self.ranks is None else str(self.ranks.mean.idxmin())
            series = {}
            for detector in dict.fromkeys([best, *({BASELINE} & {*self.areas.columns})]):
                correlation = self.areas[detector].corr(self.accuracy, method="spearman")
                series[f"{shown_name(detector)} (Spearman {correlation:.2f})"] = self.areas[detector].to_numpy()
            head = f"AUROC against accuracy, {len(self.areas)} models: {title}"
            axes = "accuracy on known rows (%)", "mean AUROC (%)"
            figure = plots.plot_points(self.accuracy.to_numpy(), series, title=head, axes=axes)
            yield Picture(self.protocol, f"accuracy-{name}", head, figure)


def compare(judged: Judged) -> list[ComparedModels]:
    """Compare the models of each protocol that has AUROCs of several models, on all rows."""
    comparisons = []
    for protocol, lines in judged.lines.items():
        wanted = (lines["metric"] == "auroc") & (lines["rows"] == AS_PUBLISHED) & (lines["statistic"] == "")
        areas = lines[wanted & (lines["fitted_on"] == "")]
        if not protocol.plots or areas["variant"].nunique() < FEWEST:
            continue
        areas = areas[areas["setting"] == areas["setting"].iloc[0]]
        of_all = areas.groupby(_SET)["variant"].transform("nunique") == areas["variant"].nunique()
        of_models = areas["variant"].unique()
        left_out, areas = sorted({*areas[~of_all]["unknown"]}), areas[of_all]
        if areas.empty:
            apart = pd.DataFrame(index=of_models)
            comparisons.append(ComparedModels(protocol, apart, pd.Series(dtype=float), None, left_out))
            continue
        table = areas.pivot_table("mean", "variant", "detector", sort=False)
        models, detectors = (table.mean(axis=side).sort_values(ascending=False, kind="stable") for side in (1, 0))
        table = table.loc[models.index, detectors.index]
        whole = table.dropna(axis="columns")
        ranks = compare_ranks(whole) if whole.shape[1] > 2 else None
        accuracy = _accuracy(judged, protocol).reindex(table.index)
        comparisons.append(ComparedModels(protocol, table, accuracy, ranks, left_out))
    return comparisons


def _accuracy(judged: Judged, protocol: Protocol) -> pd.Series:
    """Return the accuracy on known test rows by training method, the mean over its runs."""
    of_runs: dict[str, list[float]] = {}
    for run in judged.runs:
        if {*judged.plan[protocol]} & {*run.about.configs}:
            known = frame.known_rows(run.of_configs(judged.plan[protocol])).query("label >= 0")  # FACETS has others
            of_runs.setdefault(run.variant, []).append(1 - known["wrong"].mean() if "wrong" in known else np.nan)
    return pd.Series({variant: float(np.mean(values)) for variant, values in of_runs.items()})
