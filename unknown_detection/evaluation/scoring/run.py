"""The step `score`: chooses rows, fits detectors, scores all rows, and records where the scores come from.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import itertools
import platform
import re
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from builders.storage.files import write_text
from unknown_detection.csv_text import csv_text
from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.detectors.base import Detector
from unknown_detection.evaluation.detectors.choice import choose
from unknown_detection.evaluation.detectors.nearest import on_device
from unknown_detection.evaluation.detectors.own import Own, OwnError
from unknown_detection.evaluation.errors import (
    EvaluationError,
    EvaluationWarning,
    a_kind,
    one_line,
    require_packages,
)
from unknown_detection.evaluation.features.extract import Receipt, receipt
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.files import require_writable
from unknown_detection.evaluation.releases import Key, choose_splits
from unknown_detection.evaluation.scoring.fit import FeatureCache, Scorer, in_words
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS, FitSplits, find_fit_splits
from unknown_detection.evaluation.scoring.scores import Provenance, write_scores
from unknown_detection.evaluation.scoring.thresholds import choose_level, chosen_on_the_same, decide, find_threshold
from unknown_detection.terminal.progress import Log, bar
from unknown_detection.words import quantity

FeatureSource = FeatureStore | str | Path | Sequence[FeatureStore | str | Path]
"""Features that `extract` returned, or their folder; one or several."""


def score(
    features: FeatureSource,
    detectors: str | Own | Iterable[str | Own] | None = None,
    *,
    splits: str | Iterable[str | Key] | None = None,
    fit_configs: str | Sequence[str] | None = None,
    search: bool = True,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    at_known: float | None = None,
    seed: int = 0,
    device: str = "cpu",
    accept: bool = False,
    out: str | Path | None = None,
    quiet: bool = False,
    log: Log = lambda text: None,
) -> pd.DataFrame:
    """Fit detectors on extracted features, and score every row.

        >>> scores = ud.score(features, ["msp", "knn", lowest_logit])
        >>> scores.columns.tolist()
        ['id', 'detector', 'score', 'prediction']

    A detector that cannot be used or fitted does not keep others from being scored: a warning says why it is missing,
    with the traceback where its code is yours.

    Args:
        features: what `extract` returned, or its folder, which is not enough for the detectors that run the model on
            the images again; several on the same release for ensembles of their models,
            the first of which is the model of all other detectors.
        detectors: one or several: names of built-in ones; classes, whose hyperparameters are searched as those of
            names are; instances such as `detectors.KNN(k=50)`, whose hyperparameters stay; or functions that map
            `Features` to one score per row. None, or `all` among them, for all built-in ones that can be used with
            these features.
        splits: as for `extract`; None for all of the configs with rows to evaluate.
        fit_configs: configs to fit on, `CONFIG,...` or several, needed for several configs with other rows each; by
            default `CONFIG-train` if it was extracted, else a half of the validation rows, which get no scores.
        search: search hyperparameters on `external_validation`, or use the defaults.
        settings: by detector and hyperparameter, the values to search among, or one value that sets it, as in
            `{"knn": {"k": 50}}`; for an instance, too.
        at_known: share of known rows, such as 0.95, that a threshold of each detector keeps: a column `decision` then
            says `known` or `unknown` of each row. Thresholds are conformal, on held-out known rows of validation, and
            stand beside the scores and in their provenance.
        seed: random seed, 0 or more; detectors that are given as instances get it, too.
        device: where distances to neighbours are computed, as for `extract`.
        accept: go on where the model's accuracy differs from the published one (`receipt`), as after an `extract` that
            accepted it.
        out: scores file to write, .parquet; the trials of the search and thresholds are written beside it.
        quiet: no progress bars.
        log: receives lines about the model and each fitted detector, and notes.

    Returns:
        Columns `id`, `detector`, `score` (higher = more unknown) and `prediction` (the index of the predicted class,
        -1 for none). `attrs["provenance"]` says of which release and model they are, what each detector was fitted and
        tuned on, and which are missing; where it is lost, `evaluate` and `report` go by the ids.

    Raises:
        EvaluationError: there are no such features, configs or detectors, none of the detectors can be fitted,
            or the accuracy differs from the published.
        TypeError: the features are something else.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise EvaluationError(f"A seed is a whole number of 0 or more, found {seed!r}. Give one.")
    file = None if out is None else Path(out)
    store, *members = _open_stores(features)
    if file is not None and file.suffix != ".parquet":
        raise EvaluationError(f"The file of out= must end in .parquet, found {out}. Rename it.")
    if file is not None:
        require_writable(file.parent)
    keys, fit_splits = _choose_rows(store, splits, fit_configs)
    chosen = choose(detectors, settings)
    needing = {name: detector.requires for name, detector in chosen.scored.items() if detector.requires}
    modules = sorted({module for required in needing.values() for module in required})
    require_packages(*modules, to=f"fit {', '.join(needing)}", instead="choose other detectors")
    scorer = Scorer(FeatureCache(store, members, int(seed), quiet), fit_splits, chosen, search=search, log=log)
    level = None if at_known is None else choose_level(scorer, at_known)
    model_receipt = receipt(store, keys) if store.identity.source else Receipt([], [])
    model_receipt.require(model_receipt.differences if accept else store.identity.accepted)
    environments = {
        str(found): key for key in keys for found in store.table.environments("/".join(key), store.ids(*key))
    }
    if len(environments) > 1:
        log(
            "note: features were computed in several environments (device, batch size, threads or versions), so "
            f"rows of {' and '.join('/'.join(key) for key in environments.values())} may differ in their last digits"
        )
    used = {"fitted": scorer.words("train"), "tuned": scorer.words("validation")}
    used["tuned against"] = "/".join(fit_splits.external or ())
    for line in (*model_receipt.lines, *(f"{purpose}: {rows or 'no rows'}" for purpose, rows in used.items())):
        log(line)
    if scorer.halved:
        log(
            "note: there are no features of training rows, so detectors are fitted on half of the validation rows and "
            "tuned on the other half. The rows fitted on get no scores"
        )
    with on_device(device):
        scores, missing = score_all(scorer, keys, log, quiet=quiet)
        thresholds = {} if level is None else {name: find_threshold(scorer, name, level) for name in scores}
    if level is not None:
        scores = {name: decide(table, thresholds[name]) for name, table in scores.items()}
        for line in filter(None, (level.sentence(), chosen_on_the_same(scorer, thresholds))):
            log(line)
    unasked = {name: of for name, of in missing.items() if chosen.everything and name in DETECTORS}
    asked = {name: of for name, of in missing.items() if name not in unasked}
    if unasked:
        log(f"left out: {_in_words(unasked)}")
    if asked:
        warnings.warn(f"there are no scores of {_in_words(asked)}", EvaluationWarning, stacklevel=2)
    reasons = {name: one_line(str(error)) for name, error in asked.items()}
    provenance = _provenance(scorer, keys, [*scores], reasons, model_receipt)
    if level is not None:
        at = {"asked": level.asked, "rows": level.rows, "quantile": level.quantile}
        provenance = msgspec.structs.replace(provenance, thresholds=thresholds, at_known=at)
    table = pa.concat_tables(scores.values())
    if file is not None:
        _write_lines(file.with_suffix(".search.csv"), [line for of in scorer.trials.values() for line in of])
        lines = [{"detector": name, "threshold": value, **provenance.at_known} for name, value in thresholds.items()]
        _write_lines(file.with_suffix(".thresholds.csv"), lines)
        write_scores(file, table, provenance)
        log(f"{quantity(len(table), 'score')} of {quantity(len(scores), 'detector')} are in {file}")
    frame = table.to_pandas()
    frame.attrs["provenance"] = msgspec.json.decode(msgspec.json.encode(provenance))
    return frame


