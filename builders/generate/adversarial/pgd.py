"""Projected gradient descent in the L-infinity ball.

Madry et al., "Towards Deep Learning Models Resistant to Adversarial Attacks" (ICLR 2018).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from builders.generate.adversarial.network import Network
from builders.release.schema import Value


@dataclass(frozen=True)
class PGD:
    """The attack and its settings.

    Args:
        epsilon: radius of the ball, of pixels in [0, 1]; 0.05 in BROAD (section 2.2).
        steps: steps of gradient ascent; 40 in BROAD.
        step_size: length of a step. BROAD does not name it; 2/255 is the default of torchattacks.
        random_start: begin at a random point of the ball instead of at the original; torchattacks' default, too.
    """

    epsilon: float = 0.05
    steps: int = 40
    step_size: float = 2 / 255
    random_start: bool = True

    name = "pgd"
    packages = ("torch", "timm")

    def parameters(self) -> dict[str, Value]:
        """Return the settings, as the manifest records them."""
        return {"steps": self.steps, "step_size": self.step_size, "random_start": self.random_start}

    def candidates(
        self, network: Network, images: Any, labels: Any, seeds: Sequence[int]
    ) -> Iterator[tuple[str, Any]]:
        """Attack images, float32 in [0, 1], (n, 3, size, size); yields one result, whose part has no name.

        An image's result does not depend on the others of its batch, but for the rounding of floating-point sums: its
        start is drawn from its own seed, and the loss is a sum and no mean.
        """
        import torch

        attacked = images
        if self.random_start:
            attacked = (images + self.epsilon * (2 * uniform(seeds, images) - 1)).clamp_(0, 1)
        for _ in range(self.steps):
            attacked = attacked.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(network.fast(attacked), labels, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, attacked)
            with torch.no_grad():
                moved = gradient.sign_().mul_(self.step_size).add_(attacked).sub_(images)
                attacked = moved.clamp_(-self.epsilon, self.epsilon).add_(images).clamp_(0, 1)
        yield "", attacked.detach()


def uniform(seeds: Sequence[int], like: Any) -> Any:
    """Draw numbers in [0, 1) in the shape of some images, each image from its own seed, equal on every device."""
    import torch

    drawn = [torch.rand(like.shape[1:], generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    return torch.stack(drawn).to(like.device)
