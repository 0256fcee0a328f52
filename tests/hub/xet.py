"""Xet, by which the installed client transfers files: its own library, storing into a folder in place of a server.

That folder as `local://FOLDER` is hf_xet's own (1.8). Shards, which list files, are read as
huggingface.co/docs/xet/shard describes them. A file's SHA-256 is what the uploader says it is: whether the Hub
compares it with the bytes is not known.
"""

import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.hub.accounts import downloadable, writable
from tests.hub.answers import Answer, json_answer
from tests.hub.connection import Call
from tests.hub.routing import route
from tests.hub.store import Repo

_VERIFIED = 1 << 31
"""The flag of a file that is listed with a verification of each entry."""


@route("GET /api/datasets/{repo}/xet-write-token/{rev}")
def xet_write_token(hub, call: Call, repo: str, rev: str) -> Answer:
    writable(hub, call, repo)[0].at(rev)
    return _token(hub)


@route("GET /api/datasets/{repo}/xet-read-token/{rev}")
def xet_read_token(hub, call: Call, repo: str, rev: str) -> Answer:
    downloadable(hub, call, repo).at(rev)
    return _token(hub)


def _token(hub) -> Answer:
    """What huggingface_hub reads in headers (`utils/_xet.py`), and hf_xet in the body."""
    address, ends = _store(hub), int(time.time()) + 3600
    headers = {"X-Xet-Cas-Url": address, "X-Xet-Access-Token": "x", "X-Xet-Token-Expiration": str(ends)}
    return json_answer({"casUrl": address, "accessToken": "x", "exp": ends}, headers=headers)


def headers_of(hub, repo: Repo, sha256: str) -> dict[str, str]:
    """What tells a client that a file can be had by Xet; nothing of one that did not come by it."""
    if sha256 not in hub.xet:
        return {}
    route_of = f"{hub.endpoint}/api/datasets/{repo.name}/xet-read-token/main"
    return {"X-Xet-Hash": hub.xet[sha256], "X-Xet-Refresh-Route": route_of}


def take(hub, repo: Repo, sha256: str, size: int) -> None:
    """Hold an object that has come by Xet, if one of this SHA-256 has."""
    for shard in sorted(Path(hub.folder, "xet").rglob("shards/*.mdb")):
        if name := dict(_files(shard.read_bytes())).get(sha256):
            import hf_xet

            received = repo.folder / f"{sha256}.part"
            # One process at a time has a store open, and the publisher's may.
            with tempfile.TemporaryDirectory(prefix="hub-xet-") as copy:
                shutil.copytree(Path(hub.folder, "xet"), Path(copy, "xet"))
                with hf_xet.XetSession().new_file_download_group(endpoint=f"local://{copy}") as group:
                    group.start_download_file(hf_xet.XetFileInfo(name, size), str(received))
            repo.adopt(received, sha256)
            repo.objects[sha256], hub.xet[sha256] = size, name
            hub.received[sha256] += 1
            return


def _store(hub) -> str:
    """The address of what clients store into; one process at a time may, so that two publish at once by LFS."""
    return f"local://{Path(hub.folder).absolute()}"


def _files(shard: bytes) -> Iterator[tuple[str, str]]:
    """The SHA-256 and Xet's own hash of each file that a shard lists."""
    place = 48  # behind the header
    while (name := shard[place : place + 32]) != b"\xff" * 32:
        flags, entries = struct.unpack_from("<II", shard, place + 32)
        place += 48 * (1 + entries * (2 if flags & _VERIFIED else 1))
        yield _hex(shard[place : place + 32]), _hex(name)
        place += 48


def _hex(digest: bytes) -> str:
    """A hash is written as four numbers of eight bytes, the lowest byte first."""
    return b"".join(digest[start : start + 8][::-1] for start in range(0, 32, 8)).hex()
