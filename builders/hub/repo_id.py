"""Names of dataset repositories.

Tested by `tests/hf_scripts/test_push.py`.
"""

from __future__ import annotations

import re

# The rule of huggingface_hub.utils.validate_repo_id, with a required account.
_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


def is_repository(text: str) -> bool:
    """Whether a text has the form ORG/NAME."""
    return _NAME.fullmatch(text) is not None and ".." not in text and "--" not in text
