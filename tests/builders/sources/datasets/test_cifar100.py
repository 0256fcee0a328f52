import gzip
import io
import os
import pickle
import tarfile

import numpy as np
import pytest

from builders.demo.cifar100 import python2_pickle
from builders.errors import BuildError
from builders.sources.datasets import cifar100
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from builders.sources.unpack import UNPACKERS
from taxonomy import tables
from tests.builders.cifar_layouts import cifar100_archive, cifar100_batch, cifar100_names, write_cifar100_parquet
from tests.builders.trees import add, contents, opened, refusal, tree, write_tar
from tests.fuzz.harness import run_cases
from tests.sentences import assert_sentence, stops

FOLDER = "cifar-100-python"
APPLE, FISH = 0, 1  # aquarium fish is a fish, and the apple is of fruit_and_vegetables: superclasses 4 and 1
SUPERCLASSES = [4, 1]


def batch(**changes):
    """Two images, an apple and an aquarium fish, as Python 2 pickled them."""
    complete = {
        "filenames": ["apple_s_000001.png", "aquarium_fish_s_000002.png"],
        "batch_label": "testing batch 1 of 1",
        "fine_labels": [APPLE, FISH],
        "coarse_labels": SUPERCLASSES,
        "data": np.zeros((2, 3072), np.uint8),
    }
    values = {key: value for key, value in (complete | changes).items() if value is not None}
    return python2_pickle(values)


def test_pixels_ids_and_classes_are_those_of_numpy_and_pickle(demo):
    """The expected values come from the standard unpickler, read as the owner's page says."""
    index = opened("cifar100", demo["cifar100"])
    images = contents(index)
    names = [row.fine for row in tables.cifar100()]
    for partition, count in (("train", 800), ("test", 400)):
        labels, pixels = cifar100_batch(demo["cifar100"], partition)
        for place in range(count):
            key = partition, names[labels["fine_labels"][place]], f"{partition}/{place:05d}"
            assert images.pop(key) == pixels[place].tobytes()
    assert images == {}
    assert set(index.table["size"].to_pylist()) == {3072}  # known before anything is unpacked


def test_only_the_rows_asked_for_are_unpacked_in_order(demo):
    _, pixels = cifar100_batch(demo["cifar100"], "train")
    rows = np.array([3, 700, 799])
    for home in (demo["cifar100"] / FOLDER, demo["cifar100"] / FOLDER / ".." / FOLDER):
        batches = list(UNPACKERS["batch"](home / "train", rows))
        assert [bytes(image) for part in batches for image in part] == [pixels[row].tobytes() for row in rows]


