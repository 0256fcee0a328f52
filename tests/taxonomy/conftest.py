"""WordNet 3.0 as the machine may have it, and nltk over it."""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
WORDNET = Path("/usr/share/wordnet")  # Debian's package wordnet-base

NLTK_DEPTH = {("n", False): 19}
"""The depth of the noun taxonomy in nltk's Leacock-Chodorow similarity, by part of speech and added root."""


@pytest.fixture(scope="session")
def wordnet_folder() -> Path:
    if not (WORDNET / "data.noun").is_file():
        pytest.skip(f"no WordNet 3.0 in {WORDNET} (Debian: apt-get install wordnet-base)")
    return WORDNET


@pytest.fixture(scope="session")
def nltk_wordnet(wordnet_folder: Path) -> Iterator[Any]:
    benchmark = runpy.run_path(str(REPOSITORY / "benchmarks" / "planning" / "class_similarity.py"))
    with benchmark["nltk_reader"](wordnet_folder) as reader:
        # nltk would parse all 82,115 nouns to find the depth; a slow test lets it do so and compares.
        reader._max_depth = dict(NLTK_DEPTH)
        yield reader
