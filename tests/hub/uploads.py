"""Routes that take in contents ahead of a commit: how each file is to be sent, and objects of LFS."""

import base64
import hashlib
import secrets
from pathlib import Path

from tests.hub.accounts import readable, writable
from tests.hub.answers import Answer, RefusedError, json_answer
from tests.hub.connection import Call
from tests.hub.routing import route
from tests.hub.rules import upload_mode
from tests.hub.store import Repo, data_file


@route("POST /api/datasets/{repo}/preupload/{rev}")
def preupload(hub, call: Call, repo: str, rev: str) -> Answer:
    repository, _ = writable(hub, call, repo)
    commit = repository.at(rev)

    def hosted(name: str) -> str:
        file = commit.files.get(name)
        return repository.content(file).read_text() if file else ""

    asked = call.body.json()
    attributes = hosted(".gitattributes")
    answers = []
    for entry in asked["files"]:
        path = entry["path"]
        answer = {
            "path": path,
            "uploadMode": upload_mode(path, entry["size"], base64.b64decode(entry["sample"]), attributes),
            "shouldIgnore": False,
        }
        if file := commit.files.get(path):
            # The clients compare this with the SHA-256 of what they would send to LFS, and with git's name otherwise.
            answer["oid"] = file.sha256 if file.lfs else file.oid
        answers.append(answer)
    return json_answer({"files": answers})


@route("POST /datasets/{repo}.git/info/lfs/objects/batch")
def lfs_batch(hub, call: Call, repo: str) -> Answer:
    """Where to send each object (git-lfs, docs/api/batch.md); nowhere where it is held already."""
    repository, _ = writable(hub, call, repo)
    asked = call.body.json()
    if asked["operation"] != "upload" or "basic" not in asked["transfers"]:
        raise RefusedError(422, "the stand-in takes uploads by the transfer basic")
    objects = []
    for entry in asked["objects"]:
        oid, size = entry["oid"], entry["size"]
        answer = {"oid": oid, "size": size, "authenticated": True}
        if oid not in repository.objects:
            verify = {"href": f"{hub.endpoint}/datasets/{repo}.git/info/lfs/objects/verify"}
            answer["actions"] = {"upload": {"href": f"{hub.storage}/lfs/{repo}/{oid}?size={size}"}, "verify": verify}
        objects.append(answer)
    return json_answer({"transfer": "basic", "objects": objects})


@route("PUT /lfs/{repo}/{oid}")
def lfs_put(hub, call: Call, repo: str, oid: str) -> Answer:
    repository = hub.repos[repo]
    received = data_file(repository.folder / f"{secrets.token_hex(8)}.part", call.body.blocks())
    return _take(hub, call, repository, oid, received)


@route("POST /datasets/{repo}.git/info/lfs/objects/verify")
def lfs_verify(hub, call: Call, repo: str) -> Answer:
    repository = readable(hub, call, repo)
    asked = call.body.json()
    if repository.objects.get(asked["oid"]) != asked["size"]:
        raise RefusedError(404, f"LFS holds no object {asked['oid']} of {asked['size']} bytes")
    return json_answer({})


def _take(hub, call: Call, repo: Repo, oid: str, received: Path) -> Answer:
    """Hold an object whose bytes have come in, if they are the ones that were announced."""
    with received.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    size = received.stat().st_size
    if sha256 != oid or size != int(call.request.query["size"][0]):
        received.unlink()
        raise RefusedError(400, f"announced as {oid}, found {size} bytes with SHA-256 {sha256}")
    with hub.lock:
        repo.adopt(received, oid)
        repo.objects[oid] = size
        hub.received[oid] += 1
    return Answer(headers={"ETag": f'"{oid}"'})
