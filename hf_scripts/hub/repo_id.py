"""What can be the name of a dataset repository.

Tested by `tests/hf_scripts/test_push.py`.
"""

from __future__ import annotations

import re

# As huggingface_hub.utils.validate_repo_id takes them, with the account before the name.
_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


def is_repository(text: str) -> bool:
    """Whether a text is ORG/NAME."""
    return _NAME.fullmatch(text) is not None and ".." not in text and "--" not in text
