"""Runs several models one after another: what each is called, which scores are there, and which models failed."""

from __future__ import annotations

import io
import json
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from builders.storage.files import write_text
from builders.storage.text_files import read_csv, read_text_lines
from unknown_detection.commands import version
from unknown_detection.evaluation.detectors.own import OwnError, of_the_user
from unknown_detection.evaluation.errors import EvaluationError, EvaluationWarning, evaluation_errors, one_line
from unknown_detection.evaluation.features.store import NEGATIVES, FeatureStore
from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.models.blueprints import module_name
from unknown_detection.evaluation.models.libraries import of_library
from unknown_detection.evaluation.same import same_model
from unknown_detection.terminal.progress import Log
from unknown_detection.words import first_few

_COLUMNS = ("model", "weights", "classes", "accuracy")
"""The columns of a list of models in a file: the first one, and what else `extract` takes for one of them."""


@evaluation_errors()
def read_models(path: Path) -> list[dict[str, Any]]:
    """Read a list of models for `run`: a CSV with the column `model`, and others of `_COLUMNS` where needed."""
    advice = f"Write a CSV with the column model and, where needed, {', '.join(_COLUMNS[1:])}."
    first = read_text_lines(path, advice)[0].split(",")
    if others := sorted({*first} - {*_COLUMNS}):
        raise EvaluationError(f"{path} has the column {one_line(others[0], 60)!r}. {advice}")
    models: list[dict[str, Any]] = []
    for number, cells in read_csv(path, [name for name in _COLUMNS if name in {*first, "model"}], advice):
        given: dict[str, Any] = {name: text for name, text in cells.items() if text}
        try:
            models.append(given | ({"accuracy": float(given["accuracy"])} if "accuracy" in given else {}))
        except ValueError:
            raise EvaluationError(
                f"Line {number} of {path} has the accuracy {one_line(given['accuracy'], 60)!r}. Give it in percent."
            ) from None
    return models


def named(models: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return what `extract` takes for each model of a list, by a name for its files; equal names are numbered."""
    found: dict[str, dict[str, Any]] = {}
    for model in models:
        how = dict(model) if isinstance(model, Mapping) else {"model": model}
        if "model" not in how:
            raise EvaluationError(f"An entry of the list has {first_few(list(how)) or 'nothing'}. Give its `model`.")
        spec = how["model"]
        if of_library(spec) and not how.get("weights"):
            how.setdefault("pretrained", True)
        text = spec if isinstance(spec, str) else module_name(spec)
        name = first = safe_file_name(text.rpartition("/")[2] if ".py:" in text else text)
        number = 1
        while name in found:
            number += 1
            name = f"{first}_{number}"
        found[name] = how
    if not found:
        raise EvaluationError("There are no models to run: the list is empty. Name some.")
    return found


def what_is_asked(detectors: Any, scoring: Mapping[str, Any]) -> str:
    """Return as JSON what scores depend on beside features; empty with code of the user's, which may import more."""
    listed = [detectors or "all"] if isinstance(detectors, str | None) else detectors
    if not isinstance(listed, list | tuple) or not all(isinstance(of, str) for of in listed):
        return ""
    return json.dumps({"detectors": listed, **scoring, "version": version()}, default=repr, indent=1, sort_keys=True)


def run_each(
    models: Mapping[str, Mapping[str, Any]],
    root: Path,
    extracted: Callable[[Mapping[str, Any], Path], FeatureStore],
    scored: Callable[[FeatureStore, Path], pd.DataFrame],
    asked: str,
    log: Log,
) -> tuple[dict[str, FeatureStore], dict[str, pd.DataFrame], dict[str, str]]:
    """Extract and score with one model after another; return features, scores, and what kept others from them.

    Scores are read again where the file beside them says that the same was `asked` of the same features, and has their
    digest.
    """
    features: dict[str, FeatureStore] = {}
    scores: dict[str, pd.DataFrame] = {}
    failed: dict[str, str] = {}
    for number, (name, how) in enumerate(models.items(), start=1):
        log(f"model {number} of {len(models)}: {name}")
        file, note = (root / "scores" / f"{name}{suffix}" for suffix in (".parquet", ".json"))
        try:
            with of_the_user(name):
                found = extracted(how, root / "features" / name)
            identity = found.identity
            same = [other for other, of in features.items() if same_model(of.identity, identity)]
            if same:
                raise EvaluationError(f"It has the weights and the preprocessing of {same[0]}. Leave one out.")
            words = "with negatives" if (found.root / NEGATIVES).exists() else "without negatives"
            rows = " ".join(found.splits)  # all that detectors may be fitted on, too
            key = f"{identity.release_digest} {identity.model_digest} {identity.probed} {words}\n{rows}\n{asked}\n"
            written = file.read_bytes() if file.is_file() else b""
            if asked and note.is_file() and note.read_text(encoding="utf-8") == key + sha256(written).hexdigest():
                scores[name] = pd.read_parquet(io.BytesIO(written))
                log(f"{file} has the scores already")
            else:
                note.unlink(missing_ok=True)
                with of_the_user(name):
                    scores[name] = scored(found, file)
                if asked and not scores[name].attrs["provenance"].get("missing"):
                    write_text(note, key + sha256(file.read_bytes()).hexdigest())
            found.runner = None  # which would keep every model in memory
            features[name] = found
        except (EvaluationError, OwnError) as error:
            failed[name] = one_line(str(error))
            raised = "".join(traceback.format_exception(error.__cause__)) if isinstance(error, OwnError) else ""
            text = "\n".join(filter(None, (failed[name], raised.rstrip())))
            warnings.warn(f"there are no scores of {name}: {text}", EvaluationWarning, stacklevel=3)
    if not scores:
        name, why = next(iter(failed.items()))
        raise EvaluationError(f"None of {len(models)} models could be run. {name}: {why}")
    return features, scores, failed
