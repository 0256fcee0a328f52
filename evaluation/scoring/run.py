"""Runs `python -m evaluation score`: chooses configs, fits and scores, and writes the trials.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from evaluation.detectors.own import Own, choose
from evaluation.errors import EvaluationError, unknown_name
from evaluation.features.cache import FeatureCache, Key
from evaluation.features.store import Identity, Store
from evaluation.files import atomic_path
from evaluation.progress import Log, Progress
from evaluation.scoring.fit import Fitted, Scorer, expand
from evaluation.scoring.fit_splits import find_fit_splits
from evaluation.scoring.joining import FIT_AND_TUNE_SPLITS
from evaluation.scoring.scores import Provenance
from evaluation.scoring.settings import Settings

_PACKAGES = ("numpy", "scikit-learn", "scipy", "timm", "torch", "torchvision")
"""Packages whose version may affect scores."""


def score(
    features: str | Path,
    detectors: Sequence[str | Own] | None = None,
    *,
    configs: Sequence[str] = (),
    fit_configs: Sequence[str] = (),
    search: bool = True,
    settings: Settings | None = None,
    seed: int = 0,
    log: Log = lambda text: None,
) -> pa.Table:
    """Fit detectors on extracted features, and score every row.

    Detectors that need several models, or a second pass over the images, are not available here;
    `python -m evaluation score` has options for them.

    Args:
        features: folder written by `python -m evaluation extract`.
        detectors: keys of `METHODS`, and detectors of your own: a `Method`, or a function that maps `Features` to one
            score per row; None for all of `METHODS` that can be used with these features.
        configs: configs to score; empty for all with rows to evaluate.
        fit_configs: configs to fit on; empty for `<config>-train` if it was extracted, else a half of the validation
            rows, which get no scores.
        search: search hyperparameters on `external_validation`; if false, use the defaults.
        settings: by detector, hyperparameters with the values to search among; one value sets it.
        seed: random seed.
        log: receives a line about each detector that is left out or cannot be searched.

    Returns:
        Columns `id`, `detector`, `score` (higher = more unknown) and `prediction`, as for `score_all`.

    Raises:
        EvaluationError: there are no such features, configs or detectors, or a detector named here cannot be fitted.
    """
    store = Store.open(Path(features))
    splits = store.splits()
    chosen = choose_configs(store, configs, fit_configs)
    fit_splits = find_fit_splits(splits, chosen, fit_configs)
    names, own = choose(detectors)
    scorer = Scorer(FeatureCache(store, seed=seed), fit_splits, search=search, settings=settings, own=own, log=log)
    fitted = fit_all(scorer, expand(names, own), leave_out=detectors is None, progress=lambda count: None)
    keys = [(config, split) for config in chosen for split in splits[config]]
    return score_all(scorer, fitted, keys, lambda count: None)


def choose_configs(store: Store, wanted: Sequence[str], fit_configs: Sequence[str] = ()) -> tuple[str, ...]:
    """Choose the configs to score: the given ones, else all with features of splits to evaluate.

    Raises:
        EvaluationError: a config has no features, those of a split are missing or incomplete, or there is no split to
            evaluate.
    """
    store.require_whole([*wanted, *(f"{config}-train" for config in wanted), *fit_configs] if wanted else ())
    here = store.splits()
    for config in wanted:
        if config not in here:
            raise unknown_name(f"config with features in {store.root}", config, here)
    found = tuple(wanted) or tuple(config for config, splits in here.items() if set(splits) - set(FIT_AND_TUNE_SPLITS))
    if not found:
        raise EvaluationError(
            f"{store.root} has no features of splits to evaluate, only of "
            f"{', '.join(f'{config}/{split}' for config in here for split in here[config]) or 'none'}. Extract more "
            "splits."
        )
    return found


def fit_all(scorer: Scorer, names: Sequence[str], *, leave_out: bool, progress: Progress) -> list[Fitted]:
    """Fit detectors.

    Args:
        scorer: fits the methods.
        names: names of the methods.
        leave_out: skip methods that cannot be used or fitted, with a log line.
        progress: called with the number of methods done.

    Raises:
        EvaluationError: a method cannot be used or fitted and `leave_out` is false, or all were left out.
    """
    fitted = []
    for name in names:
        try:
            fitted.append(scorer.fit(name))
        except EvaluationError as error:
            if not leave_out:
                raise
            scorer.log(f"{name} is left out: {error}")
        progress(1)
    if not fitted:
        raise EvaluationError("No detector can be used with these features; see the reasons above.")
    return fitted


def score_all(scorer: Scorer, fitted: Sequence[Fitted], keys: Sequence[Key], progress: Progress) -> pa.Table:
    """Score the rows of some splits with every detector, each id once.

    Validation rows that detectors were fitted on get no scores: a threshold or a mixture fitted on them would take
    them for rows that detectors have not seen.

    Args:
        scorer: the scorer that fitted the detectors.
        fitted: the detectors.
        keys: the splits; if several have an id, its first row counts, because an id stands for one image.
        progress: called with the number of splits done.

    Returns:
        Columns `id`, `detector`, `score` and `prediction`; detector by detector, rows in the release's order.
    """
    known: set[str] = set()
    fitted_on = scorer.fit_half_ids()
    columns: dict[str, list[list[pa.Array]]] = {one.method.name: [] for one in fitted}
    for key in keys:
        ids = scorer.cache.features(key).ids
        skipped = known | fitted_on if key[1] in FIT_AND_TUNE_SPLITS else known
        new = np.array([id_ not in skipped for id_ in ids.tolist()], dtype=bool)
        known.update(ids[new].tolist())
        for name, pieces in columns.items():
            values = ids[new], scorer.score(name, key)[new], scorer.predictions(name, key)[new]
            pieces.append([pa.array(array) for array in values])
        scorer.forget(key)
        progress(1)
    tables = []
    for name, pieces in columns.items():
        ids, scores, predictions = (pa.chunked_array(arrays) for arrays in zip(*pieces, strict=True))
        detector = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(ids), np.int8)), [name]).cast(pa.string())
        tables.append(pa.table({"id": ids, "detector": detector, "score": scores, "prediction": predictions}))
    return pa.concat_tables(tables)


def run_provenance(scorer: Scorer, configs: Sequence[str], fitted: Sequence[Fitted]) -> Provenance:
    """Return the provenance of a run's scores."""
    cache = scorer.cache
    identities = [store.identity for store in (cache.store, *cache.members)]
    digests = [identity.model_digest for identity in identities]
    members = {"members": float(len(identities))}
    return Provenance(
        release_digest=cache.store.identity.release_digest,
        configs=tuple(configs),
        model=" + ".join(identity.model for identity in identities),
        # For several models, a digest over theirs in order.
        model_digest=digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest(),
        seed=cache.seed,
        hyperparameters={
            one.method.name: {**one.hyperparameters, **(members if one.method.reads == "members" else {})}
            for one in fitted
        },
        versions={"python": platform.python_version(), **_versions()},
        prepared=_prepared(identities, configs),
        rows={one.method.name: _rows_used(scorer, one) for one in fitted},
        own={one.method.name: one.method.digest for one in fitted if one.method.digest},
        fit_half="/".join(scorer.fit_splits.validation or ()) if scorer.fit_half.any() else "",
    )


