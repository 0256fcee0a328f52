"""Folders of images as people may have them: odd names of classes and files, odd endings, images of every form.

A tree is made from a seed. What of it belongs into a release is said here once more, without the builders' code.
"""

import os
import re
from pathlib import Path

import numpy as np

from tests.own_folders.pictures import encoded

NAMES = (
    *("dog", "sea lion", "n02084071", "gizmo_x", "caf\u00e9", "cafe\u0301", "\uff43\uff41\uff46\uff45", "\ufb01sh"),
    *("Stra\u00dfe", "STRASSE", "\u212bngstrom", "\u0130stanbul", "\ufdfa", "\u1112\u1161\u11ab", "\u0915\u093f"),
    *("~", "~tmp", "~x", "x~", "~$x", "C:", "c:", "C:x", "file:", "file:x", "http:", "s3:", "a::b", "x:y"),
    *("back\\slash", "\\", "\\x", "\\\\server", "C:\\x", "x\\", "..\\x", "...", ".hidden", "..x", "x..", "x."),
    *("\u05db\u05dc\u05d1", "\u0642\u0637\u0629", "\u202ex", "\u200fx", "\u2764\ufe0f", "\u2764", "\ue000", "\uffff"),
    *("\U0001f431", "\U0001f468\u200d\U0001f469", "\U0001f431" * 55, "\u0378", "\ufeffx", "\u00adx", "caf\udce9"),
    *(" x", "x ", "a b", "a  b", "\u00a0x", "\u3000", "a\u2003b", "tab\tx", "line\nx", "\x1b[2J", "\x7fx"),
    *("\u2028x", "con", "AUX", "nul", "PRN", "COM1", "lpt9", "con.txt", "CLOCK$", "Thumbs.db", "__MACOSX"),
    *("@eaDir", "#recycle", "$RECYCLE.BIN"),
    *("train", "test_val", "all", "Validation", "images", "id", "image", "label", "README.md", "manifest.json"),
    *("-rf", "--out", "=1+1", "+x", "@x", "'", '"', "`x`", "$(x)", "${x}", "%20", "%2F", "#", "?", "*", "[a]", "{a}"),
    *("|", "<b>", "&amp;", "a,b", "a;b", "a=b", "null", "None", "NaN", "true", "-1", "0", "1e5", "0x1", "!", "&", "_"),
    *("a.jpg", "x.png", "x.parquet", "\udcff", "x" * 200, "\u00e9" * 110),
)
"""Names of folders, and of files without their endings. Half of a character, as in `caf\\udce9`, is a byte alone."""

ENDINGS = (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Endings of images, of what Pillow reads."""

OTHERS = (".txt", "", ".xyz", ".jpg.bak", ".pngx")
"""Endings of files that are no images, whatever they hold."""

_LETTERS = [chr(code) for code in (*range(32, 127), *range(160, 0x250), *range(0x300, 0x320), *range(0x5D0, 0x5EA))]
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_MOST_BYTES = 255  # of a name on Linux


def is_hidden(name):
    """Whether a file or folder is hidden, or what macOS adds to archives, and drives to their folders."""
    return name.startswith(".") or name in ("__MACOSX", "@eaDir", "#recycle", "$RECYCLE.BIN")


def is_taken(path):
    """Whether a file belongs into a release by its path below the folder."""
    return (
        path.lower().endswith(ENDINGS) and not any(map(is_hidden, path.split("/"))) and not _UNPRINTABLE.search(path)
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


def rng_of(*seed):
    return np.random.default_rng(seed)


def put(root, path, data):
    """Write a file below a folder."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(data)


def made(tree, root, seed):
    """Make a tree of a seed in a folder that is not there."""
    for path, data in tree(rng_of(seed)).items():
        put(root, path, data)
    return root


def unknown_tree(rng):
    """The files of a folder of unknowns: images alone, or one to three class folders, some with folders in them."""
    files = {}
    if rng.random() < 0.25:
        return _images(rng, 3)
    for _ in range(int(rng.integers(1, 4))):
        folder = _name(rng)
        if not any(path.startswith(f"{folder}/") for path in files):
            inside = f"{folder}/{_name(rng)}" if rng.random() < 0.2 else folder
            files |= {f"{inside}/{path}": data for path, data in _images(rng, 2).items()}
    return files


def known_tree(rng):
    """The files of two known classes, divided into partitions or not; each has enough images to draw from."""
    files = {}
    names = {_name(rng) for _ in range(2)}
    for partition in ("train/", "test/") if rng.random() < 0.3 else ("",):
        for name in sorted(names):
            files |= {f"{partition}{name}/{path}": data for path, data in _images(rng, 7, odd=0.2).items()}
    return files


def _images(rng, number, *, odd=0.5):
    """Images by name, of which one in `odd` has an odd one; the others are numbered."""
    ending = _odd_ending if rng.random() < odd else _ending
    names = [_name(rng, ending(rng)) if rng.random() < odd else f"{image}{_ending(rng)}" for image in range(number)]
    return {name: encoded(rng) for name in names}


def _ending(rng):
    return ENDINGS[int(rng.integers(len(ENDINGS)))]


def _odd_ending(rng):
    """An ending of images in any case, or of something else."""
    if rng.random() < 0.2:
        return OTHERS[int(rng.integers(len(OTHERS)))]
    return "".join(letter.upper() if rng.random() < 0.5 else letter for letter in _ending(rng))


def files_of_images(root):
    """The bytes of the images of a folder that belong into a release, by path below it."""
    files = [(Path(folder) / name) for folder, _, names in os.walk(root) for name in names]
    taken = ((file.relative_to(root).as_posix(), file) for file in files)
    return {path: file.read_bytes() for path, file in taken if is_taken(path)}
