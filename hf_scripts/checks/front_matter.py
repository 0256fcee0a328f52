"""Reads the YAML of a dataset card that may come from anyone, in bounded time and memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

MOST_BYTES = 200_000
"""Upper limit on the YAML of a card. Ours: five times the size that `push` sends."""

_MOST_LEVELS = 20
_MOST_DIGITS = 1_000

# libyaml parses about ten times faster; the fallback is for platforms without it.
_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FrontMatterError(ValueError):
    """The YAML of a card cannot be used; the message gives the reason, to follow "README.md: "."""


def read_front_matter(text: str) -> dict[str, Any]:
    """Read the YAML between the first two lines of `---` of a card.

    Aliases, anchors and tags are refused before anything is constructed, because a few hundred bytes of them can stand
    for gigabytes, and so are repeated keys, which `datasets` refuses too.

    Raises:
        FrontMatterError: there is none, it is not valid YAML, or it has one of the above.
    """
    start, _, rest = text.partition("---\n")
    front, mark, _ = rest.partition("\n---\n")
    if start or not mark:
        raise FrontMatterError("there is no YAML between two lines of --- at its beginning")
    if len(front.encode()) > MOST_BYTES:
        raise FrontMatterError(f"the YAML has {len(front.encode()):,} bytes, more than the limit of {MOST_BYTES:,}")
    try:
        _check(yaml.parse(front, Loader=_Loader))
        parsed = yaml.load(front, Loader=_Loader)
    except yaml.YAMLError as error:
        raise FrontMatterError(f"the YAML cannot be parsed{_where(error)}") from error
    except (ValueError, OverflowError) as error:  # of dates and numbers that Python cannot represent
        if isinstance(error, FrontMatterError):
            raise
        raise FrontMatterError(f"the YAML has an impossible value ({error})") from error
    if not isinstance(parsed, dict):
        raise FrontMatterError("the YAML is not a mapping")
    return parsed


@dataclass
class _Level:
    """A collection that is being read; `keys` are those of a mapping so far."""

    is_mapping: bool
    keys: set[str] = field(default_factory=set)
    at_key: bool = True


def _check(events: Iterator[yaml.Event]) -> None:
    """Refuse constructs that a card does not need, as soon as the parser reaches one."""
    levels: list[_Level] = []
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            _check_node(event)
            _check_key(levels[-1] if levels else None, event)
        if isinstance(event, yaml.CollectionStartEvent):
            levels.append(_Level(isinstance(event, yaml.MappingStartEvent)))
            if len(levels) > _MOST_LEVELS:
                raise FrontMatterError(f"the YAML is nested more than {_MOST_LEVELS} levels deep{_line(event)}")
        elif isinstance(event, yaml.CollectionEndEvent):
            levels.pop()


def _check_node(event: yaml.NodeEvent) -> None:
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        raise FrontMatterError(f"the YAML has an anchor or alias{_line(event)}")
    if not isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
        return
    if event.tag is not None:
        raise FrontMatterError(f"the YAML has a tag, {event.tag[:40]}{_line(event)}")
    if not isinstance(event, yaml.ScalarEvent) or not event.implicit[0] or len(event.value) <= _MOST_DIGITS:
        return
    if event.value[0] in "+-.0123456789":
        # Converting a long number takes time that grows with the square of its length.
        raise FrontMatterError(f"the YAML has a number of {len(event.value):,} characters{_line(event)}")


def _check_key(level: _Level | None, event: yaml.NodeEvent) -> None:
    if level is None or not level.is_mapping:
        return
    if level.at_key:
        if not isinstance(event, yaml.ScalarEvent):
            raise FrontMatterError(f"the YAML has a key that is not text{_line(event)}")
        if event.value in level.keys:
            raise FrontMatterError(f"the YAML repeats the key {event.value[:40]}{_line(event)}")
        level.keys.add(event.value)
    level.at_key = not level.at_key


def _line(event: yaml.Event) -> str:
    return _at(event.start_mark)


def _where(error: yaml.YAMLError) -> str:
    """The parser's reason and its line in README.md, if it gives them."""
    reason = getattr(error, "problem", None) or getattr(error, "reason", None)
    return (f": {reason}" if reason else "") + _at(getattr(error, "problem_mark", None))


def _at(mark: Any) -> str:
    return f" (line {mark.line + 2})" if mark is not None else ""
