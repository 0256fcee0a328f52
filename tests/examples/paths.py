"""Where the examples are."""

from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
SHARED = EXAMPLES.parents[1] / "shared"
