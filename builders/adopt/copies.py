"""Adopts an existing copy of a published benchmark: its folders give the classes, its files the images.

The authors' draws of classes and images cannot be repeated from their paper. With their archive, the same draw can be
rebuilt from the sources, and published as ids instead of pixels. This module finds the sets of a copy; `image_sets`
adopts one set and `matching` identifies its images; the result is applied to the splits that share the draw.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from builders.adopt.file_listing import Log, reading_copy
from builders.adopt.id_lists import adopt_list, are_listed, find_lists
from builders.adopt.image_sets import adopt_class_folders, adopt_classes, adopt_folder
from builders.adopt.matching import Matcher
from builders.declare.benchmark import Benchmark, Classes, Config, Rest, Split
from builders.errors import NAMED, BuildError, more, one_line
from builders.plan.candidates import Adopted, decided_classes, split_classes
from builders.sources.base import SourceIndex
from builders.sources.readers.folders import escape_name
from builders.storage.text_files import read_csv


def adopt(
    benchmark: Benchmark, splits: Sequence[str], copy: Path, indexes: Mapping[str, SourceIndex], log: Log, *, seed: int
) -> dict[str, Adopted]:
    """Read the classes and images of the given splits from a copy of the published benchmark.

    A split that takes the rest of another split is read together with that one, and a split whose classes are drawn
    together with all splits that share the draw. Where a split's images are generated (resized, or arrays stored as
    PNG), the copy's files have other bytes than ours, so only its class folders are adopted.

    Args:
        benchmark: the declaration; `Split.published` says where the copy has a split.
        splits: names as `config/split`.
        copy: the copy's folder (`imagenet-bench/` or the folder above it), or a CSV file with the columns `split` and
            `class`, which lists classes by split or by the copy's name for the set; or JSON lists of image numbers
            (`builders.adopt.id_lists`), one or a folder of them.
        indexes: the sources.
        log: prints a line for the user.
        seed: seed of the draws that the copy replaces.

    Returns:
        The adopted classes and images by split; splits that the copy lacks are missing and are drawn by rule.

    Raises:
        BuildError: the copy has none of the splits, a class is unknown or does not belong in its split, or a file is
            not an image of the source.
    """
    declared = benchmark.by_key()
    parents = [parent for key in splits for parent in benchmark.drawn_before(key)]
    keys = list(dict.fromkeys([*splits, *parents, *sharing_draws(benchmark, splits)]))
    listed_keys = [key for key in keys if are_listed(declared[key][1])]
    lists = find_lists(benchmark, listed_keys, copy)
    adopted = {key: adopt_list(declared[key][1], path, indexes) for key, path in lists.items()}
    folder_keys = [key for key in keys if key not in listed_keys]
    if copy.is_file() and copy not in lists.values():
        adopted |= _from_lists(benchmark, folder_keys, copy)
    elif copy.is_dir() and any(declared[key][1].published for key in folder_keys):
        adopted |= _from_folders(benchmark, folder_keys, copy, indexes, log)
    if not adopted:
        raise BuildError(
            f"{copy} has no set of {', '.join(keys[:NAMED])}{more(keys)}. "
            "Build those splits without --adopt, or give a copy that has them."
        )
    follow_draws(benchmark, keys, copy, adopted)
    follow_rests(benchmark, keys, splits, adopted, seed)
    for key in keys:
        log(_summary(key, declared[key][1], adopted.get(key)))
    return adopted


def adoption_digest(adopted: Adopted) -> str:
    """Return the digest of the classes and images adopted for a split."""
    content: list[object] = [adopted.class_ids, adopted.source_ids]
    if adopted.oodness is not None:
        content.append(adopted.oodness)
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _from_lists(benchmark: Benchmark, keys: Sequence[str], path: Path) -> dict[str, Adopted]:
    mentioned: dict[str, dict[str, str]] = defaultdict(dict)
    for line, mentioned_keys, name in _read_lists(path, benchmark):
        for key in mentioned_keys:
            mentioned[key].setdefault(name, f"line {line} of {path}")
    adopted = {}
    for key in keys:
        if key in mentioned:
            config, split = benchmark.by_key()[key]
            adopted[key] = adopt_classes(config, split, mentioned[key].items())
    return adopted


def _read_lists(path: Path, benchmark: Benchmark) -> Iterator[tuple[int, list[str], str]]:
    """Yield the line number, the splits and the class of each row of a CSV.

    A split is given by our name (`imagenet/near_ood`), by the copy's (`test/near-imagenet200`), or by its set alone
    (`imagenet200`), which stands for all splits of that set.
    """
    names: dict[str, list[str]] = defaultdict(list)
    for key, (_, split) in benchmark.by_key().items():
        for name in {key, split.published, split.published.rpartition("/")[2]} - {""}:
            names[name].append(key)
    advice = "Give a CSV in UTF-8 with the columns split and class, or the folder that an archive unpacks to."
    for line, row in read_csv(path, ("split", "class"), advice):
        if row["split"] not in names:
            known = ", ".join(key for key, (_, split) in benchmark.by_key().items() if split.published)
            unknown = one_line(repr(row["split"]))
            raise BuildError(
                f"{unknown} in line {line} of {path} is neither a split ({known}) nor a set of the copy. Correct it."
            )
        if not row["class"]:
            raise BuildError(f"No class is given in line {line} of {path}. Add it.")
        yield line, names[row["split"]], row["class"]


def _from_folders(
    benchmark: Benchmark, keys: Sequence[str], copy: Path, indexes: Mapping[str, SourceIndex], log: Log
) -> dict[str, Adopted]:
    root = _root(copy, benchmark)
    published = {root / split.published for split in _kept_in_folders(benchmark)}
    for parent in sorted({path.parent for path in published}):
        for unused in sorted(set(_folders(parent)) - published):
            log(f"{escape_name(str(unused))}: not a set of this benchmark, so it is not used")
    matchers: dict[str, Matcher] = {}
    adopted = {}
    for key in keys:
        config, split = benchmark.by_key()[key]
        folder = root / split.published
        if not split.published or not folder.is_dir():
            continue
        if split.image_generator is not None:
            choice = adopt_class_folders(config, split, folder, indexes[split.source.key], log)
            if choice is not None:
                adopted[key] = choice
        else:
            index = indexes[split.source.key]
            if split.source.key not in matchers:
                matchers[split.source.key] = Matcher(index)
            adopted[key] = adopt_folder(config, split, folder, index, matchers[split.source.key], log)
    return adopted


def _root(copy: Path, benchmark: Benchmark) -> Path:
    published = [split.published for split in _kept_in_folders(benchmark)]
    roots = [folder for folder in (copy, *_folders(copy)) if any((folder / name).is_dir() for name in published)]
    if copy in roots:
        return copy
    if len(roots) > 1:
        raise BuildError(
            f"{copy} holds several copies of the published benchmark: {' and '.join(root.name for root in roots)}. "
            "Give one of them with --adopt."
        )
    if not roots:
        raise BuildError(
            f"{copy} is not a copy of the published benchmark: it has no folder such as "
            f"{' or '.join(published[:NAMED])}. Give the folder that its archive unpacks to with --adopt."
        )
    return roots[0]


def _kept_in_folders(benchmark: Benchmark) -> list[Split]:
    return [split for _, split in benchmark.by_key().values() if split.published and not are_listed(split)]


def _folders(folder: Path) -> list[Path]:
    with reading_copy(folder):
        return sorted(child for child in folder.iterdir() if child.is_dir()) if folder.is_dir() else []


def _summary(key: str, split: Split, adopted: Adopted | None) -> str:
    if adopted is None:
        return f"{key}: not in the adopted copy, so it is drawn by rule"
    text = f"{key}: adopted {len(adopted.class_ids):,} classes"
    by_rule = decided_classes(split.classes) if isinstance(split.classes, Classes) else split.source.classes()
    other_classes = len(set(adopted.class_ids) - set(by_rule))
    text += f" ({other_classes:,} of them not by our rule)" if other_classes else ""
    if adopted.source_ids is None:
        return f"{text}, their images drawn by rule"
    images = len(adopted.source_ids)
    return f"{text}, {images:,} images" + (f" (the paper: {split.paper.rows:,})" * (images != split.paper.rows))


def sharing_draws(benchmark: Benchmark, splits: Sequence[str]) -> list[str]:
    """Return the keys of all splits that share the draws of classes from which the given splits have their labels."""
    declared = benchmark.by_key()
    drawn = [labels for key in splits if (labels := declared[key][0].drawn_labels) is not None]
    draws = {labels.draw.key for labels in drawn if labels.draw is not None}
    return [key for key, (_, split) in declared.items() if _draw_key(split) in draws]


def _draw_key(split: Split) -> str:
    draw = split.classes.draw if isinstance(split.classes, Classes) else None
    return draw.key if draw is not None else ""


def follow_draws(benchmark: Benchmark, keys: Sequence[str], copy: Path, adopted: dict[str, Adopted]) -> None:
    """Apply the copy's choice of in-distribution classes to all splits that share the draw."""
    declared = benchmark.by_key()
    for labels in dict.fromkeys(config.drawn_labels for config in benchmark.configs):
        if labels is None:
            continue
        draw_keys = [key for key in keys if labels.draw is not None and _draw_key(declared[key][1]) == labels.draw.key]
        class_ids = {key: set(adopted[key].class_ids) for key in draw_keys if key in adopted}
        if not class_ids:
            continue
        known = [key for key in class_ids if _draws_labels(declared, key)]
        unknown = [key for key in class_ids if key not in known]
        first = [*known, *unknown][0]
        candidates = set(decided_classes(labels))
        label_ids = class_ids[first] if known else candidates - class_ids[first]
        for key in (*known, *unknown):
            conflicting = class_ids[key] ^ label_ids if key in known else class_ids[key] & label_ids
            if conflicting:
                equal = key in known or not known
                rule, extent = ("have the same classes", "in only one") if equal else ("share no class", "in both")
                raise BuildError(
                    f"{declared[first][1].published} and {declared[key][1].published} of {copy} must {rule}, but "
                    f"{sorted(conflicting)[0]}{more(sorted(conflicting), 1)} is {extent} of them. Complete the copy."
                )
        for key in draw_keys:
            if key not in adopted:
                chosen = label_ids if _draws_labels(declared, key) else candidates - label_ids
                adopted[key] = Adopted(tuple(sorted(chosen)))


def _draws_labels(declared: Mapping[str, tuple[Config, Split]], key: str) -> bool:
    config, split = declared[key]
    return split.classes == config.labels


def follow_rests(
    benchmark: Benchmark, keys: Sequence[str], splits: Sequence[str], adopted: dict[str, Adopted], seed: int
) -> None:
    """Keep a split disjoint from the split whose rest it takes, whichever of the two the copy has."""
    declared = benchmark.by_key()
    for key in keys:
        _, split = declared[key]
        if not isinstance(split.quota, Rest):
            continue
        parent, rest = adopted.get(split.quota.parent), adopted.get(key)
        if parent is None and rest is not None and rest.source_ids is not None and split.quota.parent in splits:
            published = declared[split.quota.parent][1].published
            raise BuildError(
                f"The adopted copy has {split.published} but not {published}, and {split.quota.parent} drawn by rule "
                f"would share images with it. Add {published} to the copy, or build other splits with --splits."
            )
        # The rest has the same classes. If the copy's are the rule's, the rule explains what is left out.
        if parent is not None and rest is None and list(parent.class_ids) != split_classes(split, seed=seed):
            adopted[key] = Adopted(parent.class_ids)