def _open_stores(features: FeatureSource) -> list[FeatureStore]:
    folders: Sequence[Any] = features if isinstance(features, list | tuple) and features else [features]
    for folder in folders:
        if not isinstance(folder, FeatureStore | str | Path):
            raise TypeError(f"Features are what extract returned, or its folder, not {a_kind(folder)}.")
    return [folder if isinstance(folder, FeatureStore) else FeatureStore.open(Path(folder)) for folder in folders]


def _choose_rows(
    store: FeatureStore, splits: str | Iterable[str | Key] | None, fit_configs: str | Sequence[str] | None
) -> tuple[list[Key], FitSplits]:
    """Choose the splits to score (the given ones, else all of the configs with splits to evaluate), and to fit on.

    All configs are fitted and tuned on the rows of one, since an image of several has one score. Without a word on
    which, those that would be fitted on other rows each are refused; FACETS's, which have no training rows, share the
    in-distribution rows of their validation splits.
    """
    listed = fit_configs.split(",") if isinstance(fit_configs, str) else fit_configs or ()
    fit_configs = [name.strip() for name in listed if name.strip()]
    available = store.by_config()
    keys = [] if splits is None else choose_splits(available, splits, str(store.root))
    named = [config for config, _ in keys]
    store.require_whole([*named, *(f"{config}-train" for config in named), *fit_configs] if keys else ())
    evaluated = [config for config, of in available.items() if {*of} - {*FIT_AND_TUNE_SPLITS}]
    keys = keys or [(config, split) for config in evaluated for split in available[config]]
    if not keys:
        raise EvaluationError(
            f"{store.root} has no features of splits to evaluate, only of "
            f"{', '.join(f'{config}/{split}' for config in available for split in available[config]) or 'none'}. "
            "Extract more splits."
        )
    configs = [*dict.fromkeys(config for config, _ in keys)]
    alone = [find_fit_splits(available, [config], fit_configs) for config in configs]
    fitted = {of.train for of in alone if of.train} or {of.validation for of in alone if of.validation}
    features = [store.features(*key) for key in fitted] if len(fitted) > 1 else []
    if not fit_configs and len({frozenset(of.ids[of.labels >= 0].tolist()) for of in features}) > 1:
        raise EvaluationError(
            f"{', '.join(sorted(map('/'.join, fitted)))} have different rows, and detectors are fitted on those of "
            "one only. Score the configs one by one with splits=, or name those to fit on with fit_configs=."
        )
    return keys, find_fit_splits(available, configs, fit_configs)


