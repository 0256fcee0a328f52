"""From scores files and a release to figures, tables, pictures and a summary."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from evaluation.detectors.registry import METHODS
from evaluation.errors import EvaluationError, unknown_name
from evaluation.files import file_name
from evaluation.protocols import robustness
from evaluation.protocols.registry import PROTOCOLS, default_protocol, figures
from evaluation.protocols.results import ALL_VARIANTS, Run, tidy
from evaluation.releases import Release
from evaluation.report.across_runs import robust_detectors, robust_figures, robust_variants
from evaluation.report.scored import Judged, Scored
from evaluation.scoring.duplicates import LeftOut, count_left_out
from evaluation.scoring.joining import NOT_JUDGED, Index, join, release_index, rows_of
from evaluation.scoring.rows import Rows
from evaluation.scoring.scores import About, read_scores

Advance = Callable[[int], object]
"""Called with the number of steps done since the last call."""

_PACKAGES = ("numpy", "pyarrow", "scipy")
"""Packages that figures are computed with."""


@dataclass(frozen=True)
class Source:
    """A scores file as it is asked for.

    Attributes:
        path: the file.
        variant: way of training; None takes the model's name.
    """

    path: Path
    variant: str | None = None


def source(text: str) -> Source:
    """Read `FILE`, or `VARIANT=FILE` where there is no file of that name."""
    variant, equals, path = text.partition("=")
    return Source(Path(path), variant) if equals and not Path(text).exists() else Source(Path(text))


def load(sources: Sequence[Source], release: Release, configs: Sequence[str], advance: Advance) -> list[Scored]:
    """Read scores files and bring them to the rows of a release.

    Args:
        sources: the files.
        release: the release.
        configs: those that files are of which do not say it themselves; empty for the only one that can be judged.
        advance: progress, in files.

    Raises:
        EvaluationError: two files have the same name, one is of another release, or its ids are not those of the
            release.
    """
    names = [source.path.stem for source in sources]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise EvaluationError(
            f"expected scores files with different names, found {twice[0]} more than once; rename one, since runs are "
            "named by their file."
        )
    indexes: dict[tuple[str, ...], Index] = {}
    scored = []
    for source in sources:
        scores, about = read_scores(source.path)
        _check_release(source.path, about, release)
        of = about.configs if about else tuple(configs) or _only_config(release)
        if of not in indexes:
            indexes[of] = release_index(release, of)
        index = indexes[of]
        joined = join(index.table, scores, label_names=index.label_names, where=str(source.path))
        rows = {detector: rows_of(index, found) for detector, found in joined.items()}
        scored.append(Scored(_run(source, about), of, rows, index.duplicates))
        advance(1)
    _check_variants([one.run.variant for one in scored])
    return scored


def choose_protocols(
    asked: Sequence[str], scored: Sequence[Scored], configs: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Which protocol judges which configs.

    Args:
        asked: names of protocols, or `NAME=CONFIG,CONFIG`; empty for the one that each config is made for, and the
            optimizer paper's where there are several ways of training.
        scored: the scores files.
        configs: the configs to judge; empty for all that scores are of.

    Returns:
        Configs by protocol.

    Raises:
        EvaluationError: there is no such protocol, or no scores of such a config.
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
            f"expected two or more models of two or more ways of training for {robustness.NAME}, found fewer; name "
            "the way of each as --scores NAME=FILE, or leave the protocol out."
        )
    if robustness.NAME in wanted and len(wanted) == 1:
        raise EvaluationError(
            f"expected another protocol beside {robustness.NAME}, which compares its figures over ways of training, "
            f"found none; add --protocol {default_protocol(chosen[0])}."
        )
    return wanted


def left_out(scored: Sequence[Scored], wanted: Mapping[str, Sequence[str]]) -> list[str]:
    """What is asked for and cannot be given, and why: sentences for people."""
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
        notes.append(f"without predictions of {', '.join(without)} there are no figures of: {asked}")
    if robustness.NAME in wanted:
        few = [name for name in names if name not in robust_detectors(scored)]
        if few:
            models = "two models of each of two ways of training"
            notes.append(f"{robustness.NAME} needs {models} and has fewer of {', '.join(few)}")
    return notes


def judge(scored: Sequence[Scored], wanted: Mapping[str, Sequence[str]], advance: Advance) -> list[Judged]:
    """All figures.

    Args:
        scored: the scores files.
        wanted: configs by protocol.
        advance: progress; called once for each run and detector.

    Raises:
        EvaluationError: rows that a protocol needs are missing, or no run is of a protocol's configs.
    """
    judged: list[Judged] = []
    for one in scored:
        for detector, rows in one.rows.items():
            found = [
                figure
                for protocol, configs in wanted.items()
                if protocol != robustness.NAME and set(configs) & set(one.configs)
                for figure in figures(protocol, _of_configs(one, rows, configs))
            ]
            judged.append((one.run, detector, found))
            advance(1)
    if robustness.NAME in wanted:
        judged += list(robust_figures(judged, scored))
    return judged


def duplicates_left_out(scored: Sequence[Scored], wanted: Mapping[str, Sequence[str]]) -> list[LeftOut] | None:
    """Which splits lose how many rows in the figures without duplicates.

    Args:
        scored: the scores files.
        wanted: configs by protocol.

    Returns:
        An entry for each protocol and split that loses rows, in the order of protocols; None where the release says of
        no config that is judged which rows are duplicates.
    """
    found: dict[tuple[str, str, str], LeftOut] = {}
    said = False
    for protocol, configs in wanted.items():
        for one in scored:
            if protocol != robustness.NAME and one.duplicates.keys() & set(configs):
                said = True
                # All detectors of a file have scores of the same splits, but for those that are not judged.
                rows = _of_configs(one, next(iter(one.rows.values())), configs)
                for entry in count_left_out(rows, protocol, one.duplicates):
                    found.setdefault((protocol, entry.config, entry.split), entry)
    return list(found.values()) if said else None


def tabulate(judged: Sequence[Judged], release: Release) -> pa.Table:
    """The figures as one tidy table."""
    return tidy(
        judged,
        release=release_name(release),
        release_digest=release.digest,
        duplicates_sha256=release.duplicates_digest,
    )


def release_name(release: Release) -> str:
    """What results call a release: ORG/NAME at a commit, or a folder's name, and no path of a machine."""
    return release.name if release.revision else Path(release.source).resolve().name


