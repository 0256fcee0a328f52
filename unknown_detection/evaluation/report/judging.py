"""Chooses protocols, computes the figures of scored runs, and warns of what changes a conclusion from them.

Tested by `tests/evaluation/report/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from builders.release.duplicates import doubt
from unknown_detection.evaluation import frame
from unknown_detection.evaluation.errors import EvaluationError, require_known
from unknown_detection.evaluation.files import load_python
from unknown_detection.evaluation.protocols import (
    PROTOCOLS,
    Protocol,
    default_protocol,
    figures,
    od_test,
    register,
)
from unknown_detection.evaluation.releases import Release
from unknown_detection.evaluation.report.figures import over_runs, tidy
from unknown_detection.evaluation.report.pivot import Pivot, best_first, shown_tables
from unknown_detection.evaluation.runs import ScoredRun, unequal_sets
from unknown_detection.terminal.progress import bar
from unknown_detection.words import quantity

Plan = Mapping[Protocol, Sequence[str]]
"""Configs by protocol."""


def choose_protocols(
    requested: str | Protocol | Sequence[str | Protocol], runs: Sequence[ScoredRun], configs: Sequence[str]
) -> dict[Protocol, tuple[str, ...]]:
    """Choose the protocols, and the configs that each evaluates: `configs`, or all configs with scores.

    `requested` are protocols or their names, or `FILE.py:NAME` for one of the user's own, a name perhaps with
    `=CONFIG,...`; empty for the default protocol of each config.
    """
    scored_configs = tuple(dict.fromkeys(config for run in runs for config in run.about.configs))
    chosen = tuple(configs) or scored_configs
    require_known("config with scores", configs, scored_configs)
    usual = [f"{default_protocol(config)}={config}" for config in chosen]
    plan: dict[str, tuple[str, ...]] = {}
    given: list[Any] = list(requested) if isinstance(requested, list | tuple) else [requested]
    for asked in given or usual:
        text = asked if isinstance(asked, str) else register(asked).name
        name, equals, of = text.partition("=")
        name = register(load_python(name, "protocol")[0]).name if ".py:" in name else name
        named = tuple(of.split(",")) if equals else chosen
        require_known("config with scores", named, chosen)
        require_known("protocol", [name], PROTOCOLS)
        plan[name] = (*plan.get(name, ()), *named)
    return {PROTOCOLS[name]: of for name, of in plan.items()}


@dataclass(frozen=True)
class Judged:
    """The figures of runs, and the tables and orders that pages and plots are made of.

    Attributes:
        runs: the runs.
        plan: the configs of each protocol.
        figures: one line per figure.
        lines: the same over runs.
        orders: (detector, variant) by protocol, the best first.
        results: the tables of results.
    """

    runs: Sequence[ScoredRun]
    plan: Plan
    figures: pd.DataFrame
    lines: Mapping[Protocol, pd.DataFrame]
    orders: Mapping[Protocol, Sequence[tuple[str, str]]]
    results: Sequence[Pivot]


def judge(runs: Sequence[ScoredRun], plan: Plan, release: Release, *, quiet: bool = True) -> Judged:
    """Compute all figures of runs, and the tables of results."""
    named = {"release": release_name(release), "release_digest": release.digest}
    named["duplicates_sha256"] = release.duplicates_digest
    judged = []
    with bar(sum(len(run.rows) for run in runs), "judging", quiet=quiet, unit=" detectors") as progress:
        for run in runs:
            for detector in run.rows:
                measured = [
                    figure
                    for protocol, of in plan.items()
                    if set(of) & set(run.about.configs)
                    for figure in figures(protocol, run.of_configs(of, detector))
                ]
                judged.append((run.columns(detector, **named), measured))
                progress.update(1)
    table = tidy(judged)
    if table.empty:
        raise EvaluationError(
            f"The protocol {', '.join(protocol.name for protocol in plan)} has no figures of these scores. Score the "
            "splits that it judges, or choose another protocol."
        )
    over, known = over_runs(table), {protocol.name: protocol for protocol in plan}
    lines = {known[name]: over[over["protocol"] == name] for name in table["protocol"].unique()}
    orders = {protocol: best_first(protocol, of) for protocol, of in lines.items()}
    results = [shown for protocol, of in lines.items() for shown in shown_tables(protocol, of, orders[protocol])]
    return Judged(runs, plan, table, lines, orders, results)


def describe_left_out(runs: Sequence[ScoredRun], plan: Plan) -> dict[str, str]:
    """Describe for each kind of figures how many rows it leaves out, and which splits lose all their rows."""
    keys, parts = ["config", "split"], []
    for configs in plan.values():
        for run in runs:
            rows = run.of_configs(configs)
            out = {kind: frame.left_out(rows, kind) for kind in frame.REDUCED}
            flags = {kind: np.nan if of is None else of.astype(float) for kind, of in out.items()}
            parts.append(rows[keys].assign(rows=1.0, **flags).groupby(keys, observed=True).sum(min_count=1))
    counts = pd.concat(parts).groupby(level=keys, observed=True).first().astype("Int64")
    sentences = {}
    for kind in frame.REDUCED:
        known = counts[counts[kind].notna()]
        if known.empty:
            continue
        what = kind.removeprefix("without_")
        lost, of = int(known[kind].sum()), int(known["rows"].sum())
        if not lost:
            sentences[kind] = f"None of {quantity(of, 'row')} is left out without {what}: these figures equal all."
            continue
        reasons = {frame.WITHOUT_DUPLICATES: "are in a pair of the release's table of duplicates, or made from such"}
        reason = reasons.get(kind, "are of a class that is, holds or shows a known one, by the column id_overlap")
        emptied = ["/".join(key) for key in known.index[known[kind] == known["rows"]]]
        sentences[kind] = f"Figures without {what} leave out {lost:,} of {quantity(of, 'row')}, which {reason}."
        sentences[kind] += f" Nothing is left of {', '.join(emptied)}." * bool(emptied)
    return sentences


def warnings(release: Release, runs: Sequence[ScoredRun], plan: Plan) -> list[str]:
    """List in sentences what changes a conclusion from the figures: a demo release, doubtful pairs, missing scores."""
    demo = f"{release_name(release)} is a demo release: its figures only show that the tools work"
    sentences = [demo] * release.is_demo
    sentences += filter(None, [doubt(release.doubtful_duplicates({config for of in plan.values() for config in of}))])
    sentences += unequal_sets(runs)
    without = dict.fromkeys(name for run in runs for name, rows in run.rows.items() if "prediction" not in rows)
    if without:
        sentences.append(f"no predictions of {', '.join(without)}, so no figures of errors and of accuracy")
    for run in runs:
        about = run.about
        judged = {protocol: of for protocol, of in plan.items() if set(of) & set(about.configs)}
        for protocol, configs in judged.items():
            sentences += protocol.absent(run.of_configs(configs)) or ()
        if about.source.get("accepted"):
            sentences.append(f"{about.source['accepted']}; the run went on with --accept")
        for way in dict.fromkeys(way for way in about.prepared.values() if "resized" in way):
            keys = [key for key, of in about.prepared.items() if of == way]
            sentences.append(f"{about.model} got images of {way}: {', '.join(keys)}")
        fitted = {name: used["fitted_on"] for name, used in about.rows.items() if used.get("fitted_on")}
        seen = {name: of for name, of in fitted.items() if of == about.rows[name].get("threshold_on")}
        for of in dict.fromkeys(seen.values() if od_test.PROTOCOL in judged else ()):
            names = ", ".join(name for name, rows in seen.items() if rows == of)
            sentences.append(f"od-test chooses the thresholds of {names} on rows of {of} that they were fitted on")
    return [*dict.fromkeys(sentences)]


def reversed_signs(table: pd.DataFrame) -> list[str]:
    """List in sentences the detectors all of whose AUROCs are below 0.5."""
    areas = table[(table["metric"] == "auroc") & (table["statistic"] == "")].groupby("detector", sort=False)
    greatest = areas["value"].max()
    return [
        f"every AUROC of {detector} is below 0.5, so its sign may be reversed: higher scores must mean more unknown"
        for detector in greatest.index[greatest < 0.5]
    ]


def release_name(release: Release) -> str:
    """Return the release's name in results: ORG/NAME at a commit, or a folder's name without its path."""
    return release.name if release.revision else Path(release.source).resolve().name
