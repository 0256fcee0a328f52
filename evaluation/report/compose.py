"""Computes figures from scores files and a release: loads, chooses protocols, evaluates."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from evaluation.detectors.registry import METHODS
from evaluation.errors import EvaluationError, unknown_name
from evaluation.files import file_name
from evaluation.progress import Progress
from evaluation.protocols import robustness
from evaluation.protocols.registry import PROTOCOLS, default_protocol, figures
from evaluation.protocols.results import ALL_VARIANTS, Run, tidy
from evaluation.releases import Release
from evaluation.report.across_runs import robust_detectors, robust_figures, robust_variants
from evaluation.report.scored import DetectorFigures, ScoredRun
from evaluation.scoring.duplicates import LeftOut, count_left_out
from evaluation.scoring.joining import FIT_AND_TUNE_SPLITS, ReleaseIndex, fit_half_ids, join, release_index, rows_of
from evaluation.scoring.overlap import Overlapping, count_overlaps
from evaluation.scoring.rows import Rows
from evaluation.scoring.scores import Provenance, file_seed, read_scores

_PACKAGES = ("numpy", "pyarrow", "scipy")
"""Packages whose version may affect figures."""


@dataclass(frozen=True)
class ScoresFile:
    """A scores file and its variant, as given on the command line.

    Attributes:
        path: the file.
        variant: name of the training method; None uses the model's name.
    """

    path: Path
    variant: str | None = None


def parse_scores_file(text: str) -> ScoresFile:
    """Parse `FILE`, or `VARIANT=FILE` if no file has this name."""
    variant, equals, path = text.partition("=")
    return ScoresFile(Path(path), variant) if equals and not Path(text).exists() else ScoresFile(Path(text))


def evaluate(
    scores: Sequence[str | Path], release: Release, *, configs: Sequence[str] = (), protocols: Sequence[str] = ()
) -> pa.Table:
    """Compute the papers' figures from scores files; `python -m evaluation report` also writes tables and plots.

    Args:
        scores: scores files, `.parquet` or `.csv`.
        release: the release whose rows were scored.
        configs: configs to evaluate; empty for all with scores.
        protocols: names of protocols, or `NAME=CONFIG,CONFIG`; empty for the default protocol of each config.

    Returns:
        One line per figure, with the columns `results.COLUMNS`.

    Raises:
        EvaluationError: a file is invalid or of another release, or a protocol lacks rows that it needs.
    """
    scored = load([ScoresFile(Path(path)) for path in scores], release, configs, lambda count: None)
    chosen = choose_protocols(protocols, scored, configs)
    return tabulate(compute_figures(scored, chosen, lambda count: None), release)


def load(files: Sequence[ScoresFile], release: Release, configs: Sequence[str], progress: Progress) -> list[ScoredRun]:
    """Read scores files and join them with the rows of a release.

    Args:
        files: the scores files.
        release: the release.
        configs: configs of files that do not state them; empty for the release's only config with rows to evaluate.
        progress: called with the number of files done.

    Raises:
        EvaluationError: two files have the same name, or a file is of another release or has ids of another one.
    """
    names = [file.path.stem for file in files]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise EvaluationError(
            f"Several scores files have the name {twice[0]}; rename them, since runs are named after their files."
        )
    indexes: dict[tuple[str, ...], ReleaseIndex] = {}
    scored = []
    for file in files:
        scores, provenance = read_scores(file.path)
        _check_release(file.path, provenance, release)
        of = provenance.configs if provenance else tuple(configs) or _only_config(release)
        if of not in indexes:
            indexes[of] = release_index(release, of)
        index = indexes[of]
        fitted_on = fit_half_ids(release, provenance.fit_half if provenance else "")
        joined = join(index.table, scores, label_names=index.label_names, where=str(file.path), fitted_on=fitted_on)
        rows = {detector: rows_of(index, found) for detector, found in joined.items()}
        scored.append(ScoredRun(_run(file, provenance), of, rows, index.duplicates, index.overlaps))
        progress(1)
    _check_variants([one.run.variant for one in scored])
    return scored


def choose_protocols(
    asked: Sequence[str], scored: Sequence[ScoredRun], configs: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Choose the configs that each protocol evaluates.

    Args:
        asked: names of protocols, or `NAME=CONFIG,CONFIG`; empty for the default protocol of each config, and the
            optimizer paper's if there are several training methods.
        scored: the loaded scores files.
        configs: the configs to evaluate; empty for all with scores.

    Returns:
        Configs by protocol.

    Raises:
        EvaluationError: there is no such protocol, or a config has no scores.
    """
    here = tuple(dict.fromkeys(config for one in scored for config in one.configs))
    for config in configs:
        if config not in here:
            raise unknown_name("config with scores", config, here)
    chosen = tuple(configs) or here
    wanted: dict[str, tuple[str, ...]] = {}
    for text in asked:
        name, equals, of = text.partition("=")
        if name not in (*PROTOCOLS, robustness.NAME):
            raise unknown_name("protocol", name, [*PROTOCOLS, robustness.NAME])
        for config in of.split(",") if equals else ():
            if config not in chosen:
                raise unknown_name("config with scores", config, chosen)
        wanted[name] = (*wanted.get(name, ()), *(of.split(",") if equals else chosen))
    if not asked:
        for config in chosen:
            name = default_protocol(config)
            wanted[name] = (*wanted.get(name, ()), config)
        if robust_variants(scored):
            wanted[robustness.NAME] = chosen
    if robustness.NAME in wanted and not robust_variants(scored):
        raise EvaluationError(
            f"{robustness.NAME} needs two or more models for each of two or more training methods, but there are "
            "fewer. Name each file's method as --scores NAME=FILE, or leave the protocol out."
        )
    if robustness.NAME in wanted and len(wanted) == 1:
        raise EvaluationError(
            f"{robustness.NAME} compares the figures of another protocol, but none was chosen. Add --protocol "
            f"{default_protocol(chosen[0])}."
        )
    return wanted


