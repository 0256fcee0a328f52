"""Adopts a benchmark from the authors' copy or lists: which classes and which images its splits have.

The authors' draws of classes and images cannot be repeated from their paper. With their archive, the same draw can be
rebuilt from the sources, and published as ids instead of pixels. A copy consists of folders (`builders.adopt.folders`,
`builders.adopt.matching`), of lists of images (`builders.adopt.lists`), or is a CSV with classes; what it gives is
applied to the splits that share the draw.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from builders.adopt.folders import Log, adopt_class_folders, adopt_classes, reading_copy
from builders.adopt.lists import SUFFIXES, adopt_list, find_lists
from builders.adopt.matching import adopt_folder
from builders.declare.benchmark import Benchmark, split_of
from builders.declare.splits import Classes, Split
from builders.errors import BuildError, one_line
from builders.plan.candidates import Adopted
from builders.sources.base import SourceIndex
from builders.sources.readers.folders import escape_name
from builders.storage.text_files import read_csv
from unknown_detection.words import NAMED, first_few


def adopt(
    benchmark: Benchmark, splits: Sequence[str], copy: Path, indexes: Mapping[str, SourceIndex], log: Log, *, seed: int
) -> dict[str, Adopted]:
    """Read the classes and images of some splits from a copy of the published benchmark.

    A split that is drawn after another is read together with that one, and a split whose classes are drawn together
    with all splits that share the draw. Where a split's images are generated (resized, or arrays stored as PNG), the
    copy's files have other bytes than ours, so only its class folders are adopted.

    `Split.published` says where the copy has a split. The copy is a folder (`imagenet-bench/` or the one above it), or
    a CSV file with the columns `split` and `class`, which lists classes by split or by the copy's name for the set; or
    lists, one or a folder of them. `seed` is that of the draws that the copy replaces.

    Returns the adopted classes and images by key; splits that the copy lacks are missing and are drawn by rule.
    """
    declared = benchmark.parts
    parents = [parent for key in splits for parent in benchmark.drawn_before(key)]
    drawn = {labels.draw.key for key in splits if (labels := benchmark.config_of(key).drawn_labels) and labels.draw}
    sharing = [key for key, split in declared.items() if _draw_key(split) in drawn]
    keys = list(dict.fromkeys([*splits, *parents, *sharing]))
    adopted: dict[str, Adopted] = {}
    lists = find_lists(benchmark, {split_of(key) for key in splits}, {split_of(key) for key in parents}, copy)
    for key, path in lists.items():
        adopted |= adopt_list(benchmark, key, path, keys, indexes)
    in_folders = [key for key in keys if _is_set(declared[key])]
    if copy.is_file() and not lists:
        mentions = _mentions(benchmark, copy)
        adopted |= {
            key: adopt_classes(benchmark.config_of(key), declared[key], mentions[key])
            for key in keys
            if key in mentions
        }
    elif copy.is_dir() and in_folders:
        adopted |= _from_folders(benchmark, in_folders, copy, indexes, log)
    if not adopted:
        raise BuildError(
            f"{copy} has no set of {first_few(keys)}. Build those splits without --adopt, or give one that has them."
        )
    _follow_draws(benchmark, keys, copy, adopted)
    _follow_parents(benchmark, keys, splits, adopted, seed)
    for key in keys:
        log(_summary(key, declared[key], adopted.get(key)))
    return adopted


def adoption_digest(adopted: Adopted) -> str:
    """Return a digest of the classes and images that were adopted for a split."""
    content: list[object] = [adopted.class_ids, adopted.source_ids]
    if adopted.oodness is not None:
        content.append(adopted.oodness)
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _mentions(benchmark: Benchmark, path: Path) -> dict[str, list[tuple[str, str]]]:
    """Read a CSV of split and class; returns the classes of each split with their lines.

    A split is given by our name (`imagenet/near_ood`), by the copy's (`test/near-imagenet200`), or by its set alone
    (`imagenet200`), which stands for all splits of that set.
    """
    declared = benchmark.parts
    names: dict[str, list[str]] = defaultdict(list)
    for key, split in declared.items():
        for name in {key, split.published, split.published.rpartition("/")[2]} - {""}:
            names[name].append(key)
    mentions: dict[str, list[tuple[str, str]]] = defaultdict(list)
    advice = "Give a CSV in UTF-8 with the columns split and class, or the folder that an archive unpacks to."
    for line, row in read_csv(path, ("split", "class"), advice):
        if row["split"] not in names:
            known = ", ".join(key for key, split in declared.items() if split.published)
            raise BuildError(
                f"{one_line(repr(row['split']))} in line {line} of {path} is neither a split ({known}) nor a set of "
                "the copy. Correct it."
            )
        if not row["class"]:
            raise BuildError(f"No class is given in line {line} of {path}. Add it.")
        for key in names[row["split"]]:
            mentions[key].append((row["class"], f"line {line} of {path}"))
    return mentions


def _from_folders(
    benchmark: Benchmark, keys: Sequence[str], copy: Path, indexes: Mapping[str, SourceIndex], log: Log
) -> dict[str, Adopted]:
    declared = benchmark.parts
    sets = [split.published for split in declared.values() if _is_set(split)]
    root = _root(copy, sets)
    published = {root / name for name in sets}
    for parent in sorted({path.parent for path in published}):
        for unused in sorted(set(_folders(parent)) - published):
            log(f"{escape_name(str(unused))}: not a set of this benchmark, so it is not used")
    adopted = {}
    for key in keys:
        config, split = benchmark.config_of(key), declared[key]
        folder = root / split.published
        if folder.is_dir() and split.image_generator is None:
            adopted[key] = adopt_folder(config, split, folder, indexes[split.source.key], log)
        elif folder.is_dir() and (choice := adopt_class_folders(config, split, folder, log)) is not None:
            adopted[key] = choice
    return adopted


def _is_set(split: Split) -> bool:
    return bool(split.published) and not split.published.endswith(SUFFIXES)


def _root(copy: Path, sets: Sequence[str]) -> Path:
    roots = [folder for folder in (copy, *_folders(copy)) if any((folder / name).is_dir() for name in sets)]
    if copy in roots or len(roots) == 1:
        return roots[0]
    if roots:
        raise BuildError(
            f"{copy} holds several copies of the published benchmark: {' and '.join(root.name for root in roots)}. "
            "Give one of them with --adopt."
        )
    raise BuildError(
        f"{copy} is not a copy of the published benchmark: it has no folder such as {' or '.join(sets[:NAMED])}. Give "
        "the folder that its archive unpacks to with --adopt."
    )


def _folders(folder: Path) -> list[Path]:
    with reading_copy(folder):
        return sorted(child for child in folder.iterdir() if child.is_dir()) if folder.is_dir() else []


def _summary(key: str, split: Split, adopted: Adopted | None) -> str:
    if adopted is None:
        return f"{key}: not in the adopted copy, so it is drawn by rule"
    text = f"{key}: adopted {len(adopted.class_ids):,} class{'' if len(adopted.class_ids) == 1 else 'es'}"
    by_rule = split.classes.ids() if isinstance(split.classes, Classes) else split.source.classes()
    other_classes = len(set(adopted.class_ids) - set(by_rule))
    text += f" ({other_classes:,} of them not by our rule)" if other_classes else ""
    if adopted.source_ids is None:
        return f"{text}, their images drawn by rule"
    images = len(adopted.source_ids)
    return f"{text}, {images:,} images" + (f" (the paper: {split.paper.rows:,})" * (images != split.paper.rows))


def _draw_key(split: Split) -> str:
    draw = split.classes.draw if isinstance(split.classes, Classes) else None
    return draw.key if draw is not None else ""


def _follow_draws(benchmark: Benchmark, keys: Sequence[str], copy: Path, adopted: dict[str, Adopted]) -> None:
    """Apply the copy's choice of in-distribution classes to all splits that share the draw."""
    declared = benchmark.parts
    for labels in dict.fromkeys(config.drawn_labels for config in benchmark.configs):
        if labels is None or labels.draw is None:
            continue
        sharing = [key for key in keys if _draw_key(declared[key]) == labels.draw.key]
        labelled = {key for key in sharing if declared[key].classes == benchmark.config_of(key).labels}
        given = {key: set(adopted[key].class_ids) for key in sharing if key in adopted}
        if not given:
            continue
        first, *_ = in_order = sorted(given, key=lambda key: key not in labelled)
        candidates = set(labels.ids())
        label_ids = given[first] if first in labelled else candidates - given[first]
        for key in in_order:
            conflicting = sorted(given[key] ^ label_ids if key in labelled else given[key] & label_ids)
            if conflicting:
                equal = key in labelled or first not in labelled
                rule, extent = ("have the same classes", "in only one") if equal else ("share no class", "in both")
                raise BuildError(
                    f"{declared[first].published} and {declared[key].published} of {copy} must {rule}, "
                    f"but {first_few(conflicting, 1)} is {extent} of them. Complete the copy."
                )
        for key in sharing:
            if key not in adopted:
                adopted[key] = Adopted(tuple(sorted(label_ids if key in labelled else candidates - label_ids)))


