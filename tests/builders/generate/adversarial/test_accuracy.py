"""The check of a model's accuracy: probabilities of binomial counts, computed here from their definition."""

import dataclasses
import math

import pytest

from builders.errors import BuildError
from builders.generate.adversarial.generator import RARE, AccuracyCheck
from builders.generate.adversarial.network import RESNET50, VIT
from tests.sentences import stops


def probability_of_at_most(right, images, accuracy):
    return sum(math.comb(images, k) * accuracy**k * (1 - accuracy) ** (images - k) for k in range(right + 1))


@pytest.mark.parametrize("images", [10, 100, 500])
def test_the_tolerance_follows_from_the_number_of_images(images):
    accuracy = RESNET50.accuracy
    lowest = next(k for k in range(images + 1) if probability_of_at_most(k, images, accuracy) >= RARE)
    AccuracyCheck(RESNET50).add(images, lowest)
    if lowest:
        with stops(BuildError, "resnet50", f"{lowest - 1:,}", f"{images:,}"):
            AccuracyCheck(RESNET50).add(images, lowest - 1)


def test_a_count_adds_up_over_batches_and_names_the_card():
    check = AccuracyCheck(VIT)
    for _ in range(20):
        check.add(32, 27)  # 84.4 %
    with stops(BuildError, "85.43", "--no-accuracy-check") as caught:
        for _ in range(20):
            check.add(32, 16)
    assert VIT.card in str(caught.value)


def test_a_model_that_guesses_is_refused_soon_and_one_that_is_too_good_as_well():
    for model, images in ((RESNET50, 10), (VIT, 8)):
        with pytest.raises(BuildError):
            AccuracyCheck(model).add(images, 0)
    # Images on which a model was trained, say: 500 of 500.
    with stops(BuildError, "100.0"):
        AccuracyCheck(RESNET50).add(500, 500)
    AccuracyCheck(dataclasses.replace(RESNET50, accuracy=0.999)).add(500, 500)