def score_all(
    scorer: Scorer, keys: Sequence[Key], log: Log, *, quiet: bool
) -> tuple[dict[str, pa.Table], dict[str, Exception]]:
    """Score the rows of some splits with every usable detector, each id once; `EvaluationError` if none is usable.

    Validation rows that detectors were fitted on get no scores: a threshold or a mixture fitted on them would take
    them for rows that detectors have not seen. If several splits have an id, its first row counts, because an id
    stands for one image. Tables by detector have the columns `id`, `detector`, `score` and `prediction`, rows in the
    release's order; of other detectors, what keeps them from being scored is returned.
    """
    parts: dict[str, list[pa.Table]] = {name: [] for name in scorer.chosen.scored}
    missing: dict[str, Exception] = {}
    with bar(len(parts), "fitting", quiet=quiet, unit=" detectors") as progress:
        scorer.doing = progress.set_description
        for name in [*parts]:
            with _leaving_out(name, parts, missing):
                scorer.fit(name)
                log(_described(scorer, name))
            progress.update(1)
    scored: set[str] = set()
    half = scorer.halved
    fitted_on = {*half.take(scorer.cache.features(half.key)).ids.tolist()} if half else set()
    with bar(len(keys) * len(parts), "scoring", quiet=quiet, unit=" splits") as progress:
        scorer.doing = progress.set_description
        for key in keys:
            ids = scorer.cache.features(key).ids
            skipped = scored | fitted_on if key[1] in FIT_AND_TUNE_SPLITS else scored
            new = np.array([id_ not in skipped for id_ in ids.tolist()], dtype=bool)
            scored.update(ids[new].tolist())
            for name in [*parts]:
                with _leaving_out(name, parts, missing):
                    columns = {"id": ids[new], "detector": pa.repeat(name, new.sum())}
                    columns |= {"score": scorer.score(name, key)[new]}
                    columns |= {"prediction": scorer.predictions(name, key)[new]}
                    parts[name].append(pa.table(columns))
                progress.update(1)
            scorer.forget(key)
    if not parts:
        first = next(iter(missing.values()))
        if isinstance(first, OwnError) and first.__cause__:
            raise first.__cause__  # with its traceback
        raise first if len(missing) == 1 else EvaluationError(f"No detector can be used with these features: {first}")
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}, missing


