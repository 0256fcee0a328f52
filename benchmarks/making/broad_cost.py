"""The hours that models take to make BROAD's images, on one device and on eight.

`python -m benchmarks.making.broad_cost` counts the forward and backward passes of each attack, counts the
floating-point operations of each network on torch's meta device, which computes nothing, and multiplies. `--tflops N`
says how much a device sustains, and `--measure` times the networks themselves on `--device` instead, on a batch of
`--batch` images. All weights are random: they take as long as trained ones.

The passes of an attack are those of an image with which it never deceives the model, so they are an upper limit: a
part of AutoAttack stops at an image that is misclassified, as most images are after a few steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import click

from builders.generate.adversarial.attacks import PGD, AutoAttack
from builders.generate.adversarial.network import RESNET50, VIT, AttackedModel, Network
from builders.generate.synthetic import stable_diffusion
from builders.generate.synthetic.biggan import TRUNCATION

Start = Callable[[str, bool, int], Callable[[], Any]]
"""Sets up a network on a device, with a backward pass or not, for a batch; returns a function that runs it once."""

ATTACKED, SYNTHETIC = 5_000, 25_000
"""Images of each split in the paper."""

# From the published unet/config.json and vae/config.json of stable-diffusion-2.
_LATENTS, _WORDS, _WIDTH = 96, 77, 1024
_UNET = {
    "sample_size": _LATENTS,
    "cross_attention_dim": _WIDTH,
    "attention_head_dim": (5, 10, 20, 20),
    "use_linear_projection": True,
}
_VAE = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 2,
    "latent_channels": 4,
}


@dataclass(frozen=True)
class Passes:
    """The forward and backward passes of a network for one image."""

    forward: int
    backward: int


@dataclass(frozen=True)
class Work:
    """A network, and how often it runs for the images of a split."""

    title: str
    images: int
    passes: Passes
    run: Start

    def cost(self, device: str, batch: int) -> tuple[float, float]:
        """Return the seconds of an image's passes forward and backward on a device, or without one 10^9 operations."""

        def pass_cost(*, backward: bool) -> float:
            if device:
                return seconds(self.run, device, batch, backward=backward)
            return operations(self.run, backward=backward) / 1e9

        forward = pass_cost(backward=False)
        return forward, max(0.0, pass_cost(backward=True) - forward) if self.passes.backward else 0.0


