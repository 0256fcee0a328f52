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
    benchmark: Benchmark,
    splits: Sequence[str],
    copy: Path,
    indexes: Mapping[str, SourceIndex],
    log: Log,
    *,
    seed: int,
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
    parents = [first for key in splits for first in benchmark.drawn_before(key)]
    wanted = list(dict.fromkeys([*splits, *parents, *sharing_draws(benchmark, splits)]))
    numbered = [key for key in wanted if are_listed(declared[key][1])]
    lists = find_lists(benchmark, numbered, copy)
    found = {key: adopt_list(declared[key][1], path, indexes) for key, path in lists.items()}
    others = [key for key in wanted if key not in numbered]
    if copy.is_file() and copy not in lists.values():
        found |= _from_lists(benchmark, others, copy)
    elif copy.is_dir() and any(declared[key][1].published for key in others):
        found |= _from_folders(benchmark, others, copy, indexes, log)
    if not found:
        raise BuildError(
            f"{copy} has no set of {', '.join(wanted[:NAMED])}{more(wanted)}. "
            "Build those splits without --adopt, or give a copy that has them."
        )
    follow_draws(benchmark, wanted, copy, found)
    follow_rests(benchmark, wanted, splits, found, seed)
    for key in wanted:
        log(_summary(key, declared[key][1], found.get(key)))
    return found


def adoption_digest(adopted: Adopted) -> str:
    """Digest of the classes and images adopted for a split."""
    said: list[object] = [adopted.class_ids, adopted.source_ids]
    if adopted.oodness is not None:
        said.append(adopted.oodness)
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _from_lists(benchmark: Benchmark, wanted: Sequence[str], path: Path) -> dict[str, Adopted]:
    mentioned: dict[str, dict[str, str]] = defaultdict(dict)
    for line, keys, name in _read_lists(path, benchmark):
        for key in keys:
            mentioned[key].setdefault(name, f"line {line} of {path}")
    found = {}
    for key in wanted:
        if key in mentioned:
            config, split = benchmark.by_key()[key]
            found[key] = adopt_classes(config, split, mentioned[key].items())
    return found


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
    benchmark: Benchmark,
    wanted: Sequence[str],
    copy: Path,
    indexes: Mapping[str, SourceIndex],
    log: Log,
) -> dict[str, Adopted]:
    root = _root(copy, benchmark)
    published = {root / split.published for split in _kept_in_folders(benchmark)}
    for place in sorted({path.parent for path in published}):
        for unused in sorted(set(_folders(place)) - published):
            log(f"{escape_name(str(unused))}: not a set of this benchmark, so it is not used")
    matchers: dict[str, Matcher] = {}
    found = {}
    for key in wanted:
        config, split = benchmark.by_key()[key]
        folder = root / split.published
        if not split.published or not folder.is_dir():
            continue
        if split.image_generator is not None:
            adopted = adopt_class_folders(config, split, folder, indexes[split.source.key], log)
            if adopted is not None:
                found[key] = adopted
        else:
            index = indexes[split.source.key]
            if split.source.key not in matchers:
                matchers[split.source.key] = Matcher(index)
            found[key] = adopt_folder(config, split, folder, index, matchers[split.source.key], log)
    return found


def _root(copy: Path, benchmark: Benchmark) -> Path:
    published = [split.published for split in _kept_in_folders(benchmark)]
    roots = [place for place in (copy, *_folders(copy)) if any((place / name).is_dir() for name in published)]
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


def _folders(place: Path) -> list[Path]:
    with reading_copy(place):
        return sorted(child for child in place.iterdir() if child.is_dir()) if place.is_dir() else []


def _summary(key: str, split: Split, adopted: Adopted | None) -> str:
    if adopted is None:
        return f"{key}: not in the adopted copy, so it is drawn by rule"
    text = f"{key}: adopted {len(adopted.class_ids):,} classes"
    by_rule = decided_classes(split.classes) if isinstance(split.classes, Classes) else split.source.classes()
    strange = len(set(adopted.class_ids) - set(by_rule))
    text += f" ({strange:,} of them not by our rule)" if strange else ""
    if adopted.source_ids is None:
        return f"{text}, their images drawn by rule"
    images = len(adopted.source_ids)
    return f"{text}, {images:,} images" + (f" (the paper: {split.paper.rows:,})" * (images != split.paper.rows))


def sharing_draws(benchmark: Benchmark, splits: Sequence[str]) -> list[str]:
    """Keys of all splits that share the draw of classes which gives the given splits their labels."""
    declared = benchmark.by_key()
    drawn = [labels for key in splits if (labels := declared[key][0].drawn_labels) is not None]
    draws = {labels.draw.key for labels in drawn if labels.draw is not None}
    return [key for key, (_, split) in declared.items() if _draw_key(split) in draws]


def _draw_key(split: Split) -> str:
    draw = split.classes.draw if isinstance(split.classes, Classes) else None
    return draw.key if draw is not None else ""


def follow_draws(benchmark: Benchmark, wanted: Sequence[str], copy: Path, found: dict[str, Adopted]) -> None:
    """Apply the copy's choice of in-distribution classes to all splits that share the draw."""
    declared = benchmark.by_key()
    for labels in dict.fromkeys(config.drawn_labels for config in benchmark.configs):
        if labels is None:
            continue
        sharing = [key for key in wanted if labels.draw is not None and _draw_key(declared[key][1]) == labels.draw.key]
        known = {key: set(found[key].class_ids) for key in sharing if key in found and _draws_labels(declared, key)}
        others = {key: set(found[key].class_ids) for key in sharing if key in found and key not in known}
        if not known and not others:
            continue
        everything = set(decided_classes(labels))
        chosen = next(iter(known.values())) if known else everything - next(iter(others.values()))
        for key, classes in {**known, **others}.items():
            odd = classes ^ chosen if key in known else classes & chosen
            if odd:
                first = next(iter(known or others))
                same = key in known or not known
                rule, place = ("have the same classes", "in only one") if same else ("share no class", "in both")
                raise BuildError(
                    f"{declared[first][1].published} and {declared[key][1].published} of {copy} must {rule}, but "
                    f"{sorted(odd)[0]}{more(sorted(odd), 1)} is {place} of them. Complete the copy."
                )
        for key in sharing:
            if key not in found:
                side = chosen if _draws_labels(declared, key) else everything - chosen
                found[key] = Adopted(tuple(sorted(side)))


def _draws_labels(declared: Mapping[str, tuple[Config, Split]], key: str) -> bool:
    config, split = declared[key]
    return split.classes == config.labels


def follow_rests(
    benchmark: Benchmark, wanted: Sequence[str], splits: Sequence[str], found: dict[str, Adopted], seed: int
) -> None:
    """Keep a split disjoint from the split whose rest it takes, whichever of the two the copy has."""
    declared = benchmark.by_key()
    for key in wanted:
        _, split = declared[key]
        if not isinstance(split.quota, Rest):
            continue
        first, here = found.get(split.quota.parent), found.get(key)
        if first is None and here is not None and here.source_ids is not None and split.quota.parent in splits:
            published = declared[split.quota.parent][1].published
            raise BuildError(
                f"The adopted copy has {split.published} but not {published}, and {split.quota.parent} drawn by rule "
                f"would share images with it. Add {published} to the copy, or build other splits with --splits."
            )
        # The rest has the same classes. If the copy's are the rule's, the rule explains what is left out.
        if first is not None and here is None and list(first.class_ids) != split_classes(split, seed=seed):
            found[key] = Adopted(first.class_ids)
