"""The feature store: one model's features of splits of one release, on disk.

DIR/features.json                            the release and the model, by digest
DIR/splits.json                              the splits that were asked for
DIR/accepted.json                            what `--accept` went on in spite of
DIR/head/*.arrow                             the model's last linear layer
DIR/features/<config>/<split>/*.arrow        ids, labels, logits, penultimate features and pooled blocks
DIR/looks/<pass>/<config>/<split>/*.arrow    outputs of a second pass over the images, for detectors that need one
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from builders.storage.files import write_text
from builders.storage.locks import file_lock
from unknown_detection.evaluation.errors import EvaluationError, evaluation_errors, require_known
from unknown_detection.evaluation.features.blocks import RowBlocks
from unknown_detection.evaluation.files import Text
from unknown_detection.evaluation.models.features import Features, Head, LazyBlocks
from unknown_detection.evaluation.models.layers import same_logits

if TYPE_CHECKING:
    from unknown_detection.evaluation.features.runner import Runner

FORMAT = 2
"""Version of the folder's format."""

_RECORD = "features.json"


class Identity(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Identifies the release and the model of a folder's features.

    Attributes:
        release_digest: digest of the release, see `Release.digest`.
        model: name of the model, for people.
        model_digest: digest of the weights, code and preprocessing, see `blueprints.model_digest`.
        label_names: the classes in the order of the logits.
        blocks: names of the blocks, first to last.
        preprocessing: description of the preprocessing, see `Preprocessing.description`.
        prepared: how images that are prepared for a model's input were brought to this model's, by `config/split`,
            see `Preprocessing.describe_prepared`; other splits are missing.
        source: what is said of the weights (`receipt`): where they were published, their published accuracy, and which
            of their logits are the classes. Features with the same digests may say something else of them.
        linear: whether the logits are the output of a last linear layer, see `Layers.linear`.
        probed: logits of fixed inputs, see `Model.probed`; empty where it was not recorded.
    """

    release_digest: Text
    model: Text
    model_digest: Text
    label_names: tuple[Text, ...]
    blocks: tuple[Text, ...]
    preprocessing: Mapping[str, Any]
    prepared: Mapping[Text, Text] = {}
    source: Mapping[Text, Text] = {}
    linear: bool = True
    probed: tuple[float, ...] = ()


class FeatureStore:
    """A folder of features; `runner` runs the model again where this process extracted them, else it is None."""

    def __init__(self, root: Path, identity: Identity) -> None:
        self.root = root
        self.identity = identity
        self.runner: Runner | None = None
        self.head_blocks = RowBlocks(root / "head")

    def __repr__(self) -> str:
        return f"<features of {self.identity.model}: {', '.join(self.splits()) or 'none'}>"

    @classmethod
    def open(cls, root: Path) -> FeatureStore:
        """Open an existing feature store; `EvaluationError` if the folder is none."""
        path = root / _RECORD
        if not path.is_file():
            raise EvaluationError(
                f"{root} has no features: there is no {_RECORD}. "
                "Run `python -m unknown_detection evaluate extract` first."
            )
        try:
            record = msgspec.json.decode(path.read_bytes())
            if not isinstance(record, dict) or record.pop("format", None) != FORMAT:
                raise ValueError("another format")
            return cls(root, msgspec.convert(record, Identity))
        except ValueError as error:
            raise EvaluationError(
                f"{path} does not have format {FORMAT} of features; extract into a new folder."
            ) from error

    @classmethod
    def begin(cls, root: Path, identity: Identity, head: Head | None) -> FeatureStore:
        """Open a feature store for writing, or create it; raises as `check`."""
        existing = cls.check(root, identity)
        if existing is not None:  # those of the first run, not of one that rounds otherwise
            identity = msgspec.structs.replace(identity, probed=existing.identity.probed or identity.probed)
        write_text(root / _RECORD, _canonical(identity))
        store, classes = cls.open(root), len(identity.label_names)
        if head is not None:
            for block in store.head_blocks.begin(classes, classes, {}):
                store.head_blocks.write(block, {"weight": head.weight, "bias": head.bias}, classes, {})
        return store

    @classmethod
    def temporary(cls, identity: Identity, head: Head | None = None) -> FeatureStore:
        """Create a feature store that is deleted when nothing refers to it any more."""
        store = cls.begin(Path(tempfile.mkdtemp(prefix="features-")), identity, head)
        weakref.finalize(store, shutil.rmtree, store.root, ignore_errors=True)
        return store

    @classmethod
    def check(cls, root: Path, identity: Identity) -> FeatureStore | None:
        """Open a folder for features of a release and a model (`require`); None if it is new or empty."""
        if (root / _RECORD).exists():
            store = cls.open(root)
            store.require(identity)
            return store
        # A run that was killed while writing its first file leaves a hidden temporary file.
        if root.exists() and (not root.is_dir() or any(not path.name.startswith(".") for path in root.iterdir())):
            raise EvaluationError(f"{root} has files that are not features. Choose another folder.")
        return None

    def require(self, identity: Identity) -> None:
        """Check that the features are of a release and a model.

        Also that images were brought to the model's input in the same way: another manifest of the same rows may say
        something else of them.
        """
        stored = self.identity
        self.require_release(identity.release_digest)
        if identity.model_digest != stored.model_digest:
            raise EvaluationError(
                f"The features in {self.root} are of the model {stored.model} with digest {stored.model_digest[:12]}, "
                f"not of {identity.model} with digest {identity.model_digest[:12]}. Give that model's weights and "
                "code, or another folder."
            )
        if stored.probed and identity.probed and not same_logits(identity.probed, stored.probed):
            raise EvaluationError(
                f"The features in {self.root} are of the model {stored.model} with other code: with the same weights "
                "it gives the same input other logits. Give that code, or another folder."
            )
        for key in sorted({*stored.prepared, *identity.prepared}):
            ways = [of.prepared.get(key, "the model's own preprocessing") for of in (stored, identity)]
            if ways[0] != ways[1]:
                raise EvaluationError(
                    f"The features of {key} in {self.root} are of images with {ways[0]}, and the release now asks for "
                    f"{ways[1]}. Choose another folder."
                )
        same = msgspec.structs.replace(identity, source=stored.source, probed=stored.probed)
        if _canonical(same) != _canonical(stored):
            sides = [f"{len(of.label_names)} classes; blocks {', '.join(of.blocks)}" for of in (stored, identity)]
            raise EvaluationError(
                f"{self.root} has features of other classes or blocks ({sides[0]}) than this config and model "
                f"({sides[1]}). Choose another folder."
            )

    def require_release(self, digest: str) -> None:
        """Check that the features are of a release; `EvaluationError` otherwise."""
        if digest != self.identity.release_digest:
            raise EvaluationError(
                f"The features in {self.root} are of the release with digest {self.identity.release_digest[:12]}, not "
                f"of the one with digest {digest[:12]}. Give that release, or another folder."
            )

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the store for writing within the block; `EvaluationError` if another process holds the lock."""
        busy = f"Another process is writing to {self.root}. Wait for it, or choose another folder."
        with contextlib.ExitStack() as held:
            with evaluation_errors():
                held.enter_context(file_lock(self.root / ".lock", busy))
            yield

    def row_blocks(self, config: str, split: str, pass_name: str = "") -> RowBlocks:
        """Return the stored features of a split, or a second pass's outputs, existing or not."""
        return RowBlocks(self._folder(pass_name) / config / split)

    def other_splits(self, config: str, split: str, pass_name: str = "") -> list[RowBlocks]:
        """Return the stored features, or a second pass's outputs, of all other splits, complete or not; sorted."""
        folders = sorted({*self._folder(pass_name).glob("*/*")} - {self.row_blocks(config, split, pass_name).folder})
        return [RowBlocks(folder) for folder in folders]

    def expect(self, keys: Iterable[tuple[str, str]]) -> None:
        """Add splits to those that are to be extracted, so that `require_whole` misses one that is lost later.

        The caller holds `writing`, as for `accept`.
        """
        self._add("splits.json", map("/".join, keys))

    def accept(self, differences: Iterable[str]) -> None:
        """Record differences from a published accuracy as accepted."""
        self._add("accepted.json", differences)

    def accepted(self) -> list[str]:
        """Return the differences from a published accuracy that were accepted, sorted."""
        return self._listed("accepted.json")

    def splits(self) -> dict[str, tuple[str, ...]]:
        """Return the splits with complete features, by config; all sorted."""
        complete: dict[str, tuple[str, ...]] = {}
        for config, split in self._begun(whole=True):
            complete[config] = (*complete.get(config, ()), split)
        return complete

    def require_whole(self, configs: Sequence[str] = ()) -> None:
        """Check that the features of some configs, or of all if none is named, are complete."""
        missing = [key for key in self._begun(whole=False) if not configs or key[0] in configs]
        if missing:
            raise EvaluationError(
                f"Features of {', '.join(map('/'.join, missing))} in {self.root} are missing, incomplete or damaged. "
                "Run the `extract` that wrote them again; it resumes."
            )

    def head(self) -> Head | None:
        """The model's last linear layer; None if the logits are not its output."""
        return Head(**self.head_blocks.read()) if self.identity.linear else None

    def features(self, config: str, split: str) -> Features:
        """Read the features of a split, block features on access; `EvaluationError` if there are none."""
        row_blocks = self.row_blocks(config, split)
        if not row_blocks.is_whole():
            available = self.splits()
            require_known(f"config with features in {self.root}", [config], available)
            require_known(f"split of {config} with features in {self.root}", [split], available[config])
        columns = row_blocks.read(("id", "label", "logits", "penultimate"))
        names = [block_column(number) for number in range(len(self.identity.blocks))]

        def read(number: int) -> Any:
            # Refers to the store, because a folder that is not kept is deleted with it.
            return self.row_blocks(config, split).read([names[number]])[names[number]]

        blocks = LazyBlocks(len(names), read)
        return Features(
            columns["id"], columns["label"], columns["logits"], columns["penultimate"], blocks, head=self.head()
        )

    def _folder(self, pass_name: str) -> Path:
        return self.root / "looks" / pass_name if pass_name else self.root / "features"

    def _begun(self, *, whole: bool) -> list[tuple[str, str]]:
        """Return the splits that were to be extracted or have files, and are whole or are not; sorted."""
        keys = {(folder.parent.name, folder.name) for folder in (self.root / "features").glob("*/*")}
        keys |= {(config, split) for config, _, split in (name.partition("/") for name in self._listed("splits.json"))}
        return sorted(key for key in keys if self.row_blocks(*key).is_whole() is whole)

    def _add(self, name: str, texts: Iterable[str]) -> None:
        """Add texts to a list on disk."""
        before = self._listed(name)
        if new := sorted({*texts} - {*before}):
            write_text(self.root / name, json.dumps(sorted([*before, *new]), indent=1) + "\n")

    def _listed(self, name: str) -> list[str]:
        """Return a list of texts on disk; none if there is no such file."""
        path = self.root / name
        return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def block_column(number: int) -> str:
    """Return the column of a block, counted from 0."""
    return f"block_{number:02d}"


def _canonical(identity: Identity) -> str:
    return json.dumps({"format": FORMAT, **msgspec.to_builtins(identity)}, indent=1, sort_keys=True) + "\n"