def counted(attack: PGD | AutoAttack) -> Passes:
    """Count the passes of an attack on one image, of a model of ten classes that it cannot deceive."""
    import torch

    passes = {"forward": 0, "backward": 0}

    class Sure(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.unused = torch.nn.Parameter(torch.zeros(1))  # torchattacks asks it for its device

        def forward(self, pixels: Any) -> Any:
            passes["forward"] += len(pixels)
            slopes = torch.arange(10.0) * 1e-6
            logits = 100 * torch.nn.functional.one_hot(torch.tensor(0), 10) + pixels.mean((1, 2, 3))[:, None] * slopes
            if logits.requires_grad:
                logits.register_hook(
                    lambda gradient: passes.__setitem__("backward", passes["backward"] + len(gradient))
                )
            return logits

    model = AttackedModel("sure", "none", 32, 32, "bilinear", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    network = Network(model, Sure(), "cpu")
    images = torch.full((1, 3, 32, 32), 0.5)
    passes.update(forward=0, backward=0)
    for _ in attack.candidates(network, images, torch.tensor([0]), [0]):
        passes["forward"] += 1  # the stored image is judged
    return Passes(**passes)


def classifier(model: AttackedModel) -> Start:
    """Return a classifier as attacks run it."""

    def start(device: str, backward: bool, batch: int) -> Callable[[], Any]:
        import timm
        import torch

        with torch.device(device):
            network = timm.create_model(model.architecture).eval().requires_grad_(False)
            image = torch.zeros(batch, 3, model.size, model.size)

        def run() -> Any:
            with torch.set_grad_enabled(backward):
                pixels = image.clone().requires_grad_(backward)
                logits = network(pixels)
                if backward:
                    logits.sum().backward()
                return logits

        return run

    return start


def biggan(device: str, _: bool, batch: int) -> Callable[[], Any]:
    """Return BigGAN-deep at 256 pixels."""
    import torch

    from builders.generate.synthetic.biggan_network import BigGANNetwork, Sizes

    sizes = Sizes()
    # Uniform numbers: variances and norms, which these are of, are not negative.
    tensors = {name: torch.rand(meta.shape) for name, meta in BigGANNetwork(sizes).state_dict().items()}
    network = BigGANNetwork.of(tensors, TRUNCATION, device)
    noise, classes = (
        torch.zeros(batch, sizes.noise, device=device),
        torch.zeros(batch, dtype=torch.int64, device=device),
    )

    def run() -> Any:
        with torch.inference_mode():
            return network(noise, classes)

    return run


def unet(device: str, _: bool, batch: int) -> Callable[[], Any]:
    """Return Stable Diffusion 2's denoising network, for one of an image's two prompts and one step."""
    import diffusers
    import torch

    with torch.device(device):
        network = diffusers.UNet2DConditionModel(**_UNET).eval().requires_grad_(False)
        latents, prompts = torch.zeros(batch, 4, _LATENTS, _LATENTS), torch.zeros(batch, _WORDS, _WIDTH)

    def run() -> Any:
        with torch.no_grad():
            return network(latents, torch.tensor(1, device=device), prompts)

    return run


def decoder(device: str, _: bool, batch: int) -> Callable[[], Any]:
    """Return Stable Diffusion 2's decoder."""
    import diffusers
    import torch

    with torch.device(device):
        network = diffusers.AutoencoderKL(**_VAE).eval().requires_grad_(False)
        latents = torch.zeros(batch, 4, _LATENTS, _LATENTS)

    def run() -> Any:
        with torch.no_grad():
            return network.decode(latents)

    return run


def works() -> Iterator[Work]:
    """Yield the networks that make BROAD's images, with their passes."""
    for model in (RESNET50, VIT):
        for attack in (PGD(), AutoAttack()):
            yield Work(f"{attack.name} on {model.name}", ATTACKED, counted(attack), classifier(model))
    yield Work("BigGAN-deep", SYNTHETIC, Passes(1, 0), biggan)
    steps = int(stable_diffusion.STABLE_DIFFUSION.parameters["steps"])
    # Guidance: with the prompt and without.
    yield Work(f"Stable Diffusion 2, {steps} steps", SYNTHETIC, Passes(2 * steps, 0), unet)
    yield Work("Stable Diffusion 2, decoder", SYNTHETIC, Passes(1, 0), decoder)


def operations(run: Start, *, backward: bool) -> float:
    """Return the floating-point operations of one image, a multiplication and an addition counted as two."""
    from torch.utils.flop_counter import FlopCounterMode

    once = run("meta", backward, 1)
    with FlopCounterMode(display=False) as counter:
        once()
    return float(counter.get_total_flops())


def seconds(run: Start, device: str, batch: int, *, backward: bool) -> float:
    """Return the seconds per image of a batch: the least of three runs after a warm-up; on the CPU, thread time."""
    import torch

    clock = time.process_time if device == "cpu" else time.perf_counter
    once = run(device, backward, batch)
    times = []
    for _ in range(4):
        started = clock()
        once()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(clock() - started)
    return min(times[1:]) / batch


@click.command(epilog="Example: python -m benchmarks.making.broad_cost --device cuda --measure --batch 16")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--measure", is_flag=True, help="Time the networks instead of assuming --tflops.")
@click.option("--batch", default=1, show_default=True, help="Images at a time, with --measure.")
@click.option("--tflops", default=10.0, show_default=True, help="Sustained 10^12 operations a second of a device.")
@click.option("--only", default="", metavar="TEXT", help="Only what has this text in its name.")
def main(device: str, measure: bool, batch: int, tflops: float, only: str) -> None:
    """Print a table of passes, cost of a pass and hours."""
    import torch

    torch.set_num_threads(1)
    unit = f"s on {device}" if measure else "GFLOP"
    print(f"{'':30} {'images':>7} {'forward':>8} {'backward':>8} {unit:>10} {'backward':>9} {'1 device':>10} {'8':>9}")
    for work in works():
        if only not in work.title:
            continue
        forward, backward = work.cost(device if measure else "", batch)
        of_image = work.passes.forward * forward + work.passes.backward * backward
        hours = work.images * (of_image if measure else of_image / 1e3 / tflops) / 3600
        print(
            f"{work.title:30} {work.images:>7,} {work.passes.forward:>8,} {work.passes.backward:>8,} {forward:>10.3g} "
            f"{backward:>9.3g} {hours:>8,.1f} h {hours / 8:>7,.1f} h"
        )


if __name__ == "__main__":
    main()
