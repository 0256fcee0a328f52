"""Judges a disturbed command and the one after it: its result must be equal, or an error with nothing lost."""

from __future__ import annotations

import signal

from tests.soak.commands import Ran
from tests.soak.operations import Operation, Outcome

SHOWN = 5
"""Names of differing files that a problem lists."""

STATE = "/.state/"
"""The folder whose files are for the next run, and are compared by name alone."""

PASSING = ("out/.state/lock",)
"""Files that may be missing."""

ENDED_BY = (-signal.SIGKILL, -signal.SIGTERM)


def differences(outcome: Outcome, expected: Outcome) -> list[str]:
    """Return how an outcome differs from that of an undisturbed run, in sentences."""
    outcome, expected = _compared(outcome), _compared(expected)
    problems = []
    for relation, names in (
        ("lacks", sorted(expected.keys() - outcome.keys())),
        ("has beside", sorted(outcome.keys() - expected.keys())),
        ("differs in", sorted(name for name in outcome.keys() & expected.keys() if outcome[name] != expected[name])),
    ):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            problems.append(f"the result {relation} {', '.join(names[:SHOWN])}{more}")
    return problems


def _compared(outcome: Outcome) -> Outcome:
    return {name: "" if STATE in name else digest for name, digest in outcome.items() if name not in PASSING}


def ending(ran: Ran, *, disturbed: bool) -> list[str]:
    """Return the problems of a command's end: a traceback, or an exit code or output that no command may have."""
    problems = []
    if ran.code is None:
        return ["the command did not end"]
    if "Traceback (most recent call last)" in ran.err or "Exception ignored" in ran.err:
        problems.append(f"a traceback: {ran.err.strip().splitlines()[-1]}")
    if ran.code == 2 and not _sentence(ran.err):
        problems.append(f"exit code 2 without a sentence: {ran.err[-300:]!r}")
    if ran.code == 130 and "stopped" not in ran.err:
        problems.append("exit code 130 without a line that says so")
    # Before Python has started, Ctrl-C ends a process without any output.
    early = (-signal.SIGINT,) if not ran.out + ran.err else ()
    allowed = (0, 2, 130, *ENDED_BY, *early) if disturbed else (0,)
    if ran.code not in allowed:
        problems.append(f"exit code {ran.code}: {ran.err[-300:].strip()}")
    elif not disturbed and ran.code:
        problems.append(f"without a fault it ended with {ran.code}: {ran.err[-300:].strip()}")
    return problems


def _sentence(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.startswith("error: ")]
    return len(lines) == 1 and lines[0].endswith((".", ".)"))


def torn(outcome: Outcome, before: Outcome, after: Outcome, operation: Operation) -> list[str]:
    """Return the visible files that are half-written or lost: neither as before the command nor as after it."""
    problems = []
    for name, digest in sorted(outcome.items()):
        hidden = STATE in name or name.rpartition("/")[2].startswith(".") or name in PASSING
        passing = name.endswith((" commits", "/")) or name == "stdout" or name.startswith("tmp/")
        if hidden or passing or name in operation.rewrites:
            continue
        if digest not in (before.get(name), after.get(name)) and not _is_ours_elsewhere(name):
            problems.append(f"{name} is neither as before nor as after")
    lost = sorted(name for name in before if name in after and name not in outcome and not name.startswith("tmp/"))
    if lost:
        problems.append(f"{', '.join(lost[:SHOWN])} got lost")
    return problems


def _is_ours_elsewhere(name: str) -> bool:
    """Whether the Hub wrote a file itself, in a commit of another publisher."""
    return name.endswith("/.gitattributes")
