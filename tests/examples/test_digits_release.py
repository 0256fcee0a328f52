"""The release of digits: real images, whole as anybody's, the same every time."""

import hashlib
import io

import datasets
import numpy as np
import pyarrow.parquet as pq
from PIL import Image
from sklearn.datasets import load_digits

import unknown_detection as ud
from examples.digits_release import CONFIG, KNOWN, MIXED, SHIFTS, TRAIN, write_release
from tests.builders.conftest import files_of
from unknown_detection.evaluation.releases import load


def rows_of(digits, config, split):
    return pq.read_table(digits / "index" / config / f"{split}.parquet").to_pylist()


def test_it_opens_as_any_release_and_its_digits_are_frozen(digits):
    # Digests are over pixels, not over compressed bytes; textures alone could change with a decoder of JPEG.
    release = load(str(digits))
    assert set(release.configs) == {CONFIG, SHIFTS, TRAIN, MIXED}
    splits = release.manifest.configs[CONFIG].splits
    digests = {split: splits[split].digest[:12] for split in ("far_ood_noise", "near_ood", "test")}
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


def test_it_is_whole_and_a_demo(digits):
    """Every row, image, digest and file, and the near-duplicates, which `verify` searches for again."""
    assert ud.verify(digits) == []
    assert load(str(digits)).is_demo


def test_some_test_images_have_near_duplicates_among_the_training_images_and_no_unknown_has(digits):
    pairs = datasets.load_dataset(str(digits), "duplicates", split="pairs").to_pandas()
    sides = pairs[["split", "other_split"]].to_numpy().tolist()
    assert all(f"{TRAIN}/train" in both for both in sides)
    in_pairs = {split for both in sides for split in both} - {f"{TRAIN}/train"}
    assert in_pairs == {f"{CONFIG}/test", f"{CONFIG}/validation", f"{MIXED}/test", f"{SHIFTS}/test"}
    assert pairs["distance"].between(0, 0.03, inclusive="right").all()
    assert (pairs["class_id"] == pairs["other_class_id"]).all()


def test_the_same_files_come_again(digits, tmp_path):
    write_release(tmp_path)
    assert files_of(tmp_path) == files_of(digits)
