"""Writes the text files that depend on which splits an export has: its README.txt, and OpenOOD's empty lists.

Tested by `tests/hf_scripts/test_export.py`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from builders.release.entries import Manifest
from builders.release.openood_tree import FOLDERS, LISTS, OPENED
from builders.release.schema import ROLES
from hf_scripts.exports.state import ExportedSplit

NAME = "README.txt"

_WIDTH = 100

_ORIGIN = """\
Written by `python -m hf_scripts.export` from a release of unknown-detection. Images have the same bytes as in the
release. A split's digest is the SHA-256 of id, label, role and content digest of its rows, in order, as in the
release's manifest.json. `label` is the index of the row's class among the in-distribution classes of the config,
sorted by class id, and -1 for rows of other classes. The values of `role` are: {roles}.
"""

_DEMO = "Built from demo sources: made-up images for trying out the tools. Do not report results on them."

_CLASSES = """\
The folder of a class is its class id, percent-encoded: `urllib.parse.unquote` decodes it. The few names that would be
too long end with a plus sign and a digest instead. Where encoded names sort otherwise than the classes, the folder of
an in-distribution class begins with its label.
"""

_READING = {
    "openood": """\
OpenOOD reads a split as ImglistDataset(imglist_pth="imglists/{config}/{split}.txt", data_dir="images",
num_classes={classes}, ...). The .jsonl file beside each list has all columns of the same rows, in the same order.
""",
    "openood-tree": """\
This is the folder that OpenOOD's downloads fill (`OpenOOD/data`): its evaluators read it as their `data_root`. The
lists are sorted, and a label is the number of the class, or -1. OpenOOD opens all lists of `imagenet`, or all of
`imagenet200`, before it evaluates any. Those that have no images here are there, too, and are empty: leave out what
needs them, such as methods that are fitted on training images. Its loaders go over an empty list with `shuffle=False`,
their default.
""",
    "imagefolder": """\
load_dataset("imagefolder", data_dir="{config}/{split}", split="train") reads all columns (`datasets` calls a single
folder train). torchvision.datasets.ImageFolder("{config}/{split}") numbers class folders in sorted order, which
equals the column `label` for an in-distribution split with images of all {classes} classes.
""",
    "webdataset": """\
load_dataset("webdataset", data_files={{"{split}": "{config}/{split}-*.tar"}}, split="{split}") has the image under
the name of its format, all other columns under json, and the label under cls. A key is the row number.
""",
}

_BY_ROLE = """\
A split with several roles also has a list for each: imglists/{key}-in_distribution.txt, and others for the
unknowns.
"""

_PREPARED = """\
Prepared for models with an input of {side} x {side} pixels: {splits}. Evaluate these images as they are stored:
another resize or crop, as of OpenOOD's usual preprocessing, would weaken attacks.
"""

_MIXED = """\
There are images of several formats in {splits}. `datasets` infers columns from the first five samples: give
load_dataset features with an Image() for each format, or it fails, or drops the images of the other formats.
"""


_PLACE = f"""\
{NAME} at the root of this export lists the images of this folder and their sources. This note keeps OpenOOD from
downloading the folder.
"""


def overall_files(manifest: Manifest, chosen_format: str, splits: Mapping[str, ExportedSplit]) -> dict[str, str]:
    """Return the texts of the files that depend on which splits an export has, by path, the README last.

    An export as `openood-tree` gets two kinds of files beside the README. Every list that OpenOOD opens and no split
    fills is there, empty. Every folder of images has a note, because OpenOOD downloads the images of an empty folder.
    """
    files = {}
    if chosen_format == "openood-tree":
        files = dict.fromkeys(_empty_lists(manifest, splits), "")
        files |= {f"{folder}/{NAME}": _wrapped(_PLACE) + "\n" for folder in FOLDERS}
    return {**files, NAME: readme(manifest, chosen_format, splits)}


def readme(manifest: Manifest, chosen_format: str, splits: Mapping[str, ExportedSplit]) -> str:
    """Render the README."""
    described = manifest.by_key()
    entries = {key: described[key] for key in sorted(splits, key=lambda key: key.split("/"))}
    benchmarks = sorted({manifest.configs[key.partition("/")[0]].benchmark for key in entries})
    roles = ", ".join(f"{number} {role}" for number, role in enumerate(ROLES))
    parts = [f"Unknown detection benchmarks, exported as {chosen_format}", _wrapped(_ORIGIN.format(roles=roles))]
    for benchmark in (manifest.benchmarks[name] for name in benchmarks):
        lines = [f"{benchmark.title}, version {benchmark.version}"]
        lines += [f"Paper: {benchmark.paper}"] * bool(benchmark.paper)
        parts.append("\n".join([*lines, _DEMO] if benchmark.demo else lines))
    parts.append("\n".join(f"{key}: {splits[key].rows:,} rows, digest {splits[key].digest}" for key in entries))
    known = [key for key, entry in entries.items() if entry.is_known]
    parts += _how_to_read(manifest, chosen_format, splits, [*known, *entries][0])
    if chosen_format == "openood-tree":
        parts.append("\n".join(["Empty lists:", *map(": ".join, _empty_lists(manifest, splits).items())]))
    parts.append("Sources, with their licences as the owners state them:")
    for name in sorted({source for entry in entries.values() for source in entry.sources}):
        source, licence = manifest.sources[name], manifest.sources[name].licence
        parts.append(
            f"{source.title}, {source.edition}\nLicence: {licence.name} ({licence.url})\n"
            f"{_wrapped(licence.statement)}\nMay be published as: {licence.publish}"
        )
    return "\n\n".join(parts) + "\n"


def mixed(splits: Mapping[str, ExportedSplit]) -> list[str]:
    """Return the splits with images of several formats, as `config/split (jpg, png)`."""
    return [f"{key} ({', '.join(split.kinds)})" for key, split in sorted(splits.items()) if len(split.kinds) > 1]


def _how_to_read(
    manifest: Manifest, chosen_format: str, splits: Mapping[str, ExportedSplit], example: str
) -> list[str]:
    config, _, split = example.partition("/")
    classes = len(manifest.configs[config].label_names)
    parts = [_READING[chosen_format].format(config=config, split=split, classes=classes)]
    described = manifest.by_key()
    sides: dict[int, list[str]] = {}
    for key in sorted(splits):
        generator = described[key].generator
        if generator is not None and generator.prepared:
            sides.setdefault(generator.prepared, []).append(key)
    parts += [_PREPARED.format(side=side, splits=", ".join(keys)) for side, keys in sorted(sides.items())]
    if chosen_format == "openood":
        several_roles = [key for key in sorted(splits) if len(described[key].roles) > 1]
        parts += [_BY_ROLE.format(key=key) for key in several_roles[:1]]
    if chosen_format in ("openood", "imagefolder"):
        parts.append(_CLASSES)
    elif chosen_format == "webdataset" and (several := mixed(splits)):
        parts.append(_MIXED.format(splits=", ".join(several)))
    return [_wrapped(part) for part in parts]


def _empty_lists(manifest: Manifest, splits: Mapping[str, ExportedSplit]) -> dict[str, str]:
    """Return why each list is empty that OpenOOD opens, by its path."""
    split_of = {path: key for key, path in LISTS.items()}
    described = manifest.by_key()
    reasons = {}
    for path in OPENED:
        key = split_of.get(path)
        if key is None:
            reasons[path] = "no benchmark of unknown-detection has these images"
        elif key not in splits:
            reasons[path] = f"{key} is not exported" if key in described else f"{key} is not in the release"
    return reasons


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