def missing_figures(scored: Sequence[ScoredRun], wanted: Mapping[str, Sequence[str]]) -> list[str]:
    """List the figures that cannot be computed, and why, in sentences for the user."""
    notes = []
    names = titles(scored)
    without = [name for name in names if any(one.rows[name].prediction is None for one in scored if name in one.rows)]
    settings = [
        PROTOCOLS[protocol].settings[name]
        for protocol in wanted
        if protocol in PROTOCOLS
        for name in PROTOCOLS[protocol].with_predictions
    ]
    if without and settings:
        asked = ", ".join(dict.fromkeys(settings))
        notes.append(f"no predictions of {', '.join(without)}, so no figures of {asked}")
    for protocol, configs in wanted.items():
        for one in scored:
            if protocol in PROTOCOLS and set(configs) & set(one.configs):
                # All detectors of a file have scores of the same splits, except those for fitting and tuning.
                notes += PROTOCOLS[protocol].absent(_of_configs(one, next(iter(one.rows.values())), configs))
    if robustness.NAME in wanted:
        few = [name for name in names if name not in robust_detectors(scored)]
        if few:
            models = "two models for each of two training methods"
            notes.append(f"{robustness.NAME} needs {models} and has fewer of {', '.join(few)}")
    return list(dict.fromkeys(notes))


def of_demo(release: Release) -> list[str]:
    """Warn of figures of a demo release, in a sentence; nothing for others."""
    warning = f"{release_name(release)} is a demo release: its figures try the tools out, and are no results"
    return [warning] if release.is_demo else []


