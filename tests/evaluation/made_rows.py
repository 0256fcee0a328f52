"""Rows and figures for the tests of protocols and reports, made from what a test can be read with."""

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score


def make_rows(*groups, predictions=True, duplicates=None, overlaps=None, seed=0):
    """Rows of several groups, shuffled.

    Args:
        groups: (config, split, role, scores, and optionally a dict of columns that are not the default).
        predictions: whether there are any.
        duplicates: ids of the rows that are duplicates; None for a release that does not say which are.
        overlaps: the known class by the ids of rows that overlap one; None for a release that does not say which do.
        seed: of the order.
    """
    columns = {name: [] for name in ("id", "config", "split", "role", "label", "class_id", "source_id", "score")}
    predicted = []
    for config, split, role, scores, *columns_ in groups:
        overrides = columns_[0] if columns_ else {}
        n = len(scores)
        known = role == "in_distribution"
        ids = [f"{config}/{split}/{role}/{i:04d}" for i in range(n)]
        columns["id"] += ids
        columns["config"] += [config] * n
        columns["split"] += [split] * n
        columns["role"] += [role] * n
        label = overrides.get("label", [0 if known else -1] * n)
        columns["label"] += label
        columns["class_id"] += overrides.get("class_id", ["some class"] * n)
        columns["source_id"] += overrides.get("source_id", ids)
        columns["score"] += list(map(float, scores))
        wrong = overrides.get("wrong", [False] * n)
        predicted += [value + 1 if error else max(value, 0) for value, error in zip(label, wrong, strict=True)]
    order = np.random.default_rng(seed).permutation(len(predicted))
    texts = ("id", "config", "split", "role", "class_id", "source_id")
    frame = pd.DataFrame({name: np.array(values)[order] for name, values in columns.items()})
    frame = frame.astype(dict.fromkeys(texts, "category")).assign(known=(frame["role"] == "in_distribution"))
    if predictions:
        frame["prediction"] = np.array(predicted)[order]
        frame["wrong"] = (frame["label"] < 0) | (frame["prediction"] != frame["label"])
    if duplicates is not None:
        frame["duplicate"] = frame["id"].isin(duplicates)
    if overlaps is not None:
        frame["overlap"] = pd.Categorical([overlaps.get(id_, "") for id_ in frame["id"].tolist()])
    return frame


def auc(known, unknown):
    """The AUROC of these scores as scikit-learn has it."""
    return roc_auc_score([0] * len(known) + [1] * len(unknown), [*known, *unknown])


def only(figures, **fields):
    """The one figure with these fields."""
    (figure,) = [f for f in figures if all(f[name] == value for name, value in fields.items())]
    return figure


def of_run(detector="msp", variant="adam", seed=0, **changes):
    """What the table of figures says of a run, a file of its own for each variant and seed, and a detector."""
    named = {"release": "digits", "release_digest": "ab", "duplicates_sha256": "", "model": "small"}
    named |= {"model_digest": f"{variant} {seed}", "variant": variant, "run": f"{variant}-{seed}", "seed": seed}
    return {**named, "detector": detector, "hyperparameters": "{}", "prepared": "{}", "versions": "{}"} | changes


def figure(value, metric="auroc", **fields):
    """A figure in percent of four known and six unknown rows."""
    names = {"protocol": "unknown-detection", "config": "c", "setting": "ood_detection", "known": "test"}
    names |= {"unknown": "near_ood", "positive": "", "rows": "as_published", "statistic": "", "fitted_on": ""}
    numbers = {"value": value, "factor": 100.0, "n_known": 4, "n_unknown": 6, "left_out": 0}
    return names | {"metric": metric} | numbers | fields
