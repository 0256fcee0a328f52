"""Runs `evaluate score`: chooses configs, fits and scores, and writes provenance and the trials.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from builders.storage.files import write_text
from unknown_detection.csv_text import csv_text
from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.detectors.choice import choose
from unknown_detection.evaluation.detectors.nearest import on_device
from unknown_detection.evaluation.detectors.own import Own
from unknown_detection.evaluation.errors import EvaluationError, a_kind, require_packages
from unknown_detection.evaluation.features.extract import Receipt, identify, receipt
from unknown_detection.evaluation.features.runner import Runner
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.releases import Key, choose_splits
from unknown_detection.evaluation.scoring.fit import FeatureCache, Fitted, Scorer
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS, FitSplits, find_fit_splits
from unknown_detection.evaluation.scoring.scores import Provenance, with_provenance, write_scores
from unknown_detection.terminal.progress import Log, Progress, bar

FeatureSource = FeatureStore | str | Path | Sequence[FeatureStore | str | Path]
"""Features that `extract` returned, or their folder; one or several."""


def score(
    features: FeatureSource,
    detectors: str | Own | Iterable[str | Own] | None = None,
    *,
    splits: str | Iterable[str | Key] | None = None,
    fit_configs: str | Sequence[str] = (),
    search: bool = True,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    runner: Runner | None = None,
    seed: int = 0,
    device: str = "cpu",
    accept: bool = False,
    out: str | Path | None = None,
    quiet: bool = True,
    log: Log = lambda text: None,
    say: Log = lambda text: None,
) -> pa.Table:
    """Fit detectors on extracted features, and score every row.

        >>> scores = ud.score(features, ["msp", "knn", lowest_logit])
        >>> scores.column_names
        ['id', 'detector', 'score', 'prediction']

    Args:
        features: what `extract` returned, or its folder; several on the same release for ensembles of their models,
            the first of which is the model of all other detectors.
        detectors: one or several: names of built-in ones; classes, whose hyperparameters are searched as those of
            names are; instances such as `detectors.KNN(k=50)`, whose hyperparameters stay; or functions that map
            `Features` to one score per row. None, or `all` among them, for all built-in ones that can be used with
            these features.
        splits: as for `extract`; None for all of the configs with rows to evaluate.
        fit_configs: configs to fit on, `CONFIG,...` or several, needed for several configs with other rows each; empty
            for `<config>-train` if it was extracted, else a half of the validation rows, which get no scores.
        search: search hyperparameters on `external_validation`; if false, use the defaults.
        settings: by detector, hyperparameters with the values to search among, or one value that sets it, as in
            `{"knn": {"k": 50}}`; not of instances, which have theirs.
        runner: runs the model on the images again, for the detectors that need it; None for the one that extracted
            the features in this process.
        seed: random seed, 0 or more; detectors that are given as instances get it, too.
        device: where distances to neighbours are computed, as for `extract`.
        accept: go on where the model's accuracy differs from the published one (`receipt`), as after an `extract` that
            accepted it.
        out: scores file to write, .parquet; the trials of the search are written beside it.
        quiet: no progress bars.
        log: receives a line about each detector that is left out or cannot be searched.
        say: receives lines about the model and each fitted detector.

    Returns:
        Columns `id`, `detector`, `score` (higher = more unknown) and `prediction` (the index of the predicted class,
        -1 for none), with their provenance in the schema's metadata, which `evaluate` and `report` read.

    Raises:
        EvaluationError: there are no such features, configs or detectors, a detector named here cannot be fitted, the
            runner's model is another, or the accuracy differs from the published.
        TypeError: the features are something else.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise EvaluationError(f"A seed is a whole number of 0 or more, found {seed!r}. Give one.")
    file = None if out is None else Path(out)
    store, *members = _open_stores(features)
    runner = runner or store.runner
    if file is not None and file.suffix != ".parquet":
        raise EvaluationError(f"--out must end in .parquet, found {out}. Rename it.")
    listed = fit_configs.split(",") if isinstance(fit_configs, str) else fit_configs
    fit_configs = [name.strip() for name in listed if name.strip()]
    keys = _choose_keys(store, splits, fit_configs)
    configs = tuple(dict.fromkeys(config for config, _ in keys))
    fit_splits = find_fit_splits(store.by_config(), configs, fit_configs)
    alone = [find_fit_splits(store.by_config(), [config], fit_configs) for config in configs]
    if not fit_configs:
        _require_same_fit_rows(store, alone)
    if search and len({of.validation for of in alone} - {None}) > 1:
        log(
            f"All of {', '.join(configs)} are tuned on rows of {'/'.join(fit_splits.validation or ())}, because an "
            "image of several configs gets one score of a detector. To tune on each config's own rows, score one at a "
            "time with --splits"
        )
    if runner is not None:
        store.require(identify(runner.release, runner.model, store.identity.label_names))
    chosen = choose(detectors, settings)
    needing = {name: detector.requires for name, detector in chosen.scored.items() if detector.requires}
    modules = sorted({module for required in needing.values() for module in required})
    require_packages(*modules, to=f"fit {', '.join(needing)}", instead="choose other detectors")
    cache = FeatureCache(store, members, runner, int(seed), quiet)
    scorer = Scorer(cache, fit_splits, chosen, search=search, log=log)
    model_receipt = receipt(store, keys) if store.identity.source else Receipt([], [])
    model_receipt.require(model_receipt.differences if accept else store.identity.accepted)
    environments = {str(found): key for key, of in store.environments(keys).items() for found in of}
    if len(environments) > 1:
        log(
            "Features were computed in more than one environment (device, batch size, threads or torch version), so "
            f"rows of {' and '.join('/'.join(key) for key in environments.values())} may differ in their last digits"
        )
    external = "/".join(fit_splits.external or ())
    used = {"fitted": scorer.fitted_on, "tuned": scorer.tuned_on, "tuned against": external}
    for line in (*model_receipt.lines, *(f"{purpose}: {rows or 'no rows'}" for purpose, rows in used.items())):
        say(line)
    if scorer.halved:
        log(
            "There are no features of training rows, so detectors are fitted on half of the validation rows and tuned "
            "on the other half. The rows fitted on get no scores"
        )
    with on_device(device), bar(len(chosen.scored), "fitting", quiet=quiet, unit=" detectors") as progress:
        fitted = _fit_all(scorer, [*chosen.scored], leave_out=chosen.everything, progress=progress.update)
    for fit in fitted:
        say(_described(fit))
    with on_device(device), bar(len(keys), "scoring", quiet=quiet, unit=" splits") as progress:
        scores = score_all(scorer, fitted, keys, progress.update)
    provenance = _provenance(scorer, keys, fitted, model_receipt)
    if file is not None:
        _write_beside(file, ".search.csv", _trials(fitted))
        write_scores(file, scores, provenance)
        say(f"{len(scores):,} scores of {len(fitted)} detectors are in {file}")
    return with_provenance(scores, provenance)


