"""ImageNet-O: 2,000 images of classes outside ImageNet-1k that a ResNet-50 takes for ImageNet-1k's.

An image lies in the folder of the class that the network took it for, **not** of its own: that stands in the name, as
the lemmas of its synset, before the network's confidence.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from builders.release.schema import Column
from builders.sources.base import CopyLayout, Expected, Home, Licence, PartitionIndex, Source
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.overlap import COLUMNS, overlap_columns
from builders.sources.readers.folders import child_names
from builders.sources.readers.parquet import Shard
from builders.sources.readers.patterns import ImageNames, strays_between
from builders.sources.readers.trees import Tree
from taxonomy import tables
from taxonomy.wordnet import nouns

_KEY = "imagenet_o"
_ARCHIVE = "imagenet-o"

# The owners' README links the address and gives no size; the MD5 is what pytorch-ood (dataset/img/imagenet.py) checks.
_PUBLISHED = OwnerFile(
    f"{_ARCHIVE}.tar",
    178_000_000,
    url="https://people.eecs.berkeley.edu/~hendrycks/imagenet-o.tar",
    md5="86bd7a50c1c4074fb18fc5f219d6d50b",
    rounded=True,
)
_UNKNOWN = "unknown"

# n01443537/cardinal_tetra_Paracheirodon_axelrodi_0.99767953.JPEG, as NINCO's annotations name 400 of the images
# (data/cleaning_annotations in its repository). What begins with ._ is what a Mac's archive programs add.
_PARTS = r"(?P<wnid>n[0-9]{8})/(?P<lemmas>(?:[^/.]|\.[^/_])[^/]*)_(?P<confidence>[01](?:\.[0-9]+)?(?:e-[0-9]+)?)\.JPEG"
_NAME_FORM = "<wnid>/<lemmas>_<confidence>.JPEG"

SOURCE_CLASS = Column(
    "source_class", "string", "the image's class as its file name has it, the lemmas of a synset", absent=""
)
PREDICTED = Column(
    "predicted_wnid",
    "string",
    "the ImageNet-1k class that a ResNet-50 took the image for, which is not its own",
    absent="",
)
CONFIDENCE = Column(
    "confidence", "float64", "that ResNet-50's confidence in `predicted_wnid`, or -1 for other rows", absent=-1.0
)


@functools.cache
def _synsets() -> Mapping[str, tuple[str, ...]]:
    """Return the synsets of the full ImageNet release outside ImageNet-1k, by their lemmas as in file names."""
    wordnet = nouns.load_wordnet()
    imagenet1k = {row.wnid for row in tables.imagenet1k()}
    by_lemmas: dict[str, list[str]] = {}
    for wnid in tables.imagenet_tree():
        if wnid not in imagenet1k:
            by_lemmas.setdefault("_".join(wordnet.lemmas(wordnet.row(wnid))).replace(" ", "_"), []).append(wnid)
    return {lemmas: tuple(wnids) for lemmas, wnids in by_lemmas.items()}


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the names of the classes that images can have: ImageNet's classes outside the 1,000.

    A class's id is its wnid; the lemmas are the id where several synsets have them, such as `tooth`.
    """
    wordnet = nouns.load_wordnet()
    names = {}
    for lemmas, wnids in _synsets().items():
        names[_class_id(lemmas)] = ", ".join(wordnet.lemmas(wordnet.row(wnids[0])))
    return {**dict(sorted(names.items())), _UNKNOWN: "no synset of the full ImageNet release has these lemmas"}


def _class_id(lemmas: str) -> str:
    wnids = _synsets().get(lemmas, ())
    if not wnids:
        return _UNKNOWN
    return wnids[0] if len(wnids) == 1 else lemmas


def _names(shard: Shard) -> pa.Array:
    """Return the names in a mirror: the Hub's converter keeps them without folders, and these as label names."""
    if shard.label_names is None:
        return shard.names
    known = pc.and_(pc.greater_equal(shard.labels, 0), pc.less(shard.labels, len(shard.label_names)))
    numbers = pc.if_else(known, shard.labels, pa.scalar(None, pa.int64()))
    of_label = pa.array(shard.label_names, pa.string()).take(numbers)
    joined = pc.coalesce(pc.binary_join_element_wise(of_label, shard.file_names, "/"), shard.names)
    return pc.if_else(pc.match_substring_regex(shard.names, "(^|/)n[0-9]{8}/[^/]+$"), shard.names, joined)


