"""A run of `python -m evaluation score`: which detectors and rows, and the files that come of it.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from evaluation.errors import EvaluationError, unknown_name
from evaluation.features.cache import Key, Shelf
from evaluation.features.store import Store
from evaluation.files import replacing
from evaluation.scoring.fit import Fitted, Say, Scorer
from evaluation.scoring.joining import NOT_JUDGED
from evaluation.scoring.scores import About

_PACKAGES = ("numpy", "scikit-learn", "scipy", "timm", "torch", "torchvision")
"""Packages whose version may change a score."""


def choose_configs(store: Store, wanted: Sequence[str]) -> tuple[str, ...]:
    """The configs to score: those asked for, else all with features of a split that is judged.

    Raises:
        EvaluationError: there are no features of one, or nothing to judge at all.
    """
    here = store.splits()
    for config in wanted:
        if config not in here:
            raise unknown_name(f"config with features in {store.root}", config, here)
    found = tuple(wanted) or tuple(config for config, splits in here.items() if set(splits) - set(NOT_JUDGED))
    if not found:
        raise EvaluationError(
            f"expected features of splits to judge in {store.root}, found those of "
            f"{', '.join(f'{config}/{split}' for config in here for split in here[config]) or 'none'}; extract more."
        )
    return found


def fit_all(
    scorer: Scorer, names: Sequence[str], *, leave_out: bool, advance: Callable[[int], object]
) -> list[Fitted]:
    """Fit detectors.

    Args:
        scorer: fits.
        names: of the methods.
        leave_out: say of a method that cannot be used or fitted why, and go on without it.
        advance: progress, in methods.

    Raises:
        EvaluationError: one cannot be used or fitted, and is not to be left out; or none is left.
    """
    fitted = []
    for name in names:
        try:
            fitted.append(scorer.fit(name))
        except EvaluationError as error:
            if not leave_out:
                raise
            scorer.say(f"{name} is left out: {error}")
        advance(1)
    if not fitted:
        raise EvaluationError("expected a detector that can be used with these features, found none; see the reasons.")
    return fitted


def score_all(
    scorer: Scorer, fitted: Sequence[Fitted], keys: Sequence[Key], advance: Callable[[int], object]
) -> pa.Table:
    """Score every row of some splits with every detector, each id once.

    Args:
        scorer: where they were fitted.
        fitted: the detectors.
        keys: the splits; of an id that stands in several the first row counts, since it is the same image.
        advance: progress, in splits.

    Returns:
        Columns `id`, `detector`, `score` and `prediction`, detector by detector, rows in the release's order.
    """
    known: set[str] = set()
    columns: dict[str, list[list[pa.Array]]] = {one.method.name: [] for one in fitted}
    for key in keys:
        ids = scorer.shelf.features(key).ids
        new = np.array([id_ not in known for id_ in ids.tolist()], dtype=bool)
        known.update(ids.tolist())
        for name, parts in columns.items():
            values = ids[new], scorer.score(name, key)[new], scorer.predictions(name, key)[new]
            parts.append([pa.array(array) for array in values])
        scorer.forget(key)
        advance(1)
    tables = []
    for name, parts in columns.items():
        ids, scores, predictions = (pa.chunked_array(arrays) for arrays in zip(*parts, strict=True))
        detector = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(ids), np.int8)), [name]).cast(pa.string())
        tables.append(pa.table({"id": ids, "detector": detector, "score": scores, "prediction": predictions}))
    return pa.concat_tables(tables)


def about_run(shelf: Shelf, configs: Sequence[str], fitted: Sequence[Fitted]) -> About:
    """Where the scores of a run come from."""
    identities = [store.identity for store in (shelf.store, *shelf.members)]
    digests = [identity.model_digest for identity in identities]
    members = {"members": float(len(identities))}
    return About(
        release_digest=shelf.store.identity.release_digest,
        configs=tuple(configs),
        model=" + ".join(identity.model for identity in identities),
        # Of one model its own; of several, one over theirs in order.
        model_digest=digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest(),
        seed=shelf.seed,
        hyperparameters={
            one.method.name: {**one.hyperparameters, **(members if one.method.reads == "members" else {})}
            for one in fitted
        },
        versions={"python": platform.python_version(), **_versions()},
    )


def write_trials(path: Path, fitted: Sequence[Fitted]) -> None:
    """Write what hyperparameters were tried and chosen, as CSV; a file of an earlier run goes where nothing was.

    Args:
        path: the file.
        fitted: the detectors.
    """
    if not any(one.trials for one in fitted):
        path.unlink(missing_ok=True)
        return
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["detector", "hyperparameters", "auroc_external_validation", "chosen", "problem"])
        for one in fitted:
            for trial in one.trials:
                area = "" if trial.auroc is None else repr(trial.auroc)
                chosen = int(trial.hyperparameters == one.hyperparameters)
                writer.writerow([one.method.name, named(trial.hyperparameters), area, chosen, trial.problem])


def describe(fitted: Fitted) -> str:
    """One line on how a detector was made."""
    values = named(fitted.hyperparameters)
    if not fitted.trials:
        return f"{fitted.method.name}: {values}" if values else fitted.method.name
    best = next(trial for trial in fitted.trials if trial.hyperparameters == fitted.hyperparameters)
    failed = sum(trial.auroc is None for trial in fitted.trials)
    without = f", {failed} of them impossible here" if failed else ""
    return (
        f"{fitted.method.name}: {values}, the best of {len(fitted.trials)} with AUROC {best.auroc:.4f} on "
        f"external_validation{without}"
    )


def named(hyperparameters: Mapping[str, float]) -> str:
    """Hyperparameters as text."""
    return " ".join(f"{name}={value:g}" for name, value in hyperparameters.items())


def warn(say: Say, shelf: Shelf, keys: Sequence[Key]) -> None:
    """Say what in the features makes scores less comparable: splits that were computed in different ways."""
    ways = {tuple(sorted(shelf.store.parts(*key).computed().items())): key for key in keys}
    if len(ways) > 1:
        say(
            "features were computed in more than one way (device, batch size, threads or version of torch), so that "
            f"rows of {' and '.join('/'.join(key) for key in ways.values())} may differ in their last digits"
        )


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that this run has not used
    return found