def _follow_parents(
    benchmark: Benchmark, keys: Sequence[str], splits: Sequence[str], adopted: dict[str, Adopted], seed: int
) -> None:
    """Keep a split disjoint from the split that draws before it, whichever of the two the copy has."""
    declared = benchmark.parts
    for key in keys:
        split = declared[key]
        parent_key = split.quota.parent
        parent, own = adopted.get(parent_key), adopted.get(key)
        if parent is None and own is not None and own.source_ids is not None and parent_key in splits:
            name, parent_name = split.published or key, declared[parent_key].published or parent_key
            raise BuildError(
                f"The adopted copy has {name} but not {parent_name}, and {parent_key} drawn by rule would share "
                f"images with it. Add {parent_name} to the copy, or build other splits with --splits."
            )
        shared = set((parent and parent.source_ids) or ()).intersection((own and own.source_ids) or ())
        if shared:
            raise BuildError(
                f"{parent_key} and {key} must not share images, but {min(shared)} of {split.source.title} is in both "
                "of the adopted copy. Give lists or sets that belong together."
            )
        # It has the same classes. If the copy's are the rule's, the rule explains what is left out.
        if parent is not None and own is None and list(parent.class_ids) != split.class_ids(seed):
            adopted[key] = Adopted(parent.class_ids)
