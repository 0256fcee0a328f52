"""A complete CIFAR-100, with the real labels and the published pairs, is built, verified, published and loaded.

The images are made up. What pairs a build has is worked out in `tests.complete_cifar100` from ciFAIR's lists and the
formula by which classes are drawn. A seed takes half a minute and more, so `.ci/run` has the first, and `pytest -m
slow` the others. The normal run has the pairs that are planted in the demo sources
(`tests/builders/audit/test_duplicates.py`, `tests/builders/duplicates/test_table.py`).
"""

import datasets
import numpy as np
import pytest

from builders.cifar_benchmark import main
from hf_scripts import verify
from tests import complete_cifar100 as complete
from tests.conftest import made_once
from tests.hf_scripts.samples import REPO

pytestmark = pytest.mark.skipif(
    not complete.LABELS.is_file(), reason="needs ../shared/reference/published: CIFAR-100's labels and ciFAIR's pairs"
)

SEEDS = range(10)
SPLITS = "cifar/validation,cifar/test,cifar/near_ood,cifar-train"


@pytest.fixture(scope="session")
def cifar100(tmp_path_factory):
    """The pickles of 60,000 images, drawn once for all tests."""
    return made_once(tmp_path_factory, "complete-cifar100", complete.write_cifar100)


def row_of(pair):
    """A pair as a row of the table, without its distance."""
    (split, one), (other_split, other) = pair
    roles = ["near_ood" if name == "cifar/near_ood" else "in_distribution" for name in (split, other_split)]
    return {
        "id": one,
        "other_id": other,
        "split": split,
        "other_split": other_split,
        "role": roles[0],
        "other_role": roles[1],
        "class_id": complete.class_of(one),
        "other_class_id": complete.class_of(other),
    }


def expected_near(seed):
    # By similarity, images are compared with those that models are trained on and with the known ones of validation.
    pairs = complete.expected_pairs(complete.near_pairs(), seed)
    known = {"cifar-train/train", "cifar/validation"}
    return {pair for pair in pairs if any(split in known for split, _ in pair)}


def test_the_published_lists_have_these_equal_pairs():
    """Ten across test and training, six of them of two classes, and two inside test, with the labels of the arrays."""
    pairs = complete.equal_pairs()
    labels = [(complete.class_of(one), complete.class_of(other)) for one, other in pairs]
    assert len(pairs) == 10 + 2
    assert labels[-2:] == [("otter", "seal"), ("girl", "baby")]
    assert sum(one != other for one, other in labels) == 6 + 2
    assert len(complete.near_pairs()) > 500


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_complete_cifar100_with_its_pairs_is_built_verified_published_and_loaded(cifar100, push, seed):
    flags = ["--out", "release", "--workers", "1", "--quiet", *([] if seed == 0 else ["--index-only"])]
    assert main(["--cifar100", str(cifar100), "--splits", SPLITS, "--seed", str(seed), *flags]) == 0
    assert verify.main(["release", "--workers", "1"]) == 0
    assert push("release", "--private").code == 0
    table = datasets.load_dataset(REPO, "duplicates", split="pairs", revision="v1.0.0")

    equal, near = complete.expected_pairs(complete.equal_pairs(), seed), expected_near(seed)
    # Both pairs inside test, whatever the seed, and those across test and training whose training image is a row.
    known = complete.known_classes(seed)
    assert len(equal) == 2 + sum(complete.class_of(of) in known for _, of in complete.equal_pairs() if "/train/" in of)
    rows = [row_of(pair) for pair in sorted(equal | near, key=lambda pair: (*pair[0], *pair[1]))]
    assert table.remove_columns("distance").to_list() == rows
    distances = {(row["id"], row["other_id"]): row["distance"] for row in table.to_list()}
    assert {distances[one, other] for (_, one), (_, other) in equal} == {0.0}
    assert max(distances.values()) <= 0.4

    if seed == 0:
        check_images(
            *(datasets.load_dataset(REPO, "cifar", split=name, revision="v1.0.0") for name in ("test", "near_ood"))
        )


def check_images(known, near):
    """With seed 0 seal is in-distribution and otter near-OoD, and test images 7715 and 3438 have the same pixels."""
    assert (known.num_rows, near.num_rows) == (4_000, 6_000)
    seal, otter = (
        split[split["id"][:].index(complete.test_id(place))] for split, place in ((known, 7715), (near, 3438))
    )
    assert [seal["class_id"], otter["class_id"]] == ["seal", "otter"]
    assert np.array_equal(np.asarray(seal["image"]), np.asarray(otter["image"]))
