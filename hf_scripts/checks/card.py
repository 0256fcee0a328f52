"""Checks the dataset card: its digest, and that its YAML is the one that follows from the manifest."""

from __future__ import annotations

import itertools
from pathlib import Path

from builders.card import card
from builders.card.metadata import front_matter_text
from builders.release.digests import file_sha256
from builders.release.entries import Manifest
from builders.release.layout import Layout
from builders.storage.files import read_regular
from hf_scripts.checks.manifest import check_file
from hf_scripts.checks.problems import Problems

MOST_BYTES = 2_000_000
"""Upper limit on README.md. Ours: ten times the size that `push` sends."""

_SHOWN = 200
"""Upper limit on the characters of a text from the card that a message repeats."""


def check_card(root: Path, manifest: Manifest) -> Problems:
    """Check the digest of the card, and that its YAML is to the byte the one that follows from the manifest.

    No YAML is parsed. What follows the YAML need not be the output of the current template: templates change, and
    published releases do not. `python -m hf_scripts.card --check` compares the two.
    """
    problems = Problems()
    path = Layout(root).card
    if path.exists() and not path.is_file():
        problems.add("card", "README.md: is not a regular file")
        return problems
    try:
        card_text = read_regular(path, MOST_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is not UTF-8 text (byte {error.start:,})"
        problems.add("card", f"README.md: cannot be read: {reason}")
        return problems
    front = front_matter_text(manifest)
    if not card_text.startswith(front):
        problems.add("card", _first_difference(front, card_text))
    elif manifest.card is not None and file_sha256(path) != manifest.card.sha256:
        expected = card.card_text(manifest)
        reason = "README.md: the SHA-256 is not the one that manifest.json lists"
        problems.add("card", reason if card_text == expected else _first_difference(expected, card_text))
    return problems


def check_croissant(root: Path, manifest: Manifest) -> Problems:
    """Check the size and the digest of the Croissant metadata, if the manifest lists it."""
    return check_file(root, manifest.croissant) if manifest.croissant is not None else Problems()


def _first_difference(expected: str, card_text: str) -> str:
    """Describe the first line of a card that is not the expected one."""
    pairs = enumerate(itertools.zip_longest(card_text.split("\n"), expected.split("\n")), start=1)
    number, lines = next((number, lines) for number, lines in pairs if lines[0] != lines[1])
    shown, expected_line = ("the end" if line is None else line[:_SHOWN] for line in lines)
    return f"README.md line {number}: is {shown!r}, not {expected_line!r} as manifest.json gives"
