"""What is recorded of a run of `python -m evaluation score`: provenance, and the trials of searches.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from evaluation.files import atomic_path
from evaluation.scoring.fit import Fitted, Scorer
from evaluation.scoring.scores import Provenance

_PACKAGES = ("numpy", "scikit-learn", "scipy", "timm", "torch", "torchvision")
"""Packages whose version may affect scores."""


def run_provenance(
    scorer: Scorer, configs: Sequence[str], fitted: Sequence[Fitted], receipt: Sequence[str] = ()
) -> Provenance:
    """Return the provenance of a run's scores.

    Args:
        scorer: the scorer that fitted the detectors.
        configs: the scored configs.
        fitted: the detectors.
        receipt: the lines of `write_receipt`.
    """
    cache = scorer.cache
    identities = [store.identity for store in (cache.store, *cache.members)]
    digests = [one.model_digest for one in identities]
    members = {"members": float(len(identities))}
    prepared = {
        key: " + ".join(dict.fromkeys(one.prepared.get(key, "") for one in identities))
        for key in identities[0].prepared
        if key.partition("/")[0] in configs
    }
    return Provenance(
        release_digest=cache.store.identity.release_digest,
        configs=tuple(configs),
        model=" + ".join(one.model for one in identities),
        # For several models, a digest over theirs in order.
        model_digest=digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest(),
        seed=cache.seed,
        hyperparameters={
            one.method.name: {**one.hyperparameters, **(members if one.method.reads == "members" else {})}
            for one in fitted
        },
        versions={"python": platform.python_version(), **_versions()},
        prepared=prepared,
        rows={one.method.name: _rows_used(scorer, one) for one in fitted},
        own={one.method.name: one.method.digest for one in fitted if one.method.digest},
        fit_half="/".join(scorer.fit_splits.validation or ()) if scorer.fit_half.any() else "",
        source=dict(cache.store.identity.source) | ({"receipt": "; ".join(receipt)} if receipt else {}),
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


def write_trials(path: Path, fitted: Sequence[Fitted]) -> None:
    """Write the trials of hyperparameter searches as CSV; without any, delete the file of an earlier run."""
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
                values = format_hyperparameters(trial.hyperparameters)
                writer.writerow([one.method.name, values, area, chosen, trial.problem])


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


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue  # an optional package that this run did not use
    return found
