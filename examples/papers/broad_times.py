"""Table 5 of BROAD (appendix B): how long each detector takes, in forward passes of the model.

    python examples/papers/broad_times.py timm:resnet50 build/unknown-detection broad-reference --fit imagenet-train

As in the paper, a detector that reads what an ordinary forward pass gives includes that pass. One that looks at the
images in its own way takes that time alone, and one that combines others takes theirs, with one forward pass for all.
Reading and decoding of images, and fitting, are no part of it. Weights make no difference to times, so a model may be
random.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click
import pandas as pd
import torch

import unknown_detection as ud
from unknown_detection.terminal.command_line import run_command_line

MOST, LONG = 3, 1.0
"""How often something is timed at most, of which the least time counts, and seconds after which it is not again."""


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Run some work; return its result and the seconds that it takes."""
    work()  # the first time includes what libraries set up
    times: list[float] = []
    while len(times) < MOST and sum(times) < LONG:
        started = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - started)
    return result, min(times)


def forward_passes(features: Any, tested: tuple[str, str], fit: tuple[str, str], images: int = 64) -> pd.Series:
    """Return how many forward passes each detector takes on a split's first images, except those of several models.

    `features` is what `ud.extract` returned in this process, of both splits, which are (config, split).
    """
    runner, model = features.runner, features.runner.model
    preprocessing = runner.preprocessing(tested)
    pictures = runner.release.images(*tested)
    count = min(images, len(pictures))
    pixels = torch.stack([preprocessing(pictures[row]["image"].convert("RGB")) for row in range(count)])
    pixels = pixels.to(model.device)
    _, forward = timed(lambda: model.logits(pixels).cpu())
    rows, known = features.features(*tested).take(slice(count)), features.features(*fit)
    known = known.take(known.labels >= 0)

    def seconds(name: str) -> tuple[float, bool]:
        """Return the seconds besides an ordinary forward pass, and whether the detector needs one."""
        detector, batch, own, ordinary = ud.detectors.DETECTORS[name].clone(), rows, 0.0, True
        if detector.base_methods:
            parts = [seconds(part) for part in detector.base_methods]
            return sum(of_part for of_part, _ in parts), any(needs for _, needs in parts)
        if (second := detector.image_pass) is not None:
            values = second.parameters(detector)
            ordinary = second.is_ordinary(values)
            passed = {"logits": rows.logits}
            if not ordinary:
                passed, own = timed(lambda: second.run(model, pixels, rows.ids.tolist(), seed=0, **values))
            batch = replace(rows, passed=passed)
        detector.fit(known if detector.fits_on != "none" else known.take(slice(0)))
        return own + timed(lambda: detector.score(batch))[1], ordinary

    passes = {"forward": 1.0}
    for name, detector in ud.detectors.DETECTORS.items():
        if detector.reads != "members":
            own, ordinary = seconds(name)
            passes[name] = own / forward + ordinary
    return pd.Series(passes, name="forward passes")


@click.command("python examples/papers/broad_times.py")
@click.argument("model")
@click.argument("release")
@click.argument("config")
@click.option("--fit", required=True, help="CONFIG of the training rows that detectors are fitted on.")
@click.option("--weights", type=click.Path(exists=True), help="The model's weights; without it, published ones.")
@click.option("--device", default="auto", show_default=True)
def main(model: str, release: str, config: str, fit: str, weights: str | None, device: str) -> None:
    """Print how many forward passes each detector takes on the test images of CONFIG."""
    keys = (config, "test"), (fit, "train")
    of: dict[str, Any] = {"weights": weights} if weights else {"pretrained": True}
    features = ud.extract(model, release, ["/".join(key) for key in keys], device=device, quiet=False, **of)
    click.echo(forward_passes(features, *keys).round(2).to_string())


if __name__ == "__main__":
    sys.exit(run_command_line(main, errors=(ud.EvaluationError, ud.BuildError), stopped="stopped."))
