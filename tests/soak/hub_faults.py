"""Faults of a Hub: refusals, connections that are cut, slow answers, answers that are lost, and refs that move."""

from __future__ import annotations

import signal
from collections.abc import Callable
from random import Random

from tests.hub.faults import Faults
from tests.hub.server import Hub
from tests.soak.commands import Running
from tests.soak.faults import Kind, Plan, Reference
from tests.soak.operations import Operation
from tests.soak.places import REPO, USER, Place

STATUSES = (500, 502, 503, 504, 429)
"""Statuses after which a client may ask again."""

_FOR_EVER = 0.2
"""Share of the faults that last until the command gives up (ours)."""


class HubFault(Plan):
    """A fault of the stand-in."""

    def __init__(self, text: str, script: Callable[[Hub], object]) -> None:
        self.text, self.script = text, script

    def begin(self, place: Place) -> None:
        self.script(place.hub)

    def mend(self, place: Place) -> None:
        self.struck = not place.hub.faults.idle()
        place.hub.faults = Faults()


class SlowHub(HubFault):
    """An answer that takes long, and in half of the trials a signal meanwhile."""

    def __init__(self, route: str, skip: int, seconds: float, number: int) -> None:
        super().__init__(
            f"{route} answers after {seconds:.2f} s (request {skip + 1})"
            + (f"; {signal.Signals(number).name} meanwhile" if number else ""),
            lambda hub: hub.slow(route, seconds, skip=skip),
        )
        self.route, self.skip, self.seconds, self.number = route, skip, seconds, number

    def during(self, running: Running, place: Place) -> None:
        while self.number and not running.wait(0.01):
            if len(place.hub.asked(self.route)) > self.skip:
                running.wait(self.seconds / 2)
                running.signal(self.number, everyone=self.number == signal.SIGINT)
                return


class MovedRef(HubFault):
    """Another publisher commits to the branch, or sets the tag, while the command works."""

    def __init__(self, route: str, skip: int, tag: str) -> None:
        self.tag = tag
        self.others: str | None = None
        event = f"the tag {tag} is set" if tag else "main moves"
        super().__init__(f"{event} before {route} is answered (request {skip + 1})", lambda hub: None)
        self.route, self.skip = route, skip
        self.refuses = bool(tag)

    def begin(self, place: Place) -> None:
        hub = place.hub

        def move() -> None:
            if REPO not in hub.repos:
                hub.create(REPO, private=True, author=USER)
            if self.tag:
                if self.tag in hub.tags(REPO):
                    return
                hub.tag(REPO, self.tag)
                self.others = hub.tags(REPO)[self.tag]
            else:
                hub.commit(REPO, {})

        hub.faults.add("race", self.route, skip=self.skip, callback=move)

    def concede(self, place: Place) -> None:
        if self.others is not None and place.hub.tags(REPO).get(self.tag) == self.others:
            del place.hub.repos[REPO].tags[self.tag]


def drawn(drawing: Random, routes: tuple[str, ...]) -> tuple[str, int]:
    """Draw a request of an undisturbed run: its route, and how many of that route came before."""
    route = drawing.choice(sorted(set(routes)))
    return route, drawing.randrange(routes.count(route))


def times_drawn(drawing: Random) -> int | None:
    """Draw how often a fault strikes; None for ever."""
    return None if drawing.random() < _FOR_EVER else drawing.choice((1, 1, 2, 3))


def often(times: int | None) -> str:
    """Return how often a fault strikes, in words."""
    return "for ever" if times is None else f"{times} times"


def _refusing(drawing: Random, reference: Reference, warm: bool) -> Plan:
    (route, skip), times, status = drawn(drawing, reference.routes), times_drawn(drawing), drawing.choice(STATUSES)
    body = drawing.choice(("<html>busy</html>", None))
    text = f"{route} answers {status} {often(times)} from request {skip + 1} on"
    return HubFault(text, lambda hub: hub.fail(route, status=status, body=body, times=times, skip=skip))


def _cutting(drawing: Random, reference: Reference, warm: bool) -> Plan:
    (route, skip), times = drawn(drawing, reference.routes), times_drawn(drawing)
    after = int(10 ** drawing.uniform(0, 5))
    if drawing.random() < 0.5:
        text = f"{route} hangs up after {after} bytes of the request, {often(times)} from request {skip + 1} on"
        return HubFault(text, lambda hub: hub.drop(route, after=after, times=times, skip=skip))
    text = f"{route} hangs up after {after} bytes of its answer, {often(times)} from request {skip + 1} on"
    return HubFault(text, lambda hub: hub.cut(route, after=after, times=times, skip=skip))


def _slow(drawing: Random, reference: Reference, warm: bool) -> Plan:
    route, skip = drawn(drawing, reference.routes)
    number = drawing.choice((0, 0, signal.SIGINT, signal.SIGKILL))
    return SlowHub(route, skip, drawing.uniform(0.2, 3), number)


WRITING = ("commit", "create_tag", "create_repo", "lfs_put", "preupload", "lfs_batch", "lfs_verify")
"""Routes that change something on the Hub."""


def _losing(drawing: Random, reference: Reference, warm: bool) -> Plan:
    writing = tuple(route for route in reference.routes if route in WRITING)
    (route, skip), times = drawn(drawing, writing or reference.routes), drawing.choice((1, 1, 2))
    status = drawing.choice((None, 502, 504))
    text = f"{route} does what is asked, then {status or 'hangs up'}, {times} times from request {skip + 1} on"
    return HubFault(text, lambda hub: hub.lose_response(route, status=status, times=times, skip=skip))


def _moving(operation_tag: str) -> Callable[[Random, Reference, bool], Plan]:
    def draw(drawing: Random, reference: Reference, warm: bool) -> Plan:
        route, skip = drawn(drawing, reference.routes)
        tag = operation_tag if operation_tag and drawing.random() < 0.4 else ""
        return MovedRef(route, skip, tag)

    return draw


def hub_kinds() -> list[Kind]:
    """The kinds of faults of a Hub."""

    def on_hub(operation: Operation) -> bool:
        return operation.on_hub

    return [
        Kind("Hub: refuses", on_hub, _refusing),
        Kind("Hub: cuts connections", on_hub, _cutting),
        Kind("Hub: slow", on_hub, _slow),
        Kind("Hub: loses answers", on_hub, _losing),
        Kind("Hub: refs move", on_hub, _moving("v1.0.0")),
    ]
