"""Batches that halve themselves when memory runs out."""

import pytest

from builders.errors import BuildError
from builders.generate.adversarial.generator import Halving
from tests.builders.generate.adversarial.real import TORCH, needed
from tests.sentences import stops

pytestmark = needed(*TORCH)


def device_of(room, failure):
    """Work that fails with more than `room` images, and the batches that it did."""
    finished = []

    def work(rows):
        if rows.stop - rows.start > room:
            raise failure
        finished.append(list(range(rows.start, rows.stop)))
        return finished[-1]

    return work, finished


def cuda_failure():
    import torch

    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_batches_halve_until_they_fit_say_so_and_stay_small(capsys):
    work, finished = device_of(3, cuda_failure())
    halving = Halving(16)
    results = halving.map(20, work)
    assert [row for rows in results for row in rows] == list(range(20))
    assert {len(rows) for rows in finished} == {2}
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"memory ran out with {images} images at a time; going on with {images // 2}" for images in (16, 8, 4)
    ]
    assert [len(rows) for rows in halving.map(5, work)] == [2, 2, 1]
    assert capsys.readouterr().err == ""


def test_a_single_image_that_does_not_fit_is_refused_and_other_errors_pass():
    work, _ = device_of(0, cuda_failure())
    with stops(BuildError):
        Halving(4).map(4, work)
    work, _ = device_of(0, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        Halving(4).map(4, work)
