"""Adopts one set of a copy: folders or a list give its classes, files its images.

Tested by `tests/builders/adopt/test_copies.py`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from builders.adopt.file_listing import FileListing, Log, list_images
from builders.adopt.matching import Matched, Matcher
from builders.adopt.numbered import are_numbered, classes_by_pixels, classes_in_label_order
from builders.declare.benchmark import Classes, ClassesOf, Config, Split
from builders.errors import NAMED, BuildError, more, one_line
from builders.plan.candidates import Adopted, decided_classes
from builders.sources.base import Source, SourceIndex
from builders.sources.readers.folders import escape_name

_LISTED = 100

_UNKNOWN_ROLES = ("near_ood", "far_ood", "external", "novel_class")


def adopt_folder(
    config: Config, split: Split, folder: Path, index: SourceIndex, matcher: Matcher, log: Log
) -> Adopted:
    """Adopt the images of a set, identified by name or content, or its classes alone if its folders are empty.

    Raises:
        BuildError: a file is not an image of the source, or a class does not belong in the split.
    """
    classes = ClassNames(index.source)
    listing = list_images(folder)
    log(f"{folder}: {len(listing):,} images in {len(listing.folders):,} folders")
    if listing.ignored:
        names = ", ".join(escape_name(path.name) for path in listing.ignored[:NAMED]) + more(listing.ignored)
        log(f"{folder}: left out {len(listing.ignored):,} entries that are not images ({names})")
    if not len(listing):
        if not listing.empty:
            raise BuildError(
                f"{folder} has neither images nor class folders. Complete the copy, or remove that folder so that the "
                "split is drawn by rule."
            )
        mentions = [(classes.of_folder(name) or name, str(path)) for name, path in listing.empty]
        return adopt_classes(config, split, mentions)
    if listing.empty:
        log(f"{folder}: {len(listing.empty):,} class folders have no images and add nothing")
    known = {name: class_id for name in listing.classes if (class_id := classes.of_folder(name))}
    unknown_names = sorted({name for name in listing.classes if name and name not in known})
    if unknown_names:
        names = ", ".join(map(escape_name, unknown_names[:NAMED]))
        log(f"{folder}: {len(unknown_names):,} folders not named after one class ({names}{more(unknown_names)})")
    match = matcher.match(listing, known, split.partitions, log, _ruled_out(config, split))
    _refuse_unmatched(split, folder, index, listing, match, log)
    if are_numbered(unknown_names) and not known:
        classes_by_number: dict[str, set[str]] = {name: set() for name in unknown_names}
        for file, row in enumerate(match.rows.tolist()):
            name = listing.classes[int(listing.folder_of[file])]
            if name:
                classes_by_number[name].add(matcher.class_ids[int(matcher.class_codes[row])])
        classes_in_label_order(index.source.title, folder, classes_by_number)
    return _adopt_images(config, split, matcher, listing, match, log)


def adopt_class_folders(config: Config, split: Split, folder: Path, index: SourceIndex, log: Log) -> Adopted | None:
    """Adopt the classes that folders are named after; None if there are none, or the split has all classes anyway.

    Numbered folders are identified by the pixels of their images, if the source's images are arrays.

    Raises:
        BuildError: a folder's name or images match no class, or a class that does not belong in the split.
    """
    listing = list_images(folder)
    names = sorted({*filter(None, listing.classes), *(name for name, _ in listing.empty)})
    if not isinstance(split.classes, Classes) or not names:
        log(f"{folder}: its images are generated again and it gives no choice of classes, so it is not used")
        return None
    log(f"{folder}: {len(names):,} class folders; its images are generated again from the source")
    classes = ClassNames(split.source)
    if are_numbered(names) and not any(map(classes.of_folder, names)) and split.source.arrays:
        partitions = {piece.partition for piece in index.pieces} & set(split.partitions)
        if not partitions:
            log(f"{folder}: its class folders are numbers, and this run reads no images that would identify them")
            return None
        class_of = classes_in_label_order(split.source.title, folder, classes_by_pixels(listing, index, partitions))
        names = sorted(class_of.values())
    return adopt_classes(config, split, [(classes.of_folder(name) or name, str(folder)) for name in names])


def _refuse_unmatched(
    split: Split, folder: Path, index: SourceIndex, listing: FileListing, match: Matched, log: Log
) -> None:
    files = np.flatnonzero(match.rows < 0).tolist()
    if not files:
        return
    for file in files[:_LISTED]:
        log(f"no image of {index.source.title}: {escape_name(str(listing.path(file)))}")
    names = ", ".join(escape_name(listing.path(file).relative_to(folder).as_posix()) for file in files[:NAMED])
    alike = f"; {match.alike:,} of them are named by a number that another image there has" if match.alike else ""
    raise BuildError(
        f"{index.source.title}: {index.root} (partition {' or '.join(split.partitions)}) lacks {len(files):,} of the "
        f"{len(listing):,} images of {folder}, by name and by content ({names}{more(files)}){alike}. Complete the "
        "source, or remove these files from the copy."
    )


def _adopt_images(
    config: Config, split: Split, matcher: Matcher, listing: FileListing, match: Matched, log: Log
) -> Adopted:
    rows, first = np.unique(match.rows, return_index=True)
    if len(rows) < len(listing):
        log(f"{split.published}: {len(listing) - len(rows):,} files repeat an image, which is taken once")
    if match.twins:
        log(
            f"{split.published}: {match.twins:,} images occur several times in the source and less often in the "
            "copy, which does not say which of them it has; the first by id is taken"
        )
    codes, first_of_class = np.unique(matcher.class_codes[rows], return_index=True)
    paths = (str(listing.path(file)) for file in first[first_of_class].tolist())
    example_paths = dict(zip((matcher.class_ids[code] for code in codes.tolist()), paths, strict=True))
    _refuse_roles(config, split, example_paths)
    return Adopted(tuple(sorted(example_paths)), tuple(matcher.source_ids(rows)))


def adopt_classes(config: Config, split: Split, mentions: Iterable[tuple[str, str]]) -> Adopted:
    """Adopt classes alone; `mentions` gives each class name and where it stands."""
    classes = ClassNames(split.source)
    where_named: dict[str, str] = {}
    for name, where in mentions:
        where_named.setdefault(classes.of_name(name, where), where)
    _refuse_roles(config, split, where_named)
    return Adopted(tuple(sorted(where_named)))


def _refuse_roles(config: Config, split: Split, where_named: Mapping[str, str]) -> None:
    """Refuse classes that the split's role rules out; `where_named` says where each class stands."""
    ruled_out = sorted(where_named.keys() & _ruled_out(config, split))
    if ruled_out:
        verdict = "not in-distribution" if split.role == "in_distribution" else "in-distribution"
        raise BuildError(
            f"{split.published or split.name} must not have the class {ruled_out[0]}{more(ruled_out, 1)}, which is "
            f"{verdict} ({where_named[ruled_out[0]]}). Check that this is a copy of this benchmark."
        )


