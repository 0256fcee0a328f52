"""Roles and rules in words, for the card."""

from __future__ import annotations

from collections.abc import Mapping

from builders.release.schema import Role
from taxonomy.decisions import RULES

ROLE_NAMES: Mapping[Role, str] = {
    "in_distribution": "in-distribution",
    "near_ood": "near-OoD",
    "far_ood": "far-OoD",
    "external": "external",
    "novel_class": "novel class",
    "adversarial": "adversarial",
    "synthetic": "synthetic",
    "corruption": "corruption",
    "multi_label": "multi-label",
}
"""Names of the roles for readers."""

ROLE_MEANINGS: Mapping[Role, str] = {
    "in_distribution": "known: an image of a class that a classifier is trained on",
    "near_ood": "unknown: an image of a class that resembles the known ones",
    "far_ood": "unknown: an image of another kind, such as a texture or a scene",
    "external": "unknown: for tuning detectors or training them on unknown images, never for reporting results",
    "novel_class": "unknown: an image of a class that the known ones do not include",
    "adversarial": "known class, attacked: changed so that a model takes it for another class",
    "synthetic": "known class, generated: made by a generative model",
    "corruption": "known class, shifted: blurred, noisy or otherwise degraded, or another kind of picture",
    "multi_label": "several known classes in one image, or one of these alone as the control",
}
"""What each role says of a row."""

RULE_MEANINGS: Mapping[str, str] = RULES | {
    "broken-in-source": "the image is broken in the genuine source",
    "class-drawn": "its class was drawn for another split",
    "class-not-drawn": "its class was a candidate, and others were drawn",
    "demo-classes": "not one of the first classes, of which a demo makes images",
    "duplicate": "shows the same picture as another row (variant without duplicates)",
    "image-not-drawn": "its class has more images than the split takes, or none was made of this one",
    "image-not-listed": "not in the published list of images",
    "in-other-split": "drawn for another split",
    "limit-per-class": "beyond the limit of images of a class that was given, for a quick look",
    "not-adopted": "not in the copy of the published benchmark that was adopted",
    "outside": "its class is not one that the rules look at",
    "stray": "a file that is no image of the source",
    "unreadable": "the image does not decode",
    "withdrawn": "withdrawn from the release",
}
"""What the rules of `excluded/` mean: those about classes, and those of a build."""
