"""Names of exported files, which are unique and valid on every file system.

Three kinds of reader restrict them. Image lists are split at the first space. `datasets` infers splits from words in
names (`datasets` 5.2, `data_files.py`): with one class folder `train`, or file names with `_val_`, it would read only
those files as a split. Windows reserves characters and device names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

from builders.errors import BuildError

NO_CLASS = "_"
"""The folder of images without a class."""

# Upper limits on characters. Ours: a path below the export's folder stays under the 260 characters of Windows.
_MAX_FOLDER = 100
_MAX_STEM = 60

# The words and separators of the patterns in datasets 5.2, data_files.py.
_WORDS = ("train", "training", "validation", "valid", "dev", "val", "test", "testing", "eval", "evaluation")
_SPLIT_WORD = re.compile(rf"(?<![^-._ 0-9])(?:{'|'.join(_WORDS)})(?![^-._ 0-9])")

# Microsoft, "Naming Files, Paths, and Namespaces": reserved alone and in front of an extension, in any case.
_DEVICE = re.compile(r"^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?=\.|$)", re.IGNORECASE)

_SIGNATURES = (
    (b"\xff\xd8", "jpg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tif"),
    (b"MM\0*", "tif"),
    *(
        (f"P{number}".encode(), kind)
        for numbers, kind in (("14", "pbm"), ("25", "pgm"), ("36", "ppm"))
        for number in numbers
    ),
)
_SIGNATURE_BYTES = 12


def class_folder(class_id: str) -> str:
    """Return the folder of a class.

    The class id is percent-encoded (RFC 3986): ASCII letters, digits and `-._~` stay, and every other byte of its
    UTF-8 becomes `%XX`. So does a first character that is not a letter or digit, a dot at the end, and the last letter
    of a word that `datasets` reads as a split or Windows as a device (`train` becomes `trai%6E`, which sorts like
    `train`). `urllib.parse.unquote` decodes it. Names longer than 100 characters are cut, and end with `+` and a
    digest of the class id. Names of class ids that differ only in case differ only in case.
    """
    name = quote(class_id, safe="")
    if not name:
        return NO_CLASS
    name = _DEVICE.sub(_last_escaped, _SPLIT_WORD.sub(_last_escaped, name))
    if name[0] in "-._~":
        name = _escaped(name[0]) + name[1:]
    if name[-1] == ".":
        name = name[:-1] + _escaped(".")
    if len(name) > _MAX_FOLDER:
        # `quote` encodes plus signs, so no other name has one.
        name = f"{name[: _MAX_FOLDER - 17]}+{_digest(class_id, 16)}"
    return name


def class_folders(label_names: Sequence[str]) -> Callable[[str], str]:
    """Return what names the folder of a class, of a config with some labels.

    torchvision numbers sorted folders. Where the folders of the labels (`class_folder`) are not in the order of the
    labels, as with `élan` (`%C3%A9lan`) behind `ant`, each of these has its number in front.
    """
    folders = list(map(class_folder, label_names))
    if folders == sorted(folders):
        return class_folder
    digits = len(str(len(folders) - 1))
    numbered = {name: f"{number:0{digits}d}-{folders[number]}" for number, name in enumerate(label_names)}
    return lambda class_id: numbered.get(class_id) or class_folder(class_id)


def file_stem(name: str, row_id: str) -> str:
    """Return the name of an image's file without its extension: only ASCII letters, digits, `-` and `_`.

    It is the readable part of the name in the source, with words that `datasets` reads as a split in upper case, and
    12 hex digits of the SHA-256 of the row id, which make it unique.
    """
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", PurePosixPath(name).stem)[:_MAX_STEM].strip("_-")
    shown = _SPLIT_WORD.sub(lambda word: word[0].upper(), plain)
    return f"{shown}-{_digest(row_id, 12)}" if shown else _digest(row_id, 12)


def extension(start: bytes, where: str) -> str:
    """Return the file extension of an image's actual format, without the dot."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "webp"
    for signature, name in _SIGNATURES:
        if start.startswith(signature):
            return name
    raise BuildError(
        f"The image {where} is not a JPEG, PNG, WebP, GIF, BMP, TIFF or Netpbm image: its first bytes are "
        f"{start[:_SIGNATURE_BYTES].hex() or 'missing'}. Leave that split out with --splits."
    )


def _last_escaped(word: re.Match[str]) -> str:
    return word[0][:-1] + _escaped(word[0][-1])


def _escaped(character: str) -> str:
    return f"%{ord(character):02X}"


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
