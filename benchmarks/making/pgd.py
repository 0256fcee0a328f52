"""Speed of PGD against torchattacks called as its README shows: the same network, images, steps and device.

Run as `python -m benchmarks.making.pgd --model tf_efficientnet_lite0`. The network has random weights, which take as
long as trained ones. torchattacks gets normalised images and the network with its parameters as they are; ours takes
pixels, and folds batch norms into convolutions. Both attack the same images from a random start, in turn; on the CPU
with one thread, whose own time is counted, so that other work on the machine does not matter.
"""

import copy
import statistics
import time
from collections.abc import Callable

import click


@click.command(epilog="Example: python -m benchmarks.making.pgd --model resnet50 --device cuda --images 64 --steps 40")
@click.option("--model", "name", default="tf_efficientnet_lite0", show_default=True, help="A network of timm's.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--images", default=8, show_default=True, help="Images of the batch.")
@click.option("--steps", default=4, show_default=True)
@click.option("--repeats", default=5, show_default=True, help="Runs of each side; the median counts.")
def main(name: str, device: str, images: int, steps: int, repeats: int) -> None:
    """Compare the images per second of both."""
    import timm
    import torch
    import torchattacks

    from builders.generate.adversarial.attacks import PGD
    from builders.generate.adversarial.network import Network, model_named

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = model_named(f"timm:{name}")
    module = timm.create_model(name, pretrained=False).eval().to(device)
    network = Network(model, copy.deepcopy(module), device)
    pixels = torch.rand(images, 3, model.size, model.size, device=device)
    labels = torch.randint(0, network.classes, (images,), device=device)
    mean, std = (torch.tensor(values, device=device).reshape(3, 1, 1) for values in (model.mean, model.std))
    settings = PGD(steps=steps)

    def as_in_the_readme() -> None:
        attack = torchattacks.PGD(module, eps=settings.epsilon, alpha=settings.step_size, steps=steps)
        attack.set_normalization_used(mean=model.mean, std=model.std)
        attack((pixels - mean) / std, labels)

    def ours() -> None:
        list(settings.candidates(network, pixels, labels, range(images)))

    seconds: dict[str, list[float]] = {"torchattacks": [], "ours": []}
    for _ in range(repeats + 1):
        for side, work in (("torchattacks", as_in_the_readme), ("ours", ours)):
            seconds[side].append(_timed(work, device))
    medians = {side: statistics.median(rounds[1:]) for side, rounds in seconds.items()}  # without the first, a warm-up
    for side, median in medians.items():
        print(f"{side}: {images / median:.2f} images per second ({steps} steps, {images} images of {name}, {device})")
    print(f"ours is {medians['torchattacks'] / medians['ours']:.2f} times as fast")


def _timed(work: Callable[[], None], device: str) -> float:
    import torch

    clock = time.process_time if device == "cpu" else time.perf_counter
    if device == "cuda":
        torch.cuda.synchronize()
    started = clock()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - started


if __name__ == "__main__":
    main()
