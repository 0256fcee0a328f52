"""Scores of one or several models, read and joined with the rows of a release: the input of `evaluate` and `report`.

Tested by `tests/evaluation/test_steps.py` and `tests/evaluation/report/test_report.py`.
"""

from __future__ import annotations

import json
import platform
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from unknown_detection.evaluation import frame
from unknown_detection.evaluation.errors import EvaluationError, EvaluationWarning
from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.releases import Key, Release
from unknown_detection.evaluation.same import same_model
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS, in_fit_half
from unknown_detection.evaluation.scoring.scores import IN_MEMORY, Provenance, read_scores
from unknown_detection.terminal.progress import bar
from unknown_detection.words import first_few

_VERSIONS = {"python": platform.python_version()} | {name: version(name) for name in ("numpy", "pyarrow", "scipy")}
"""The versions of what may affect figures."""


@dataclass(frozen=True)
class ScoredRun:
    """Scores of a model's detectors, in a file or in memory, joined with the rows of a release.

    Attributes:
        path: their file; for scores in memory a name alone.
        variant: the training method, by default the model; empty if neither is known.
        about: what the scores say of themselves.
        rows: the joined frame of each detector.
    """

    path: Path
    variant: str
    about: Provenance
    rows: Mapping[str, pd.DataFrame]

    @property
    def name(self) -> str:
        """Name of the run: the file's stem."""
        return self.path.stem

    @property
    def weights(self) -> str:
        """The published weights, by the name of torchvision's file or of timm's model; empty for others."""
        source, (kind, _, name) = self.about.source, self.about.model.partition(":")
        return (source.get("file", "") if kind == "torchvision" else name) if "address" in source else ""

    def columns(self, detector: str, **release: str) -> dict[str, Any]:
        """Return the columns of the table of figures that identify the model, run and detector of a figure."""
        about = self.about
        versions = {"judged": _VERSIONS, **({"scored": about.versions} if about.versions else {})}
        return {
            **release,
            **{"model": about.model, "model_digest": about.model_digest, "seed": about.seed},
            **{"variant": self.variant, "run": self.name, "detector": detector},
            "hyperparameters": json.dumps(about.hyperparameters.get(detector, {}), sort_keys=True),
            "prepared": json.dumps(about.prepared, sort_keys=True),
            "versions": json.dumps(versions, sort_keys=True),
        }

    def of_configs(self, configs: Iterable[str], detector: str | None = None) -> pd.DataFrame:
        """Select the rows of some configs, of one detector or of the first; all detectors cover the same splits."""
        rows = self.rows[detector] if detector is not None else next(iter(self.rows.values()))
        wanted = {*configs}
        return rows if {*frame.names(rows, "config")} <= wanted else rows[rows["config"].isin(wanted)]


