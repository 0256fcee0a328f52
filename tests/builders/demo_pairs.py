"""The pairs that the demo's declarations say a release has, worked out without the code that finds them."""

import itertools
import json

import pyarrow.parquet as pq

from builders.demo import cifar100
from builders.demo.duplicates import DUPLICATES, EQUAL_PIXELS
from tests.builders.demo_sources import FILES


def groups(kinds=("bytes",)):
    """Row ids of the images with one picture, as sets; of copies of files those of some kinds."""
    groups = []
    for pair in [*file_pairs(kinds), *cifar100_pairs()]:
        joined = set(pair).union(*(group for group in groups if group & set(pair)))
        groups = [group for group in groups if not group & joined] + [joined]
    return groups


def file_pairs(kinds):
    ids = {(key, image.path): f"{key}/{image.source_id}" for key, files in FILES.items() for image in files.images()}
    return [(ids[c.source, c.path], ids[c.of_source, c.of_path]) for c in DUPLICATES if c.kind in kinds]


def cifar100_pairs():
    return [(cifar100_id(*pair.image), cifar100_id(*pair.other)) for pair in EQUAL_PIXELS]


def cifar100_id(partition, name, number):
    return f"cifar100/{partition}/{cifar100.pickle_position(partition, name, number):05d}"


def near_duplicates():
    """The changed training images of CIFAR-100, as (row id of the test image, row id of the training image)."""
    return [(f"cifar100/test/{p.test:05d}", f"cifar100/train/{p.train:05d}") for p in cifar100.near_duplicates()]


def rows_of(root):
    """The (`config/split`, id) of every row of a release, by what is compared: a benchmark, or one of its configs."""
    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    pairs_of = {}
    for config, entry in manifest["configs"].items():
        benchmark = manifest["benchmarks"][entry["benchmark"]]
        scope = entry.get("group", config) if benchmark.get("roles_by_config") else entry["benchmark"]
        for split in entry["splits"]:
            ids = pq.read_table(root / "index" / config / f"{split}.parquet", columns=["id"])["id"].to_pylist()
            pairs_of.setdefault(scope, []).extend((f"{config}/{split}", name) for name in ids)
    return pairs_of


def expected_pairs(rows, kinds=("bytes",)):
    """The exact pairs of some rows as `rows_of` gives them: {((split, id), (split, id))}, each sorted.

    An image that is made of a source image, with "#" and how in its id, is equal to those made of equal ones.
    """
    pairs = set()
    for places in rows.values():
        for group in groups(kinds):
            members = sorted(place for place in places if place[1].partition("#")[0] in group)
            pairs |= {(one, other) for one, other in itertools.combinations(members, 2) if one[1] != other[1]}
    return pairs


def expected_near_pairs(rows):
    """The pairs of the CIFAR benchmark's test images and the known images that they nearly repeat, in any split."""
    split_of = {name: split for split, name in rows["cifar"]}
    return {
        tuple(sorted(((split_of[one], one), (split_of[other], other))))
        for one, other in near_duplicates()
        if one in split_of and other in split_of
    }
