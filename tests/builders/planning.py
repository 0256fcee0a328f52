"""What planning takes: a run that may open sources and show progress, and that runs no task."""

from builders.pipeline.build_plan import Run
from unknown_detection.terminal.progress import TerminalMeter

QUIET = TerminalMeter(quiet=True)
"""Shows nothing."""


class NoTasks:
    """An executor that refuses tasks, since planning needs none."""

    def run(self, tasks, progress):
        raise AssertionError(f"planning was to run {len(tasks)} tasks")


def planning_run(benchmark, request, notes=None):
    """A run with some choices, whose notes go to a list, or nowhere."""
    meter = TerminalMeter(quiet=True)
    meter.note = (lambda text: None) if notes is None else notes.append
    return Run(benchmark, NoTasks(), meter, **request)
