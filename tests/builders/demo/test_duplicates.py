"""The pictures that the demo holds twice: files are as declared, and a build with seed 0 meets them all."""

import collections
import hashlib
import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from builders.cifar_benchmark import BENCHMARK as CIFAR
from builders.demo.duplicates import COPIES, DUPLICATES
from builders.facets_benchmark import BENCHMARK as FACETS
from builders.imagenet_benchmark import BENCHMARK as IMAGENET
from builders.pipeline.from_sources import prepare
from tests.builders.cifar_layouts import cifar100_batch
from tests.builders.demo_pairs import cifar100_pairs, file_pairs, groups
from tests.builders.demo_sources import FILES, TROUBLES
from tests.builders.planning import planning_request
from tests.builders.trees import contents, opened

KNOWN, NEAR, EXTERNAL = "in_distribution", "near_ood", "external"


def pixels(data):
    return np.asarray(PIL.Image.open(io.BytesIO(data)).convert("RGB"))


def equal(digests):
    """The names that have one digest, as sets of at least two."""
    names_by_digest = collections.defaultdict(set)
    for name, digest in digests.items():
        names_by_digest[digest].add(name)
    return sorted(map(sorted, (names for names in names_by_digest.values() if len(names) > 1)))


@pytest.fixture(scope="module")
def files(demo):
    """Bytes of every image file of the demo by row id."""
    return {
        f"{key}/{image.source_id}": (demo[key] / image.path).read_bytes()
        for key, source in FILES.items()
        for image in source.images()
    }


def of_files(kinds):
    return sorted(sorted(group) for group in groups(kinds) if not any(name.startswith("cifar100") for name in group))


def test_equal_bytes_are_where_declared_and_nowhere_else(files):
    assert equal({name: hashlib.sha256(data).digest() for name, data in files.items()}) == of_files(["bytes"])


def test_equal_pixels_are_where_declared_and_nowhere_else(files):
    digests = {}
    for name, data in files.items():
        image = pixels(data)
        digests[name] = image.shape, hashlib.sha256(image.tobytes()).digest()
    assert equal(digests) == of_files(["bytes", "pixels"])
    assert len(equal(digests)) == len(of_files(["bytes"])) + 1


def test_an_image_encoded_again_is_nearly_its_original_and_not_equal(files):
    (pair,) = file_pairs(["encoded again"])
    copy, original = (pixels(files[name]).astype(int) for name in pair)
    assert 0 < np.abs(copy - original).mean() < 8


def test_no_copy_is_an_original_and_none_has_a_trouble():
    copies = {(copy.source, copy.path) for copy in DUPLICATES}
    originals = {(copy.of_source, copy.of_path) for copy in DUPLICATES}
    troubled = {(trouble.source, trouble.path) for trouble in TROUBLES}
    assert len(copies) == len(DUPLICATES)
    assert not copies & originals and not (copies | originals) & troubled
    assert {copy.kind for copy in DUPLICATES} == set(COPIES)


def test_cifar100_has_equal_pixels_where_declared_and_nowhere_else(demo):
    digests = {}
    for partition in ("train", "test"):
        _, images = cifar100_batch(demo["cifar100"], partition)
        digests |= {f"cifar100/{partition}/{place:05d}": image.tobytes() for place, image in enumerate(images)}
    assert equal(digests) == sorted(map(sorted, cifar100_pairs()))


@pytest.mark.parametrize("key", ["svhn", "lsun"])
def test_other_containers_hold_no_image_twice(demo, key):
    inside = contents(opened(key, demo[key]))
    assert len(set(inside.values())) == len(inside) > 0


@pytest.fixture(scope="module")
def planned(demo):
    """For each benchmark, or config of FACETS, the roles of its rows by id, with seed 0."""
    roles_by_scope = collections.defaultdict(dict)
    for benchmark in (IMAGENET, CIFAR, FACETS):
        for split in prepare(*planning_request(benchmark, Path("unused"), roots=demo)).planned:
            scope = split.config.name if benchmark.roles_by_config else benchmark.name
            roles_by_scope[scope] |= dict.fromkeys(split.table["id"].to_pylist(), split.split.role)
    return roles_by_scope


def roles(planned, scope, pair):
    return [planned[scope].get(name) for name in pair]


def test_a_build_with_seed_0_meets_every_pair_in_the_roles_that_its_comment_says(planned):
    """In the order of `DUPLICATES`; by hand from the comments there."""
    torn = [NEAR, KNOWN]
    expected = [
        *[("imagenet", torn)] * 2,
        ("imagenet", [EXTERNAL, KNOWN]),
        ("imagenet", [KNOWN, KNOWN]),
        ("imagenet", [EXTERNAL, KNOWN]),
        ("facets-inter-dataset", [NEAR, NEAR]),  # no elephant has the name of a Places365 class
        *[("imagenet", torn)] * 2,
        ("imagenet", ["far_ood", "far_ood"]),
        ("facets-t1", torn),
        ("facets-t1", [KNOWN, KNOWN]),
    ]
    pairs = file_pairs(list(COPIES))
    met = [roles(planned, scope, pair) for (scope, _), pair in zip(expected, pairs, strict=True)]
    assert met == [pair_roles for _, pair_roles in expected]


def test_cifar_meets_every_pair_in_the_roles_that_its_comment_says(planned):
    torn = [NEAR, KNOWN]
    expected = [torn, [KNOWN, NEAR], torn, torn, [KNOWN, KNOWN], [KNOWN, KNOWN]]
    assert [roles(planned, "cifar", pair) for pair in cifar100_pairs()] == expected
