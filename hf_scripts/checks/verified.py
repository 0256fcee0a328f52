"""Scope and result of `verify`, as text and as JSON.

Tested by `tests/hf_scripts/test_verify.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from builders.cli.console import aligned_lines
from builders.cli.split_choice import chosen_splits
from builders.release.entries import Manifest
from hf_scripts.checks.manifest import files_in
from hf_scripts.checks.problems import Problems
from unknown_detection.words import printable, quantity


@dataclass(frozen=True)
class Scope:
    """Part of a release to check.

    Attributes:
        splits: the splits (`config/split`) whose images are read. Indexes, tables and the card are always checked.
        decode: decode every image; otherwise only bytes are compared.
    """

    splits: frozenset[str]
    decode: bool

    @classmethod
    def of(
        cls, manifest: Manifest, *, decode: bool, splits: Sequence[str] = (), name: object = "The release"
    ) -> Scope:
        """Return the scope for values of `--splits`; all splits if there are none.

        Raises:
            BuildError: the release, which messages call `name`, has no such split.
        """
        return cls(frozenset(chosen_splits(splits, list(manifest.by_key()), str(name))), decode)


@dataclass(frozen=True)
class Verified:
    """Result of checking a release.

    Attributes:
        name: the folder, or the repository, revision and commit.
        manifest: its manifest; None if that is not valid.
        scope: what was checked of it; None without a manifest.
        decode: whether images were to be decoded.
        problems: what is wrong.
        notes: facts that are no problems.
    """

    name: str
    manifest: Manifest | None
    scope: Scope | None
    decode: bool
    problems: Problems
    notes: tuple[str, ...]

    @property
    def splits(self) -> list[dict[str, Any]]:
        """The checked splits, as `--json` has them."""
        if self.manifest is None or self.scope is None:
            return []
        known = self.manifest.by_key()
        return [
            {
                "split": key,
                "rows": known[key].rows,
                "digest": known[key].digest,
                "files": len(known[key].files),
                "bytes": sum(file.size for file in known[key].files),
            }
            for key in known
            if key in self.scope.splits
        ]

    def document(self, release: str, revision: str | None, commit: str | None) -> dict[str, Any]:
        """Return what `--json` prints; `release` is a folder, without a revision and a commit, or a repository."""
        kinds = self.problems.sentences.items()
        return {
            "release": release,
            "revision": revision,
            "commit": commit,
            "whole": not self.problems.total(),
            "check": "decode" if self.decode else "fast",
            "splits": self.splits,
            "problems": [
                {"kind": kind, "count": self.problems.counts[kind], "messages": list(map(printable, messages))}
                for kind, messages in kinds
            ],
            "notes": list(map(printable, self.notes)),
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines printed without `--json`."""
        yield from self.problems.lines()
        complete = not self.problems.total()
        if complete:
            yield from self._table()
            yield ""
        for note in self.notes:
            yield f"note: {printable(note)}"
        yield (
            self._summary() if complete else f"{self.name} is not whole: {quantity(self.problems.total(), 'problem')}"
        )

    def _table(self) -> list[str]:
        lines = [["split", "rows", "digest", "files", "bytes"]]
        for split in self.splits:
            numbers = [f"{split[name]:,}" for name in ("rows", "files", "bytes")]
            lines.append([split["split"], numbers[0], split["digest"][:12], *numbers[1:]])
        return aligned_lines(lines)

    def _summary(self) -> str:
        if self.manifest is None or self.scope is None:
            raise AssertionError("a release without a manifest has a problem")
        files, splits = files_in(self.manifest, self.scope.splits), self.manifest.by_key()
        rows = sum(splits[key].rows for key in self.scope.splits)
        size = sum(file.size for file in files)
        how = "" if self.decode else "; images were not decoded, nor digests over pixels computed (--check fast)"
        not_read = len(splits) - len(self.scope.splits)
        if not_read:
            how += f"; images of {quantity(not_read, 'other split')} were not read (--splits)"
        counts = ((len(self.scope.splits), "split"), (rows, "row"), (len(files), "file"), (size, "byte"))
        return (
            f"{self.name} is whole: {', '.join(quantity(*count) for count in counts)}, all as manifest.json lists{how}"
        )