def join_runs(
    scores: Any, release: Release, splits: str | Iterable[str | Key] | None, *, quiet: bool = True
) -> tuple[list[ScoredRun], tuple[str, ...]]:
    """Read one or several scores and join them with the rows of a release.

    Scores are `FILE`, `VARIANT=FILE` if no file has this name, or those in memory. Rows of other splits than those to
    evaluate (`choose_splits`) are not read; without any, those are evaluated that the scores state, or, where these
    say nothing, those that their ids are of. The configs of the splits to evaluate are returned, too.
    """
    keys = [] if splits is None else release.choose(splits)
    named = tuple(dict.fromkeys(config for config, _ in keys))
    sources = list(scores) if isinstance(scores, list | tuple) else [scores]
    if not sources:
        raise EvaluationError(
            "There are no scores to evaluate: the list is empty. Give what score returned, or files."
        )
    indexes: dict[tuple[str, ...], pd.DataFrame] = {}
    runs: list[ScoredRun] = []
    with bar(len(sources), "joining", quiet=quiet, unit=" files") as progress:
        for number, source in enumerate(sources, start=1):
            variant, path = None, Path(IN_MEMORY if len(sources) == 1 else f"{IN_MEMORY}-{number}")
            if in_file := isinstance(source, str | Path):
                method, equals, file = str(source).partition("=")
                has_variant = equals and not Path(source).exists()
                variant, path = (method, Path(file)) if has_variant else (None, Path(source))
            if path.stem in [run.name for run in runs]:
                raise EvaluationError(
                    f"Several scores files have the name {path.stem}; rename them, since runs are named after their "
                    "files."
                )
            where = str(path) if in_file else f"The table {path}"
            table, stated = read_scores(path if in_file else source, release=release)
            if stated and (misfit := _misfit(stated, table, release)):
                warnings.warn(f"{where} {misfit}", EvaluationWarning, stacklevel=3)
                stated = None
            scored = release.choose(stated.splits) if stated and stated.splits else []
            scored = keys or scored or ([] if stated else _splits_of_ids(release, table["id"]))
            _require_known_rows(release, scored, where)
            configs = stated.configs if stated else tuple(dict.fromkeys(config for config, _ in scored))
            if configs not in indexes:
                indexes[configs] = release.index(configs)
            index, table = _chosen(indexes[configs], table, scored, None if stated or not keys else release)
            if not len(table):
                raise EvaluationError(
                    f"{where} has no scores of {first_few(['/'.join(key) for key in scored])}. Score them, or name "
                    "other splits with splits=."
                )
            labels = {config: release.label_names(config) for config in configs}
            fitted_on = ids_fitted_on(release, stated.fit_half) if stated else None
            rows = frame.join(index, table, labels, where=where, fitted_on=fitted_on)
            seed = table["seed"][0].as_py() if "seed" in table.column_names else stated and stated.seed
            if stated:
                # A model file is recorded without its folder, which may differ between machines.
                model = re.sub(r"[^ ]*/(?=[^/ ]+\.py:)", "", stated.model)
                about, variant = (
                    msgspec.structs.replace(stated, model=model, seed=seed),
                    model if variant is None else variant,
                )
            else:
                about = Provenance(release.digest, configs, "", "", seed, {}, {})  # type: ignore[arg-type]
            runs.append(ScoredRun(path, variant or "", about, rows))
            progress.update(1)
    runs = _told_apart(runs)
    variants: dict[str, str] = {}
    for run in runs:
        other = variants.setdefault(safe_file_name(run.variant), run.variant)
        if other != run.variant:
            raise EvaluationError(
                f"The training methods {other!r} and {run.variant!r} give the same file name. Choose names that "
                "differ in letters or digits, as --scores NAME=FILE."
            )
    return runs, named


