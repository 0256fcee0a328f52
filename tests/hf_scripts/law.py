"""The law of `verify`: what `load_dataset` returns of a release that it calls whole are the manifest's rows, in order.

The rows of a release are known before anybody changes it, by the digest of each split, which is what a paper prints.
"""

import contextlib
import hashlib
import io
import shutil

import datasets
import numpy as np
import pyarrow.parquet as pq
from PIL import Image, ImageOps

from builders.duplicates.distance import distance, scaled
from builders.duplicates.search import THRESHOLD
from builders.release.duplicates import PairedRow, compared_entries, comparison, pair_of
from builders.release.entries import SIMILARITY
from builders.release.schema import ROLES
from hf_scripts import verify
from tests.hf_scripts.pair_tables import add_table
from tests.hf_scripts.samples import make_release, png
from tests.hf_scripts.tampering import rewrite
from tests.manifests import manifest_of

TEST, NEAR, FAR, TRAIN = "bench/test", "bench/near_ood", "bench/far_ood", "bench-train/train"
SHARD = "data/bench/test-0000{}-of-00002.parquet"
MADE = "bench/near_ood"
"""The split whose images were made, so that their digests are of pixels."""


def picture(name):
    """A picture of each name: test 0 is like training row 100, and test 1 has the pixels of test 2 in other bytes."""
    if name == "test/0.png":
        redder = np.asarray(decoded(png("train/100.png"))) // 2 + np.array([20, 0, 0], np.uint8)
        redder[0, 0] += 40  # of other detail, too
        return encoded(redder)
    if name == "train/100.png":
        return encoded(np.asarray(decoded(png(name))) // 2)
    if name == "test/1.png":
        return encoded(np.asarray(decoded(png("test/2.png"))), compress_level=0)
    return png(name)


def encoded(pixels, **options):
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, format="PNG", **options)
    return data.getvalue()


def decoded(data):
    """An image as people see it: decoded by Pillow and turned as its metadata say."""
    image = Image.open(io.BytesIO(data))
    image.load()
    return ImageOps.exif_transpose(image)


def tiny_release(root):
    """A release of two shards a split, with images of both kinds of digest and a table with pairs of all methods.

    The images of one split were compared with none, so that only its rows can tell that they are others.
    """
    splits = {TEST: range(4), NEAR: range(3), FAR: range(5), TRAIN: range(100, 104)}
    make_release(root, splits, shards=2, picture=picture)

    def made(table):
        rows = table.to_pylist()
        for row in rows:
            row |= {"stored": "pixels", "content_sha256": pixels_sha256(decoded(row["image"]["bytes"]))}
        return table.from_pylist(rows, schema=table.schema)

    rewrite(root, MADE, made)
    keys = (TEST, NEAR, TRAIN)
    made = {comparison(by, one, other) for by in ("bytes", "pixels") for one in keys for other in keys}
    made.add(comparison(SIMILARITY, TEST, TRAIN))
    add_table(root, lambda pairs: [*pairs, *unlike_bytes()], compared=compared_entries(made))
    assert code_of(root) == 0
    return root


def unlike_bytes():
    """The pairs of equal pixels and of similar ones, by definition: every pair of images is looked at."""
    label = {number: ("n01", "n02")[number % 2] for number in (*range(4), *range(100, 104))}
    known = "in_distribution"
    row = {
        n: PairedRow(TEST if n < 100 else TRAIN, f"source/{'test' if n < 100 else 'train'}/{n}.png", known, label[n])
        for n in label
    }
    pixels = {n: scaled(decoded(picture(row[n].id.removeprefix("source/")))) for n in row}
    near = [(a, b, distance(pixels[a], pixels[b])) for a in range(4) for b in range(100, 104)]
    near = [pair_of(row[a], row[b], measured) for a, b, measured in near if measured <= THRESHOLD]
    assert len(near) >= 1 and all(pair.distance > 0.001 for pair in near)
    return [*near, pair_of(row[1], row[2], 0.0)]


def pixels_sha256(image):
    """As docs/release-format says of images that were made: over mode, size and pixels."""
    return hashlib.sha256(f"{image.mode} {image.width} {image.height}\n".encode() + image.tobytes()).hexdigest()


def code_of(root, *flags):
    """What `verify` ends with."""
    return verdict(root, *flags)[0]


def verdict(root, *flags):
    """What `verify` ends with: its exit code, and its last line."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        code = verify.main([str(root), "--workers", "1", *flags])
    return code, (out.getvalue().splitlines() or [""])[-1]


def truth_of(root):
    """What each split has, by the digest of its rows, read without our tools: ids, labels, and what people see."""
    rows_by_digest = {}
    for config in manifest_of(root)["configs"].values():
        for split in config["splits"].values():
            rows = [row for file in split["data"] for row in pq.read_table(root / file["path"]).to_pylist()]
            text = "".join(f"{row['id']}\t{row['label']}\t{row['role']}\t{row['content_sha256']}\n" for row in rows)
            assert hashlib.sha256(text.encode()).hexdigest() == split["digest"]
            rows_by_digest[split["digest"]] = [
                (row["id"], row["label"], row["role"], appearance(decoded(row["image"]["bytes"]))) for row in rows
            ]
    return rows_by_digest


def appearance(image):
    return image.mode, image.size, image.tobytes()


def breach(root, truth, cache, **how):
    """Where the law is broken for a release that is called whole; empty if nowhere. `how` is for `load_dataset`."""
    manifest = manifest_of(root)
    expected = {}
    for name, config in manifest["configs"].items():
        for split, entry in config["splits"].items():
            for suffix in ("", "-index") if entry["data"] else ("-index",):
                expected.setdefault(f"{name}{suffix}", {})[split] = (config["label_names"], truth[entry["digest"]])
    try:
        names = set(datasets.get_dataset_config_names(str(root)))
        if names != {*expected, "duplicates"}:
            return f"configs are {names}"
        for name, splits in expected.items():
            for streaming in (False, True):
                loaded = datasets.load_dataset(str(root), name, streaming=streaming, cache_dir=str(cache), **how)
                wrong = different(loaded, splits)
                if wrong:
                    return f"{name}{', streaming' if streaming else ''}: {wrong}"
        for streaming in (False, True):
            loaded = datasets.load_dataset(str(root), "duplicates", streaming=streaming, cache_dir=str(cache), **how)
            if set(loaded) != {"pairs"} or list(loaded["pairs"]) != truth["pairs"]:
                return f"duplicates{', streaming' if streaming else ''}: other pairs"
    except Exception as error:  # noqa: BLE001  whatever it is, the release does not load
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    return ""


def different(loaded, splits):
    if set(loaded) != set(splits):
        return f"splits are {set(loaded)}"
    for split, (names, rows) in splits.items():
        features = loaded[split].features
        if features["label"].names != names or features["role"].names != list(ROLES):
            return f"names of {split}"
        loaded_rows = list(loaded[split])
        if [(row["id"], row["label"], row["role"]) for row in loaded_rows] != [row[:3] for row in rows]:
            return f"rows of {split}"
        if "image" in features and [appearance(row["image"]) for row in loaded_rows] != [row[3] for row in rows]:
            return f"images of {split}"
    return ""


def everything_known(root):
    """`truth_of`, and the rows of the table of duplicates under `pairs`."""
    return truth_of(root) | {"pairs": pq.read_table(root / "duplicates/pairs.parquet").to_pylist()}
