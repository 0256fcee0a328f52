"""What planning takes: a request, folders of sources, and what shows progress."""

from builders.cli.build_options import BuildRequest
from unknown_detection.terminal.progress import TerminalMeter

QUIET = TerminalMeter(quiet=True)
"""Shows nothing."""


def planning_request(benchmark, out, notes=None, *, roots=None, **changes):
    """What `prepare` takes for all splits of a benchmark on the demo, but for changes; a list may take the notes."""
    meter = TerminalMeter(quiet=True)
    meter.note = (lambda text: None) if notes is None else notes.append
    request = {"splits": tuple(benchmark.splits), "allow_partial": True, "demo": True} | changes
    return benchmark, BuildRequest(out, **request), roots or {}, meter
