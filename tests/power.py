"""What a power cut may leave of a folder: states that POSIX allows, after every step of an undisturbed run.

`Disk` watches a folder while this process writes into it. At each call that changes a name or flushes, it compares the
folder with what it knows. So it also sees what pyarrow writes past Python, and what it takes for the folder's content
is the folder's content (tests/test_power.py compares its calls with those that strace sees).

A cut may leave bytes that were not flushed absent, torn, as zeros or whole, and of the changes of a folder's names
since it was flushed any may have happened and any not. A rename inside of one folder happens or does not.
"""

import itertools
import math
import os
import random
import shutil
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from unknown_detection.durable import NO_SYNC

_CALLS = ("fsync", "mkdir", "rename", "replace", "rmdir", "unlink", "remove")

_MOST = 64
"""States of one moment; where there are more, as many are drawn."""

_EVERY_SUBSET = 6
"""Changes of one folder's names whose subsets are all tried."""


@dataclass(eq=False)
class _File:
    flushed: bytes | None = None  # None: never
    now: bytes = b""
    stamp: tuple[int, int] = (-1, -1)

    def contents(self, name):
        """What a cut may leave of it; of a temporary file, which nobody reads, a torn state stands for all."""
        if self.flushed == self.now:
            return [self.now]
        torn = self.now[: len(self.now) // 2]
        if name.startswith("."):
            return [torn]
        return list(dict.fromkeys([self.flushed or b"", torn, bytes(len(self.now)), self.now]))


@dataclass(eq=False)
class _Folder:
    flushed: dict = field(default_factory=dict)
    now: dict = field(default_factory=dict)
    pending: list = field(default_factory=list)
    """Changes since the flush: by name a file or folder, or None where the name is gone."""

    def change(self, names):
        self.now = _changed(self.now, names)
        self.pending.append(names)

    def flush(self):
        self.flushed, self.pending = dict(self.now), []

    def subsets(self, drawing):
        """What a cut may leave of its names."""
        taken = itertools.product((False, True), repeat=len(self.pending))
        if len(self.pending) > _EVERY_SUBSET:
            drawn = [[drawing.random() < 0.5 for _ in self.pending] for _ in range(_MOST)]
            taken = [[False] * len(self.pending), *drawn, [True] * len(self.pending)]
        for chosen in taken:
            names = self.flushed
            for change in itertools.compress(self.pending, chosen):
                names = _changed(names, change)
            yield names

    def children(self):
        """All that its names may stand for, with the name under which each is read."""
        found = {}
        for names in (self.flushed, *self.pending):
            for name, child in names.items():
                if child is not None and not (id(child) in found and name.startswith(".")):
                    found[id(child)] = (name, child)
        return found.values()


@dataclass(frozen=True)
class Cut:
    """A state that a power cut may leave: files with their bytes, and folders, by path; `after` says when."""

    after: str
    files: dict
    folders: tuple

    def put(self, folder):
        """Put the state in place of what is in a folder."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for path in self.folders:
            (folder / path).mkdir()
        for path, data in self.files.items():
            (folder / path).write_bytes(data)


class Disk:
    """Watches a folder, whose content is taken for flushed, and collects the states that a power cut may leave of it.

    Attributes:
        calls: the calls seen, each with the paths below the folder, in order.
        cuts: the states, each once.
    """

    def __init__(self, folder):
        self.root, self.calls, self.cuts = Path(os.path.realpath(folder)), [], []
        self._drawing, self._seen = random.Random(0), set()
        self._one_at_a_time = threading.RLock()  # files are flushed by several threads
        self._tree = _Folder()
        self._look(self._tree, self.root)
        _settle(self._tree)

    @contextmanager
    def watching(self):
        """Watch what this process does inside of the block, where it flushes as for users."""
        unset = os.environ.pop(NO_SYNC, None)
        originals = {name: getattr(os, name) for name in _CALLS}
        for name, original in originals.items():
            setattr(os, name, self._watched(name, original))
        try:
            yield self
        finally:
            for name, original in originals.items():
                setattr(os, name, original)
            if unset is not None:
                os.environ[NO_SYNC] = unset
            self._look(self._tree, self.root)
            self._cut("the end")

    def _watched(self, name, original):
        def call(first, *rest, **keywords):
            with self._one_at_a_time:
                return watched(first, *rest, **keywords)

        def watched(first, *rest, **keywords):
            paths = [_opened(first) if name == "fsync" else _absolute(first, keywords.get("dir_fd"))]
            paths += [_absolute(rest[0])] if name in ("rename", "replace") else []
            if not any(path.is_relative_to(self.root) for path in paths):
                return original(first, *rest, **keywords)
            self._look(self._tree, self.root)  # what was written since the last call
            result = original(first, *rest, **keywords)
            if name == "fsync":
                self._flush(paths[0])
            elif len(paths) == 2 and paths[0].parent == paths[1].parent:
                node = self._node(paths[0])
                self._node(paths[0].parent).change({paths[0].name: None, paths[1].name: node})
            self._look(self._tree, self.root)  # names that came and went otherwise
            self.calls.append((name, *(os.path.relpath(path, self.root) for path in paths)))
            self._cut(f"{len(self.calls)}: {' '.join(self.calls[-1])}")
            return result

        return call

    def _flush(self, path):
        node = self._node(path)
        if isinstance(node, _Folder):
            node.flush()
        else:
            node.flushed = node.now

    def _node(self, path):
        node = self._tree
        for part in path.relative_to(self.root).parts:
            node = node.now[part]
        return node

    def _look(self, node, place):
        """Bring a folder up to date: new names, names that are gone, other bytes."""
        with os.scandir(place) as found:
            there = {entry.name: entry for entry in found if not entry.is_symlink()}
        for name in sorted(node.now.keys() - there.keys()):
            node.change({name: None})
        for name, entry in sorted(there.items()):
            kind = _Folder if entry.is_dir() else _File
            if not isinstance(node.now.get(name), kind):
                node.change({name: kind()})
            child = node.now[name]
            if kind is _Folder:
                self._look(child, entry.path)
                continue
            stat = Path(entry.path).stat()
            if child.stamp != (stat.st_size, stat.st_mtime_ns):
                child.now, child.stamp = Path(entry.path).read_bytes(), (stat.st_size, stat.st_mtime_ns)

    def _cut(self, after):
        """Collect the states that a cut may leave at this moment."""
        open_ones = list(self._undecided(self._tree, ""))
        ways = [options for _, options in open_ones]
        if math.prod(map(len, ways)) <= _MOST:
            picks = itertools.product(*ways)
        else:
            drawn = ([self._drawing.choice(options) for options in ways] for _ in range(_MOST))
            picks = [[options[0] for options in ways], *drawn, [options[-1] for options in ways]]
        for pick in picks:
            decided = {id(node): left for (node, _), left in zip(open_ones, pick, strict=True)}
            files, folders = {}, []
            _collect(self._tree, "", decided, files, folders)
            key = (tuple((path, hash(data)) for path, data in files.items()), tuple(folders))
            if key not in self._seen:
                self._seen.add(key)
                self.cuts.append(Cut(after, files, tuple(folders)))

    def _undecided(self, node, name):
        """Files and folders of which a cut may leave several things, with what."""
        if isinstance(node, _File):
            if len(contents := node.contents(name)) > 1:
                yield node, contents
            return
        if node.pending:
            yield node, list(node.subsets(self._drawing))
        for child_name, child in node.children():
            yield from self._undecided(child, child_name)


def _collect(node, path, decided, files, folders):
    """The files and folders of a state, in which each node has what was decided."""
    for name, child in sorted(decided.get(id(node), node.now).items()):
        if isinstance(child, _Folder):
            folders.append(f"{path}{name}")
            _collect(child, f"{path}{name}/", decided, files, folders)
        else:
            files[f"{path}{name}"] = decided.get(id(child), child.contents(name)[0])


def _settle(node):
    if isinstance(node, _File):
        node.flushed = node.now
        return
    node.flush()
    for child in node.now.values():
        _settle(child)


def _changed(names, change):
    return {name: child for name, child in (names | change).items() if child is not None}


def _opened(descriptor):
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _absolute(path, dir_fd=None):
    whole = Path.cwd() / (path if dir_fd is None else _opened(dir_fd) / path)
    return whole.parent.resolve() / whole.name