def titles(scored: Sequence[Scored]) -> dict[str, str]:
    """Of every detector what tables call it: a title of ours, or the name that the file gives."""
    names = dict.fromkeys(detector for one in scored for detector in one.rows)
    return {name: METHODS[name].title if name in METHODS else name for name in names}


def _check_release(path: Path, about: About | None, release: Release) -> None:
    if about is not None and about.release_digest != release.digest:
        raise EvaluationError(
            f"expected scores of {release.name} (digest {release.digest[:12]}) in {path}, found scores of a release "
            f"with digest {about.release_digest[:12]}; score this release, or name that one with --release."
        )


def _check_variants(variants: Sequence[str]) -> None:
    named: dict[str, str] = {}
    for variant in variants:
        other = named.setdefault(file_name(variant), variant)
        if other != variant or variant == ALL_VARIANTS:
            raise EvaluationError(
                f"expected names of ways of training that differ in letters or digits, found {other!r} and "
                f"{variant!r}; files are named by them, so choose others, as --scores NAME=FILE."
            )


def _only_config(release: Release) -> tuple[str, ...]:
    """The config to judge, where there is no choice."""
    found = tuple(config for config in release.configs if set(release.splits(config)) - set(NOT_JUDGED))
    if len(found) != 1:
        raise EvaluationError(
            f"expected one config to judge in {release.name}, found {', '.join(found) or 'none'}; name those that the "
            "scores are of with --config."
        )
    return found


def _run(source: Source, about: About | None) -> Run:
    judged = {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in _PACKAGES}}
    if about is None:
        return Run(source.path.stem, source.variant or "", None, "", "", {}, {"judged": judged})
    # A model from a file is known by the file's name, wherever it lies on this machine.
    model = re.sub(r"[^ ]*/(?=[^/ ]+\.py:)", "", about.model)
    return Run(
        name=source.path.stem,
        variant=model if source.variant is None else source.variant,
        seed=about.seed,
        model=model,
        model_digest=about.model_digest,
        hyperparameters=about.hyperparameters,
        versions={"judged": judged, "scored": about.versions},
    )


def _of_configs(scored: Scored, rows: Rows, configs: Sequence[str]) -> Rows:
    """The rows of some configs; which are duplicates only where the release says so of one of these."""
    found = rows.where(np.isin(rows.config, list(configs)))
    return found if scored.duplicates.keys() & set(configs) else replace(found, duplicate=None)
