"""Lists of images and classes, of withdrawn rows and of folders: texts, CSV and TOML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from builders.adopt import copies, lists
from builders.cli.source_flags import listed_sources
from builders.commands.build import read_withdrawn
from builders.imagenet_benchmark import BENCHMARK
from builders.sources.datasets import imagenet
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from tests.fuzz.target import Target


def variants(text: str) -> list[bytes]:
    """A text as several systems write it."""
    return [text.encode(), b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()]


def beside(key: str):
    """A reader of a source's last partition, and of the list that lies beside its images."""

    def read(folder: Path) -> object:
        index = open_source(SOURCES[key], folder, tuple(SOURCES[key].expected())[-1:])
        return index.table.to_pylist(), [partition.missing.to_pylist() for partition in index.partitions]

    return read


def of_source(name: str, key: str, file: str, text: str, other_files: Mapping[str, str]) -> Target:
    """The target of a list that lies beside a source's images and other lists."""
    others = {path: content.encode() for path, content in other_files.items()}
    return Target(name, file, lambda: variants(text), beside(key), others=lambda: others)


VAL = "ILSVRC2012_val_0000000"
GROUND_TRUTH = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"
PLACES = "Places365_val_0000000"
PLACES_IMAGES = {f"val_256/{PLACES}{number}.jpg": "" for number in (1, 2)}
PLACES_LIST = f"{PLACES}1.jpg 165\n{PLACES}2.jpg 358\n"

KAGGLE = f'ImageId,PredictionString\n{VAL}1,n01440764 85 1 499 272 \n"{VAL}2","n01443537 1 2 3 4 n01443537 5 6"\n'
AUTHORS = f"0 places_val 165 {PLACES}1.jpg\n1.5 in_val 7 val/{VAL}1.JPEG\n\n2 sun 3 a/abbey/sun_a.jpg\n"
ADOPTED = 'split,class\nimagenet/near_ood,n01440764\nimagenet200,tench\ntest/near-imagenet200,"x, y"\n'
WITHDRAWN = 'id,reason\nimagenet/val/a.JPEG,its owner asked\n"dtd/b.jpg","a person\'s ""face"", seen"\n'
FOLDERS = '# mine\nimagenet = "a/b"\ndtd = \'c\'\nsvhn = "~/d\\u00e9"\n'

TARGETS = (
    Target("kaggle-table", "LOC_val_solution.csv", lambda: variants(KAGGLE), imagenet.ground_truth),
    Target("ground-truth", GROUND_TRUTH, lambda: variants("490\n361\n171\n"), imagenet.ground_truth),
    of_source("places365-list", "places365", "places365_val.txt", PLACES_LIST, PLACES_IMAGES),
    Target(
        "authors-list",
        "x.txt",
        lambda: variants(AUTHORS),
        lambda folder: list(lists.read_list(folder / "x.txt")),
    ),
    Target(
        "adopted-classes",
        "x.csv",
        lambda: variants(ADOPTED),
        lambda folder: copies._mentions(BENCHMARK, folder / "x.csv"),
    ),
    Target("withdrawals", "x.csv", lambda: variants(WITHDRAWN), lambda folder: read_withdrawn(folder / "x.csv")),
    Target("sources-toml", "x.toml", lambda: variants(FOLDERS), lambda folder: listed_sources(folder / "x.toml")),
)
