"""Stores the features of one model on one release in a folder, by image id.

DIR/identity.json                    the release and the model, by digest
DIR/head.arrow                       the model's last linear layer
DIR/negatives.arrow                  negative labels of a text model and their embeddings, where asked for
DIR/index/<config>/<split>.arrow     ids and labels of the splits that were asked for
DIR/features/*.arrow                 logits, penultimate features and pooled blocks by id
DIR/passes/<pass>/*.arrow            outputs of a second pass over the images, for detectors that need one
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import json
import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from builders.storage.files import write_text
from builders.storage.locks import file_lock
from unknown_detection.evaluation.errors import EvaluationError, evaluation_errors
from unknown_detection.evaluation.features.table import RowTable, block_column, read_columns, to_numpy, write_columns
from unknown_detection.evaluation.files import Text
from unknown_detection.evaluation.models.features import Features, Head, LazyBlocks
from unknown_detection.evaluation.releases import Key, choose_splits
from unknown_detection.evaluation.same import same_code
from unknown_detection.words import first_few

if TYPE_CHECKING:
    from unknown_detection.evaluation.features.runner import Runner

FORMAT = 4
"""Version of the folder's format."""

_RECORD = "identity.json"

NEGATIVES = "negatives.arrow"


class Identity(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Says of which release and which model the features in a folder are.

    Attributes:
        release_digest: digest of the release, see `Release.digest`.
        model: name of the model, for people.
        model_digest: digest of the weights, code and preprocessing, see `weights.model_digest`.
        label_names: the classes in the order of the logits.
        blocks: names of the blocks, first to last.
        preprocessing: description of the preprocessing, see `Preprocessing.description`.
        prepared: how images that are prepared for a model's input were brought to this model's, by `config/split`,
            see `Preprocessing.describe_prepared`; other splits are missing.
        linear: whether the logits are the output of a last linear layer, see `Layers.linear`.
        source: what is said of the weights (`receipt`): where they were published, their published accuracy, and which
            of their logits are the classes. Features with the same digests may say something else of them.
        probed: logits of fixed inputs, see `Model.probed`; empty where it was not recorded.
        texts: of a text model, what prompts say for each class; empty for others.
        prompts: of a text model.
        accepted: differences from the published accuracy in spite of which an extraction went on.
    """

    release_digest: Text
    model: Text
    model_digest: Text
    label_names: tuple[Text, ...]
    blocks: tuple[Text, ...]
    preprocessing: Mapping[str, Any]
    prepared: Mapping[Text, Text] = {}
    linear: bool = True
    source: Mapping[Text, Text] = {}
    probed: tuple[float, ...] = ()
    texts: tuple[Text, ...] = ()
    prompts: tuple[Text, ...] = ()
    accepted: tuple[Text, ...] = ()

    @property
    def classes(self) -> dict[str, str]:
        """What `extract` was told of the classes or found: texts or logits by class; empty where all logits are."""
        logits = self.source.get("logits")
        return dict(zip(self.label_names, self.texts or (logits.split(",") if logits else ()), strict=False))


class FeatureStore:
    """Features of a model on a release: `features["config/split"]` are those of a split.

        >>> features.splits
        ('digits-train/train', 'digits/test')
        >>> features["digits/test"].logits.shape
        (180, 6)

    Attributes:
        root: the folder.
        identity: the release and the model, see `Identity`.
        runner: runs the model again where this process extracted the features, else None.
        only: the splits that are there for whom the store was given, whatever else the folder has; None for all.
        of: what each file of the folder says that it is of, a digest.
    """

    def __init__(self, root: Path, identity: Identity) -> None:
        self.root = root
        self.identity = identity
        self.runner: Runner | None = None
        self.only: Collection[Key] | None = None
        self.of = _digest(identity)
        self.table = RowTable(root / "features", self.of)

    def __repr__(self) -> str:
        return f"<features of {self.model}: {', '.join(self.splits) or 'none'}>"

    def _repr_html_(self) -> str:
        """Return the splits and the shapes of their features as a table, for notebooks."""
        import pandas as pd

        names = {block_column(number): name for number, name in enumerate(self.identity.blocks)}
        lines = []
        for key in self.splits:
            index = self._rows(*key.split("/"))
            known = pc.sum(pc.greater_equal(index["label"], 0)).as_py()
            first = self.table.read(key, index["id"][:1])
            shapes = {names.get(name, name): f"{len(index)} x {of.shape[1]}" for name, of in first.items()}
            lines.append({"split": key, "rows": len(index), "of known classes": known, **shapes})
        table = pd.DataFrame(lines).to_html(index=False, border=0)
        return f"<p>Features of {html.escape(self.model)} in {html.escape(str(self.root))}</p>{table}"

    def __dir__(self) -> list[str]:
        """List what a user calls; the other names are for the steps of an evaluation."""
        hidden = [name for name in object.__dir__(self) if name.startswith("_")]
        return [*hidden, "identity", "model", "root", "splits"]

    def __getitem__(self, key: str | Key) -> Features:
        """Read the features of a split, `config/split`; its name alone will do where only one config has it."""
        keys = choose_splits(self.by_config(), [key], str(self.root))
        if len(keys) != 1:
            raise EvaluationError(f"{key} has the splits {', '.join(map('/'.join, keys))}. Name one of them.")
        return self.features(*keys[0])

    @property
    def model(self) -> str:
        """The model's name."""
        return self.identity.model

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits with complete features as `config/split`, sorted."""
        return tuple(f"{config}/{split}" for config, splits in self.by_config().items() for split in splits)

    @classmethod
    def open(cls, root: Path) -> FeatureStore:
        """Open an existing feature store; `EvaluationError` if the folder is none."""
        path = root / _RECORD
        if not path.is_file():
            empty = f"{root} has no features: there is no {_RECORD}"
            lacking = empty if root.is_dir() else f"There is no folder {root}"
            raise EvaluationError(f"{lacking}. Check the path, or extract the features first.")
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
    def begin(cls, root: Path | None, identity: Identity, head: Head | None = None) -> FeatureStore:
        """Open a feature store for writing, and create it if it does not exist; raises as `check`.

        Without a folder it is a temporary one, deleted when nothing refers to the store any more.
        """
        if root is None:
            store = cls.begin(Path(tempfile.mkdtemp(prefix="features-")), identity, head)
            weakref.finalize(store, shutil.rmtree, store.root, ignore_errors=True)
            return store
        existing = cls.check(root, identity)
        if existing is not None:
            # The logits of the first run, not of one that rounds otherwise.
            probed = existing.identity.probed or identity.probed
            identity = msgspec.structs.replace(identity, probed=probed, accepted=existing.identity.accepted)
        store = cls(root, identity)
        store._record()
        if head is not None and not (root / "head.arrow").exists():
            write_columns(root / "head.arrow", {"weight": head.weight, "bias": head.bias}, store.of)
        return store

    @classmethod
    def check(cls, root: Path, identity: Identity) -> FeatureStore | None:
        """Open a folder and check that its features are of this release and model; None if it is new or empty."""
        # A run that was killed while writing its first file leaves a hidden temporary file.
        taken = root.exists() and (not root.is_dir() or any(not path.name.startswith(".") for path in root.iterdir()))
        if (root / _RECORD).exists():
            store = cls.open(root)
            store.require(identity)
            return store
        if taken:
            raise EvaluationError(f"{root} has files that are not features. Choose another folder.")
        return None

    def require(self, identity: Identity) -> None:
        """Check that the stored features are of this release and model; `EvaluationError` otherwise.

        Images must also have been brought to the model's input in the same way, since another manifest of the same
        rows may name another preparation.
        """
        stored = self.identity
        self.require_release(identity.release_digest)
        sides = [_said(of) for of in (stored, identity)]
        if stored.model_digest == identity.model_digest and not same_code(stored, identity):
            sides[1]["model"] += " in other code, which gives the same input other logits"
        for about in sides[0] | sides[1]:
            was, given = (side.get(about, "images with the model's own preprocessing") for side in sides)
            if was != given:
                raise EvaluationError(
                    f"The features in {self.root} are of {was}, not of {given} ({about}). Give that one, or another "
                    "folder."
                )

    def require_release(self, digest: str) -> None:
        """Check that the stored features are of this release; `EvaluationError` otherwise."""
        if digest != self.identity.release_digest:
            raise EvaluationError(
                f"The features in {self.root} are of the release with digest {self.identity.release_digest[:12]}, not "
                f"of the one with digest {digest[:12]}. Give that release, or another folder."
            )

    def accept(self, differences: Iterable[str]) -> None:
        """Record differences from a published accuracy as accepted."""
        accepted = tuple(sorted({*self.identity.accepted, *differences}))
        if accepted != self.identity.accepted:
            self.identity = msgspec.structs.replace(self.identity, accepted=accepted)
            self._record()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the store for writing within the block; `EvaluationError` if another process holds the lock."""
        busy = f"Another process is writing to {self.root}. Wait for it, or choose another folder."
        with contextlib.ExitStack() as held:
            with evaluation_errors():
                held.enter_context(file_lock(self.root / ".lock", busy))
            yield

    def ask(self, rows: Mapping[Key, pa.Table]) -> None:
        """Record which rows are to be extracted, so that a row that is lost later is noticed."""
        for key, of_split in rows.items():
            if not self._index(*key).exists():
                write_columns(
                    self._index(*key), {name: of_split[name] for name in ("id", "label")}, self.of, split="/".join(key)
                )

    def passes(self, name: str) -> RowTable:
        """Return the table for a second pass's outputs, which need not exist yet."""
        return RowTable(self.root / "passes" / name, self.of)

    def ids(self, config: str, split: str) -> pa.ChunkedArray:
        """Return the ids of a split's rows, as `ask` recorded them."""
        return self._rows(config, split)["id"]

    def by_config(self) -> dict[str, tuple[str, ...]]:
        """Return the splits with complete features, by config; all sorted."""
        complete: dict[str, tuple[str, ...]] = {}
        for config, split in self._asked(whole=True):
            complete[config] = (*complete.get(config, ()), split)
        return complete

    def require_whole(self, configs: Sequence[str] = ()) -> None:
        """Check that the features of some configs, by default all, are complete; `EvaluationError` otherwise."""
        missing = [key for key in self._asked(whole=False) if not configs or key[0] in configs]
        if missing:
            raise EvaluationError(
                f"Features of {', '.join(map('/'.join, missing))} in {self.root} are missing or incomplete. Run the "
                "`extract` that wrote them again; it resumes."
            )

    def head(self) -> Head | None:
        """The model's last linear layer; None if the logits are not its output."""
        if not self.identity.linear:
            return None
        layer, negatives = read_columns(self.root / "head.arrow", self.of), self.root / NEGATIVES
        weight, found = to_numpy(layer["weight"]), None
        if self.identity.prompts:
            embedded = negatives.exists() and read_columns(negatives, self.of)["embedding"]
            found = to_numpy(embedded) if embedded else weight[:0]
        return Head(weight, to_numpy(layer["bias"]), found)

    def features(self, config: str, split: str) -> Features:
        """Read the features of a split, block features on access; `EvaluationError` if there are none."""
        key, names = f"{config}/{split}", [block_column(number) for number in range(len(self.identity.blocks))]
        choose_splits(self.by_config(), [(config, split)], str(self.root))
        index = self._rows(config, split)
        columns = self.table.read(key, index["id"], ("logits", "penultimate"))

        def read(number: int) -> Any:
            # Refers to the store, because a folder that is not kept is deleted with it.
            return self.table.read(key, index["id"], [names[number]])[names[number]]

        return Features(
            ids=to_numpy(index["id"]),
            labels=to_numpy(index["label"]),
            logits=columns["logits"],
            penultimate=columns["penultimate"],
            blocks=LazyBlocks(len(names), read),
            head=self.head(),
        )

    def _record(self) -> None:
        record = {"format": FORMAT, **msgspec.to_builtins(self.identity)}
        write_text(self.root / _RECORD, json.dumps(record, indent=1, sort_keys=True) + "\n")

    def _rows(self, config: str, split: str) -> pa.Table:
        """Read which rows of a split were asked for."""
        return read_columns(self._index(config, split), self.of, split=f"{config}/{split}")

    def _index(self, config: str, split: str) -> Path:
        return self.root / "index" / config / f"{split}.arrow"

    def _asked(self, *, whole: bool) -> list[Key]:
        """Return the splits that were to be extracted, and are whole or are not; sorted."""
        found = ((path.parent.name, path.stem) for path in (self.root / "index").glob("*/[!.]*.arrow"))
        keys = sorted(key for key in found if self.only is None or key in self.only)
        return [key for key in keys if self.table.has("/".join(key), self.ids(*key)).all() == whole]


def _said(identity: Identity) -> dict[str, str]:
    """Describe by subject what two identities must have in common, as messages say it."""
    classes = hashlib.sha256("\n".join(identity.label_names).encode()).hexdigest()
    return {
        "model": f"the model {identity.model} with digest {identity.model_digest[:12]}",
        "classes": f"the classes {first_few(identity.label_names)} with digest {classes[:12]}",
        "blocks": f"the blocks {', '.join(identity.blocks) or 'none'}",
        **{key: f"images with {way}" for key, way in identity.prepared.items()},
    }


def _digest(identity: Identity) -> str:
    """Return a digest of what two identities must have in common, for the files of a folder."""
    said = {"release": identity.release_digest, **_said(identity)}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
