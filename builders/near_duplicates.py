"""Placeholder until the search is merged."""

from dataclasses import dataclass

import numpy as np

THRESHOLD = 0.1


@dataclass(frozen=True)
class Pairs:
    queries: np.ndarray
    references: np.ndarray
    distances: np.ndarray


def find(queries, references, *, threshold=THRESHOLD, advance):
    advance(len(queries))
    z = np.zeros(0, np.int64)
    return Pairs(z, z, np.zeros(0, np.float32))
