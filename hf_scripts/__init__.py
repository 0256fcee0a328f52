"""A release folder and the Hub."""

import unknown_detection.starting  # noqa: F401  from here on, Ctrl-C is no traceback
