"""Faults that a test scripts: each waits for requests that it is meant for, lets some pass, and strikes so often."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.hub import routing
from tests.hub.connection import Request

When = str | Callable[[Request], bool]
"""The name of a route, or a function that says of a request whether it is meant."""


@dataclass
class Fault:
    kind: str
    when: When
    times: int | None
    skip: int
    struck: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    def meant_for(self, request: Request) -> bool:
        return request.route == self.when if isinstance(self.when, str) else self.when(request)


class Faults:
    """The faults of one stand-in, in the order in which they were scripted."""

    def __init__(self) -> None:
        self._all: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, kind: str, when: When, *, times: int | None = 1, skip: int = 0, **details: Any) -> None:
        """Script a fault.

        Args:
            kind: what happens.
            when: which requests are meant.
            times: how often it strikes; None for every time.
            skip: how many of the requests that are meant pass first.
            details: what the kind needs to know.
        """
        if isinstance(when, str) and when not in routing.names():
            raise ValueError(f"no route is called {when!r}; there are {', '.join(sorted(routing.names()))}")
        with self._lock:
            self._all.append(Fault(kind, when, times, skip, details=details))

    def take(self, kind: str, request: Request) -> dict[str, Any] | None:
        """Details of the first fault of a kind that strikes this request, which is used up by that."""
        with self._lock:
            for fault in self._all:
                if fault.kind != kind or fault.struck == fault.times or not fault.meant_for(request):
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.struck += 1
                return fault.details
        return None

    def idle(self) -> list[Fault]:
        """Faults that never struck: a test that scripts one shows nothing of what it is named for."""
        return [fault for fault in self._all if not fault.struck]
