"""Declarations of command-line flags whose values make generators.

Tested by `tests/builders/generate/adversarial/test_flags.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Flag:
    """The flag `--<name> VALUE` of a benchmark's command line, or `--<name>` if its default is False.

    Args:
        name: the name without dashes.
        help: one or two sentences.
        choices: all values that it may have; empty if others may be given.
        default: the value without the flag, whose type is that of all values; None for a text without a default.
        metavar: what stands for the value in the help.
        multiple: whether it can be given several times; its value is a tuple then.
        least: the least number.
    """

    name: str
    help: str
    choices: tuple[str, ...] = ()
    default: str | int | float | bool | None = None
    metavar: str = ""
    multiple: bool = False
    least: int | None = None