def _rows_used(scorer: Scorer, fitted: Fitted) -> dict[str, str]:
    """Name the rows that a detector was fitted and tuned on, and those that its threshold may be chosen on."""
    splits = scorer.fit_splits
    tuned = splits.tune_name(halved=bool(scorer.fit_half.any()))
    used = {"fitted_on": {"train": splits.fit_name, "validation": tuned, "none": ""}[fitted.method.fit]}
    if fitted.trials and splits.external is not None:
        used["tuned_on"] = f"{tuned} against {'/'.join(splits.external)}"
    used["threshold_on"] = tuned
    return {name: value for name, value in used.items() if value}


def _prepared(identities: Sequence[Identity], configs: Sequence[str]) -> dict[str, str]:
    """Say how prepared images of the scored configs were brought to each model's input, by `config/split`."""
    keys = [key for key in identities[0].prepared if key.partition("/")[0] in configs]
    ways = {key: [identity.prepared.get(key, "") for identity in identities] for key in keys}
    return {key: " + ".join(dict.fromkeys(texts)) for key, texts in ways.items()}


def write_trials(path: Path, fitted: Sequence[Fitted]) -> None:
    """Write the trials of hyperparameter searches as CSV; without any, delete the file of an earlier run.

    Args:
        path: the file.
        fitted: the detectors.
    """
    if not any(one.trials for one in fitted):
        path.unlink(missing_ok=True)
        return
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["detector", "hyperparameters", "auroc_external_validation", "chosen", "problem"])
        for one in fitted:
            for trial in one.trials:
                area = "" if trial.auroc is None else repr(trial.auroc)
                chosen = int(trial.hyperparameters == one.hyperparameters)
                writer.writerow(
                    [one.method.name, format_hyperparameters(trial.hyperparameters), area, chosen, trial.problem]
                )


def describe_fitted(fitted: Fitted) -> str:
    """Describe a fitted detector in one line."""
    values = format_hyperparameters(fitted.hyperparameters)
    if not fitted.trials:
        return f"{fitted.method.name}: {values}" if values else fitted.method.name
    best = next(trial for trial in fitted.trials if trial.hyperparameters == fitted.hyperparameters)
    failed = sum(trial.auroc is None for trial in fitted.trials)
    without = f", {failed} of which cannot be used here" if failed else ""
    return (
        f"{fitted.method.name}: {values}, the best of {len(fitted.trials)} with AUROC {best.auroc:.4f} on "
        f"external_validation{without}"
    )


def format_hyperparameters(hyperparameters: Mapping[str, float]) -> str:
    """Format hyperparameters as text."""
    return " ".join(f"{name}={value:g}" for name, value in hyperparameters.items())


def warn_about_environments(log: Log, cache: FeatureCache, keys: Sequence[Key]) -> None:
    """Log a warning if splits were extracted in different environments."""
    ways = {tuple(sorted(cache.store.row_blocks(*key).environment().items())): key for key in keys}
    if len(ways) > 1:
        log(
            "Features were computed in more than one environment (device, batch size, threads or torch version), so "
            f"rows of {' and '.join('/'.join(key) for key in ways.values())} may differ in their last digits"
        )


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue  # an optional package that this run did not use
    return found
