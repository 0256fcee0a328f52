"""The attacks in the L-infinity ball: projected gradient descent, and AutoAttack's four, each run alone.

Madry et al., "Towards Deep Learning Models Resistant to Adversarial Attacks" (ICLR 2018); Croce and Hein, "Reliable
evaluation of adversarial robustness with an ensemble of diverse parameter-free attacks" (ICML 2020). AutoAttack's are
torchattacks', with the settings of the authors' `standard` version. The class `AutoAttack` and the methods `perturb`
of torchattacks are not used: the first has other settings, and the latter seed torch's global generator and draw the
starts of a whole batch from it.

Tested by `tests/builders/generate/adversarial/test_pgd.py` and `test_autoattack.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from builders.generate.adversarial.network import Network
from builders.release.schema import Value

PARTS = ("apgd-ce", "apgd-t", "fab-t", "square")

_SLACK = 1e-6
"""How far float32 results may be outside the ball: a few roundings. FAB's may be much farther, and failed then."""

Run = Callable[[Any, Any, int], Any]
"""Attacks images with their labels; the last argument is the rank of the target class among the logits."""


@dataclass(frozen=True)
class PGD:
    """Projected gradient descent and its settings.

    `epsilon` is the radius of the ball, of pixels in [0, 1]; 0.05 in BROAD (section 2.2), which makes 40 steps. It
    does not name their length; 2/255 is the default of torchattacks, as is the start at a random point of the ball.
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
        """Attack images, float32 in [0, 1], (n, 3, size, size); yields a single result, named by an empty text.

        An image's result does not depend on the others of its batch, but for the rounding of floating-point sums: its
        start is drawn from its own seed, and the loss is a sum and no mean.
        """
        import torch

        attacked = images
        if self.random_start:
            attacked = (images + self.epsilon * (2 * _uniform(seeds, images) - 1)).clamp_(0, 1)
        for _ in range(self.steps):
            attacked = attacked.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(network.fast(attacked), labels, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, attacked)
            with torch.no_grad():
                # NaN has the sign 0, which would leave the image where it is: no attack, and no word of it.
                lost = gradient.flatten(1).isnan().any(dim=1).reshape(-1, 1, 1, 1)
                attacked = attacked.masked_fill(lost, torch.nan)
                moved = gradient.sign_().mul_(self.step_size).add_(attacked).sub_(images)
                attacked = moved.clamp_(-self.epsilon, self.epsilon).add_(images).clamp_(0, 1)
        yield "", attacked.detach()


@dataclass(frozen=True)
class AutoAttack:
    """AutoAttack's parts and their settings, whose defaults are the authors' for the L-infinity norm.

    APGD-CE makes `steps`, and APGD and FAB so many for each of their `targets`, the most probable classes but for the
    right one; Square makes `queries`.
    """

    epsilon: float = 0.05
    steps: int = 100
    targets: int = 9
    queries: int = 5_000

    name = "autoattack"
    step_size = 0.0
    """The attacks choose their steps."""
    packages = ("torch", "timm", "torchattacks==3.3.0")
    """torchattacks in the version whose attacks were read and are tested; the extra `generate` has it."""

    def parameters(self) -> dict[str, Value]:
        """Return the settings, as the manifest records them."""
        return {
            "parts": ", ".join(PARTS),
            "steps": self.steps,
            "targets": self.targets,
            "queries": self.queries,
        }

    def candidates(
        self, network: Network, images: Any, labels: Any, seeds: Sequence[int]
    ) -> Iterator[tuple[str, Any]]:
        """Yield for each part of AutoAttack its name and the images after its attack.

        As in the authors' code, a part no longer attacks an image once the model gets it wrong. Images that the model
        got wrong from the start are attacked by APGD-CE alone (in the authors' code by no part, which would leave the
        originals). The arguments are those of `PGD.candidates`.
        """
        import torch

        with torch.no_grad():
            right = network.module(images).argmax(dim=1) == labels
        for part in PARTS:
            run, ranks = self._part(part, network, images)
            attacked = images.clone()
            remaining = right | (part == "apgd-ce")
            for rank in ranks:
                (rows,) = torch.nonzero(remaining, as_tuple=True)
                if not len(rows):
                    break
                x, y = images[rows], labels[rows]
                with _seeded([seeds[row] for row in rows.tolist()], images):
                    perturbed = run(x, y, rank).detach()
                with torch.no_grad():
                    if part != "fab-t":
                        perturbed = torch.clamp(perturbed, x - self.epsilon, x + self.epsilon)
                    inside = (perturbed - x).abs().flatten(1).amax(dim=1) <= self.epsilon + _SLACK
                    wrong = network.module(perturbed).argmax(dim=1) != y
                attacked[rows[inside]] = perturbed[inside]
                remaining[rows[wrong & inside]] = False
            yield part, attacked

    def _part(self, part: str, network: Network, images: Any) -> tuple[Run, Sequence[int]]:
        """Return a part as a function, with the ranks of its target classes; 2 is the second most probable class."""
        import torchattacks

        # torchattacks takes the number of classes, and one less is what it aims at.
        targets = min(self.targets, network.classes - 1)
        ranks = range(2, targets + 2)
        if part == "apgd-ce":
            apgd = torchattacks.APGD(network.module, eps=self.epsilon, steps=self.steps)
            return (lambda x, y, _: _best(*apgd.attack_single_run(x, y))), (0,)
        if part == "square":
            square = torchattacks.Square(network.module, eps=self.epsilon, n_queries=self.queries, resc_schedule=False)
            square.init_hyperparam(images)
            return (lambda x, y, _: square.attack_single_run(x, y)[1]), (0,)
        targeted = (
            torchattacks.APGDT(network.module, eps=self.epsilon, steps=self.steps)
            if part == "apgd-t"
            else torchattacks.FAB(network.module, eps=self.epsilon, steps=self.steps, multi_targeted=True)
        )

        def run(x: Any, y: Any, rank: int) -> Any:
            targeted.target_class = rank
            if part == "apgd-t":
                return _best(*targeted.attack_single_run(x, y))
            return targeted.attack_single_run_targeted(x, y)

        return run, ranks


def _uniform(seeds: Sequence[int], like: Any) -> Any:
    """Draw numbers in [0, 1) in the shape of some images, each image from its own seed, equal on every device."""
    import torch

    drawn = [torch.rand(like.shape[1:], generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    return torch.stack(drawn).to(like.device)


def _best(highest: Any, right: Any, _: Any, wrong: Any) -> Any:
    """Select APGD's last misclassified result, as `perturb` does, or else the one with the highest loss."""
    import torch

    return torch.where(right.reshape(-1, 1, 1, 1), highest, wrong)


def _seeded(seeds: Sequence[int], like: Any) -> Any:
    """Return a context in which `torch.rand` draws each image's numbers from a generator of the image's own.

    Anything else, such as the place of Square's next square, it draws from a generator of its own, so that it is the
    same in every batch. torch's global generator is left alone.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    rand = torch.rand
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    shared = torch.Generator().manual_seed(0)

    class Seeded(TorchFunctionMode):  # type: ignore[misc]  # torch is imported here
        def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is not rand:
                return function(*args, **(kwargs or {}))
            shape = tuple(args[0])
            if len(shape) == like.ndim and shape[0] == len(generators):
                return torch.stack([rand(shape[1:], generator=generator) for generator in generators])
            return rand(shape, generator=shared)

    return Seeded()