def resized_images(scored: Sequence[ScoredRun]) -> list[str]:
    """List the splits whose images are prepared for another input than a run's model has, in sentences."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in scored:
        for key, way in one.run.prepared.items():
            if "resized" in way:
                found.setdefault((one.run.model, way), []).append(key)
    return [f"{model} got images of {way}: {', '.join(dict.fromkeys(keys))}" for (model, way), keys in found.items()]


def fitted_without_training_rows(scored: Sequence[ScoredRun]) -> list[str]:
    """List the runs whose detectors were fitted on validation rows, in sentences."""
    found: dict[str, list[str]] = {}
    for one in scored:
        if one.run.fit_half:
            found.setdefault(one.run.fit_half, []).append(one.run.name)
    return [
        f"detectors of {', '.join(names)} were fitted on half of {key}, for want of training rows; thresholds are "
        "chosen on the other half"
        for key, names in found.items()
    ]


def compute_figures(
    scored: Sequence[ScoredRun], wanted: Mapping[str, Sequence[str]], progress: Progress
) -> list[DetectorFigures]:
    """Compute all figures.

    Args:
        scored: the loaded scores files.
        wanted: configs by protocol.
        progress: called once for each run and detector.

    Raises:
        EvaluationError: a protocol lacks rows that it needs, or no run has scores of its configs.
    """
    evaluated: list[DetectorFigures] = []
    for one in scored:
        for detector, rows in one.rows.items():
            found = [
                figure
                for protocol, configs in wanted.items()
                if protocol != robustness.NAME and set(configs) & set(one.configs)
                for figure in figures(protocol, _of_configs(one, rows, configs))
            ]
            evaluated.append((one.run, detector, found))
            progress(1)
    if robustness.NAME in wanted:
        evaluated += list(robust_figures(evaluated, scored))
    return evaluated


def reversed_signs(evaluated: Sequence[DetectorFigures]) -> list[str]:
    """List the detectors all of whose AUROCs are below 0.5, in sentences with a hint."""
    areas: dict[str, list[float]] = {}
    for _, detector, found in evaluated:
        areas.setdefault(detector, []).extend(
            figure.value
            for figure in found
            if figure.metric == "auroc" and not figure.statistic and figure.value == figure.value
        )
    return [
        f"every AUROC of {detector} is below 0.5, so its sign may be reversed: higher scores must mean more unknown"
        for detector, values in areas.items()
        if values and max(values) < 0.5
    ]


def duplicates_left_out(scored: Sequence[ScoredRun], wanted: Mapping[str, Sequence[str]]) -> list[LeftOut] | None:
    """Count the rows that each split loses in the figures without duplicates.

    Args:
        scored: the loaded scores files.
        wanted: configs by protocol.

    Returns:
        An entry for each protocol and split that loses rows, in the order of protocols; None if the release has no
        information on duplicates of the evaluated configs.
    """
    found: dict[tuple[str, str, str], LeftOut] = {}
    said = False
    for protocol, configs in wanted.items():
        for one in scored:
            if protocol != robustness.NAME and one.duplicates.keys() & set(configs):
                said = True
                # All detectors of a file have scores of the same splits, except those for fitting and tuning.
                rows = _of_configs(one, next(iter(one.rows.values())), configs)
                for entry in count_left_out(rows, protocol, one.duplicates):
                    found.setdefault((protocol, entry.config, entry.split), entry)
    return list(found.values()) if said else None


def overlaps_left_out(scored: Sequence[ScoredRun], wanted: Mapping[str, Sequence[str]]) -> list[Overlapping] | None:
    """List the classes whose rows are left out of figures without overlap; None if the release says of no config.

    Args:
        scored: the loaded scores files.
        wanted: configs by protocol.
    """
    found: dict[tuple[str, str, str, str, str], Overlapping] = {}
    said = False
    for protocol, configs in wanted.items():
        for one in scored:
            if protocol != robustness.NAME and one.overlaps & set(configs):
                said = True
                rows = _of_configs(one, next(iter(one.rows.values())), configs)
                for entry in count_overlaps(rows, protocol):
                    found.setdefault((protocol, entry.config, entry.split, entry.class_id, entry.known), entry)
    return list(found.values()) if said else None


def tabulate(evaluated: Sequence[DetectorFigures], release: Release) -> pa.Table:
    """Return the figures as one tidy table."""
    return tidy(
        evaluated,
        release=release_name(release),
        release_digest=release.digest,
        duplicates_sha256=release.duplicates_digest,
    )


def release_name(release: Release) -> str:
    """Return the release's name in results: ORG/NAME at a commit, or a folder's name without its path."""
    return release.name if release.revision else Path(release.source).resolve().name


def titles(scored: Sequence[ScoredRun]) -> dict[str, str]:
    """Return each detector's title in tables; for unknown detectors, their name in the file."""
    names = dict.fromkeys(detector for one in scored for detector in one.rows)
    return {name: METHODS[name].title if name in METHODS else name for name in names}


def _check_release(path: Path, provenance: Provenance | None, release: Release) -> None:
    if provenance is not None and provenance.release_digest != release.digest:
        raise EvaluationError(
            f"{path} has scores of a release with digest {provenance.release_digest[:12]}, not of {release.name} "
            f"(digest {release.digest[:12]}). Score this release, or name the other one with --release."
        )


def _check_variants(variants: Sequence[str]) -> None:
    named: dict[str, str] = {}
    for variant in variants:
        other = named.setdefault(file_name(variant), variant)
        if other != variant or variant == ALL_VARIANTS:
            raise EvaluationError(
                f"The training methods {other!r} and {variant!r} give the same file name. Choose names that differ in "
                "letters or digits, as --scores NAME=FILE."
            )


def _only_config(release: Release) -> tuple[str, ...]:
    """Return the release's only config with rows to evaluate."""
    found = tuple(config for config in release.configs if set(release.splits(config)) - set(FIT_AND_TUNE_SPLITS))
    if len(found) != 1:
        raise EvaluationError(
            f"{release.name} does not have exactly one config to evaluate (found: {', '.join(found) or 'none'}). Name "
            "the configs of the scores with --config."
        )
    return found


def _run(file: ScoresFile, provenance: Provenance | None) -> Run:
    ours = {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in _PACKAGES}}
    if provenance is None:
        seed = file_seed(file.path)[1]
        return Run(file.path.stem, file.variant or "", seed, "", "", {}, {"judged": ours})
    # A model file is recorded without its folder, which may differ between machines.
    model = re.sub(r"[^ ]*/(?=[^/ ]+\.py:)", "", provenance.model)
    return Run(
        name=file.path.stem,
        variant=model if file.variant is None else file.variant,
        seed=provenance.seed,
        model=model,
        model_digest=provenance.model_digest,
        hyperparameters=provenance.hyperparameters,
        versions={"judged": ours, "scored": provenance.versions},
        prepared=provenance.prepared,
        fit_half=provenance.fit_half,
    )


def _of_configs(scored: ScoredRun, rows: Rows, configs: Sequence[str]) -> Rows:
    """Select the rows of some configs, and drop what the release does not say of these configs' rows."""
    found = rows.where(np.isin(rows.config, list(configs)))
    if not scored.duplicates.keys() & set(configs):
        found = replace(found, duplicate=None)
    return found if scored.overlaps & set(configs) else replace(found, overlap=None)
