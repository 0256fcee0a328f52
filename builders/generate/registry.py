"""All transforms by name.

Tested by `tests/builders/generate/test_transform.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from builders.generate.noise import GAUSSIAN_NOISE
from builders.generate.resize import FIXED_RESIZE
from builders.generate.transform import AS_PNG, Transform

TRANSFORMS: Mapping[str, Transform] = {
    transform.name: transform for transform in (AS_PNG, FIXED_RESIZE, GAUSSIAN_NOISE)
}
"""By name, which is what a worker is told."""