def _ruled_out(config: Config, split: Split) -> frozenset[str]:
    """Return the ids of the source's classes that the split's role rules out."""
    if isinstance(config.labels, ClassesOf) or config.labels.draw is not None:
        return frozenset()  # the copy itself says which are in-distribution; `shared_draws` compares its sets
    labels = frozenset(decided_classes(config.labels))
    if split.role == "in_distribution":
        return frozenset(split.source.classes()) - labels
    same_table = isinstance(split.classes, Classes) and split.classes.table == config.labels.table
    return labels if split.role in _UNKNOWN_ROLES and same_table else frozenset()


class ClassNames:
    """Finds classes of a source by id, by name and by the spellings that copies use."""

    def __init__(self, source: Source) -> None:
        self.title = source.title
        self.ids = source.classes()
        self.spelled: dict[str, list[str]] = defaultdict(list)
        for class_id, name in self.ids.items():
            for spelling in {_plain(class_id), _plain(name)}:
                self.spelled[spelling].append(class_id)

    def candidates(self, name: str) -> list[str]:
        """Return the ids of all classes that a name may mean."""
        return [name] if name in self.ids else self.spelled.get(_plain(name), [])

    def of_folder(self, name: str) -> str | None:
        """Return the id of the class that a folder is named after, alone or with its parents (`a/airfield`)."""
        for part in (name, name.partition("/")[0], name.rpartition("/")[2]):
            if len(class_ids := self.candidates(part)) == 1:
                return class_ids[0]
        return None

    def of_name(self, name: str, where: str) -> str:
        """Return the id of the one class that a name means; `where` says where the name stands.

        Raises:
            BuildError: the name means no class, or several.
        """
        class_ids = self.candidates(name)
        if len(class_ids) == 1:
            return class_ids[0]
        problem = (
            f"{one_line(repr(escape_name(name)))} means several classes of {self.title}, {' and '.join(class_ids)}"
            if class_ids
            else f"{self.title} has no class {one_line(repr(escape_name(name)))}"
        )
        raise BuildError(
            f"{problem} ({where}). Name a class like {next(iter(self.ids))}, and check that the set belongs to this "
            "source."
        )


def _plain(name: str) -> str:
    """Normalise a class name: drop Caltech's number and the letter of Places, unify case and separators."""
    return re.sub(r"[/_\s-]+", "_", re.sub(r"^(\d{3}\.|/?[a-z]/)", "", name)).casefold()
