"""An emulator of Google's storage over HTTP in this process, and what tests ask of it."""

import contextlib
import itertools
import json
import urllib.parse
import urllib.request
from dataclasses import dataclass

_numbers = itertools.count()


@dataclass(frozen=True)
class GoogleStore:
    """A running emulator. Like moto's, it takes everybody; unlike it, it knows no conditional writes."""

    port: int

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def environment(self):
        """What a process needs to use it: gcsfs then asks for no credentials."""
        return {"STORAGE_EMULATOR_HOST": self.url, "GOOGLE_CLOUD_PROJECT": "nobodys"}

    def bucket(self):
        """The name of a new bucket."""
        name = f"bucket-{next(_numbers)}"
        self._request("storage/v1/b?project=nobodys", json.dumps({"name": name}).encode())
        return name

    def files(self, folder):
        """The bytes of all objects below `BUCKET/PREFIX`, by their names from there."""
        bucket, _, prefix = folder.partition("/")
        listing = json.loads(
            self._request(f"storage/v1/b/{bucket}/o?{urllib.parse.urlencode({'prefix': f'{prefix}/'})}")
        )
        names = [item["name"] for item in listing.get("items", [])]
        address = f"download/storage/v1/b/{bucket}/o/"
        return {
            name.removeprefix(f"{prefix}/"): self._request(f"{address}{urllib.parse.quote(name, safe='')}?alt=media")
            for name in sorted(names)
        }

    def _request(self, path, data=None):
        request = urllib.request.Request(f"{self.url}/{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return answer.read()


@contextlib.contextmanager
def running():
    """An emulator on a free port, until the block ends."""
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True)
    server.start()
    try:
        yield GoogleStore(server._api._httpd.server_port)
    finally:
        server.stop()
