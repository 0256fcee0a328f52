"""The pass of RankFeat: a model's logits without the largest part of rank one of its feature maps.

Tested by `tests/evaluation/detectors/test_images.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from evaluation.detectors.image_passes import Columns, ImagePass
from evaluation.errors import EvaluationError
from evaluation.models.layers import channels_last
from evaluation.models.models import Model
from evaluation.models.precision import exact_float32

_BLOCKS = 2
"""The last blocks whose logits are averaged; of a ResNet these are the blocks 3 and 4."""


def run_without_rank_one(model: Model, images: Any, ids: Sequence[str], *, seed: int) -> Columns:
    """Run a model once for each of its last two blocks, without the largest part of rank one of the block's output.

    Returns:
        `logits`: the mean over both passes, shape (B, C); the seed is not used.

    Raises:
        EvaluationError: a block returns no maps with several pixels, and no tokens.
    """
    import torch

    images = images.to(model.device)
    passes = []
    with exact_float32(), torch.inference_mode():
        for block in model.layers.blocks[-_BLOCKS:]:
            with _rank_one_removed(model, block):
                passes.append(model.logits(images).cpu().double().numpy())
    return {"logits": np.mean(passes, axis=0)}


def without_rank_one(matrices: Any) -> Any:
    """Subtract from float32 matrices, shape (B, m, n), their best approximation of rank one, s_1 u_1 v_1^T.

    Where the two greatest singular values are equal, either part may be taken.
    """
    import torch

    if matrices.shape[1] < matrices.shape[2]:
        return without_rank_one(matrices.mT).mT
    # MPS has no float64. The eigenvector of the small X^T X is v_1, and X v_1 is s_1 u_1.
    doubles = (matrices.cpu() if matrices.device.type == "mps" else matrices).double()
    greatest = torch.linalg.eigh(doubles.mT @ doubles).eigenvectors[:, :, -1:]
    return (doubles - doubles @ greatest @ greatest.mT).to(matrices.device, matrices.dtype)


@contextmanager
def _rank_one_removed(model: Model, block: str) -> Iterator[None]:
    last = channels_last(model.module)

    def hook(_: Any, __: Any, output: Any) -> Any:
        # A matrix of channels and pixels, or of tokens and channels.
        maps = output.flatten(1, 2) if output.ndim == 4 and last else output.flatten(2) if output.ndim > 2 else None
        if maps is None or min(maps.shape[1:]) < 2:
            raise EvaluationError(
                f"Block {block} of {model.name} returns {tuple(output.shape[1:])} for an image, where rankfeat needs "
                "maps of several pixels, or tokens. Leave rankfeat out."
            )
        return without_rank_one(maps).reshape(output.shape)

    handle = dict(model.module.named_modules())[block].register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


WITHOUT_RANK_ONE = ImagePass(
    "without_rank_one",
    run_without_rank_one,
    random=False,
    check=lambda model: run_without_rank_one(model, model.probe, ["", ""], seed=0),
)
