"""The demo's release: real images, whole as anybody's, the same every time."""

import hashlib
import io
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from evaluation.demo_release import CONFIG, KNOWN, TRAIN, make_release
from evaluation.joining import release_index
from evaluation.releases import open_release


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "release"
    make_release(folder)
    return folder


def test_it_opens_as_any_release_and_its_digits_are_frozen(root):
    # Digests are over pixels, not over compressed bytes; textures alone could change with a decoder of JPEG.
    release = open_release(str(root))
    assert release.configs == (CONFIG, TRAIN)
    found = {split: release.split_digest(CONFIG, split)[:12] for split in ("far_ood_noise", "near_ood", "test")}
    assert found == {"far_ood_noise": "aa137bbcdd85", "near_ood": "e32775e0c8cb", "test": "36c5f07b8233"}


def test_its_splits_are_those_of_the_unified_benchmark_in_small(root):
    index = release_index(open_release(str(root)), [CONFIG])
    found = {}
    for split in dict.fromkeys(index.rows.split.tolist()):
        mine = index.rows.split == split
        found[split] = (int(mine.sum()), *sorted(set(index.rows.role[mine].tolist())))
    # Of 1,797 digits 1,082 are of the six known classes, 541 are 5, 7 or 9; 13 x 20 crops of each photograph.
    assert found == {
        "external_validation": (174 + 260, "external"),
        "far_ood_noise": (250, "far_ood"),
        "far_ood_textures": (260, "far_ood"),
        "near_ood": (541, "near_ood"),
        "test": (1082 - 6 * 90, "in_distribution"),
        "validation": (6 * 30, "in_distribution"),
    }
    assert index.label_names == {CONFIG: KNOWN}


def test_digits_are_scikit_learn_s_own_and_no_image_is_in_two_splits(root):
    digits = load_digits()
    seen = set()
    for path in sorted((root / "data").rglob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            pixels = np.asarray(Image.open(io.BytesIO(row["image"]["bytes"])))
            assert row["content_sha256"] == hashlib.sha256(pixels.tobytes()).hexdigest()
            assert row["id"] not in seen
            seen.add(row["id"])
            if row["source"] == "sklearn-digits":
                number = int(row["source_id"])
                assert row["class_id"] == str(digits.target[number])
                assert np.abs(pixels / 255 * 16 - digits.images[number]).max() < 0.05
    assert sum(name.startswith("sklearn-digits/") for name in seen) == len(digits.target)


def test_near_duplicates_are_the_nearest_training_image_within_a_level_and_a_half(root):
    levels = load_digits().data
    train = pq.read_table(root / "index" / TRAIN / "train.parquet")["source_id"].to_pylist()
    rows = pq.read_table(root / "index" / CONFIG / "test.parquet").to_pylist()
    flagged = 0
    for row in rows:
        distances = {
            name: np.sqrt(np.mean((levels[int(row["source_id"])] - levels[int(name)]) ** 2)) for name in train
        }
        nearest = min(distances, key=distances.get)
        # Eight bits hold a sixteenth to within 0.03, so what lies on the border may fall to either side.
        if abs(distances[nearest] - 1.5) > 0.02:
            assert row["near_duplicate_of"] == (f"sklearn-digits/{nearest}" if distances[nearest] < 1.5 else "")
        flagged += row["near_duplicate_of"] != ""
    assert flagged > 10


def test_the_same_files_come_again(root, tmp_path):
    make_release(tmp_path)
    first = {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    again = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert first == again


def test_the_manifest_lists_every_file_with_its_digest(root):
    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    listed = {"README.md", "manifest.json"}
    for config in manifest["configs"].values():
        for split in config["splits"].values():
            for entry in (*split["data"], split["index"]):
                assert hashlib.sha256((root / entry["path"]).read_bytes()).hexdigest() == entry["sha256"]
                listed.add(entry["path"])
    assert listed == {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
