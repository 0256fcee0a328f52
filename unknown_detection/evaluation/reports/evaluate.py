"""The figures of scores as one table of pandas: a line for each detector and split of unknown rows.

Tested by `tests/evaluation/test_steps.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unknown_detection.evaluation.errors import EvaluationError, require_known
from unknown_detection.evaluation.metrics.metrics import METRICS
from unknown_detection.evaluation.releases import Release, load
from unknown_detection.evaluation.reports.inputs import ScoredRun, join_runs
from unknown_detection.evaluation.scoring.joining import FIT_AND_TUNE_SPLITS

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Mapping[str, str] = {
    "AUROC": "auroc",
    "FPR95": "fpr_at_95_tpr_known_positive",
    "AUPR_IN": "aupr_in_average_precision",
    "AUPR_OUT": "aupr_out_average_precision",
}
"""The metrics by their columns. Of the two that are called FPR@95, it is that of the ODIN paper and of most others."""

TEST = "test"


def evaluate(scores: Any, release: str | Path | Release, splits: str | Iterable[str] | None = None) -> pd.DataFrame:
    """Compute how well scores tell each split of unknown rows from the known ones.

        >>> figures = ud.evaluate(scores, "build/digits")
        >>> figures.columns[:6].tolist()
        ['detector', 'config', 'split', 'role', 'AUROC', 'FPR95']

    The known rows are the in-distribution rows of the config's split `test`; where it has none, as in BROAD's configs
    of shifts, those of all scored configs. Every row counts, duplicates too: `report` has the papers' figures, with
    and without them.

    Args:
        scores: what `score` returned, another table or a pandas DataFrame with the columns `id` and `score` (higher =
            more unknown; optional `detector`), a dictionary or a Series of id to score, or a Parquet or CSV file; or a
            list of several, such as those of several models.
        release: the release whose rows were scored: a folder, ORG/NAME on the Hub, or an opened one.
        splits: what to evaluate, as `CONFIG[/SPLIT],...` or several such texts; None for all splits that `score`
            scored, or of a config whose scores another tool computed.

    Returns:
        A line for each run, detector, and split and role of unknown rows, with the columns `detector`, `config`,
        `split`, `role`; `AUROC`, `FPR95` (the share of unknown rows that are taken for known ones, where 95 % of the
        known ones are), `AUPR_IN` and `AUPR_OUT` (average precision, known or unknown rows positive), all from 0 to 1;
        `n_known` and `n_unknown`, the numbers of rows; and `run`, `model` and `seed`. `attrs` has the name and digest
        of the release.

    Raises:
        EvaluationError: scores are of another release, ids are missing, unknown or repeated, or there are no known or
            no unknown rows among them.
        TypeError: the scores or the release are something else.
    """
    opened = load(release)
    runs, chosen = join_runs(scores, opened, splits)
    require_known("config with scores", chosen, {config for run in runs for config in run.about.configs})
    lines = [line for run in runs for line in _lines(run) if not chosen or line["config"] in chosen]
    if not lines:
        raise EvaluationError("There are no scores of unknown rows. Score a split of them, too.")
    import pandas as pd

    figures = pd.DataFrame(lines).astype({"seed": "Int64"})
    figures.attrs = {"release": opened.name, "release_digest": opened.digest}
    return figures


def _lines(run: ScoredRun) -> Iterator[dict[str, Any]]:
    for detector, rows in run.rows.items():
        for config, of_config in rows.by("config").items():
            known = of_config.where(of_config.known & (of_config.split == TEST))
            known = known if len(known) else rows.known_rows(TEST)
            for split, of_split in of_config.where(~of_config.known).by("split").items():
                if split in FIT_AND_TUNE_SPLITS:
                    continue
                for role in sorted(set(of_split.role.tolist())):
                    unknown = of_split.where(of_split.role == role)
                    ranking = known.against(unknown)
                    line = {"detector": detector, "config": config, "split": split, "role": role}
                    line |= {column: METRICS[name].of(ranking) for column, name in COLUMNS.items()}
                    line |= {"n_known": len(known), "n_unknown": len(unknown)}
                    yield line | {"run": run.name, "model": run.about.model, "seed": run.about.seed}