class _ImageNetONames(ImageNames):
    """Images whose ids say class, prediction and confidence."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        ids, lemmas, wnids = (tree.column(name) for name in ("id", "lemmas", "wnid"))
        known = pa.array([row.wnid for row in tables.imagenet1k()])
        unknown = ids.filter(pc.invert(pc.is_in(wnids, value_set=known)))
        if len(unknown):
            raise tree.home.other_data(
                f"the folder of {unknown[0]} in {tree.home.root} ({tree.description}) is not one of ImageNet-1k's "
                "classes, which ImageNet-O's folders are"
            )
        columns = {
            SOURCE_CLASS.name: lemmas,
            PREDICTED.name: wnids,
            CONFIDENCE.name: pc.cast(tree.column("confidence"), pa.float64()),
            **overlap_columns(_KEY, ids),
        }
        return self.index(tree, pa.array(map(_class_id, lemmas.to_pylist()), pa.string()), ids, columns)


_IMAGES = _ImageNetONames(
    rf"(?:.*/)?(?P<id>{_PARTS})",
    _NAME_FORM,
    "Take the Parquet files that the Hub converts cais/imagenet-o to, or the owners' imagenet-o.tar",
)


def _folders(home: Home) -> PartitionIndex | None:
    """Index folders of classes; no other folder is listed, since the user's may be anything."""
    for place in (home.folder / _ARCHIVE, home.folder):
        children = child_names(place) if place.is_dir() else []
        folders = [name for name in children if tables.is_wnid(name) and (place / name).is_dir()]
        if not folders:
            continue
        tree = _IMAGES.in_folders(home, place, folders)
        # ImageNet-1k's folders are called so, too, and some of its files have the number 0 or 1 (n01440764_1.JPEG).
        tree = tree.keep(pc.invert(pc.match_substring_regex(tree.column("lemmas"), "^n[0-9]{8}$")), "")
        if tree.rows.num_rows:
            found = _IMAGES.indexed(tree)
            other_strays = strays_between(home.root, place, folders, f"named {_NAME_FORM}")
            return dataclasses.replace(found, strays=(*found.strays, *other_strays))
    return None


IMAGENET_O = Source(
    key=_KEY,
    title="ImageNet-O",
    edition=f"ImageNet-O (2019; imagenet-o.tar has the MD5 {_PUBLISHED.md5})",
    # The repository's LICENSE is MIT, and the owners' copy on the Hub (cais/imagenet-o) names the same. The images are
    # ImageNet's, whose terms do not let anybody pass them on.
    licence=Licence(
        name="MIT; images under ImageNet's terms of access",
        url="https://github.com/hendrycks/natural-adv-examples",
        statement=(
            "The owners' repository and their copy on the Hub are under the MIT licence. The images are from "
            "ImageNet, which does not own their copyright and gives them for non-commercial research and education."
        ),
        publish="gated",
    ),
    citation="""@inproceedings{hendrycks2021natural,
  title = {Natural Adversarial Examples},
  author = {Hendrycks, Dan and Zhao, Kevin and Basart, Steven and Steinhardt, Jacob and Song, Dawn},
  booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
  year = {2021}
}""",
    obtain=Obtain.packed(
        "https://github.com/hendrycks/natural-adv-examples",
        _PUBLISHED,
        mirror=Mirror("hf://datasets/cais/imagenet-o@refs/convert/parquet", {"images": (("test",),)}),
    ),
    classes=classes,
    # How many images a class has is published nowhere.
    expected=lambda: {"images": Expected(2_000)},
    accepted=(
        CopyLayout(f"imagenet-o/{_NAME_FORM}, or the folder of these folders", _folders),
        _IMAGES.archive(_PUBLISHED.name),
        _IMAGES.mirror(
            "the Hub's default/test/0000.parquet (refs/convert/parquet of cais/imagenet-o)",
            ("test",),
            _names,
            labelled=False,
        ),
    ),
    columns=(SOURCE_CLASS, PREDICTED, CONFIDENCE, *COLUMNS),
)
