"""The law of own folders: what `build folder` ends with 0, `verify` calls whole and `load_dataset` returns.

Each image is then as `datasets.Image` decodes the person's own file.
"""

import contextlib
import io
import shutil
import warnings
from dataclasses import dataclass, field

import datasets

from builders import folder_benchmark
from builders.errors import BuildError
from builders.sources.image_folder import find_images, refuse_unreadable
from hf_scripts import verify
from tests.own_folders.trees import files_of_images

KNOWN = "folder-in-distribution"


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
    """Build a release of a folder of known classes and of folders of unknowns by the names of their splits."""
    folders = (f"--unknown=far:{name}={root}" for name, root in unknown.items())
    flags = ("--workers=1", "--quiet")
    return said(folder_benchmark.main, f"--in-distribution={known}", *folders, f"--out={out}", *flags)


def refused(root, flat=""):
    """Why a folder is refused, which a build says before it writes; empty if it is not."""
    try:
        refuse_unreadable([find_images(root, flat)], decode=False, progress=lambda _: None)
    except BuildError as error:
        return str(error)
    return ""


def appearance(image):
    """What people see of an image."""
    return image.mode, image.size, image.tobytes(), image.getpalette()


def by_datasets(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of odd images
        return appearance(datasets.Image().decode_example({"bytes": data, "path": None}))


def breach(known, unknown, out):
    """Where the law is broken for a release that was built; empty if nowhere."""
    judged = said(verify.main, out, "--workers=1")
    if judged.code:
        return f"verify: {judged.text}"
    roots = {KNOWN: known} | {f"folder-far-ood-{name}": root for name, root in unknown.items()}
    expected = {source: files_of_images(root) for source, root in roots.items()}
    cache = out.parent / f"{out.name}-cache"
    try:
        for name in ("folder", "folder-train"):
            loaded = datasets.load_dataset(str(out), name, cache_dir=str(cache))
            for split, rows in loaded.items():
                for row in rows:
                    wrong = _wrong(row, rows.features, expected)
                    if wrong:
                        return f"{name}/{split}, {row['id']!r}: {wrong}"
    except Exception as error:  # noqa: BLE001  whatever it is, the release does not load
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    left = [path for files in expected.values() for path in files]
    return f"not in the release: {left}" if left else ""


def _wrong(row, features, expected):
    """What is wrong with a loaded row, whose image is then no longer expected."""
    source, path = row["source"], row["source_id"]
    data = expected[source].pop(path, None)
    if data is None:
        return "no image of the folder, or one that was there already"
    if row["id"] != f"{source}/{path}":
        return "another id"
    parts = path.split("/")
    divided = source == KNOWN and parts[0] in ("train", "test") and len(parts) > 2
    if source == KNOWN or len(parts) > 1:
        if row["class_id"] != parts[divided]:
            return f"of the class {row['class_id']}"
    if source == KNOWN and features["label"].int2str(row["label"]) != row["class_id"]:
        return f"the label {row['label']}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = appearance(row["image"])
    return "" if seen == by_datasets(data) else f"other pixels, {seen[:2]}"
