"""BROAD's adversarial images, attacked on a person's own copies of the models.

Tested by `tests/builders/generate/adversarial/test_flags.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builders.broad.originals import LABELS, originals
from builders.declare.benchmark import Config, DemoModels, FirstClasses, PaperCount, Settings, Split
from builders.generate.adversarial import flags
from builders.generate.contract import Generator

_NAME = "broad-adversarial"


def _attacked(generators: Mapping[str, Generator]) -> dict[str, Split]:
    """Return the splits that some generators make, by name."""
    return {
        name: originals(name, "adversarial", generator=generator, paper=PaperCount(5_000))
        for name, generator in generators.items()
    }


def _asked_for(values: Mapping[str, Any]) -> dict[str, Split]:
    return _attacked(flags.generators(values))


ADVERSARIAL = Config(
    name=_NAME,
    labels=LABELS,
    description="The originals of `broad-reference`'s test, attacked on two models within an L-infinity distance of "
    "0.05, at each model's own size. Pixels are rounded to 8 bits and at most 12 steps from the original's, and the "
    "columns are about what is stored: a row whose attack failed (`success`) stays. Not the authors' own images, "
    "which differ in whatever the paper does not name, such as the length of PGD's steps.",
    splits=tuple(_attacked(flags.declared_generators()).values()),
)

ATTACKS = Settings(
    config=_NAME,
    flags=flags.FLAGS,
    splits=_asked_for,
    # One image each, as in the demo's reference: 20 s on a core, with all steps.
    demo=DemoModels(("model", "weights"), flags.DEMO_MAKES, flags.write_classifiers, FirstClasses(6)),
)
