"""What the sources declare of their demos, put together."""

from dataclasses import dataclass

from builders.demo.files import FILES
from builders.demo.write import DEMOS

STRAYS = {key: demo.strays for key, demo in DEMOS.items() if demo.strays}


@dataclass(frozen=True)
class Trouble:
    """An image that is stored otherwise than the rest of its source; `kind` is a key of `ENCODERS`."""

    source: str
    path: str
    kind: str


TROUBLES = tuple(Trouble(key, path, kind) for key, demo in FILES.items() for path, kind in demo.troubles.items())
