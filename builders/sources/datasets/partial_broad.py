"""PartialBROAD: the images that the authors of BROAD made, 20,000 attacked ImageNet images and 50,000 synthetic ones.

The attacked images are published as ciphers that their original ImageNet files decipher
(`builders.storage.file_cipher`); the synthetic ones are in the clear. The index of a partition has two columns
beside the usual ones: the ImageNet image whose file deciphers a row (`original_id`) and the published hash of that
file (`original_hash`, `none` where it was left out); both are empty for synthetic images.

A row of ciphers is named after its original, a synthetic image after its place in the partition, since neither
the Hub's copy nor the paper names them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.sources.base import CopyLayout, Expected, Home, Licence, PartitionIndex, Source, partition_table
from builders.sources.datasets.imagenet import classes
from builders.sources.obtain import Mirror, Obtain
from builders.sources.readers import parquet, parquet_files
from builders.sources.readers.folders import relative

_TITLE = "PartialBROAD"
ADVERSARIAL = (
    "adversarial_pgd_resnet",
    "adversarial_autoattack_resnet",
    "adversarial_pgd_vit",
    "adversarial_autoattack_vit",
)
SYNTHETIC = ("synthetic_gan", "synthetic_diffusion")
_ADVICE = "Download ServiceNow/PartialBROAD from the Hub again"

_FILE_NAME = r"^(?:.*/)?ILSVRC2012_val_(?P<number>[0-9]{8})(?:_(?P<wnid>n[0-9]{8}))?\.JPEG$"
_HASH = r"^(?:[0-9a-f]{64}|none)$"


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the counts of the partitions; the synthetic ones have 25 images a class (section 2.4 of the paper)."""
    return {**dict.fromkeys(ADVERSARIAL, Expected(5_000)), **dict.fromkeys(SYNTHETIC, Expected.each(classes(), 25))}


def _find(home: Home) -> PartitionIndex | None:
    files = parquet_files.split_files(home.folder, home.partition)
    if not files:
        return None
    parquet_files.refuse_gaps(_TITLE, files)
    ciphers = home.partition in ADVERSARIAL
    table = pa.concat_tables([_shard(home.root, path, ciphers=ciphers) for path in files]).combine_chunks()
    if ciphers:
        stems = pc.utf8_slice_codeunits(table["original_id"], len("val/"), -len(".JPEG"))
    else:
        stems = pa.array([f"{number:05d}" for number in range(table.num_rows)], pa.string())
    ids = pc.binary_join_element_wise(pa.scalar(home.partition), stems, "/")
    table = table.set_column(table.column_names.index("source_id"), "source_id", ids)
    return PartitionIndex(home.partition, f"Parquet files in {relative(files[0].parent, home.root)}", "parquet", table)


def _shard(root: Path, path: Path, *, ciphers: bool) -> pa.Table:
    """Index one file; its images have no ids yet."""
    shard = parquet.read_shard(_TITLE, path, named=False, advice=_ADVICE)
    shard.refuse_labels(len(classes()))
    none = pa.repeat(pa.scalar("", pa.string()), len(shard.labels))
    originals, hashes = _originals(shard) if ciphers else (none, none)
    return partition_table(
        tuple(classes()),
        shard.labels.to_numpy(),
        none,
        pa.repeat(pa.scalar(relative(path, root), pa.string()), len(none)),
        pa.array(np.arange(len(none), dtype=np.int64)),
        own={"original_id": originals, "original_hash": hashes},
    )


def _originals(shard: parquet.Shard) -> tuple[pa.Array, pa.Array]:
    """Return the ImageNet id and the published hash of each cipher's original."""
    names, hashes = parquet.read_texts(_TITLE, shard.path, ("original_filename", "original_hash"), _ADVICE)
    shard = dataclasses.replace(shard, names=names)
    parts = pc.extract_regex(names, _FILE_NAME)
    shard.refuse(pc.is_null(parts), "the original {name} is not named ILSVRC2012_val_<8 digits>.JPEG")
    suffixes = parts.field("wnid")
    other_class = pc.not_equal(suffixes, pa.array(list(classes())).take(shard.labels))
    shard.refuse(pc.and_(pc.not_equal(suffixes, ""), other_class), "{name} has the label {label}, of another class")
    malformed = pc.fill_null(pc.invert(pc.match_substring_regex(hashes, _HASH)), True)
    shard.refuse(malformed, "the hash of {name} is neither 64 hexadecimal digits nor none")
    return pc.binary_join_element_wise("val/ILSVRC2012_val_", parts.field("number"), ".JPEG", ""), hashes


PARTIAL_BROAD = Source(
    key="partial_broad",
    title=_TITLE,
    edition="ServiceNow/PartialBROAD on the Hub (files of 2023 and of June 2024 differ)",
    # The dataset's card. The attacked images are ImageNet's, and rows made of them are of that source.
    licence=Licence(
        name="CC BY 4.0",
        url="https://huggingface.co/datasets/ServiceNow/PartialBROAD",
        statement=(
            "The synthetic images are under CC BY 4.0. The attacked images derive from ImageNet's and are published "
            "as ciphers only; what they show is under ImageNet's terms."
        ),
        publish="open",
    ),
    citation="""@inproceedings{guille2024expecting,
  title={Expecting The Unexpected: Towards Broad Out-Of-Distribution Detection},
  author={Guille-Escuret, Charles and No{\\"e}l, Pierre-Andr{\\'e} and Mitliagkas, Ioannis and Vazquez, David and
          Monteiro, Joao},
  booktitle={Advances in Neural Information Processing Systems},
  year={2024},
  eprint={2308.11480},
  archivePrefix={arXiv}
}""",
    obtain=Obtain(
        "https://huggingface.co/datasets/ServiceNow/PartialBROAD",
        "download the Parquet files of the repository (hf download --repo-type dataset ServiceNow/PartialBROAD)",
        mirror=Mirror(
            "hf://datasets/ServiceNow/PartialBROAD", {name: ((name,),) for name in (*ADVERSARIAL, *SYNTHETIC)}
        ),
    ),
    classes=classes,
    expected=expected,
    accepted=(CopyLayout("the Hub's data/{partition}-*.parquet (or default/{partition}/0000.parquet)", _find),),
)
