"""The table of a soak: tried, struck, survived and failed by operation and fault."""

from __future__ import annotations

from collections.abc import Iterable

from builders.cli.console import aligned_lines
from tests.soak.trial import Verdict

HEAD = ["operation", "fault", "tried", "struck", "survived", "failed"]


def table(verdicts: Iterable[Verdict]) -> list[str]:
    """Return a line for each operation with each fault, and one for each fault over all operations."""
    counted: dict[tuple[str, str], list[int]] = {}
    for verdict in verdicts:
        for operation in (verdict.operation, "all"):
            counts = counted.setdefault((operation, verdict.kind), [0, 0, 0, 0])
            counts[0] += 1
            counts[1] += verdict.struck
            counts[3 if verdict.problems else 2] += 1
    ordered = sorted(counted, key=lambda key: (key[0] == "all", key))
    return aligned_lines(
        [HEAD, *([operation, kind, *map(str, counted[operation, kind])] for operation, kind in ordered)]
    )


def last_line(verdicts: list[Verdict], minutes: float) -> str:
    """Return the verdict of the soak."""
    failed = sum(bool(verdict.problems) for verdict in verdicts)
    struck = sum(verdict.struck for verdict in verdicts)
    trials = f"{len(verdicts):,} trials in {minutes:.0f} minutes, {struck:,} of them struck"
    return f"FAILED: {failed:,} of {trials}" if failed else f"survived: all of {trials}"
