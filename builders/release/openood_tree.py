"""The places of images and image lists in OpenOOD v1.5's tree, for its benchmarks on CIFAR and ImageNet.

Below the folder that its downloads fill, `images_largescale` and `images_classic` have the images, and each list in
`benchmark_imglist` has a line an image: its path below one of the two, a space, and the number of its class, -1 for an
unknown one (OpenOOD v1.5, `openood/evaluation_api/datasets.py`). A row's place there follows from its source, its
`source_id` and its class: most paths end with the ids that our sources give the images.

OpenOOD's lists are in no order that means anything. Ours are sorted.

Tested by `tests/builders/audit/test_openood.py` and `tests/hf_scripts/test_export_openood_tree.py`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from taxonomy import tables

IMAGES: Mapping[str, tuple[str, str]] = {
    "imagenet": ("images_largescale", "imagenet_1k"),
    "imagenet21k": ("images_largescale", "ssb_hard"),
    "ninco": ("images_largescale", "ninco"),
    "inaturalist": ("images_largescale", "inaturalist/images"),
    "dtd": ("images_classic", "texture"),
    "openimage_o": ("images_largescale", "openimage_o/images"),
    "imagenet_v2": ("images_largescale", "imagenet_v2"),
    "imagenet_r": ("images_largescale", "imagenet_r"),
    "imagenet_c": ("images_largescale", "imagenet_c"),
    "cifar10": ("images_classic", "cifar10"),
    "cifar100": ("images_classic", "cifar100"),
    "tiny_imagenet": ("images_classic", "tin"),
    "mnist": ("images_classic", "mnist"),
    "svhn": ("images_classic", "svhn"),
    "places365": ("images_classic", "places365"),
}
"""The folder that a list's paths begin below, and the folder of the images in it, by the key of our source."""

_UNKNOWN = {
    "ssb_hard": "test_ssb_hard",
    "ninco": "test_ninco",
    "inaturalist": "test_inaturalist",
    "textures": "test_textures",
    "openimage_o": "test_openimage_o",
    "openimage_o_validation": "val_openimage_o",
}

_SHIFTED = ("imagenet_v2", "imagenet_r", "imagenet_c")

_FAR_OF_CIFAR = {name: f"test_{name}" for name in ("mnist", "svhn", "texture", "places365")}


def _of_cifar(known: str, near: str) -> dict[str, tuple[str, Mapping[str, str]]]:
    lists = {"validation": f"val_{known}", "test": f"test_{known}", near: f"test_{near}", "tin": "test_tin"}
    lists |= {"tin_validation": "val_tin", **_FAR_OF_CIFAR}
    return {f"openood-{known}": (known, lists), f"openood-{known}-train": (known, {"train": f"train_{known}"})}


_OF_CONFIG: Mapping[str, tuple[str, Mapping[str, str]]] = {
    **_of_cifar("cifar10", "cifar100"),
    **_of_cifar("cifar100", "cifar10"),
    "openood-imagenet1k": ("imagenet", {"validation": "val_imagenet", "test": "test_imagenet"} | _UNKNOWN),
    "openood-imagenet1k-train": ("imagenet", {"train": "train_imagenet"}),
    "openood-imagenet1k-shifted": ("imagenet", {name: f"test_{name}" for name in _SHIFTED}),
    "openood-imagenet200": (
        "imagenet200",
        {"validation": "val_imagenet200", "test": "test_imagenet200"} | _UNKNOWN,
    ),
    "openood-imagenet200-shifted": (
        "imagenet200",
        {name: f"test_{name.replace('imagenet', 'imagenet200')}" for name in _SHIFTED},
    ),
    "openood-imagenet200-train": ("imagenet200", {"train": "train_imagenet200"}),
}

LISTS: Mapping[str, str] = {
    f"{config}/{split}": f"benchmark_imglist/{folder}/{name}.txt"
    for config, (folder, names) in _OF_CONFIG.items()
    for split, name in names.items()
}
"""OpenOOD's lists by split (`config/split`), as paths below the folder that its downloads fill."""

_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "cifar10": ("test_cifar10c",),
    "imagenet": ("test_imagenet_es",),
}

OPENED: tuple[str, ...] = tuple(
    sorted(
        [
            *LISTS.values(),
            *(f"benchmark_imglist/{folder}/{name}.txt" for folder, names in _ELSEWHERE.items() for name in names),
        ]
    )
)
"""The lists that OpenOOD opens, all those of a benchmark at once; some are of no split here (`DATA_INFO`)."""

FOLDERS: tuple[str, ...] = tuple(
    sorted(
        {"images_largescale/imagenet_es", *(f"{root}/{below.partition('/')[0]}" for root, below in IMAGES.values())}
    )
)
"""The folders of images that OpenOOD downloads where they are absent or have no file (`data_setup`)."""


def openood_path(source: str, source_id: str, class_id: str) -> tuple[str, str]:
    """Return an image's folder in OpenOOD's tree, and its path below that folder, as lists have it.

    Arrays have no names. CIFAR's files there are numbered from 1 within their class, in the order of the owner's file
    (github.com/knjcode/cifar2png), which the place alone decides; MNIST's have digit and place, SVHN's the place from
    1 and digit. Those of MNIST and SVHN are called .jpg, whatever their bytes are.
    """
    root, folder = IMAGES[source]
    partition, _, name = source_id.partition("/")
    match source:
        case "cifar10" | "cifar100":
            class_, number = _cifar_names(source, partition)[int(name)]
            path = f"{partition}/{class_}/{number:04d}.png"
        case "mnist":
            path = f"{partition}/{class_id}_{int(name)}.jpg"
        case "svhn":
            path = f"{partition}/{int(name) + 1:06d}_{class_id}.jpg"
        case "tiny_imagenet":
            path = f"{partition}/images/{name}"
        case "places365":
            path = f"{class_id[3:].replace('/', '-')}/{name}"
        case _:
            path = source_id
    return root, f"{folder}/{path}"


@functools.cache
def _cifar_names(source: str, partition: str) -> Sequence[tuple[str, int]]:
    """Return the class of each image in the owner's file, and its number within the class."""
    names = tables.cifar10() if source == "cifar10" else tuple(row.fine for row in tables.cifar100())
    seen: Counter[int] = Counter()
    numbered = []
    for label in tables.cifar_order(source, partition):
        seen[label] += 1
        numbered.append((names[label], seen[label]))
    return numbered


def list_text(rows: Iterable[tuple[str, str, str, int]]) -> str:
    """Return OpenOOD's sorted list of some images, given by source, `source_id`, `class_id` and label."""
    return "".join(sorted(f"{openood_path(*image)[1]} {label}\n" for *image, label in rows))