def _open_stores(features: FeatureSource) -> list[FeatureStore]:
    folders: Sequence[Any] = features if isinstance(features, list | tuple) and features else [features]
    for folder in folders:
        if not isinstance(folder, FeatureStore | str | Path):
            raise TypeError(f"Features are what extract returned, or its folder, not {a_kind(folder)}.")
    return [folder if isinstance(folder, FeatureStore) else FeatureStore.open(Path(folder)) for folder in folders]


def _choose_keys(
    store: FeatureStore, splits: str | Iterable[str | Key] | None, fit_configs: Sequence[str]
) -> list[Key]:
    """Choose the splits to score: the given ones, else all of the configs with features of splits to evaluate."""
    available = store.by_config()
    listed = [] if splits is None else choose_splits(available, splits, str(store.root))
    configs = [config for config, _ in listed]
    store.require_whole([*configs, *(f"{config}-train" for config in configs), *fit_configs] if listed else ())
    if listed:
        return listed
    evaluated = [config for config, splits in available.items() if {*splits} - {*FIT_AND_TUNE_SPLITS}]
    if not evaluated:
        raise EvaluationError(
            f"{store.root} has no features of splits to evaluate, only of "
            f"{', '.join(f'{config}/{split}' for config in available for split in available[config]) or 'none'}. "
            "Extract more splits."
        )
    return [(config, split) for config in evaluated for split in available[config]]


