"""Total variation by hand, AUROC by counting, and what the score says of aliased photographs."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from builders.audit.measures import mann_whitney_auroc, total_variation
from builders.audit.smoothness import smoothness_score
from builders.generate.exact.resize import fixed_resize
from tests.builders.photographs import pieces


def test_total_variation_of_small_images_by_hand():
    assert total_variation(np.full((5, 4, 3), 77, np.uint8)) == 0
    assert total_variation(np.zeros((1, 1, 3), np.uint8)) == 0
    # Two pixels that differ by 255 in one channel, and by 255 in all three.
    assert total_variation(np.array([[[255, 0, 0], [0, 0, 0]]], np.uint8)) == 1
    assert total_variation(np.array([[[255, 255, 255]], [[0, 0, 0]]], np.uint8)) == pytest.approx(math.sqrt(3))
    # 2 x 2: four pairs of neighbours, of which two differ by 51 in green.
    corner = np.zeros((2, 2, 3), np.uint8)
    corner[0, 0, 1] = 51
    assert total_variation(corner) == pytest.approx(2 * 0.2 / 4)


def test_distances_are_not_squared():
    """By hand: one step of 255 levels beside two of 153; 1 < 0.6 + 0.6, though 1 > 0.36 + 0.36."""
    sharp, faint = np.zeros((1, 3, 3), np.uint8), np.zeros((1, 3, 3), np.uint8)
    sharp[0, 2, 0] = 255
    faint[0, 1, 0] = 153
    assert (total_variation(sharp), total_variation(faint)) == pytest.approx((1 / 2, 1.2 / 2))


def test_the_score_is_the_distance_from_the_known_mean():
    assert smoothness_score(np.array([0.1, 0.4, 0.2]), 0.2).tolist() == pytest.approx([0.1, 0.2, 0.0])


scores = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=12)


@given(scores, scores)
def test_auroc_counts_pairs(known, unknown):
    won = [1.0 if u > k else 0.5 if u == k else 0.0 for k, u in itertools.product(known, unknown)]
    assert mann_whitney_auroc(np.array(known), np.array(unknown)) == pytest.approx(sum(won) / len(won))


def test_aliasing_shows_and_the_fixed_resize_does_not():
    known = [fixed_resize(piece) for piece in pieces(150, 256, seed=1)]
    unknown = pieces(150, 256, seed=2)
    aliased = [piece.resize((32, 32), Image.Resampling.NEAREST) for piece in unknown]
    fixed = [fixed_resize(piece) for piece in unknown]
    measured = [
        np.array([total_variation(np.asarray(image)) for image in images]) for images in (known, fixed, aliased)
    ]
    mean = measured[0].mean()
    of_known, of_fixed, of_aliased = (smoothness_score(values, mean) for values in measured)
    # Chance is 0.5; four standard errors of AUROC for 150 against 150 are 0.13 (Hanley and McNeil 1982).
    assert abs(mann_whitney_auroc(of_known, of_fixed) - 0.5) < 0.13
    assert mann_whitney_auroc(of_known, of_aliased) > 0.75
