"""A complete CIFAR-100 of made-up images, with the real labels in file order and the pairs of ciFAIR.

Labels and pairs are published data, read from the folder `shared` beside the repository where there is one. ciFAIR's
judgement 0 ("exact") also has pairs whose pixels differ a little; equal ones are those whose published distance is 0
but for rounding: ten across test and training and two inside test.
"""

import csv
import functools
import hashlib
import itertools
import pickle
from pathlib import Path

import numpy as np

from builders.demo.arrays import CHANGES
from taxonomy import tables

PUBLISHED = Path(__file__).parents[2] / "shared" / "reference" / "published"
LABELS = PUBLISHED / "cifar100_labels.npz"
ACROSS = PUBLISHED / "cifair_duplicates_cifar100.csv"
INSIDE_TEST = PUBLISHED / "cifair_duplicates_cifar100_test.csv"

_EQUAL = 1e-3
_POINTS = 9
_AT_ONCE = 5000


@functools.cache
def labels():
    """Class names in file order by partition."""
    names = np.array([row.fine for row in tables.cifar100()])
    with np.load(LABELS) as arrays:
        return {partition: names[arrays[partition]].tolist() for partition in ("train", "test")}


def class_of(row_id):
    """The class that the real label array gives the image at this place."""
    _, partition, place = row_id.split("/")
    return labels()[partition][int(place)]


def equal_pairs():
    """The row ids of images with equal pixels, the second of them the original."""
    across = [(test_id(test), train_id(train)) for test, train in _listed(ACROSS, exact=True)]
    inside = [(test_id(one), test_id(other)) for one, other in _listed(INSIDE_TEST, exact=True)]
    return across + inside


def near_pairs():
    """The test images that nearly repeat a training image, by ciFAIR's judgements 0 and 1, each with it.

    Without images that are in a pair of equal ones as well, or in several pairs.
    """
    equal = {name for pair in equal_pairs() for name in pair}
    pairs = [(test_id(test), train_id(train)) for test, train in _listed(ACROSS, exact=False)]
    times = [name for pair in pairs for name in pair]
    return [pair for pair in pairs if not equal & set(pair) and all(times.count(name) == 1 for name in pair)]


def _listed(path, *, exact):
    with path.open(encoding="utf-8", newline="") as file:
        return [
            (int(row["TestID"]), int(row["TrainID"]))
            for row in csv.DictReader(file)
            if (float(row["Distance"]) < _EQUAL if exact else row["Judgment"] in ("0", "1"))
        ]


def test_id(place):
    return f"cifar100/test/{place:05d}"


def train_id(place):
    return f"cifar100/train/{place:05d}"


def write_cifar100(root):
    """Write the pickles `train`, `test` and `meta` below `root`."""
    random = np.random.default_rng(0)
    names = labels()
    pixels = {partition: _scenes(len(fine), random) for partition, fine in names.items()}
    changes = itertools.cycle(sorted(CHANGES))
    for pair, change in [*((p, next(changes)) for p in near_pairs()), *((p, "") for p in equal_pairs())]:
        (_, into, copy), (_, of, original) = (name.split("/") for name in pair)
        image = pixels[of][int(original)]
        pixels[into][int(copy)] = CHANGES[change](image) if change else image
    number = {row.fine: row.index for row in tables.cifar100()}
    coarse_names = sorted({row.coarse for row in tables.cifar100()})
    coarse = {row.fine: coarse_names.index(row.coarse) for row in tables.cifar100()}
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    for partition, fine in names.items():
        batch = {
            b"filenames": [f"{partition}_{place}.png".encode() for place in range(len(fine))],
            b"batch_label": b"made up",
            b"fine_labels": [number[name] for name in fine],
            b"coarse_labels": [coarse[name] for name in fine],
            b"data": pixels[partition].transpose(0, 3, 1, 2).reshape(len(fine), -1),
        }
        with (folder / partition).open("wb") as file:
            pickle.dump(batch, file, protocol=3)
    with (folder / "meta").open("wb") as file:
        pickle.dump({"fine_label_names": list(number), "coarse_label_names": coarse_names}, file, protocol=2)


def _scenes(count, random):
    """Smooth areas of light and dark in a tint of the image's own; n x 32 x 32 x 3.

    No two of 2,000 and 30,000 such images are near, and copies are below 0.004. Smoother ones, of 6 points a side,
    have so few details that one pair in a million is alike by chance.
    """
    at = np.linspace(0, _POINTS - 1, 32)
    first = np.minimum(at.astype(int), _POINTS - 2)
    weights = np.zeros((32, _POINTS), np.float32)
    weights[np.arange(32), first], weights[np.arange(32), first + 1] = first + 1 - at, at - first
    images = np.empty((count, 32, 32, 3), np.uint8)
    for start in range(0, count, _AT_ONCE):
        some = images[start : start + _AT_ONCE]
        light = random.integers(0, 256, (len(some), _POINTS, _POINTS, 1))
        grids = np.clip(light + random.integers(-40, 41, (len(some), 1, 1, 3)), 0, 255).astype(np.float32)
        some[:] = np.einsum("yi,nijc,xj->nyxc", weights, grids, weights, optimize=True)
    return images


def expected_split(name, seed):
    """The split (`config/split`) of the CIFAR benchmark that an image is in by the paper's rules; None if in none.

    By the formula of the design alone: of names and ids, those with the least SHA-256 of (seed, config, split, name).
    """
    own = class_of(name)
    if "/test/" in name:
        return "cifar/test" if own in known_classes(seed) else "cifar/near_ood"
    if own not in known_classes(seed):
        return None
    return "cifar/validation" if name in _validation(own, seed) else "cifar-train/train"


@functools.cache
def _validation(own, seed):
    """Row ids of the 50 training images of a class that are in the validation split."""
    ids = [f"train/{place:05d}" for place, fine in enumerate(labels()["train"]) if fine == own]
    return {f"cifar100/{item}" for item in sorted(ids, key=lambda item: _rank(seed, "cifar", "validation", item))[:50]}


@functools.cache
def known_classes(seed):
    """Two classes of each superclass."""
    members = {}
    for row in tables.cifar100():
        members.setdefault(row.coarse, []).append(row.fine)
    return {
        name
        for names in members.values()
        for name in sorted(names, key=lambda item: _rank(seed, "cifar", "test", item))[:2]
    }


def _rank(*parts):
    return hashlib.sha256("\0".join(map(str, parts)).encode()).digest()


def expected_pairs(pairs, seed):
    """Those of some pairs that are rows of a build with this seed: {((split, id), (split, id))}, each sorted."""
    placed = [[(expected_split(name, seed), name) for name in pair] for pair in pairs]
    return {tuple(sorted(pair)) for pair in placed if all(split for split, _ in pair)}
