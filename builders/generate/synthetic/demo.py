"""Writes tiny generative models with random weights for the demo, in the files that the real models come in.

The demo makes images with them, and tests. Their images are patterns and show nothing.

Tested by `tests/builders/test_broad_demo.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from builders.generate.synthetic import biggan
from unknown_detection.durable import TEMPORARY, finish


def write_models(folder: Path, splits: Collection[str]) -> dict[str, Any]:
    """Write the models of some splits into a folder that may have some already; returns the flags' values."""
    values = {}
    for split, flag, write in (
        ("biggan", "biggan", write_biggan),
        ("stable_diffusion", "stable-diffusion", write_pipeline),
    ):
        if split in splits:
            target = folder / split
            if not target.is_dir():
                staging = folder / f".{split}{TEMPORARY}"
                shutil.rmtree(staging, ignore_errors=True)  # of a run that was killed
                finish(write(staging), target)
            values[flag] = str(target)
    return values


def biggan_tensors(seed: int = 2) -> dict[str, Any]:
    """Draw random weights of the network with a 32nd of the channels; each weight changes the 256 x 256 pixels."""
    import torch

    from builders.generate.synthetic.biggan_network import BigGANNetwork, Sizes

    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, Any] = {}
    for name, tensor in BigGANNetwork(Sizes(noise=6, embedding=6, width=4)).state_dict().items():
        drawn = torch.randn(tensor.shape, generator=generator)
        if name.endswith("running_vars"):
            drawn = drawn.abs() + 0.5
        if name.endswith(("weight_u", "weight_v")):
            # Near the first singular vectors, as after training.
            left, _, right = torch.linalg.svd(tensors[f"{name[:-2]}_orig"].flatten(1), full_matrices=False)
            drawn = (left[:, 0] if name.endswith("u") else right[0]) + 0.01 * drawn / len(drawn) ** 0.5
        tensors[name] = drawn
    return tensors


def write_biggan(folder: Path, tensors: Mapping[str, Any] | None = None) -> Path:
    """Write weights into a folder as `--biggan` takes it; returns the folder."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    torch.save(biggan_tensors() if tensors is None else tensors, folder / biggan.WEIGHTS)
    return folder


def write_pipeline(folder: Path, side: int = 8) -> Path:
    """Write a folder as `--stable-diffusion` takes it: Stable Diffusion 2's parts, for images of 8 x `side` pixels."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        words = _write_tokenizer(folder / "tokenizer")
        parts = _parts(side, words)
    with torch.no_grad():
        # Larger than they are at first, so that prompts and noise show in the pixels.
        for parameter in parts["unet"].parameters():
            parameter.mul_(1.5)
    index = {"_class_name": "StableDiffusionPipeline", "safety_checker": [None, None]}
    index["tokenizer"] = ["transformers", "CLIPTokenizer"]
    for name, part in parts.items():
        part.save_pretrained(folder / name)
        index[name] = [type(part).__module__.split(".")[0], type(part).__name__]
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


def _write_tokenizer(folder: Path) -> int:
    """Write a tokenizer of single letters in the files of the published one; returns the number of its words."""
    folder.mkdir(parents=True)
    letters = [chr(code) for code in range(33, 127)]
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "CLIPTokenizer", "model_max_length": 77, "do_lower_case": True})
    )
    return len(words)


def _parts(side: int, words: int) -> dict[str, Any]:
    import diffusers
    import transformers

    transformers.utils.logging.disable_progress_bar()
    few = {"norm_num_groups": 8, "layers_per_block": 1}
    return {
        "unet": diffusers.UNet2DConditionModel(
            sample_size=side,
            block_out_channels=(32, 32),
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            cross_attention_dim=16,
            attention_head_dim=(2, 4),
            use_linear_projection=True,
            **few,
        ),
        "vae": diffusers.AutoencoderKL(
            block_out_channels=(8, 8, 8, 8),
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            latent_channels=4,
            **few,
        ),
        "text_encoder": transformers.CLIPTextModel(
            transformers.CLIPTextConfig(
                vocab_size=words,
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                bos_token_id=words - 2,
                eos_token_id=words - 1,
                pad_token_id=0,
            )
        ),
        "scheduler": diffusers.DDIMScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            clip_sample=False,
            set_alpha_to_one=False,
            steps_offset=1,
            prediction_type="v_prediction",
        ),
    }
