"""The demo's SUN397, with its list of classes.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from builders.demo.base import DemoFiles, Drawing, lines
from builders.demo.images import digest
from taxonomy import tables

_PER_CLASS = (4, 0)

_TROUBLES = {
    # Four of the images that mmpretrain (datasets/sun397.py) lists as no JPEG. It does not say what they are instead;
    # these are the formats that tensorflow/datasets (sun.py) names. The two of the abbey are JPEGs like the rest.
    "SUN397/a/assembly_line/sun_ajckcfldgdrdjogj.jpg": "gif",
    "SUN397/a/auto_factory/sun_apfsprenzdnzbhmt.jpg": "png",
    "SUN397/b/bow_window/indoor/sun_ahsholsagvlrsboa.jpg": "png-with-alpha",
    "SUN397/b/baggage_claim/sun_avittiqqaiibgcau.jpg": "bmp",
    "SUN397/a/abbey/sun_aqswjsnjlrfzzhiz.jpg": "cmyk",
    "SUN397/a/abbey/sun_aaoktempcmudsvna.jpg": "grayscale",
    # Tags as reported in python-pillow/Pillow #6492, #6799 and #8965 and huggingface/datasets #8165.
    "SUN397/b/beach/sun_dnccaalmahhjmhfk.jpg": "exif-fraction-for-text",
    "SUN397/c/castle/sun_laprtwgeuidlueij.jpg": "exif-no-denominator",
}

# What the archive programs of a Mac and the file manager of Windows leave, and a picture of somebody else's.
_STRAYS = (
    "SUN397/a/abbey/._sun_aqswjsnjlrfzzhiz.jpg",
    "SUN397/b/balcony/exterior/balcón 陽台.jpg",
    "SUN397/w/wine_cellar/Thumbs.db",
)


def _images() -> Iterator[Drawing]:
    fixed: dict[str, list[str]] = {}
    for path in _TROUBLES:
        folder, _, name = path.removeprefix("SUN397").rpartition("/")
        fixed.setdefault(folder, []).append(name)
    for row in tables.sun397():
        names = dict.fromkeys(fixed.get(row.category, []))
        counter = 0
        while len(names) < _PER_CLASS[0]:
            letters = "".join(chr(ord("a") + byte % 26) for byte in digest("sun397", row.category, counter)[:16])
            names[f"sun_{letters}.jpg"] = None
            counter += 1
        for name in sorted(names):
            yield Drawing(f"SUN397{row.category}/{name}", f"{row.category[1:]}/{name}", row.category)


def _lists(_: Sequence[Drawing]) -> dict[str, str]:
    return {"SUN397/ClassName.txt": lines(row.category for row in tables.sun397())}


DEMO = DemoFiles(_PER_CLASS, _images, _lists, _TROUBLES, _STRAYS)
