"""The law of own folders: what `build folder` ends with 0, `verify` calls whole and `load_dataset` returns.

Each image is then as `datasets.Image` decodes the person's own file, and of the class of its folder.
"""

import contextlib
import io
import shutil
import unicodedata
import warnings
from dataclasses import dataclass

import datasets

from builders import folder_benchmark
from builders.errors import BuildError
from builders.release.images import check_image
from builders.sources.image_folder import find_images, read_images
from hf_scripts import verify
from tests.own_folders.trees import files_of_images, is_hidden

KNOWN = "folder-in-distribution"
PARTITIONS = {"train", "training", "val", "valid", "validation", "test", "testing"}


@dataclass
class Said:
    """What a command ended with and printed."""

    code: int
    text: str


def said(main, *arguments):
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        code = main([*map(str, arguments)])
    return Said(code, text.getvalue())


def build(known, unknown, out):
    """Build a release of a folder of known classes and of folders of unknowns by their names."""
    folders = (f"--unknown=far:{name}={root}" for name, root in unknown.items())
    flags = ("--workers=1", "--quiet")
    return said(folder_benchmark.main, f"--in-distribution={known}", *folders, f"--out={out}", *flags)


def refusal(root, flat=""):
    """Why a build would refuse a folder, before it writes; empty if it would not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's, of odd images
            read_images([find_images(root, flat)], check=lambda data, _: check_image(data), progress=lambda _: None)
    except BuildError as error:
        return str(error)
    return ""


def breach(known, unknown, out):
    """Where the law is broken for a release that was built; empty if nowhere."""
    judged = said(verify.main, out, "--workers=1")
    if judged.code:
        return f"verify: {judged.text}"
    roots = {f"folder-far-ood-{name}": root for name, root in unknown.items()}
    expected = {source: _images(root) for source, root in roots.items()} | {KNOWN: _images(known)}
    compared = {_compared(class_id) for class_id, _ in expected[KNOWN].values()}
    cache = out.parent / f"{out.name}-cache"
    try:
        for name in ("folder", "folder-train"):
            for split, rows in datasets.load_dataset(str(out), name, cache_dir=str(cache)).items():
                names = rows.features["label"].names
                for row in rows:
                    wrong = _wrong(row, names, expected[row["source"]].pop(row["source_id"], None), compared)
                    if wrong:
                        return f"{name}/{split}, {row['id']!r}: {wrong}"
    except Exception as error:  # noqa: BLE001  whatever it is, the release does not load
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    left = [path for files in expected.values() for path in files]
    return f"not in the release: {left}" if left else ""


def _images(root):
    """The class (empty for none) and the bytes of the images that belong into a release, by path."""
    folders = sorted(path.name for path in root.iterdir() if path.is_dir() and not is_hidden(path.name))
    divided = {name.lower() for name in folders} <= PARTITIONS
    images = {}
    for path, data in files_of_images(root).items():
        parts = path.split("/")[divided and bool(folders) :]
        images[path] = (parts[0] if len(parts) > 1 else "", data)
    return images


def _wrong(row, names, image, known):
    """What is wrong with a loaded row, of an image that is still expected."""
    if image is None:
        return "no image of the folder, or one that was there already"
    class_id, data = image
    if row["id"] != f"{row['source']}/{row['source_id']}":
        return "another id"
    if class_id and row["class_id"] != class_id:
        return f"of the class {row['class_id']!r}, not {class_id!r}"
    if row["source"] == KNOWN and names[row["label"]] != class_id:
        return f"the label {row['label']}"
    if row["source"] != KNOWN and class_id and _compared(class_id) in known and row["id_overlap"] is None:
        return f"{class_id!r} is known, and has no overlap"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = datasets.Image().decode_example({"bytes": data, "path": None})
        return "" if _appearance(row["image"]) == _appearance(theirs) else "other pixels"


def _appearance(image):
    """What people see of an image."""
    return image.mode, image.size, image.tobytes(), image.getpalette()


def _compared(name):
    """A name as Unicode compares it caselessly with compatibility (The Unicode Standard, D146)."""
    first = unicodedata.normalize("NFKD", unicodedata.normalize("NFD", name).casefold())
    return unicodedata.normalize("NFKD", first.casefold())