def _require_same_fit_rows(store: FeatureStore, alone: Sequence[FitSplits]) -> None:
    """Refuse configs, each with its splits, that would be fitted on other rows: all are fitted on the first's.

    FACETS's configs, which have no training rows, share the in-distribution rows of their validation splits.
    """
    keys = {of.train for of in alone if of.train} or {of.validation for of in alone if of.validation}
    features = [store.features(*key) for key in keys] if len(keys) > 1 else []
    if len({frozenset(of.ids[of.labels >= 0].tolist()) for of in features}) > 1:
        raise EvaluationError(
            f"{', '.join(sorted(map('/'.join, keys)))} have different rows, and detectors are fitted on those of one "
            "only. Score the configs one by one with --splits (in Python splits=), or name those to fit on with "
            "--fit-splits (fit_configs=)."
        )


def _fit_all(scorer: Scorer, names: Sequence[str], *, leave_out: bool, progress: Progress) -> list[Fitted]:
    """Fit detectors; `leave_out` skips those that cannot be used or fitted, with one log line for all of them."""
    fitted = []
    left_out: dict[str, list[str]] = {}
    for name in names:
        try:
            fitted.append(scorer.fit(name))
        except EvaluationError as error:
            if not leave_out:
                raise
            reason = str(error).partition(". ")[0]
            first = reason.partition(" ")[0]  # a detector that others are made of may be the reason
            why = re.sub(rf"\b{re.escape(first if first in DETECTORS else name)}\b", "it", reason)
            left_out.setdefault(why.removeprefix("it "), []).append(name)
        progress(1)
    if left_out:
        scorer.log("left out: " + "; ".join(f"{', '.join(of)} ({why})" for why, of in left_out.items()))
    if not fitted:
        raise EvaluationError("No detector can be used with these features; see the reasons above.")
    return fitted


def score_all(scorer: Scorer, fitted: Sequence[Fitted], keys: Sequence[Key], progress: Progress) -> pa.Table:
    """Score the rows of some splits with every detector, each id once.

    Validation rows that detectors were fitted on get no scores: a threshold or a mixture fitted on them would take
    them for rows that detectors have not seen. If several splits have an id, its first row counts, because an id
    stands for one image. Columns are `id`, `detector`, `score` and `prediction`; detector by detector, rows in the
    release's order.
    """
    scored: set[str] = set()
    fitted_on: set[str] = set()
    if scorer.halved and scorer.fit_splits.validation:
        fitted_on = {*scorer.cache.features(scorer.fit_splits.validation).ids[scorer.fit_half].tolist()}
    parts: dict[str, list[pa.Table]] = {fit.detector.name: [] for fit in fitted}
    for key in keys:
        ids = scorer.cache.features(key).ids
        skipped = scored | fitted_on if key[1] in FIT_AND_TUNE_SPLITS else scored
        new = np.array([id_ not in skipped for id_ in ids.tolist()], dtype=bool)
        scored.update(ids[new].tolist())
        for name, tables in parts.items():
            columns = {"id": ids[new], "detector": pa.repeat(name, new.sum())}
            columns |= {"score": scorer.score(name, key)[new], "prediction": scorer.predictions(name, key)[new]}
            tables.append(pa.table(columns))
        scorer.forget(key)
        progress(1)
    return pa.concat_tables(table for tables in parts.values() for table in tables)


_PACKAGES = ("numpy", "scikit-learn", "scipy", "timm", "torch", "torchvision")
"""Packages whose version may affect scores."""


