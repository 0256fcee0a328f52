"""Starts a command of ours: Ctrl-C ends it properly from its first import on, and its imports are no garbage.

In any other process it changes nothing.

Every package with commands imports this first. Ctrl-C during Python's own start cannot be handled.

Tested by `tests/unknown_detection/terminal/test_interrupts.py`.
"""

import gc
import os
import signal
import sys

PACKAGES = ("builders", "hf_scripts", "taxonomy", "unknown_detection")
"""The packages whose modules `python -m` runs as commands."""


def runs_command() -> bool:
    """Whether this process was started for a command of ours: `python -m PACKAGE...`, or the installed command."""
    # While Python looks for the module of `-m`, and so imports its packages, "-m" stands for it in `sys.argv`.
    module = sys.orig_argv[-len(sys.argv)].removeprefix("-m") if sys.argv[:1] == ["-m"] else ""
    started = sys.argv[0].replace("\\", "/").rpartition("/")[2] if sys.argv else ""
    installed = started.removesuffix(".exe").removesuffix("-script.py") == "unknown-detection"
    return installed or module.partition(".")[0] in PACKAGES


_BLAS_BYTES = 4 << 30
"""Limit of the address space below which NumPy's OpenBLAS may not get the buffers of its threads (ours)."""


def spare_address_space() -> None:
    """Limit OpenBLAS to one thread where memory is limited (`ulimit -v`): it ends a process that lacks its buffers."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _BLAS_BYTES:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


STARTED = runs_command()
"""Whether this process is a command of ours."""


if STARTED:
    # Until the command runs (`run_command_line`): looking through what is imported takes a sixth of the imports' time.
    gc.disable()
    spare_address_space()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until the next lines have imported our own handler, Ctrl-C ends the process without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from unknown_detection.terminal import interrupts

    interrupts.watch()
