"""Features on disk: what one pass of one model over splits of one release left.

DIR/features.json                            which release and which model, by digest
DIR/head/*.arrow                             the model's last linear layer
DIR/features/<config>/<split>/*.arrow        ids, labels, logits, penultimate features and pooled blocks, in parts
DIR/looks/<look>/<config>/<split>/*.arrow    what detectors that show the model the images again saw
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import filelock

from evaluation.errors import EvaluationError, unknown_name
from evaluation.features.blocks import Parts
from evaluation.files import replacing
from evaluation.models.features import Blocks, Features, Head

FORMAT = 1
"""Version of the folder's shape."""

_RECORD = "features.json"


@dataclass(frozen=True)
class Identity:
    """What all features of a folder are of.

    Attributes:
        release_digest: of the release, see `Release.digest`.
        model: name of the model, for people.
        model_digest: of its weights, code and preprocessing, see `weights.model_digest`.
        label_names: the classes in the order of the logits.
        blocks: names of the blocks, first to last.
        preprocessing: what images went through, see `Preprocessing.about`.
    """

    release_digest: str
    model: str
    model_digest: str
    label_names: tuple[str, ...]
    blocks: tuple[str, ...]
    preprocessing: Mapping[str, Any]


class Store:
    """A folder of features.

    Args:
        root: the folder.
        identity: what its features are of.
    """

    def __init__(self, root: Path, identity: Identity) -> None:
        self.root = root
        self.identity = identity

    @classmethod
    def open(cls, root: Path) -> Store:
        """Open a folder of features.

        Raises:
            EvaluationError: it is none.
        """
        path = root / _RECORD
        if not path.is_file():
            raise EvaluationError(
                f"expected features in {root}, found no {_RECORD} there; run `python -m evaluation extract` first."
            )
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found.pop("format") != FORMAT:
                raise ValueError("another format")
            lists = {name: tuple(found[name]) for name in ("label_names", "blocks")}
            return cls(root, Identity(**{**found, **lists}))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EvaluationError(
                f"expected features of format {FORMAT} in {root}, found another {_RECORD}; extract into a new folder."
            ) from error

    @classmethod
    def begin(cls, root: Path, identity: Identity, head: Head) -> Store:
        """Open a folder to put features into; a new one is made.

        Raises:
            EvaluationError: as for `check`.
        """
        store = cls.check(root, identity)
        if store is None:
            store = cls(root, identity)
            with replacing(root / _RECORD) as temporary:
                temporary.write_text(_canonical(identity), encoding="utf-8")
        classes = len(identity.label_names)
        for part in _head_of(root).begin(classes, classes, {}):
            _head_of(root).write(part, {"weight": head.weight, "bias": head.bias}, classes, {})
        return store

    @classmethod
    def check(cls, root: Path, identity: Identity) -> Store | None:
        """Open a folder that features of a release and a model may be put into; None where there is nothing yet.

        Raises:
            EvaluationError: it holds features of another release or model, or something else.
        """
        if (root / _RECORD).exists():
            store = cls.open(root)
            store.check_release(identity.release_digest)
            store.check_model(identity.model, identity.model_digest)
            if _canonical(identity) != _canonical(store.identity):
                raise EvaluationError(
                    f"expected features of {len(identity.label_names)} classes as in this config and of the blocks "
                    f"{', '.join(identity.blocks)} in {root}, found those of {len(store.identity.label_names)} "
                    f"classes and the blocks {', '.join(store.identity.blocks)}; give another folder."
                )
            return store
        # A run that was killed at its first file leaves a hidden one.
        if root.exists() and (not root.is_dir() or any(not path.name.startswith(".") for path in root.iterdir())):
            raise EvaluationError(
                f"expected a new folder or one of features, found other things in {root}; give another folder."
            )
        return None

    def check_release(self, digest: str) -> None:
        """Refuse a release that the features are not of.

        Raises:
            EvaluationError: its digest differs.
        """
        if digest != self.identity.release_digest:
            raise EvaluationError(
                f"expected the release with digest {self.identity.release_digest[:12]} that the features in "
                f"{self.root} are of, found one with digest {digest[:12]}; give that release, or another folder."
            )

    def check_model(self, name: str, digest: str) -> None:
        """Refuse a model that the features are not of.

        Raises:
            EvaluationError: its digest differs.
        """
        if digest != self.identity.model_digest:
            raise EvaluationError(
                f"expected the model {self.identity.model} with digest {self.identity.model_digest[:12]} that the "
                f"features in {self.root} are of, found {name} with digest {digest[:12]}; give its weights and code, "
                "or another folder."
            )

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other processes from writing here within the block.

        Raises:
            EvaluationError: another one is at it.
        """
        lock = filelock.FileLock(self.root / ".lock")
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout as error:
            raise EvaluationError(
                f"expected nobody else to write to {self.root}, found another process at it; wait for its end, or "
                "give another folder."
            ) from error
        try:
            yield
        finally:
            lock.release()

    def parts(self, config: str, split: str) -> Parts:
        """Where the features of a split are, or come to be."""
        return Parts(self.root / "features" / config / split)

    def others(self, config: str, split: str, look: str = "") -> list[Parts]:
        """Features of all splits but one, or what a look saw of them, whole or not; sorted."""
        root = self.root / "looks" / look if look else self.root / "features"
        mine = root / config / split
        return [Parts(folder) for folder in sorted(root.glob("*/*")) if folder != mine]

    def look(self, name: str, config: str, split: str) -> Parts:
        """Where what a look saw of a split is, or comes to be."""
        return Parts(self.root / "looks" / name / config / split)

    def splits(self) -> dict[str, tuple[str, ...]]:
        """Splits that are here whole, by config; all sorted."""
        found: dict[str, list[str]] = {}
        for folder in sorted((self.root / "features").glob("*/*")):
            if Parts(folder).is_whole():
                found.setdefault(folder.parent.name, []).append(folder.name)
        return {config: tuple(splits) for config, splits in found.items()}

    def head(self) -> Head:
        """The model's last linear layer."""
        found = _head_of(self.root).read()
        return Head(found["weight"], found["bias"])

    def features(self, config: str, split: str) -> Features:
        """Read the features of a split; those of its blocks are read when they are asked for.

        Raises:
            EvaluationError: they have not been extracted.
        """
        here = self.splits()
        if config not in here:
            raise unknown_name(f"config with features in {self.root}", config, here)
        if split not in here[config]:
            raise unknown_name(f"split of {config} with features in {self.root}", split, here[config])
        parts = self.parts(config, split)
        found = parts.read(("id", "label", "logits", "penultimate"))
        return Features(
            ids=found["id"],
            labels=found["label"],
            logits=found["logits"],
            penultimate=found["penultimate"],
            blocks=Blocks(len(self.identity.blocks), lambda number: _only(parts.read([block_column(number)]))),
        )


def block_column(number: int) -> str:
    """The column of a block, counted from 0."""
    return f"block_{number:02d}"


def _only(columns: Mapping[str, Any]) -> Any:
    (column,) = columns.values()
    return column


def _head_of(root: Path) -> Parts:
    return Parts(root / "head")


def _canonical(identity: Identity) -> str:
    return json.dumps({"format": FORMAT, **asdict(identity)}, indent=1, sort_keys=True) + "\n"
