"""Checks on the originals that a model is as accurate as the card of its weights says."""

from __future__ import annotations

from builders.errors import BuildError
from builders.generate.adversarial.models import AttackedModel

RARE = 1e-6
"""Probability below which a count of right images is not put down to chance. The count is checked after every batch,
of which a build has a few hundred, so that a right model is refused less than once in a thousand builds."""


class AccuracyCheck:
    """Counts the originals that a model classifies right, and refuses a count that its accuracy makes improbable.

    The tolerance follows from the number n of images so far: the count is binomial with n and the card's accuracy. It
    is 4.9 standard errors of a large n: 21 points at 100 images, 3 at 5,000. A model that guesses is refused after
    10 images or fewer.

    Args:
        model: the model, whose accuracy is known.
    """

    def __init__(self, model: AttackedModel) -> None:
        self.model = model
        self.images = self.right = 0

    def add(self, images: int, right: int) -> None:
        """Count some more images.

        Raises:
            BuildError: too few or too many of all images so far were right.
        """
        from scipy.stats import binom

        self.images += images
        self.right += right
        expected = binom(self.images, self.model.accuracy)
        if min(expected.cdf(self.right), expected.sf(self.right - 1)) < RARE:
            raise BuildError(
                f"{self.model.name} classifies {self.right:,} of {self.images:,} originals right "
                f"({100 * self.right / self.images:.1f} %), and {self.model.card} has {100 * self.model.accuracy:.2f} "
                "%. Check --weights and the source's images, or skip this with --no-accuracy-check."
            )
