"""The stand-in in a process of its own, for tests that measure the memory of a client in theirs."""

import multiprocessing
from typing import Any

from tests.hub import client
from tests.hub.server import Hub


class HubProcess:
    """A `Hub` that is reached through `call`; functions cannot be passed to it, so no `race`, and `when` by name.

    with HubProcess() as hub:
        hub.call("create", "org/name")
        ...
        assert hub.call("files", "org/name")
    """

    def __init__(self, **options: Any):
        self._options = options

    def __enter__(self) -> "HubProcess":
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._options))
        self._process.start()
        theirs.close()
        self.endpoint, self.token = self._pipe.recv()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join()
        if self._process.exitcode:
            raise RuntimeError("the stand-in's process failed; its traceback stands on stderr")

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the `Hub`, or read an attribute."""
        self._pipe.send((name, args, kwargs))
        return self._pipe.recv()

    def environment(self, folder, *, token: str | None = None, anonymous: bool = False) -> dict[str, str]:
        """As `Hub.environment`."""
        return client.environment(self.endpoint, None if anonymous else token or self.token, folder)


def _serve(pipe: Any, options: dict[str, Any]) -> None:
    with Hub(**options) as hub:
        pipe.send((hub.endpoint, hub.token))
        while True:
            try:
                name, args, kwargs = pipe.recv()
            except EOFError:
                return
            attribute = getattr(hub, name)
            pipe.send(attribute(*args, **kwargs) if callable(attribute) else attribute)
