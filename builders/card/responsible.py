"""Responsible-AI statements about a release, by the properties of the Croissant RAI vocabulary 1.0.

Only what the release and its sources show is stated: nothing was examined for people or for bias, and these statements
say so. The card prints them, and the Croissant metadata has the same sentences.

Vocabulary: MLCommons, Croissant RAI Specification 1.0, http://mlcommons.org/croissant/RAI/1.0.

Tested by `tests/builders/card/test_metadata.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from builders.release.entries import Manifest
from unknown_detection.words import quantity

COLLECTION_TYPE = "Secondary Data analysis"
"""The value that the vocabulary recommends for data that others collected (property `dataCollectionType`)."""


_EVALUATION = "Evaluation of out-of-distribution detectors and of the robustness of image classifiers, in research."
_EXTERNAL = "Images of the role external are for tuning detectors and for training on unknown images."
_NOT_SAFE = "A score on these images does not show that a model is safe to use elsewhere."
_AS_STORED = "Images are stored with the bytes of their source files, unless the column stored says otherwise."
_CLASSES = "Classes are those of the source datasets; no image was annotated for this release."
_OVERLAPS = "Which unknown classes overlap a known one (id_overlap) was decided for classes, not for images."
_PERSONAL = (
    "The release was not examined for personal or sensitive information, and no column holds any. Photographs of the "
    "sources may show people, house numbers or other things by which people can be recognised."
)
_MAINTENANCE = (
    "Versions are tags and never change: a major version changes rows, a minor one adds splits or columns, a patch "
    "changes metadata. CHANGELOG.md lists all of them, and withdrawn rows are named in the card."
)


@dataclass(frozen=True)
class Statement:
    """A property of the vocabulary (without prefix), its title in the card, and its sentences."""

    name: str
    title: str
    texts: tuple[str, ...]


def statements(manifest: Manifest) -> list[Statement]:
    """The statements about a release; a property that its data do not support is left out."""
    splits = manifest.by_key().values()
    titles = ", ".join(source.title for _, source in sorted(manifest.sources.items()))
    collection = (
        "No image was collected for this release: all come from, or are made from, datasets that others published "
        f"({titles}). Which images are chosen follows from the rules of the benchmarks and from a keyed hash."
    )
    external = any(split.roles == ("external",) for split in splits)
    uses = (_EVALUATION, *[_EXTERNAL] * external, _NOT_SAFE)
    made = dict.fromkeys(f"{split.made}." for split in splits if split.made)
    overlaps = any("id_overlap" in config.columns for config in manifest.configs.values())
    found = [
        Statement("dataUseCases", "Intended uses", uses),
        Statement("dataCollection", "Collection", (collection,)),
        Statement("dataCollectionMissingData", "Missing data", (" ".join(_missing(manifest)),)),
        Statement("dataPreprocessingProtocol", "Preprocessing", (_AS_STORED, *made)),
        Statement("dataAnnotationProtocol", "Annotation", (_CLASSES, *[_OVERLAPS] * overlaps)),
        Statement("dataBiases", "Biases", _biases(manifest)),
        Statement("dataLimitations", "Limitations", _limitations(manifest)),
        Statement("personalSensitiveInformation", "Personal and sensitive information", (_PERSONAL,)),
    ]
    if manifest.version is not None:
        found.append(Statement("dataReleaseMaintenancePlan", "Maintenance", (_MAINTENANCE,)))
    return found


def _missing(manifest: Manifest) -> tuple[str, ...]:
    excluded = sum(split.excluded for split in manifest.by_key().values())
    texts = [
        f"Left out by rules, with a reason each in excluded/: {quantity(excluded, 'image')}, counted for every split."
    ]
    rows, expected = (sum(getattr(s, n) for s in manifest.by_key().values()) for n in ("rows", "expected"))
    if rows < expected:
        texts.append(f"The release has {quantity(rows, 'row')}, of {expected:,} that complete sources give.")
    return tuple(texts)


def _biases(manifest: Manifest) -> tuple[str, ...]:
    texts = ["The biases of the source datasets carry over; they were not measured."]
    if manifest.duplicates is not None:
        texts.append(
            f"Some pictures occur twice: the config duplicates lists {quantity(manifest.duplicates.rows, 'pair')}."
        )
    overlaps = sum(split.overlaps or 0 for split in manifest.by_key().values())
    if overlaps:
        texts.append(f"{overlaps:,} unknown rows have a class that overlaps a known one (id_overlap).")
    return tuple(texts)


def _limitations(manifest: Manifest) -> tuple[str, ...]:
    texts = [
        f"{one.title} is built from demo sources: made-up images, for trying the tools and never for a result."
        for _, one in sorted(manifest.benchmarks.items())
        if one.demo
    ]
    texts += [
        f"{one.title} is limited to {quantity(one.limit_per_class, 'image')} of each class."
        for _, one in sorted(manifest.benchmarks.items())
        if one.limit_per_class is not None
    ]
    if any(split.generator and split.generator.reproducible == "recorded" for split in manifest.by_key().values()):
        texts.append("Some images depend on the device and the libraries that made them and cannot be made again.")
    texts.append("Images may show objects of other classes than their own, also of known ones.")
    return tuple(texts)