def _provenance(scorer: Scorer, keys: Sequence[Key], fitted: Sequence[Fitted], receipt: Receipt) -> Provenance:
    """Return the provenance of a run's scores."""
    cache, configs = scorer.cache, tuple(dict.fromkeys(config for config, _ in keys))
    identities = [store.identity for store in (cache.store, *cache.members)]
    digests = [identity.model_digest for identity in identities]
    accepted = [*receipt.differences, *(text for store in cache.members for text in store.identity.accepted)]
    notes = {"receipt": "; ".join(receipt.lines), "accepted": "; ".join(accepted)}
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # an optional one that this run did not use
            versions[package] = importlib.metadata.version(package)
    prepared = {
        key: " + ".join(dict.fromkeys(identity.prepared.get(key, "") for identity in identities))
        for key in identities[0].prepared
        if key.partition("/")[0] in configs
    }
    return Provenance(
        release_digest=cache.store.identity.release_digest,
        configs=configs,
        model=" + ".join(identity.model for identity in identities),
        # For several models, a digest over theirs in order.
        model_digest=digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest(),
        seed=cache.seed,
        hyperparameters={
            fit.detector.name: dict(fit.hyperparameters)
            | ({"members": float(len(identities))} if fit.detector.reads == "members" else {})
            for fit in fitted
        },
        versions=versions,
        prepared=prepared,
        rows={fit.detector.name: _rows_used(scorer, fit) for fit in fitted},
        own={fit.detector.name: fit.detector.digest for fit in fitted if fit.detector.digest},
        fit_half=scorer.halved,
        source=dict(cache.store.identity.source) | {name: text for name, text in notes.items() if text},
        splits=tuple(map("/".join, keys)),
    )


def _rows_used(scorer: Scorer, fitted: Fitted) -> dict[str, str]:
    """Name the rows that a detector was fitted and tuned on, and those that its threshold may be chosen on."""
    tuned, external = scorer.tuned_on, scorer.fit_splits.external
    used = {"fitted_on": {"train": scorer.fitted_on, "validation": tuned, "none": ""}[fitted.detector.fits_on]}
    if fitted.detector.remark:
        used["fitted_on"] += f", {fitted.detector.remark}"
    if fitted.trials and fitted.detector.chosen_by == "errors":
        used["tuned_on"] = f"{tuned}, right against wrong"
    elif fitted.trials and external is not None:
        used["tuned_on"] = f"{tuned} against {'/'.join(external)}"
    used["threshold_on"] = tuned
    return {name: value for name, value in used.items() if value}


def _write_beside(scores: Path, ending: str, lines: Sequence[Sequence[object]]) -> None:
    """Write CSV beside a scores file; without any lines, delete the file of an earlier run."""
    path = scores.with_suffix(ending)
    if lines:
        write_text(path, csv_text(lines))
    else:
        path.unlink(missing_ok=True)


def _trials(fitted: Sequence[Fitted]) -> list[Sequence[object]]:
    """Return the trials of hyperparameter searches as lines of CSV."""
    aurocs = ["auroc_external_validation", "auroc_error_detection"]
    lines: list[Sequence[object]] = [["detector", "hyperparameters", *aurocs, "chosen", "problem"]]
    for fit in fitted:
        for trial in fit.trials:
            auroc, of_errors = "" if trial.auroc is None else repr(trial.auroc), fit.detector.chosen_by == "errors"
            is_chosen = int(trial.hyperparameters == fit.hyperparameters)
            described = [fit.detector.name, _in_words(trial.hyperparameters)]
            lines.append([*described, *(["", auroc] if of_errors else [auroc, ""]), is_chosen, trial.problem])
    return lines if len(lines) > 1 else []


def _described(fitted: Fitted) -> str:
    """Describe a fitted detector in one line."""
    values = ", ".join(filter(None, [_in_words(fitted.hyperparameters), fitted.detector.remark]))
    if not fitted.trials:
        return f"{fitted.detector.name}: {values}" if values else fitted.detector.name
    best = next(trial for trial in fitted.trials if trial.hyperparameters == fitted.hyperparameters)
    failed = sum(trial.auroc is None for trial in fitted.trials)
    without = f", {failed} of which cannot be used here" if failed else ""
    where = "of errors in validation" if fitted.detector.chosen_by == "errors" else "on external_validation"
    choice = f"the best of {len(fitted.trials)} with AUROC {best.auroc:.4f} {where}{without}"
    return f"{fitted.detector.name}: {values}, {choice}"


def _in_words(hyperparameters: Mapping[str, float]) -> str:
    return " ".join(f"{name}={value:g}" for name, value in hyperparameters.items())
