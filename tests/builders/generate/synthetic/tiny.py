"""Tiny generative models with random weights, written as their users have them."""

import json

import torch

from builders.generate.synthetic import biggan
from builders.generate.synthetic.biggan_network import Config, Layer

BIGGAN_256 = {
    # The published config.json of biggan-deep-256.
    "output_dim": 256,
    "z_dim": 128,
    "class_embed_dim": 128,
    "channel_width": 128,
    "num_classes": 1000,
    "layers": [
        [False, 16, 16],
        [True, 16, 16],
        [False, 16, 16],
        [True, 16, 8],
        [False, 8, 8],
        [True, 8, 8],
        [False, 8, 8],
        [True, 8, 4],
        [False, 4, 4],
        [True, 4, 2],
        [False, 2, 2],
        [True, 2, 1],
    ],
    "attention_layer_position": 8,
    "eps": 0.0001,
    "n_stats": 51,
}

TINY_BIGGAN = BIGGAN_256 | {"z_dim": 6, "class_embed_dim": 6, "channel_width": 4}
"""The same blocks with a 32nd of the channels: images of 256 x 256 pixels."""


def config_of(values):
    return Config(**(values | {"layers": tuple(Layer(*layer) for layer in values["layers"])}))


def biggan_tensors(values, seed=0):
    """Random weights of a network, of which every one matters to the images."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in config_of(values).shapes().items():
        drawn = torch.randn(shape, generator=generator)
        if name.endswith("running_vars"):
            drawn = drawn.abs() + 0.5
        if name.endswith(("weight_u", "weight_v")):
            # Near the first singular vectors, as after training.
            left, _, right = torch.linalg.svd(tensors[f"{name[:-2]}_orig"].flatten(1), full_matrices=False)
            drawn = (left[:, 0] if name.endswith("u") else right[0]) + 0.01 * drawn / len(drawn) ** 0.5
        tensors[name] = drawn
    return tensors


def write_biggan(folder, values=TINY_BIGGAN, tensors=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / biggan.CONFIG).write_text(json.dumps(values))
    torch.save(biggan_tensors(values) if tensors is None else tensors, folder / biggan.WEIGHTS)
    return folder