@contextlib.contextmanager
def _leaving_out(name: str, parts: dict[str, list[pa.Table]], missing: dict[str, Exception]) -> Iterator[None]:
    """Take a detector out of `parts`, and note why, if it cannot be used or its user's code fails."""
    try:
        yield
    except (EvaluationError, OwnError) as error:
        missing[name] = error
        del parts[name]


def _in_words(missing: Mapping[str, Exception]) -> str:
    """List detectors with what keeps them from being scored and the cure, those of one reason together.

    Tracebacks of the user's code follow.
    """
    reasons: dict[str, list[str]] = {}
    for name, error in missing.items():
        message = one_line(str(error))
        reason = re.sub(rf"\b{re.escape(name)}\b", "it", message).removeprefix("it ").removesuffix(".")
        reasons.setdefault(reason, []).append(name)
    listed = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
    raised = [error.__cause__ for error in missing.values() if isinstance(error, OwnError) and error.__cause__]
    return "".join([listed, *("\n" + "".join(traceback.format_exception(error)).rstrip() for error in raised)])


_PACKAGES = ("numpy", "scikit-learn", "scipy", "timm", "torch", "torchvision")
"""Packages whose version may affect scores."""


def _provenance(
    scorer: Scorer, keys: Sequence[Key], names: Sequence[str], missing: Mapping[str, str], receipt: Receipt
) -> Provenance:
    """Return the provenance of a run's scores by some detectors."""
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
    detectors = [scorer.fit(name) for name in names]
    return Provenance(
        release_digest=cache.store.identity.release_digest,
        configs=configs,
        model=" + ".join(identity.model for identity in identities),
        # For several models, a digest over theirs in order.
        model_digest=digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest(),
        probed=tuple(itertools.chain.from_iterable(identity.probed for identity in identities)),
        seed=cache.seed,
        hyperparameters={
            one.name: _numbers(scorer, one.name)
            | ({"members": float(len(identities))} if one.reads == "members" else {})
            for one in detectors
        },
        versions=versions,
        prepared=prepared,
        rows={one.name: _rows_used(scorer, one) for one in detectors},
        own={one.name: one.digest for one in detectors if one.digest},
        fit_half="/".join(scorer.halved.key) if scorer.halved else "",
        source=dict(cache.store.identity.source) | {name: text for name, text in notes.items() if text},
        splits=tuple(map("/".join, keys)),
        missing=dict(missing),
    )


def _numbers(scorer: Scorer, name: str) -> dict[str, int | float]:
    """Return the hyperparameters that are numbers; others, such as one that is fitted, are not recorded."""
    return {name: value for name, value in scorer.hyperparameters[name].items() if isinstance(value, int | float)}


def _rows_used(scorer: Scorer, detector: Detector) -> dict[str, str]:
    """Name the rows that a detector was fitted and tuned on, and those that its threshold may be chosen on."""
    tuned = scorer.words("validation")
    used = {"fitted_on": "" if detector.fits_on == "none" else scorer.words(detector.fits_on)}
    if detector.remark:
        used["fitted_on"] += f", {detector.remark}"
    if detector.name in scorer.trials:
        by_errors, external = detector.chosen_by == "errors", "/".join(scorer.fit_splits.external or ())
        used["tuned_on"] = f"{tuned}, right against wrong" if by_errors else f"{tuned} against {external}"
    used["threshold_on"] = tuned
    return {name: value for name, value in used.items() if value}


def _write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write what is found beside scores as CSV; without any lines, delete the file of an earlier run."""
    if lines:
        write_text(path, csv_text([[*lines[0]], *([*line.values()] for line in lines)]))
    else:
        path.unlink(missing_ok=True)


def _described(scorer: Scorer, name: str) -> str:
    """Describe a fitted detector in one line."""
    detector, trials = scorer.fit(name), scorer.trials.get(name, [])
    parts = [in_words(_numbers(scorer, name)), detector.remark]
    for best in [trial for trial in trials if trial["chosen"]]:
        parts.append(f"the best of {len(trials)} with AUROC {best['auroc']:.4f} of {best['auroc_of']}")
        failed = sum(trial["auroc"] is None for trial in trials)
        parts.append(f"{failed} of which cannot be used here" if failed else "")
    values = ", ".join(filter(None, parts))
    return f"{name}: {values}" if values else name
