"""Stable Diffusion 2: an image of a prompt with one of a class's names, by diffusers, from weights that a person has.

Rombach et al., High-Resolution Image Synthesis With Latent Diffusion Models (CVPR 2022). The prompt and the random
name are those of BROAD (Guille-Escuret et al., section 2.3); steps and guidance, which it does not give, are the
defaults of diffusers. The scheduler is the one that the model came with. No safety checker: the model came with none.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from builders.generate.contract import Generate, Generated, Generator, SourceImage
from builders.generate.extra import check_installed
from builders.generate.synthetic.models import SEED, ModelStart, memory_errors_as_build_errors, with_folder
from builders.generate.synthetic.pipeline_folder import ADVICE, files_of, folder_of, load_pipeline, side_of
from builders.release.schema import Column, Value
from taxonomy.wordnet import nouns

_SIDE = 768
_BATCH = 4
_STEPS = 50
_GUIDANCE = 7.5
"""The last two: diffusers' defaults."""

PROMPT = Column("prompt", "string", "the text that the image was made of; empty if it was made of none", absent="")


@functools.cache
def class_names(wnid: str) -> tuple[str, ...]:
    """Return the names of a class of ImageNet-1k, as `LOC_synset_mapping.txt` lists them.

    They are the lemmas of its synset in WordNet 3.0. A name may stand for two classes: "crane" is all that both the
    bird (n02012849) and the machine (n03126707) have, and "maillot" is a name of both n03710637 and n03710721.
    """
    wordnet = nouns.load_wordnet()
    return wordnet.lemmas(wordnet.row(wnid))


def draw_name(image: SourceImage) -> str:
    """Draw one of the names of a row's class, by bytes 8 to 15 of the SHA-256 of the row's id."""
    names = class_names(image.class_id)
    drawn = int.from_bytes(hashlib.sha256(image.id.encode()).digest()[8:16], "big")
    return names[drawn % len(names)]


def prompt_of(image: SourceImage) -> str:
    """Return the prompt of a row."""
    return f"High quality image of a {draw_name(image)}."


def _load(folder: Path, generator: Generator, device: str) -> Generate:
    pipeline = load_pipeline(folder).to(device)
    pipeline.set_progress_bar_config(disable=True)
    return functools.partial(_generate, pipeline, generator)


def _generate(pipeline: Any, generator: Generator, images: Sequence[SourceImage]) -> list[Generated]:
    import torch

    seeds, prompts = [image.seed for image in images], [prompt_of(image) for image in images]
    side = pipeline.unet.config.sample_size
    shape = (pipeline.unet.config.in_channels, side, side)
    # One generator an image, on the CPU, where the same seed gives the same numbers on every machine.
    latents = torch.stack([torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds])
    with memory_errors_as_build_errors():
        outputs = pipeline(
            prompts,
            num_inference_steps=generator.parameters["steps"],
            guidance_scale=generator.parameters["guidance"],
            latents=latents,
            output_type="np",
        ).images
    values: list[dict[str, Value]] = [
        {PROMPT.name: prompt, SEED.name: seed} for prompt, seed in zip(prompts, seeds, strict=True)
    ]
    return [
        Generated(np.ascontiguousarray(np.rint(255 * pixels), np.uint8), row)
        if np.isfinite(pixels).all()
        else Generated(None, reason="the pipeline gave numbers that are not finite")
        for pixels, row in zip(outputs, values, strict=True)
    ]


STABLE_DIFFUSION = Generator(
    name="stable-diffusion-2",
    version=1,
    description=f"Stable Diffusion 2, DDIM with {_STEPS} steps, guidance {_GUIDANCE:g}, without a safety checker",
    size=(_SIDE, _SIDE),
    start=ModelStart(_load),
    parameters={
        "prompt": "High quality image of a {class_name}.",
        "scheduler": "DDIM",
        "steps": _STEPS,
        "guidance": _GUIDANCE,
        "safety_checker": "none",
        "batch_size": _BATCH,
    },
    columns=(PROMPT, SEED),
    reproducible="recorded",
    together=_BATCH,
    requires=("accelerate", "diffusers", "torch", "transformers"),
    needs="--stable-diffusion DIR|ORG/NAME",
)
"""The generator without weights, as a benchmark declares it."""


def with_weights(location: str, device: str) -> Generator:
    """Return the generator with the pipeline of a folder in the format of diffusers, or of a repository on the Hub.

    Raises:
        BuildError: a package is not installed, there is no such device, or the folder is no Stable Diffusion 2.
    """
    check_installed({STABLE_DIFFUSION.name: STABLE_DIFFUSION})
    folder = folder_of(location)
    files = {f"stable-diffusion-2/{name}": name for name in files_of(folder)}
    side = side_of(folder)
    declared = replace(STABLE_DIFFUSION, size=(side, side), parameters={**STABLE_DIFFUSION.parameters, "side": side})
    return with_folder(declared, _load, folder, files, device=device, advice=ADVICE)
