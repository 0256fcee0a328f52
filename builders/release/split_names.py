"""Which splits of a release a name stands for: `CONFIG`, `CONFIG/SPLIT`, or a split's name that one config has.

Tested by `tests/builders/cli/test_split_choice.py` and `tests/evaluation/test_releases.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from builders.errors import BuildError, one_line
from unknown_detection.words import NAMED


def splits_named(name: str, keys: Sequence[str], where: str) -> list[str]:
    """Return the splits of `keys` (`config/split`) that a name stands for; `where` names the release in errors."""
    configs = sorted({key.partition("/")[0] for key in keys})
    if found := [key for key in keys if name in (key, key.partition("/")[0])]:
        return found
    owners = [key for key in keys if name == key.partition("/")[2]]
    if len(owners) == 1:
        return owners
    if owners:
        raise BuildError(
            f"{one_line(name)} is a split of several configs of {where}. Give one of {', '.join(owners[:NAMED])}."
        )
    ends = dict.fromkeys(key.partition("/")[2] for key in keys)
    near = difflib.get_close_matches(name, [*configs, *keys, *ends], n=1)
    meant = [key for key in keys if key.partition("/")[2] in near and near[0] not in configs] or near
    hint = f" (did you mean {' or '.join(meant[:NAMED])}?)" if meant else ""
    example = f" or splits such as {keys[0]}" if keys else ""
    raise BuildError(
        f"{where} has no config or split {one_line(name)}{hint}. Give configs ({', '.join(configs)}){example}."
    )
