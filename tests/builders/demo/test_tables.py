"""Builds of the demo list the pairs that its declarations say, and no others."""

import collections

import pyarrow.parquet as pq
import pytest

from tests.builders.demo_pairs import expected_near_pairs, expected_pairs, rows_of


def table_of(root):
    return pq.read_table(root / "duplicates" / "pairs.parquet").to_pylist()


def key_of(row):
    return (row["split"], row["id"]), (row["other_split"], row["other_id"])


def listed(root):
    """The table of duplicates as {((split, id), (split, id)): distance}, in its order."""
    return {key_of(row): row["distance"] for row in table_of(root)}


def counts(root, *, torn=False):
    """Pairs by config of the first row's split; with `torn` those of a known and an unknown row."""
    return collections.Counter(
        row["split"].split("/")[0]
        for row in table_of(root)
        if not torn or (row["role"] == "in_distribution") != (row["other_role"] == "in_distribution")
    )


@pytest.mark.parametrize("release", ["imagenet_release", "facets_release"])
def test_a_build_lists_the_equal_files_that_are_declared(request, release):
    root = request.getfixturevalue(release)
    expected = expected_pairs(rows_of(root))
    assert list(listed(root)) == sorted(expected)
    assert set(listed(root).values()) == {0.0}


def test_pairs_are_counted_by_hand(imagenet_release, facets_release, cifar_release):
    """From the comments of the declarations."""
    # Sunglass, tub, lamps, cat, tusker, baklava; torn are all but the cat and baklava.
    assert sum(counts(imagenet_release).values()) == 6
    assert sum(counts(imagenet_release, torn=True).values()) == 4
    # Sunglass, tub, cat, courts, castle and the pair of tusker and Indian elephant: the African elephant is known in
    # T1 and T2, which have training images of unknown classes alone. The configs that have training images alone:
    # lamps, cat and three pairs of elephants. Torn by grades are the tub, and in T1 the courts.
    of_training = ("facets-inter-dataset", "facets-wordnet-t40", "facets-wordnet-t45", "facets-wordnet-t50")
    assert counts(facets_release) == {"facets-t1": 6, "facets-t2": 6, **dict.fromkeys(of_training, 5)}
    torn = counts(facets_release, torn=True)
    assert (torn["facets-t1"], torn["facets-t2"]) == (2, 1)
    # Otter and seal, girl and baby, each inside test and across; trout, willow, and the cat in the external sets. Torn
    # are the first four. Near-duplicates come on top of them.
    exact = expected_pairs(rows_of(cifar_release), ("bytes", "pixels"))
    assert len(exact) == 7
    assert sum(pair["role"] != pair["other_role"] for pair in table_of(cifar_release) if key_of(pair) in exact) == 4


def test_a_build_of_cifar_lists_equal_pixels_and_near_duplicates(cifar_release):
    """The external images are made of ImageNet's, so that equal files are equal pixels there."""
    rows = rows_of(cifar_release)
    equal, near = expected_pairs(rows, ("bytes", "pixels")), expected_near_pairs(rows)
    distances = listed(cifar_release)
    assert list(distances) == sorted(equal | near)
    assert {distances[pair] for pair in equal} == {0.0}
    assert all(0 <= distances[pair] <= 0.4 for pair in near)
