"""Folders of images as people may have them: odd names of classes and files, odd endings, images of every form.

A tree is made from a seed. What of it belongs into a release is said here once more, without the builders' code.
"""

import os
import re
from pathlib import Path

import numpy as np

from builders.sources.image_folder import ENDINGS
from tests.own_folders.pictures import encoded

NAMES = (
    *("dog", "sea lion", "n02084071", "gizmo_x", "caf\u00e9", "cafe\u0301", "\uff43\uff41\uff46\uff45", "\ufb01sh"),
    *("Stra\u00dfe", "STRASSE", "\u212bngstrom", "\u0130stanbul", "\ufdfa", "\u1112\u1161\u11ab", "\u0915\u093f"),
    *("~", "~tmp", "~x", "x~", "~$x", "C:", "c:", "C:x", "file:", "file:x", "http:", "s3:", "a::b", "x:y"),
    *("back\\slash", "\\", "\\x", "\\\\server", "C:\\x", "x\\", "..\\x", ".", "..", "...", ".hidden", "..x", "x..", "x."),
    *("\u05db\u05dc\u05d1", "\u0642\u0637\u0629", "\u202ex", "\u200fx", "\U0001f431", "\U0001f468\u200d\U0001f469", "\u2764\ufe0f"),
    *(" x", "x ", "a b", "a  b", "\u00a0x", "\u3000", "a\u2003b", "\ufeffx", "\u00adx", "\u0378", "\ue000", "\uffff"),
    *("con", "AUX", "nul", "PRN", "COM1", "lpt9", "con.txt", "CLOCK$", "train", "test_val", "all", "Validation", "images"),
    *("-rf", "--out", "=1+1", "+x", "@x", "'", '"', "`x`", "$(x)", "${x}", "%20", "%2F", "#", "?", "*", "[a]", "{a}"),
    *("|", "<b>", "&amp;", "a,b", "a;b", "a=b", "null", "None", "NaN", "true", "-1", "0", "1e5", "0x1", "!", "&", "_"),
    *("tab\tx", "line\nx", "esc\x1b[2J", "del\x7f", "\u2028x", "caf\udce9", "\udcff", "x" * 200, "\u00e9" * 110, "\U0001f431" * 55),
    *("a.jpg", "x.png", "x.parquet", "README.md", "manifest.json", "__MACOSX", "Thumbs.db", "id", "image", "label"),
)
"""Names of folders, and of files without their endings. Half of a character (`caf\\udce9`) is a byte of no encoding."""

OTHERS = (".txt", "", ".xyz", ".jpg.bak", ".pngx")
"""Endings of files that are no images, whatever they hold."""

_LETTERS = [chr(code) for code in (*range(32, 127), *range(160, 0x250), *range(0x300, 0x320), *range(0x5D0, 0x5EA))]
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_MOST_BYTES = 255  # of a name on Linux


def is_taken(path):
    """Whether a file belongs into a release by its path below the folder."""
    return (
        path.lower().endswith(ENDINGS)
        and not any(part.startswith(".") for part in path.split("/"))
        and not _UNPRINTABLE.search(path)
    )


def _name(rng, ending=""):
    """A name that the disk takes: one of `NAMES`, or letters and marks at random."""
    while True:
        if rng.random() < 0.8:
            name = NAMES[int(rng.integers(len(NAMES)))]
        else:
            name = "".join(rng.choice(_LETTERS, int(rng.integers(1, 12))))
        name += ending
        if name not in ("", ".", "..") and "/" not in name and len(os.fsencode(name)) <= _MOST_BYTES:
            return name


def _ending(rng):
    ending = ENDINGS[int(rng.integers(len(ENDINGS)))]
    kind = rng.integers(10)
    if kind == 0:
        return OTHERS[int(rng.integers(len(OTHERS)))]
    if kind < 4:
        ending = "".join(letter.upper() if rng.random() < 0.5 else letter for letter in ending)
    return ending


def _images(folder, rng, number):
    folder.mkdir(parents=True, exist_ok=True)
    for image in range(number):
        data, _ = encoded(rng)
        # Most files have a number, so that a class has as many as are asked for.
        name = _name(rng, _ending(rng)) if rng.random() < 0.5 else f"{image}{ENDINGS[int(rng.integers(len(ENDINGS)))]}"
        if not (folder / name).exists():
            (folder / name).write_bytes(data)


def unknown_tree(root, seed):
    """A folder of unknowns: one to three class folders, some with folders in them, or images alone."""
    rng = np.random.default_rng(seed)
    root.mkdir(parents=True)
    if seed % 4 == 0:
        _images(root, rng, 3)
    else:
        for _ in range(int(rng.integers(1, 4))):
            folder = root / _name(rng)
            deeper = folder / _name(rng) if rng.random() < 0.2 else folder
            if deeper == folder or not folder.exists():
                _images(deeper, rng, 2)
    return root


def known_tree(root, seed):
    """A folder of known classes, divided into partitions or not; each class has enough images to draw from."""
    rng = np.random.default_rng(seed)
    names = sorted({_name(rng) for _ in range(2)})
    partitions = ("train", "test") if seed % 3 == 0 else ("",)
    for partition in partitions:
        for name in names:
            _images(root / partition / name, rng, 7)
    return root


def files_of_images(root):
    """The bytes of the images of a folder that belong into a release, by path below it."""
    files = [
        (Path(folder) / name) for folder, _, names in os.walk(root) for name in names
    ]
    taken = ((file.relative_to(root).as_posix(), file) for file in files)
    return {path: file.read_bytes() for path, file in taken if is_taken(path)}
