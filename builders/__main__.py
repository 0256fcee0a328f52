"""`python -m builders`: the overview of all commands.

Tested by `tests/unknown_detection/test_main.py`.
"""

import sys

from unknown_detection.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
