"""The places of images and image lists in OpenOOD v1.5's tree, for its ImageNet benchmarks.

Below the folder that its downloads fill, `images_largescale` and `images_classic` have the images, and each list in
`benchmark_imglist` has a line an image: its path below one of the two, a space, and the number of its class, -1 for an
unknown one (OpenOOD v1.5, `openood/evaluation_api/datasets.py`). The paths end with the ids that our sources give the
images, so that a row's place there follows from its source and its `source_id`.

OpenOOD's lists are in no order that means anything. Ours are sorted.

Tested by `tests/builders/audit/test_openood.py` and `tests/hf_scripts/test_export_openood_tree.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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

_OF_CONFIG: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "openood-imagenet1k": ("imagenet", {"validation": "val_imagenet", "test": "test_imagenet"} | _UNKNOWN),
    "openood-imagenet1k-train": ("imagenet", {"train": "train_imagenet"}),
    "openood-imagenet1k-shifted": (
        "imagenet",
        {name: f"test_{name}" for name in ("imagenet_v2", "imagenet_r", "imagenet_c")},
    ),
    "openood-imagenet200": (
        "imagenet200",
        {"validation": "val_imagenet200", "test": "test_imagenet200"} | _UNKNOWN,
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
    "imagenet": ("test_imagenet_es",),
    "imagenet200": ("test_imagenet200_v2", "test_imagenet200_c", "test_imagenet200_r"),
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


def openood_path(source: str, source_id: str) -> tuple[str, str]:
    """Return an image's folder in OpenOOD's tree, and its path below that folder, as lists have it."""
    root, folder = IMAGES[source]
    return root, f"{folder}/{source_id}"


def list_text(rows: Iterable[tuple[str, str, int]]) -> str:
    """Return OpenOOD's sorted list of some images, given by source, `source_id` and label."""
    return "".join(sorted(f"{openood_path(source, source_id)[1]} {label}\n" for source, source_id, label in rows))