def _told_apart(runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """Name the training methods of several models of one name and seed by their digests, too.

    They would be averaged as if they were runs of one method; those that a user named stay as they are. Models of the
    same weights in other code (`same_model`) are numbered.
    """
    firsts = [next(place for place, of in enumerate(runs) if same_model(run.about, of.about)) for run in runs]
    found: dict[tuple[str, int | None], set[int]] = {}
    for run, first in zip(runs, firsts, strict=True):
        found.setdefault((run.about.model, run.about.seed), set()).add(first)
    several = {model for (model, _), of in found.items() if len(of) > 1}

    def told(run: ScoredRun, first: int) -> ScoredRun:
        digest = run.about.model_digest
        number = 1 + sum(runs[of].about.model_digest == digest for of in {*firsts} if of < first)
        return replace(run, variant=f"{run.variant} {digest[:8]}{f'-{number}' * (number > 1)}")

    return [
        told(run, first) if run.variant and run.variant == run.about.model and run.variant in several else run
        for run, first in zip(runs, firsts, strict=True)
    ]


def unequal_sets(runs: Sequence[ScoredRun]) -> list[str]:
    """List in sentences the runs that lack splits of a config which other runs have: their means are over fewer."""
    parts = [frame.evaluated_splits(run.of_configs(run.about.configs)) for run in runs]
    sentences = []
    for run, splits in zip(runs, parts, strict=True):
        configs = {config for config, _ in splits}
        lacking = {key for of in parts for key in of if key[0] in configs} - splits
        if lacking:
            sentences.append(
                f"{run.name} has no scores of {first_few(sorted(map('/'.join, lacking)))}, which other runs have: its "
                "means are over fewer sets, and are not to be compared or averaged with theirs"
            )
    return sentences


def _require_known_rows(release: Release, keys: Sequence[Key], where: str) -> None:
    """Refuse unknown splits without the `test` of their config, which would be compared with that of another one."""
    having = {config for config, split in keys if split == frame.TEST}
    for config, split in keys:
        own = config in having or frame.TEST not in release.splits(config)
        if having and not own and split not in FIT_AND_TUNE_SPLITS:
            raise EvaluationError(
                f"{where} is to be evaluated on {config}/{split} without {config}/{frame.TEST}, with whose known rows "
                "it is compared. Score that split, too, and name it among those to evaluate."
            )


def _misfit(stated: Provenance, scores: pa.Table, release: Release) -> str:
    """Say that provenance is not of all scores, as where Arrow joined several tables and kept that of the first."""
    detectors = {*scores["detector"].unique().to_pylist()} - {*stated.hyperparameters}
    others = sorted(detectors if stated.hyperparameters else ())
    if not others and stated.splits:
        ids = {"/".join(key): release.rows(*key)["id"].combine_chunks() for key in release.pairs(stated.configs)}
        of_stated = pa.concat_arrays([ids[key] for key in stated.splits])
        strange = scores["id"].filter(pc.invert(pc.is_in(scores["id"], value_set=of_stated)))
        others = [key for key in ids if pc.any(pc.is_in(ids[key], value_set=strange.combine_chunks())).as_py()]
    if not others:
        return ""
    return (
        f"has scores of {first_few(others)}, of which its provenance says nothing, so it is that of other scores. Ids "
        "decide, and model and seed are unknown. Give scores of several models or runs as a list"
    )


def ids_fitted_on(release: Release, key: str) -> pa.Array:
    """Return the ids of the half of a split (`config/split`) that detectors were fitted on; none for an empty key."""
    if not key:
        return pa.array([], pa.string())
    rows = release.rows(*key.split("/", 1))
    fits = in_fit_half(rows["id"].to_pylist(), rows["label"].to_numpy())
    return rows["id"].filter(pa.array(fits)).combine_chunks()


def _chosen(
    index: pd.DataFrame, scores: pa.Table, keys: Sequence[Key], release: Release | None
) -> tuple[pd.DataFrame, pa.Table]:
    """Drop rows of splits that are not to be evaluated, and their scores; splits for fitting and tuning stay.

    Of configs without any of `keys`, all rows stay. With the release, scores of rows of its other configs are dropped.
    """
    keep = ~index["config"].isin([config for config, _ in keys]) | index["split"].isin(FIT_AND_TUNE_SPLITS)
    for config, split in keys:
        keep |= (index["config"] == config) & (index["split"] == split)
    kept, dropped = (pa.array(index["id"][mask].astype(str), pa.string()) for mask in (keep, ~keep))
    strange = pc.invert(pc.is_in(scores["id"], value_set=kept))
    if not pc.any(strange).as_py():
        return index[keep], scores
    if release is not None:
        others = {*release.configs} - {*frame.names(index, "config")}
        of_others = [release.rows(*key)["id"] for key in release.pairs(others)] if others else []
        dropped = pa.chunked_array([dropped, *(chunk for ids in of_others for chunk in ids.chunks)], pa.string())
    return index[keep], scores.filter(pc.invert(pc.and_(strange, pc.is_in(scores["id"], value_set=dropped))))


def _splits_of_ids(release: Release, ids: pa.ChunkedArray) -> list[Key]:
    """Find the splits that scores without provenance are of, by their ids.

    Configs are meant that have an id which no other has; where ids are left that several have, nothing says which is
    meant. Of a config those splits count all of whose rows have a score, those for fitting or tuning if some have, and
    those that have the only place of an id, which `frame.join` then says are not whole.
    """
    index = release.index([name for name in release.configs if {*release.splits(name)} - {*FIT_AND_TUNE_SPLITS}])
    scored = index.assign(scored=index["id"].isin(ids.to_pandas()))
    fits, keys = scored["split"].isin(FIT_AND_TUNE_SPLITS), ["config", "split"]
    scored["whole"] = fits | scored.groupby(keys, observed=True)["scored"].transform("all")
    scored = scored[scored["scored"]]
    places = scored.drop_duplicates(["id", "config"])
    found = scored[scored["config"].isin(places["config"][~places["id"].duplicated(keep=False)])]
    left = places["config"][~places["id"].isin(found["id"])].value_counts()
    if left.any():
        names = sorted(left.index[left > 0], key=lambda name: (-left[name], name))  # the likeliest first
        raise EvaluationError(
            f"{', '.join(names)} share ids, and the scores do not say of which config they are. Name it, "
            f"as in splits={names[0]}, or several."
        )
    kept = found[found["whole"]]
    parts = found[~found["id"].isin(kept["id"])]
    return [*pd.concat([kept, parts])[keys].drop_duplicates().itertuples(index=False, name=None)]
