"""The types of the values in a manifest, which msgspec checks.

Tested by `tests/builders/release/test_manifest.py`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from unknown_detection.words import UNPRINTABLE

TEXT = rf"\A[^{UNPRINTABLE}]*\Z"
PROSE = rf"\A([^{UNPRINTABLE}]|[\n\t])*\Z"
SHA256 = r"\A[0-9a-f]{64}\Z"
CONFIG_NAME = r"\A[a-z0-9]+(-[a-z0-9]+)*\Z"
# `datasets` generates no split of the name `all`, which is its word for all splits (5.2, `builder.py`).
SPLIT_NAME = r"\A(?!all\Z)[a-z0-9]+(_[a-z0-9]+)*\Z"
NAME = r"\A[a-z0-9]+([_-][a-z0-9]+)*\Z"
AUDIT_KEY = r"\A[a-z0-9_-]+(/[a-z0-9_-]+)?\Z"
REPOSITORY = r"\A[A-Za-z0-9._-]+/[A-Za-z0-9._-]+\Z"
DATE = r"\A[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\Z"

PATTERNS = {
    TEXT: "one line of printable text",
    PROSE: "printable text",
    SHA256: "a SHA-256 in lower-case hex",
    CONFIG_NAME: "a config's name (a-z, 0-9, hyphens between)",
    SPLIT_NAME: "a split's name (a-z, 0-9, underscores between, and not `all`)",
    NAME: "a name (a-z, 0-9, hyphens or underscores between)",
    AUDIT_KEY: "the path of an audit below audit/",
    REPOSITORY: "the name of a repository, ORG/NAME",
    DATE: "a day, YYYY-MM-DD",
}
"""Descriptions of the patterns, for messages."""

LONGEST_NAME = 100
"""Upper limit on the characters of the names of configs, splits and sources. Ours: file systems take 255 bytes."""

Text = Annotated[str, Meta(pattern=TEXT, max_length=10_000)]
"""A line of printable text."""

Prose = Annotated[str, Meta(pattern=PROSE, max_length=100_000)]
"""Printable text that may have several lines."""

Count = Annotated[int, Meta(ge=0, le=10**15)]
"""A number of rows, images or bytes; the limit is far above any release, and exact in every JSON reader."""

Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Sha256 = Annotated[str, Meta(pattern=SHA256)]

ConfigName = Annotated[str, Meta(pattern=CONFIG_NAME, max_length=LONGEST_NAME)]
"""Configs have hyphens in their names; splits have underscores, because the Hub allows no hyphens there."""

SplitName = Annotated[str, Meta(pattern=SPLIT_NAME, max_length=LONGEST_NAME)]
Name = Annotated[str, Meta(pattern=NAME, max_length=LONGEST_NAME)]
AuditKey = Annotated[str, Meta(pattern=AUDIT_KEY, max_length=300)]