def test_many_images_come_in_several_batches(tmp_path):
    data = np.random.default_rng(0).integers(0, 256, (1500, 3072), dtype=np.uint8)
    values = {"data": data, "filenames": ["x"] * 1500, "fine_labels": [0] * 1500, "coarse_labels": [4] * 1500}
    tree(tmp_path, {"train": python2_pickle(values)})
    batches = list(UNPACKERS["batch"](tmp_path / "train", np.arange(1500)))
    assert [len(part) for part in batches] == [1024, 476]
    joined = np.frombuffer(b"".join(bytes(image) for part in batches for image in part), np.uint8)
    assert np.array_equal(joined.reshape(-1, 32, 32, 3), data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_owners_pickle_is_read_in_place(protocol, tmp_path):
    """Python 2's pickle has the pixels as a string, and a later one as bytes."""
    data = np.random.default_rng(0).integers(0, 256, (500, 3072), dtype=np.uint8)
    values = {"data": data, "filenames": ["x" * 2000] * 500, "fine_labels": [0] * 500, "coarse_labels": [4] * 500}
    tree(tmp_path, {"train": python2_pickle(values) if protocol == 2 else pickle.dumps(values, protocol)})
    index, content = open_source(SOURCES["cifar100"], tmp_path, ("train",)), (tmp_path / "train").read_bytes()
    rows = index.table.select(["how", "form", "offset", "size", "source_id"]).to_pylist()
    assert {(row["how"], row["form"]) for row in rows} == {("span", "planar32")}
    for row in rows:
        number = int(row["source_id"].removeprefix("train/"))
        assert content[row["offset"] : row["offset"] + row["size"]] == data[number].tobytes()


@pytest.mark.parametrize("protocol", [1, 2, 5])
@pytest.mark.parametrize("keys", [str, str.encode], ids=["names as text", "names as bytes"])
def test_a_pickle_that_python_3_wrote_anew_has_the_same_images(protocol, keys, demo, tmp_path):
    """As `pickle.load(file, encoding="bytes")` or "latin1" gives the owner's pickle, written with another protocol."""
    labels, pixels = cifar100_batch(demo["cifar100"], "test")
    anew = {keys(key): value for key, value in labels.items()}
    anew[keys("filenames")] = [keys(name) for name in labels["filenames"]]
    tree(tmp_path, {"test": pickle.dumps(anew, protocol)})
    index = open_source(SOURCES["cifar100"], tmp_path, ("test",))
    original = open_source(SOURCES["cifar100"], demo["cifar100"], ("test",))
    assert index.table["source_id"].equals(original.table["source_id"])
    assert index.table["class_id"].to_pylist() == original.table["class_id"].to_pylist()
    assert list(contents(index).values()) == [image.tobytes() for image in pixels]


def test_files_by_name_are_refused_with_the_reason_and_do_not_hide_the_pickles(demo, tmp_path):
    """As cyizhuo/CIFAR-100-dataset has all 60,000: their order in the owner's file is not there."""
    names = [row.fine for row in tables.cifar100()]
    tree(tmp_path, {f"test/{name}/{name}_s_000022.png": b"" for name in names})
    message = refusal("cifar100", tmp_path, "test")
    assert_sentence(message)
    tree(tmp_path / "as published", {"test": (demo["cifar100"] / FOLDER / "test").read_bytes()})
    assert open_source(SOURCES["cifar100"], tmp_path, ("test",)).table.num_rows == 400


def test_one_partition_can_be_in_a_folder_and_the_other_in_the_archive(demo, tmp_path):
    root = cifar100_archive(demo["cifar100"], tmp_path)
    tree(root, {"test": (demo["cifar100"] / FOLDER / "test").read_bytes()})
    index = opened("cifar100", root)
    assert index.layouts == {"train": f"pickle {FOLDER}.tar.gz/{FOLDER}/train", "test": "pickle test"}
    assert set(index.table["file"].to_pylist()) == {f"{FOLDER}.tar.gz/{FOLDER}/train", "test"}


def archive(**members):
    """The bytes of the owners' archive with some members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, content in members.items():
            add(packed, f"{FOLDER}/{name}", content)
    return buffer.getvalue()


NOISE = np.random.default_rng(0).bytes(100_000)  # so that the archive does not compress
ONE_LABEL = {"data": np.zeros((1, 3072), np.uint8), "filenames": ["x"], "fine_labels": [True], "coarse_labels": [1]}
OF_A_PICKLE = (
    (b"", "cannot be read as a pickle"),
    (batch()[:2000], "cannot be read as a pickle"),
    (pickle.dumps(os.system), "it has a call for posix.system"),
    (python2_pickle([]), "something other than a dictionary"),
    (python2_pickle({"data": np.zeros((2, 3072), np.uint8), "labels": [1, 2]}), "(found: data, labels)"),
    (batch(fine_labels=None), "lacks one of coarse_labels, data, fine_labels"),
    (batch(data=np.zeros((2, 3000), np.uint8)), "bytes (found: an array of shape (2, 3000))"),
    (batch(data=[1, 2]), "bytes (found: no array)"),
    (batch(data="x" * 6144), "bytes (found: no array)"),
    (batch(fine_labels=[0]), "has 2 images and 1 fine_labels"),
    (batch(fine_labels="ab"), "has 2 images and no list of fine_labels"),
    (batch(coarse_labels=[4, 1, 1]), "has 2 images and 3 coarse_labels"),
    (batch(fine_labels=[0, 100]), "which is not from 0 to 99"),
    (batch(fine_labels=["a", "b"]), "has b'a' in its fine_labels"),
    (batch(coarse_labels=[4, 20]), "has 20 in its coarse_labels"),
    (batch(coarse_labels=[4, 0]), "has the fine label aquarium_fish, but the coarse label aquatic_mammals"),
    (pickle.dumps(ONE_LABEL, 3), "has True in its fine_labels"),
)
OF_AN_ARCHIVE = (
    (archive(file=NOISE, test=batch())[:50_000], "cannot be read as a tar.gz"),
    (gzip.compress(b"nothing"), "cannot be read as a tar.gz"),
    (b"nothing", "cannot be read as a tar.gz"),
    (archive(train=batch()), f"lacks {FOLDER}/test. Download the archive of the"),
    (archive(test=batch()[:-1]), "cannot be read as a pickle"),
)
REFUSED = {f"{FOLDER}/test": OF_A_PICKLE, f"{FOLDER}.tar.gz": OF_AN_ARCHIVE}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [(name, *case) for name, cases in REFUSED.items() for case in cases],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_that_are_not_the_owners(tmp_path, name, content, words):
    message = refusal("cifar100", tree(tmp_path, {name: content}), "test")
    assert words in message
    assert name in message


def test_a_copy_without_the_list_of_classes_is_read(tmp_path):
    tree(tmp_path, {f"{FOLDER}/test": batch(), f"{FOLDER}/train": b"not looked at"})
    index = open_source(SOURCES["cifar100"], tmp_path, ("test",))
    assert index.table["class_id"].to_pylist() == ["apple", "aquarium_fish"]


def test_names_in_an_archive_may_start_with_a_dot(tmp_path):
    write_tar(tmp_path / f"{FOLDER}.tar.gz", {f"./{FOLDER}/test": batch()})
    assert open_source(SOURCES["cifar100"], tmp_path, ("test",)).table.num_rows == 2


@pytest.mark.parametrize("place", ["test", f"{FOLDER}.tar.gz/{FOLDER}/test"])
def test_a_container_that_changed_after_it_was_indexed(tmp_path, place):
    tree(tmp_path, {"test": batch(), f"{FOLDER}.tar.gz": archive(test=batch())})
    with stops(BuildError):
        list(UNPACKERS["batch"](tmp_path / place, np.array([0, 2])))


def test_a_container_that_went_away_after_it_was_indexed(tmp_path):
    tree(tmp_path, {f"{FOLDER}.tar.gz": archive(train=batch())})
    with stops(BuildError, "cifar-100-python/test"):
        list(UNPACKERS["batch"](tmp_path / f"{FOLDER}.tar.gz" / FOLDER / "test", np.array([0])))


def write_mirror(root, name="test-00000-of-00001.parquet", fine=(0, 1), coarse=(4, 1), fine_names=None):
    names = cifar100_names()
    write_cifar100_parquet(root / "cifar100" / name, [b""] * len(fine), fine, coarse, fine_names or names[0], names[1])


SWAPPED = [*cifar100_names()[0]]
SWAPPED[26:28] = reversed(SWAPPED[26:28])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"fine": (0, 100)}, "the label 100 is not from 0 to 99 (row 1 of"),
        ({"fine": (0, None)}, "the label None is not from 0 to 99 (row 1 of"),
        ({"coarse": (4, -1)}, "the label -1 is not from 0 to 19 (row 1 of"),
        ({"coarse": (4, 3)}, "the coarse label 3 does not fit the fine label (row 1 of"),
        ({"fine_names": SWAPPED}, "('crocodile' is number 26)"),
        ({"fine_names": [row.fine for row in tables.cifar100()][:99]}, "(None is number 99)"),
        ({"fine_names": [*[row.fine for row in tables.cifar100()], "yak"]}, "('yak' is number 100)"),
    ],
)
def test_mirror_rows(tmp_path, fields, words):
    write_mirror(tmp_path, **fields)
    assert words in refusal("cifar100", tmp_path, "test")


def test_mirror_may_spell_the_crab_right(tmp_path):
    write_mirror(tmp_path, fine_names=[row.fine for row in tables.cifar100()])
    assert open_source(SOURCES["cifar100"], tmp_path, ("test",)).table["class_id"].to_pylist() == [
        "apple",
        "aquarium_fish",
    ]


@pytest.mark.parametrize(
    "names",
    [
        ("test-00001-of-00002.parquet",),
        ("test-00000-of-00002.parquet",),
        ("test-00000-of-00003.parquet", "test-00002-of-00003.parquet"),
        ("test-0.parquet",),
    ],
)
def test_mirror_with_a_file_missing(tmp_path, names):
    """Ids are positions in the whole partition, so a missing file would rename every image after it."""
    for name in names:
        write_mirror(tmp_path, name)
    message = refusal("cifar100", tmp_path, "test")
    assert_sentence(message)
    assert names[0] in message


def test_superclasses_are_in_the_order_of_the_owners_list():
    # The order in which the mirror's loading script lists them (huggingface/datasets, datasets/cifar100/cifar100.py).
    names = cifar100.coarse_classes()
    assert (len(names), *names[:3], *names[17:]) == (
        20,
        *("aquatic_mammals", "fish", "flowers", "trees", "vehicles_1", "vehicles_2"),
    )
    natural = ("large_man-made_outdoor_things", "large_natural_outdoor_scenes", "large_omnivores_and_herbivores")
    assert names[9:12] == natural


def test_hostile_values_are_described_in_a_line():
    outcomes = run_cases("tests.fuzz.targets.arrays:cifar100")
    assert {outcome.kind for outcome in outcomes.values()} == {"refused"}, outcomes
    assert f"{10**18} in its fine_labels" in outcomes["label of 64 bits"].message
    assert "a value of type list in its fine_labels" in outcomes["label that is a list"].message
    assert max(len(outcome.message) for outcome in outcomes.values()) < 400
