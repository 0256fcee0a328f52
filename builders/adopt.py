"""Adopting an existing copy of a published benchmark: its folders give the classes, its files give the images.

The authors drew classes and images in ways that no paper can reproduce. Somebody who has their archive can rebuild
exactly it from the sources, and publish ids instead of pixels. `builders.matching` finds the images; here stands what
a set may be, and what follows for the splits.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from builders.benchmark import Benchmark, Classes, Config, Every, Rest, Split, parent
from builders.errors import BuildError
from builders.matching import Listing, Matched, Matcher, list_images, reading_copy
from builders.plan import Adopted, class_ids, drawn_classes
from builders.sources.base import Source, SourceIndex
from builders.sources.folders import shown

_NAMED = 3
_LISTED = 100

_UNKNOWN_ROLES = ("near_ood", "far_ood", "external", "novel_class")

_Note = Callable[[str], None]


def adopt(
    benchmark: Benchmark,
    splits: Sequence[str],
    copy: Path,
    indexes: Mapping[str, SourceIndex],
    note: _Note,
    *,
    seed: int,
) -> dict[str, Adopted]:
    """Read what a copy of the published benchmark says of the given splits.

    A split that takes the rest of another one brings that one along, because what is left depends on it; and splits
    whose classes are drawn bring along those that share the draw, because they say which classes are labels. Where
    images are made (resized, or arrays stored anew), a copy's files have other bytes than ours, so that only its
    class folders are adopted.

    Args:
        benchmark: the declaration; `Split.published` says where the copy has a split.
        splits: names as `config/split`.
        copy: the copy's folder (`imagenet-bench/` or the folder above it), or a CSV file with the columns `split` and
            `class`, which lists classes by split or by the copy's name for the set.
        indexes: the sources.
        note: takes a line for the user.
        seed: of the draws that the copy stands in for.

    Returns:
        By split name; splits that the copy does not have are missing and stay drawn by rule.

    Raises:
        BuildError: nothing in the copy fits, a class is unknown or has no place in its split, or a file is no image
            of the source.
    """
    declared = benchmark.by_key()
    parents = [first for key in splits if (first := parent(declared[key][1].take))]
    wanted = list(dict.fromkeys([*splits, *parents, *_sharing_draws(benchmark, splits)]))
    if copy.is_file():
        found = _from_lists(benchmark, wanted, copy, seed)
    else:
        found = _from_folders(benchmark, wanted, copy, indexes, note, seed)
    if not found:
        raise BuildError(
            f"expected a set of {', '.join(wanted[:_NAMED])}{_more(wanted)}, found none of them in {copy}; "
            "build those splits without --adopt, or give the copy that has them."
        )
    _follow_draws(benchmark, wanted, copy, found, seed)
    _follow_rests(benchmark, wanted, splits, found, seed)
    for key in wanted:
        note(_summary(key, declared[key][1], found.get(key), seed))
    return found


def adoption_digest(adopted: Adopted | None) -> str:
    """A digest of what is adopted for one split, empty where it is drawn by rule."""
    if adopted is None:
        return ""
    return hashlib.sha256(json.dumps([adopted.class_ids, adopted.source_ids]).encode()).hexdigest()


def _from_lists(benchmark: Benchmark, wanted: Sequence[str], path: Path, seed: int) -> dict[str, Adopted]:
    mentioned: dict[str, dict[str, str]] = defaultdict(dict)
    for line, keys, name in _read_lists(path, benchmark):
        for key in keys:
            mentioned[key].setdefault(name, f"line {line} of {path}")
    found = {}
    for key in wanted:
        if key in mentioned:
            config, split = benchmark.by_key()[key]
            found[key] = _adopt_classes(config, split, mentioned[key].items(), seed)
    return found


def _read_lists(path: Path, benchmark: Benchmark) -> Iterator[tuple[int, list[str], str]]:
    """Lines of a CSV: number, the splits meant, the class named.

    A split is named as here (`imagenet/near_ood`), as in the copy (`test/near-imagenet200`), or by the set alone
    (`imagenet200`), which means all splits of that set.
    """
    names: dict[str, list[str]] = defaultdict(list)
    for key, (_, split) in benchmark.by_key().items():
        for name in {key, split.published, split.published.rpartition("/")[2]} - {""}:
            names[name].append(key)
    try:
        with path.open(encoding="utf-8-sig", newline="") as opened:
            reader = csv.DictReader(opened)
            columns = reader.fieldnames or ()
            if not {"split", "class"} <= set(columns):
                raise BuildError(
                    f"expected the columns split and class, found {', '.join(columns) or 'nothing'} in line 1 of "
                    f"{path}; give a CSV with these two, or the folder of a copy."
                )
            for row in reader:
                where = f"line {reader.line_num} of {path}"
                if row["split"] not in names:
                    known = ", ".join(key for key, (_, split) in benchmark.by_key().items() if split.published)
                    raise BuildError(
                        f"expected a split ({known}) or its set in the copy, found {row['split']!r} in {where}; "
                        "correct it."
                    )
                if not row["class"]:
                    raise BuildError(f"expected a split and a class, found no class in {where}; add it.")
                yield reader.line_num, names[row["split"]], row["class"]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BuildError(
            f"expected a CSV in UTF-8 with the columns split and class, found another file ({error}) at {path}; "
            "unpack an archive and give its folder."
        ) from error


def _from_folders(
    benchmark: Benchmark,
    wanted: Sequence[str],
    copy: Path,
    indexes: Mapping[str, SourceIndex],
    note: _Note,
    seed: int,
) -> dict[str, Adopted]:
    root = _root(copy, benchmark)
    published = {root / split.published for _, split in benchmark.splits() if split.published}
    for place in sorted({path.parent for path in published}):
        for unused in sorted(set(_folders(place)) - published):
            note(f"{shown(str(unused))}: no set of this benchmark, so it is not used")
    matchers: dict[str, Matcher] = {}
    found = {}
    for key in wanted:
        config, split = benchmark.by_key()[key]
        folder = root / split.published
        if not split.published or not folder.is_dir():
            continue
        if split.making is not None:
            adopted = _adopt_class_folders(config, split, folder, note, seed)
            if adopted is not None:
                found[key] = adopted
        else:
            index = indexes[split.source.key]
            if split.source.key not in matchers:
                matchers[split.source.key] = Matcher(index)
            found[key] = _adopt_folder(config, split, folder, index, matchers[split.source.key], note, seed)
    return found


def _root(copy: Path, benchmark: Benchmark) -> Path:
    published = [split.published for _, split in benchmark.splits() if split.published]
    roots = [place for place in (copy, *_folders(copy)) if any((place / name).is_dir() for name in published)]
    if copy in roots:
        return copy
    if len(roots) > 1:
        raise BuildError(
            f"expected one copy of the published benchmark, found {' and '.join(root.name for root in roots)} in "
            f"{copy}; give one of them with --adopt."
        )
    if not roots:
        raise BuildError(
            f"expected a copy of the published benchmark with folders such as {' or '.join(published[:_NAMED])}, "
            f"found none in {copy}; give the folder that its archive unpacks to with --adopt."
        )
    return roots[0]


def _folders(place: Path) -> list[Path]:
    with reading_copy(place):
        return sorted(child for child in place.iterdir() if child.is_dir()) if place.is_dir() else []


def _adopt_folder(
    config: Config, split: Split, folder: Path, index: SourceIndex, matcher: Matcher, note: _Note, seed: int
) -> Adopted:
    classes = _Classes(index.source)
    listing = list_images(folder)
    note(f"{folder}: {len(listing):,} images in {len(listing.folders):,} folders")
    if listing.others:
        names = ", ".join(shown(path.name) for path in listing.others[:_NAMED])
        note(f"{folder}: left out {len(listing.others):,} entries that are no images ({names}{_more(listing.others)})")
    if not len(listing):
        if not listing.empty:
            raise BuildError(
                f"expected images or class folders, found neither in {folder}; complete the copy, or remove that "
                "folder so that the split is drawn by rule."
            )
        named = [(classes.of_folder(name) or name, str(place)) for name, place in listing.empty]
        return _adopt_classes(config, split, named, seed)
    if listing.empty:
        note(f"{folder}: {len(listing.empty):,} class folders have no images and add nothing")
    known = {name: class_id for name in listing.classes if (class_id := classes.of_folder(name))}
    strange = sorted({name for name in listing.classes if name and name not in known})
    if strange:
        names = ", ".join(map(shown, strange[:_NAMED]))
        note(f"{folder}: {len(strange):,} folders not named after one class ({names}{_more(strange)})")
    matched = matcher.match(listing, known, split.partitions, note)
    _refuse_unmatched(split, folder, index, listing, matched, note)
    return _adopt_images(config, split, matcher, listing, matched, note, seed)


def _adopt_class_folders(config: Config, split: Split, folder: Path, note: _Note, seed: int) -> Adopted | None:
    """Adopt the classes that folders are named after; None where the set has none or takes all classes anyway."""
    listing = list_images(folder)
    named = sorted({*filter(None, listing.classes), *(name for name, _ in listing.empty)})
    if isinstance(split.classes, Every) or not named:
        note(f"{folder}: its images are made anew and it names no classes to choose, so it is not used")
        return None
    note(f"{folder}: {len(named):,} class folders; its images are made anew from the source")
    classes = _Classes(split.source)
    return _adopt_classes(config, split, [(classes.of_folder(name) or name, str(folder)) for name in named], seed)


def _refuse_unmatched(
    split: Split, folder: Path, index: SourceIndex, listing: Listing, matched: Matched, note: _Note
) -> None:
    files = np.flatnonzero(matched.rows < 0).tolist()
    if not files:
        return
    for file in files[:_LISTED]:
        note(f"no image of {index.source.title}: {shown(str(listing.path(file)))}")
    names = ", ".join(shown(listing.path(file).relative_to(folder).as_posix()) for file in files[:_NAMED])
    alike = f", {matched.alike:,} with a number for a name that another image there has" if matched.alike else ""
    raise BuildError(
        f"{index.source.title}: expected every image of {folder} in {index.root} (partition "
        f"{' or '.join(split.partitions)}), found {len(files):,} that are there neither by name nor by content "
        f"({names}{_more(files)}){alike}; complete the source, or remove these files from the copy."
    )


def _adopt_images(
    config: Config, split: Split, matcher: Matcher, listing: Listing, matched: Matched, note: _Note, seed: int
) -> Adopted:
    rows, first = np.unique(matched.rows, return_index=True)
    if len(rows) < len(listing):
        note(f"{split.published}: {len(listing) - len(rows):,} files repeat an image, which is taken once")
    if matched.twins:
        note(
            f"{split.published}: {matched.twins:,} contents stand several times in the source and less often in the "
            "copy, which does not say which it has; the first by id is taken"
        )
    codes, example = np.unique(matcher.class_codes[rows], return_index=True)
    places = (str(listing.path(int(first[place]))) for place in example.tolist())
    found = dict(zip((matcher.class_ids[code] for code in codes.tolist()), places, strict=True))
    _refuse_roles(config, split, found, seed)
    return Adopted(tuple(sorted(found)), tuple(matcher.source_ids(rows)))


def _adopt_classes(config: Config, split: Split, mentioned: Iterable[tuple[str, str]], seed: int) -> Adopted:
    """Adopt classes alone; `mentioned` has each class name and where it stands."""
    classes = _Classes(split.source)
    found: dict[str, str] = {}
    for name, where in mentioned:
        found.setdefault(classes.of_name(name, where), where)
    _refuse_roles(config, split, found, seed)
    return Adopted(tuple(sorted(found)))


def _refuse_roles(config: Config, split: Split, found: Mapping[str, str], seed: int) -> None:
    """Refuse a class that the role of the split rules out; `found` says where each class stands."""
    if config.labels.draw is not None:
        return  # the copy itself says which classes are in-distribution; `_follow_draws` compares its sets
    labels = set(class_ids(config.labels, seed=seed))
    if split.role == "in_distribution":
        wrong, wanted, is_what = sorted(found.keys() - labels), "only", "is none"
    elif split.role in _UNKNOWN_ROLES and _table(split) == config.labels.table:
        wrong, wanted, is_what = sorted(found.keys() & labels), "no", "is one"
    else:
        return
    if wrong:
        raise BuildError(
            f"expected {wanted} in-distribution classes in {split.published}, found {wrong[0]}{_more(wrong, 1)}, "
            f"which {is_what}, at {found[wrong[0]]}; check that this is a copy of this benchmark."
        )


def _table(split: Split) -> str:
    return split.classes.table if isinstance(split.classes, Classes) else ""


def _sharing_draws(benchmark: Benchmark, splits: Sequence[str]) -> list[str]:
    """Splits whose classes come from a draw that says which labels the given splits have."""
    declared = benchmark.by_key()
    draws = {labels.draw.key for key in splits if (labels := declared[key][0].labels).draw is not None}
    return [key for key, (_, split) in declared.items() if _draw_key(split) in draws]


def _draw_key(split: Split) -> str:
    draw = split.classes.draw if isinstance(split.classes, Classes) else None
    return draw.key if draw is not None else ""


def _follow_draws(
    benchmark: Benchmark, wanted: Sequence[str], copy: Path, found: dict[str, Adopted], seed: int
) -> None:
    """Let what the copy has of a draw of in-distribution classes stand for all splits that share the draw."""
    declared = benchmark.by_key()
    for labels in dict.fromkeys(config.labels for config in benchmark.configs if config.labels.draw is not None):
        sharing = [key for key in wanted if labels.draw is not None and _draw_key(declared[key][1]) == labels.draw.key]
        known = {key: set(found[key].class_ids) for key in sharing if key in found and _draws_labels(declared, key)}
        others = {key: set(found[key].class_ids) for key in sharing if key in found and key not in known}
        if not known and not others:
            continue
        everything = set(class_ids(replace(labels, draw=None), seed=seed))
        chosen = next(iter(known.values())) if known else everything - next(iter(others.values()))
        for key, classes in {**known, **others}.items():
            odd = classes ^ chosen if key in known else classes & chosen
            if odd:
                rule = "the same in-distribution classes in all its sets" if key in known else "no shared classes"
                first = next(iter(known or others))
                raise BuildError(
                    f"expected {rule}, found {sorted(odd)[0]}{_more(sorted(odd), 1)} in only one or both of "
                    f"{declared[first][1].published} and {declared[key][1].published} of {copy}; complete the copy."
                )
        for key in sharing:
            if key not in found:
                side = chosen if _draws_labels(declared, key) else everything - chosen
                found[key] = Adopted(tuple(sorted(side)))


def _draws_labels(declared: Mapping[str, tuple[Config, Split]], key: str) -> bool:
    config, split = declared[key]
    return split.classes == config.labels


def _follow_rests(
    benchmark: Benchmark, wanted: Sequence[str], splits: Sequence[str], found: dict[str, Adopted], seed: int
) -> None:
    """Keep a split that takes the rest of another one apart from it, whichever of the two the copy has."""
    declared = benchmark.by_key()
    for key in wanted:
        _, split = declared[key]
        if not isinstance(split.take, Rest):
            continue
        first, here = found.get(split.take.of), found.get(key)
        if first is None and here is not None and here.source_ids is not None and split.take.of in splits:
            published = declared[split.take.of][1].published
            raise BuildError(
                f"expected {published} beside {split.published} in the adopted copy, found only the latter, and "
                f"{split.take.of} drawn by rule would share images with it; add it to the copy, or build other "
                "splits with --splits."
            )
        # "The rest" is of the same classes; where the copy's are the rule's, the rule explains what is left out.
        if first is not None and here is None and list(first.class_ids) != drawn_classes(split, seed=seed):
            found[key] = Adopted(first.class_ids)


def _summary(key: str, split: Split, adopted: Adopted | None, seed: int) -> str:
    if adopted is None:
        return f"{key}: not in the adopted copy, so it is drawn by rule"
    text = f"{key}: adopted {len(adopted.class_ids):,} classes"
    candidates = replace(split.classes, draw=None) if isinstance(split.classes, Classes) else split.classes
    strange = len(set(adopted.class_ids) - set(drawn_classes(replace(split, classes=candidates), seed=seed)))
    text += f" ({strange:,} of them not by our rule)" if strange else ""
    if adopted.source_ids is None:
        return f"{text}, their images drawn by rule"
    images = len(adopted.source_ids)
    return f"{text}, {images:,} images" + (f" (the paper: {split.count.paper:,})" * (images != split.count.paper))


def _more(names: Sequence[object], named: int = _NAMED) -> str:
    return f" and {len(names) - named:,} more" if len(names) > named else ""


class _Classes:
    """Finds classes of a source by id, by name and by the spellings that copies use."""

    def __init__(self, source: Source) -> None:
        self.title = source.title
        self.ids = source.classes()
        self.spelled: dict[str, list[str]] = defaultdict(list)
        for class_id, name in self.ids.items():
            for spelling in {_plain(class_id), _plain(name)}:
                self.spelled[spelling].append(class_id)

    def candidates(self, name: str) -> list[str]:
        return [name] if name in self.ids else self.spelled.get(_plain(name), [])

    def of_folder(self, name: str) -> str | None:
        """The class that a folder is named after, alone (`n01443537/images`) or with its parents (`a/airfield`)."""
        for part in (name, name.partition("/")[0], name.rpartition("/")[2]):
            if len(found := self.candidates(part)) == 1:
                return found[0]
        return None

    def of_name(self, name: str, where: str) -> str:
        found = self.candidates(name)
        if len(found) == 1:
            return found[0]
        problem = f"{shown(name)!r}, which means {' and '.join(found)}," if found else f"{shown(name)!r}"
        raise BuildError(
            f"{self.title}: expected one of its classes, found {problem} at {where}; "
            f"name a class as {next(iter(self.ids))}, and check that the set belongs to this source."
        )


def _plain(name: str) -> str:
    """A class name without what differs between copies: Caltech's number, the Places letter, case and separators."""
    return re.sub(r"[/_\s-]+", "_", re.sub(r"^(\d{3}\.|/?[a-z]/)", "", name)).casefold()
