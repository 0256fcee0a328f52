"""Names of detectors, metrics, sets of rows and statistics as a report shows them, in one place.

Tested by `tests/evaluation/report/test_pivot.py`.
"""

from __future__ import annotations

from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.metrics.metrics import METRICS
from unknown_detection.evaluation.protocols import PROTOCOLS

BASELINE = "msp"
"""The detector that others are compared with, if it was scored."""

_SPLITS = {
    "autoattack_resnet50": "AutoAttack (ResNet-50)",
    "autoattack_vit": "AutoAttack (ViT)",
    "biggan": "BigGAN",
    "caltech45": "Caltech-45",
    "cocomagenet": "CoComageNet",
    "cocomagenet_mono": "CoComageNet-mono",
    "dtd": "DTD",
    "far_ood": "Far-OoD",
    "food32": "Food-32",
    "imagenet_o": "ImageNet-O",
    "inaturalist": "iNaturalist",
    "lsun_fix": "LSUN-FIX",
    "near_ood": "Near-OoD",
    "openimage_o": "OpenImage-O",
    "pgd_resnet50": "PGD (ResNet-50)",
    "pgd_vit": "PGD (ViT)",
    "places82": "Places-82",
    "stable_diffusion": "Stable Diffusion",
    "svhn": "SVHN",
}


def detector_name(name: str) -> str:
    """Return the name of a detector in papers, for LaTeX; of an unknown one, its name in the scores file."""
    return DETECTORS[name].title if name in DETECTORS else name


def shown_name(name: str, variant: str = "") -> str:
    """Return a detector's name as commands spell it, with the papers' and the training method in brackets.

    The papers' name is left out where it differs by capitals and signs alone.
    """
    title = detector_name(name)
    inside = ", ".join(filter(None, ("" if _letters(title) == _letters(name) else title, variant)))
    return f"{name} ({inside})" if inside else name


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def metric_name(name: str) -> str:
    """Return the name of a metric without its positive class, which a table's note states once.

    All are in percent; one that papers multiply by another factor says so.
    """
    metric = METRICS[name]
    return metric.title.partition(" (")[0] + (f" × {metric.factor:,.0f}" if metric.factor != 100 else "")


def set_name(unknown: str) -> str:
    """Return the name of a set of unknown rows, such as `DTD` for `far_ood_dtd`; several are joined by ` + `."""
    if " + " in unknown:
        return " + ".join(map(set_name, unknown.split(" + ")))
    split, comma, qualifier = unknown.partition(", ")
    short = split.removeprefix("far_ood_")
    return _SPLITS.get(short, short.replace("_", " ")) + comma + qualifier


def setting_name(setting: str) -> str:
    """Return the title of a protocol's setting."""
    titles = {name: title for protocol in PROTOCOLS.values() for name, title in protocol.settings.items()}
    return titles.get(setting, setting.replace("_", " "))
