"""The command `unknown-detection`: what it is made of, by name, and how all commands show their help."""

import unknown_detection.starting  # noqa: F401  from here on, Ctrl-C is no traceback
