"""Faults of object storage: 503, cut connections, and requests that are carried out but not answered."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.soak.faults import Kind, Plan, Reference
from tests.soak.hub_faults import drawn, often, times_drawn
from tests.soak.operations import Operation
from tests.soak.places import Place

BUSY = 503
"""The status by which S3 slows down a client, at times without a reason."""


class StoreFault(Plan):
    """A fault of the proxy before a store, at requests of one kind."""

    def __init__(self, request: str, skip: int, times: int | None, fault: int, effect: str) -> None:
        self.request, self.skip, self.times, self.fault = request, skip, times, fault
        self.text = f"{request} {effect}, {often(times)} from request {skip + 1} on"
        self._seen = 0

    def begin(self, place: Place) -> None:
        place.store.proxy.fault = self._strikes

    def _strikes(self, request: Any) -> int | None:
        if request.kind != self.request:
            return None
        self._seen += 1
        after = self._seen - self.skip
        if after < 1 or (self.times is not None and after > self.times):
            return None
        self.struck = True
        return self.fault

    def mend(self, place: Place) -> None:
        place.store.proxy.fault = None


def store_kinds() -> list[Kind]:
    """Return the kinds of faults of object storage."""
    from tests.store.proxy import CUT, NO_ANSWER

    def kind(name: str, fault: int, effect: str) -> Kind:
        def draw(drawing: Random, reference: Reference, warm: bool) -> Plan:
            request, skip = drawn(drawing, reference.routes)
            return StoreFault(request, skip, times_drawn(drawing), fault, effect)

        return Kind(name, on_store, draw)

    def on_store(operation: Operation) -> bool:
        return operation.on_store

    return [
        kind("S3: refuses", BUSY, f"answers {BUSY}"),
        kind("S3: cuts connections", CUT, "hangs up in the middle of its answer"),
        kind("S3: loses answers", NO_ANSWER, "is carried out and not answered"),
    ]
