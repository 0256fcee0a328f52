"""The demo's release: real images, whole as anybody's, the same every time."""

import hashlib
import io
import json

import datasets
import numpy as np
import pyarrow.parquet as pq
from PIL import Image
from sklearn.datasets import load_digits

from builders.release.schema import is_demo_schema
from tests.builders.conftest import files_of
from unknown_detection.evaluation.demo.release import CONFIG, KNOWN, MIXED, SHIFTS, TRAIN, make_release
from unknown_detection.evaluation.releases import load


def rows_of(digits, config, split):
    return pq.read_table(digits / "index" / config / f"{split}.parquet").to_pylist()


def test_it_opens_as_any_release_and_its_digits_are_frozen(digits):
    # Digests are over pixels, not over compressed bytes; textures alone could change with a decoder of JPEG.
    release = load(str(digits))
    assert set(release.configs) == {CONFIG, SHIFTS, TRAIN, MIXED}
    digests = {split: release.split_digest(CONFIG, split)[:12] for split in ("far_ood_noise", "near_ood", "test")}
    assert digests == {"far_ood_noise": "668f224b50d1", "near_ood": "adda7d9243b9", "test": "27856498b935"}


def test_its_splits_are_those_of_the_unified_benchmark_in_small(digits):
    release = load(str(digits))
    of_splits = release.index([CONFIG]).groupby("split", observed=True)["role"]
    counts = {split: (len(roles), *sorted({*roles})) for split, roles in of_splits}
    assert counts == {
        "external_validation": (40 + 65, "external"),  # 13 x 20 crops of each photograph, of which every fourth
        "far_ood_noise": (80, "far_ood"),
        "far_ood_textures": (87, "far_ood"),
        "near_ood": (3 * 40, "near_ood"),
        "test": (6 * 30, "in_distribution"),
        "validation": (6 * 20, "in_distribution"),
    }
    assert release.label_names(CONFIG) == KNOWN


def test_digits_are_scikit_learn_s_own_and_training_images_are_in_no_other_split(digits):
    originals = load_digits()
    splits = {}
    for path in sorted((digits / "data").rglob("*.parquet")):
        rows = pq.read_table(path).to_pylist()
        splits[path.parent.name, path.name.partition("-")[0]] = {row["content_sha256"] for row in rows}
        for row in rows:
            pixels = np.asarray(Image.open(io.BytesIO(row["image"]["bytes"])))
            # Over mode, size and pixels, as the format has it where `stored` is pixels.
            assert row["content_sha256"] == hashlib.sha256(b"L 8 8\n" + pixels.tobytes()).hexdigest()
            if row["source"] == "sklearn-digits" and row["id"].count("/") == 1:
                number = int(row["source_id"])
                assert row["class_id"] == str(originals.target[number])
                assert np.abs(pixels / 255 * 16 - originals.images[number]).max() < 0.05
    assert len(splits) == 12
    train = splits.pop((TRAIN, "train"))
    assert all(train.isdisjoint(other_ids) for other_ids in splits.values())
    validation = splits.pop((CONFIG, "validation"))
    assert all(validation.isdisjoint(other_ids) for other_ids in splits.values())


def test_configs_share_rows_and_say_the_same_of_them(digits):
    of_digits = {row["id"]: row for row in rows_of(digits, CONFIG, "test") + rows_of(digits, CONFIG, "near_ood")}
    splits = ((SHIFTS, "test"), (SHIFTS, "unseen_digits"), (MIXED, "test"))
    shared = [row for split in splits for row in rows_of(digits, *split) if row["id"] in of_digits]
    assert len(shared) == 180 + 120 + 90 + 45
    assert all({**row, "role": 0} == {**of_digits[row["id"]], "role": 0} for row in shared)


def test_a_corrupted_row_has_the_label_and_the_source_of_its_clean_one(digits):
    clean = rows_of(digits, CONFIG, "test")
    for name in ("blur", "gaussian_noise"):
        rows = rows_of(digits, SHIFTS, name)
        labels, expected = ([(row["source_id"], row["label"]) for row in of] for of in (rows, clean))
        assert labels == expected
        assert [row["id"] for row in rows] == [f"{row['id']}/{name}" for row in clean]
        assert not {row["content_sha256"] for row in rows} & {row["content_sha256"] for row in clean}


def test_duplicates_are_pairs_with_the_nearest_training_image_within_a_level_and_a_half(digits):
    levels = load_digits().data
    pairs = datasets.load_dataset(str(digits), "duplicates", split="pairs").to_list()
    nearest_of = {pair["other_id"]: pair["id"] for pair in pairs if pair["other_split"] == f"{CONFIG}/test"}
    train = pq.read_table(digits / "index" / TRAIN / "train.parquet")["source_id"].to_pylist()
    rows = rows_of(digits, CONFIG, "test")
    flagged = 0
    for row in rows:
        distances = {
            name: np.sqrt(np.mean((levels[int(row["source_id"])] - levels[int(name)]) ** 2)) for name in train
        }
        nearest = min(distances, key=distances.get)
        # Eight bits hold a sixteenth to within 0.03, so what lies on the border may fall to either side.
        if abs(distances[nearest] - 1.5) > 0.02:
            expected = f"sklearn-digits/{nearest}" if distances[nearest] < 1.5 else None
            assert nearest_of.get(row["id"]) == expected
        flagged += row["id"] in nearest_of
    assert flagged == len(nearest_of) >= 5


def test_the_same_files_come_again(digits, tmp_path):
    make_release(tmp_path)
    assert files_of(tmp_path) == files_of(digits)


def test_the_manifest_lists_every_file_with_its_digest(digits):
    manifest = json.loads((digits / "manifest.json").read_text(encoding="utf-8"))
    pairs = manifest["duplicates"]
    assert hashlib.sha256((digits / pairs["path"]).read_bytes()).hexdigest() == pairs["sha256"]
    assert pq.read_metadata(digits / pairs["path"]).num_rows == pairs["rows"] > 0
    listed = {"README.md", "manifest.json", pairs["path"]}
    for config in manifest["configs"].values():
        for split in config["splits"].values():
            for entry in (*split["data"], split["index"]):
                assert hashlib.sha256((digits / entry["path"]).read_bytes()).hexdigest() == entry["sha256"]
                listed.add(entry["path"])
    assert listed == files_of(digits).keys()
    tables = [path for part in ("data", "index") for path in (digits / part).rglob("*.parquet")]
    assert all(is_demo_schema(pq.read_schema(path)) for path in tables)
