"""Opens a release from a folder or the Hub: its `manifest.json`, and the rows and images that the manifest lists.

Rows are compared with the manifest's digests, and images with those of their rows (`SplitImages`): a release that was
never verified is evaluated on what its manifest says, or refused.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from builders.hub.place import folder_or_repository
from builders.release.digests import rows_digest
from builders.release.duplicates import are_too_many
from builders.release.entries import ConfigEntry, Manifest, SplitEntry
from builders.release.layout import shard_path
from builders.release.manifest import MOST_BYTES, parse
from builders.release.schema import ROLES
from builders.release.split_names import splits_named
from builders.storage.files import read_regular
from unknown_detection.evaluation.duplicates import PAIRS, paired_ids
from unknown_detection.evaluation.errors import (
    BuildError,
    EvaluationError,
    a_kind,
    evaluation_errors,
    one_line,
    require_known,
)
from unknown_detection.evaluation.files import VERIFY, read_untrusted
from unknown_detection.evaluation.images import SplitImages
from unknown_detection.terminal.progress import log

if TYPE_CHECKING:
    import pandas as pd

Key = tuple[str, str]
"""Config and split."""

_TEXTS = ("id", "content_sha256", "stored", "class_id", "source", "source_id")
"""The columns of text that every row has."""

_COMMIT = re.compile(r"[0-9a-f]{40}")


class Release:
    """A release, a folder or ORG/NAME at a commit, with its manifest; rows and images are loaded on first use."""

    def __init__(self, source: str, revision: str | None, manifest: Manifest) -> None:
        self.source = source
        self.revision = revision
        self.manifest = manifest
        self._rows: dict[Key, pa.Table] = {}
        self._duplicates: pa.Table | None = None

    def __repr__(self) -> str:
        return f"<release {self.name}: {', '.join(self.configs)}>"

    def _repr_html_(self) -> str:
        """Return the rows of each split by role, as the manifest counts them, for notebooks."""
        import pandas as pd

        counts = [(*key, part.role, part.rows) for key in self.pairs() for part in self._split(*key).parts]
        table = pd.DataFrame(counts, columns=["config", "split", "role", "rows"])
        rows = table.pivot_table("rows", ["config", "split"], "role", "sum", fill_value=0, sort=False)
        shown = rows.to_html(border=0, formatters=[lambda count: f"{count:,}" if count else ""] * rows.shape[1])
        return f"<p>Release {html.escape(self.name)}</p>{shown}"

    @property
    def name(self) -> str:
        """The release's name in messages: the folder, or ORG/NAME at a commit."""
        return f"{self.source} at commit {self.revision[:12]}" if self.revision else self.source

    @property
    def digest(self) -> str:
        """SHA-256 over the canonical JSON of all split digests by `config/split`: equal exactly for equal rows."""
        digests = {"/".join(key): self._split(*key).digest for key in self.pairs()}
        return hashlib.sha256(json.dumps(digests, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def duplicates_digest(self) -> str:
        """SHA-256 of the table of duplicates, as the manifest names it; empty for a release without the table."""
        return "" if self.manifest.duplicates is None else self.manifest.duplicates.sha256

    @property
    def is_demo(self) -> bool:
        """Whether the release is made of demo sources, whose results mean nothing."""
        return any(benchmark.demo for benchmark in self.manifest.benchmarks.values())

    @property
    def configs(self) -> tuple[str, ...]:
        """Names of the configs with images, sorted."""
        return tuple(sorted(self.manifest.configs))

    def splits(self, config: str | None = None) -> tuple[str, ...]:
        """Names of a config's splits, or of all as `config/split`; sorted."""
        if config is None:
            return tuple(map("/".join, self.pairs()))
        return tuple(sorted(self._config(config).splits))

    def pairs(self, configs: Iterable[str] | None = None) -> list[Key]:
        """List the splits of some configs, or of all, as (config, split)."""
        return [(config, split) for config in configs or self.configs for split in self.splits(config)]

    def choose(self, splits: str | Iterable[str | Key] | None) -> list[Key]:
        """Select splits, as `choose_splits` says."""
        return choose_splits({config: self.splits(config) for config in self.configs}, splits, self.name)

    def label_names(self, config: str) -> tuple[str, ...]:
        """The in-distribution classes of a config, in label order."""
        return self._config(config).label_names

    def prepared(self, config: str, split: str) -> int:
        """The width and height of the model input that a split's images are prepared for; 0 if they are for none."""
        generator = self._split(config, split).generator
        return 0 if generator is None else generator.prepared

    def remarks_on_classes(self, config: str) -> tuple[str, ...]:
        """The release's sentences on those classes of a config whose overlap with known classes could not be told."""
        return tuple(
            f"{config}/{split}: {text}"
            for split in self.splits(config)
            for text in self._split(config, split).compared or ()
        )

    def rows(self, config: str, split: str) -> pa.Table:
        """Load all columns of a split except the image, in the release's order; `label` and `role` are integers.

        Raises:
            EvaluationError: there is no such split, its index cannot be read, or is not the manifest's.
        """
        if (config, split) not in self._rows:
            entry, key = self._split(config, split), f"{config}/{split}"
            path = f"index/{key}.parquet"
            rows = read_untrusted(self._file(path), f"{path} of {self.name}", sha256=entry.index.sha256)
            if not _are_rows(rows) or rows_digest(rows) != entry.digest:
                raise EvaluationError(
                    f"The rows of {key} differ from the digest in the manifest of {self.name}. {VERIFY}"
                )
            self._rows[config, split] = rows
        return self._rows[config, split]

    def images(self, config: str, split: str) -> SplitImages:
        """Open a split with its images; each is decoded on access, and compared with the digest of its row.

        Raises:
            EvaluationError: as for `rows`, the release does not hold the split's images, or has others than rows.
        """
        entry, key = self._split(config, split), f"{config}/{split}"
        if not entry.data:
            raise EvaluationError(
                f"{self.name} has only the index of {key}, without images; build the split with `python -m "
                "hf_scripts.materialize` first."
            )
        # Of the files from the Hub, too, each image is hashed as it is read, and not the shards before that.
        shards = [self._file(shard_path("data", key, number, len(entry.data))) for number in range(len(entry.data))]
        return SplitImages(self.rows(config, split), shards, key, self.name)

    def duplicates(self) -> pa.Table | None:
        """Load the table of duplicate pairs, see `builders.release.duplicates.Pair`; None if the release has none.

        Raises:
            EvaluationError: the table cannot be read, or differs from the manifest's digest.
        """
        listed = self.manifest.duplicates
        if self._duplicates is None and listed is not None:
            self._duplicates = read_untrusted(self._file(PAIRS), f"{PAIRS} of {self.name}", sha256=listed.sha256)
        return self._duplicates

    def doubtful_duplicates(self, configs: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return the splits of some configs with more near pairs than can be duplicates, by `config/split`.

        Each has the number of its rows in such pairs, and that of all its rows.
        """
        pairs = self.duplicates()
        if pairs is None:
            return {}
        near = paired_ids(pairs.filter(pc.greater(pairs["distance"], 0)))
        keys = {"/".join(key): key for key in self.pairs(configs)}
        counts = {key: (len(near[key]), len(self.rows(*keys[key]))) for key in near if key in keys}
        return {key: count for key, count in counts.items() if are_too_many(*count)}

    def index(self, configs: Sequence[str] | None = None) -> pd.DataFrame:
        """Load the truth, one line per row of each split in the release's order; `configs` None stands for all.

        Returns:
            The columns of `truth.truth_table`: id, config, split, role, class_id, source_id, label, known; and
            overlap and duplicate, if the release states them. Duplicates are the rows in pairs; where near pairs
            are too many to be duplicates, those in pairs of equal pictures alone.
        """
        from unknown_detection.evaluation.truth import truth_table  # pandas takes a third of a second

        configs = configs or self.configs
        pairs, paired = self.duplicates(), None
        if pairs is not None:
            equal, none = paired_ids(pairs.filter(pc.equal(pairs["distance"], 0))), pa.array([], pa.string())
            paired = paired_ids(pairs) | {key: equal.get(key, none) for key in self.doubtful_duplicates(configs)}
        return truth_table({key: self.rows(*key) for key in self.pairs(configs)}, paired)

    def _config(self, config: str) -> ConfigEntry:
        require_known(f"config of {self.name}", [config], self.manifest.configs)
        return self.manifest.configs[config]

    def _split(self, config: str, split: str) -> SplitEntry:
        splits = self._config(config).splits
        require_known(f"split of {config} in {self.name}", [split], splits)
        return splits[split]

    def _file(self, path: str) -> Path:
        """Return a file that the manifest names, downloaded from the Hub at the release's commit."""
        if self.revision is None:
            return Path(self.source) / path
        missing = f"{self.name} has no {path}, although its manifest names it"
        return _download(self.source, self.revision, path, missing)[1]


def load(where: str | Path | Release, revision: str | None = None) -> Release:
    """Open a release; its rows and images are read on first use, and compared with its digests then.

        >>> release = ud.load("build/digits")
        >>> release.splits("digits")
        ('external_validation', 'far_ood_noise', 'far_ood_textures', 'near_ood', 'test', 'validation')
        >>> release.images("digits", "test")[0]["image"].size
        (8, 8)

    Args:
        where: a folder, or ORG/NAME on the Hub; one that is open already is returned.
        revision: branch, tag or commit on the Hub, resolved to a commit; None for the latest.

    Raises:
        EvaluationError: the release or revision does not exist, or its manifest is invalid.
        TypeError: it is something else.
    """
    if isinstance(where, Release):
        return where
    if not isinstance(where, str | Path):
        raise TypeError(f"A release is a folder, ORG/NAME on the Hub, or what load returned, not {a_kind(where)}.")
    is_path, where = isinstance(where, Path), str(where) or "."
    if "://" in where:
        raise EvaluationError(
            f"{one_line(where, 300)} is an address, and the evaluation reads folders and the Hub. Copy the release to "
            "a folder first, as with `aws s3 sync`."
        )
    with evaluation_errors():
        root = folder_or_repository(f"./{where}" if is_path and not Path(where).is_absolute() else where, revision)
    if isinstance(root, Path):
        if revision is not None:
            raise EvaluationError(
                f"revision= applies to a repository ORG/NAME only, but {where} is a folder. Leave it out, or name "
                "the repository."
            )
        return Release(where, None, _manifest(root / "manifest.json", where))
    commit, path = _download(where, revision, "manifest.json", f"{where} is not a release: it has no manifest.json")
    return Release(where, commit, _manifest(path, f"{where} at commit {commit[:12]}"))


def choose_splits(
    available: Mapping[str, Sequence[str]], requested: str | Iterable[str | Key] | None, where: str
) -> list[Key]:
    """Select splits: `CONFIG[/SPLIT],...`, a list of `CONFIG`, `CONFIG/SPLIT` or (config, split), or None for all.

    A split's name alone will do where one config has it. `where` is what has these configs, for messages.
    """
    pairs = [(config, split) for config, splits in available.items() for split in splits]
    if not pairs:
        raise EvaluationError(f"{where} has no split that is complete. Build or extract one.")
    if requested is None:
        return pairs
    if isinstance(requested, tuple) and requested in pairs:
        return [requested]
    choices = list(requested) if isinstance(requested, Iterable) and not isinstance(requested, str) else [requested]
    for choice in choices:
        if not isinstance(choice, str | tuple | list):
            raise TypeError(f"A split is CONFIG or CONFIG/SPLIT, such as {'/'.join(pairs[0])}, not {a_kind(choice)}.")
    texts = [choice if isinstance(choice, str) else "/".join(choice) for choice in choices]
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if not names:
        raise EvaluationError(f"No split is named; give CONFIG or CONFIG/SPLIT, such as {'/'.join(pairs[0])}.")
    with evaluation_errors():
        keys = dict.fromkeys(key for name in names for key in splits_named(name, [*map("/".join, pairs)], where))
    return [(config, split) for config, _, split in (key.partition("/") for key in keys)]


def _are_rows(rows: pa.Table) -> bool:
    """Whether a table has the columns of a release's rows, without empty cells, and roles that there are."""
    expected = {**dict.fromkeys(_TEXTS, "string"), "label": "int64", "role": "int64"}
    kinds = {name: str(kind) for name, kind in zip(rows.schema.names, rows.schema.types, strict=True)}
    if not all(kinds.get(name) == kind and not rows[name].null_count for name, kind in expected.items()):
        return False
    return bool(pc.all(pc.is_in(rows["role"], value_set=pa.array(range(len(ROLES)))), min_count=0).as_py())


@evaluation_errors()
def _manifest(path: Path, where: str) -> Manifest:
    """Read and check a manifest, as `verify` does."""
    if not path.is_file():
        raise EvaluationError(f"{where} is not a release: it has no manifest.json. Check the path.")
    try:
        return parse(read_regular(path, MOST_BYTES), f"the manifest.json of {where}")
    except OSError as error:
        raise EvaluationError(
            f"Cannot read the manifest.json of {where}: {one_line(error)}. Build the release again."
        ) from error


def _download(name: str, revision: str | None, file: str, missing: str) -> tuple[str, Path]:
    """Download a file of a release on the Hub to the client's cache; return the revision's commit and the file.

    Branches and tags are always looked up, since a cached answer may be outdated; a full commit hash needs no lookup.
    The error is that it is `missing` where there is no such file.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import RemoteEntryNotFoundError, RevisionNotFoundError

    from builders.hub.repository import Repository

    def download() -> Path:
        try:
            return Path(hf_hub_download(name, file, repo_type="dataset", revision=commit))
        except RevisionNotFoundError:
            repository.commit_at(commit)  # which names those that there are
            raise
        except RemoteEntryNotFoundError as error:
            raise BuildError(f"{missing}. Give another revision=, or another repository.") from error

    with evaluation_errors():
        repository, known = Repository(name, log), _COMMIT.fullmatch(revision or "")
        commit = str(revision) if known else repository.commit_at(revision or "main")
        return commit, repository.ask(f"download {file} of {name}", download)
