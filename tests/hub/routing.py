"""The table of routes: a template such as `GET /api/datasets/{repo}/tree/{rev}` to a function of the same name."""

import re
from collections.abc import Callable
from urllib.parse import unquote

from tests.hub.answers import Answer

# Matched before percent-decoding: the clients quote a revision or a listed folder into one segment.
PLACES = {
    "repo": "[^/]+/[^/]+",
    "rev": "[^/]+",
    "tag": "[^/]+",
    "oid": "[0-9a-f]{64}",
    "part": "[0-9]+",
    "number": "[0-9]+",
    "path": ".+",
}

Handler = Callable[..., Answer]
_routes: list[tuple[str, re.Pattern[str], Handler]] = []


def route(*templates: str) -> Callable[[Handler], Handler]:
    """Register a function under its own name, which is also what faults and the log of requests call the route."""

    def register(handler: Handler) -> Handler:
        for template in templates:
            method, path = template.split()
            pattern = re.sub(r"\\{(\w+)\\}", lambda match: f"(?P<{match[1]}>{PLACES[match[1]]})", re.escape(path))
            _routes.append((method, re.compile(pattern), handler))
        return handler

    return register


def find(method: str, path: str) -> tuple[Handler, dict[str, str]] | None:
    """The function of a request and what its path says, decoded."""
    for its_method, pattern, handler in _routes:
        if method == its_method and (match := pattern.fullmatch(path)):
            return handler, {name: unquote(text) for name, text in match.groupdict().items()}
    return None


def names() -> set[str]:
    return {handler.__name__ for _, _, handler in _routes}
